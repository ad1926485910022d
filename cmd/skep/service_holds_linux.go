// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"skep/dynamos/update"
	"skep/grid/agent"
	"skep/internal/cli"
	"skep/internal/service"
)

// holdSocket is where root's service gives jobs updates. Tests have another one.
var holdSocket = "/run/skep-updates.sock"

// serveHolds gives jobs of this machine committed updates, until ctx ends.
func serveHolds(ctx context.Context, n *update.RollNode) error {
	h := update.NewHolds(n, func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%sjobs: %s\n", service.Priority(os.Stderr, slog.LevelWarn), cli.CleanText(fmt.Sprintf(format, args...)))
	})
	if err := os.Remove(holdSocket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", holdSocket)
	if err != nil {
		return fmt.Errorf("updates of jobs: %w", err)
	}
	if err := os.Chmod(holdSocket, 0o666); err != nil { // the owner of the cgroup and the signatures decide
		return errors.Join(err, l.Close())
	}
	return h.Serve(ctx, l)
}

// holdUpdates lets an agent ask for updates of programs.
func holdUpdates(c *agent.Config) {
	c.HoldUpdate = func(ctx context.Context, name, cgroup string) (end func(), err error) {
		r := update.HoldRequest{Update: name, Cgroup: cgroup}
		end, err = update.KeepHold(ctx, holdSocket, r, func() bool { return true }, func(err error) { c.Log("%s is not in force for %s: %v", name, cgroup, err) })
		var refused *update.RefusedError
		if errors.As(err, &refused) {
			err = &agent.RefusedError{Text: refused.Error()}
		}
		return end, err
	}
}
