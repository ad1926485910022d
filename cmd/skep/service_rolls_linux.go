// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/user"
	"strconv"
	"sync"

	"skep/dynamos/update"
	"skep/grid/rolls"
	"skep/internal/cli"
	"skep/internal/peercred"
	"skep/internal/service"
)

// rollSocket is where root's host for rolls listens. It is not in kernelRun, which only
// root may enter.
const rollSocket = "/run/skep-rolls.sock"

// rollState is what the host remembers, below kernelState.
const rollState = kernelState + "/rolls"

// serveRolls carries out rolls that the agent relays, until ctx ends. While restored
// updates settle, none is loaded.
func serveRolls(ctx context.Context, settles func() bool) error {
	n, err := update.NewRollNode(newTrust(), newKeep())
	if err != nil {
		return err
	}
	n.Settles = settles
	h, err := rolls.NewHost(rollState, n.Rolls(), func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%srolls: %s\n", service.Priority(os.Stderr, slog.LevelInfo), cli.CleanText(fmt.Sprintf(format, args...)))
	})
	if err != nil {
		return err
	}
	if err := os.Remove(rollSocket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", rollSocket)
	if err != nil {
		return fmt.Errorf("rolls of kernel updates: %w", err)
	}
	if err := os.Chmod(rollSocket, 0o666); err != nil { // permitPeer decides
		return errors.Join(err, l.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	var ends sync.WaitGroup
	defer ends.Wait()
	defer cancel()
	ends.Go(func() {
		if err := serveHolds(ctx, n); err != nil { // rolls go on
			fmt.Fprintf(os.Stderr, "%sskep: jobs can take no updates: %s\n", service.Priority(os.Stderr, slog.LevelError), cli.CleanText(err.Error()))
		}
	})
	return h.Serve(ctx, l, permitPeer)
}

// permitPeer lets root and the services' account connect.
func permitPeer(c net.Conn) error {
	unixConn, ok := c.(*net.UnixConn)
	if !ok {
		return errors.New("it is not of this machine")
	}
	peer, err := peercred.Read(unixConn)
	if err != nil {
		return err
	}
	return permitUser(peer.Uid)
}

func permitUser(uid uint32) error {
	if uid == 0 {
		return nil
	}
	if a, err := user.Lookup(serviceAccount); err == nil && a.Uid == strconv.FormatUint(uint64(uid), 10) {
		return nil
	}
	return fmt.Errorf("user %d is neither root nor the account %s of the services", uid, serviceAccount)
}
