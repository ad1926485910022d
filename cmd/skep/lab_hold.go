// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"skep/internal/cli"
	"skep/lab/hold"
)

// labHold is the holder of a machine, which up and run start. It gets the order on its
// standard input.
type labHold struct{}

func (h *labHold) options(*cli.Flags) {}

func (h *labHold) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := beginHolder(f, words); err != nil {
		return err
	}
	switch err := hold.Serve(ctx, os.Stdin, os.Stdout, hold.BootLab); {
	case errors.Is(err, hold.ErrNoOrder):
		return f.Usagef("skep starts this command itself: %v", err)
	case err != nil:
		return cli.Exit(cli.Failed) // the answer has already named the cause
	}
	return nil
}

// beginHolder prepares a process that skep itself starts, with its order on standard input, and
// that may outlive the command and the shell.
func beginHolder(f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	if isTerminal(os.Stdin) {
		return f.Usagef("skep starts this command itself")
	}
	// The command may be gone when it is answered; that must not end what is held.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP)
	return dropInherited()
}

// dropInherited closes descriptors that the user's shell passed on, for example of a lock,
// because the holder may outlive the shell. This program's own descriptors are
// close-on-exec.
func dropInherited() error {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range list {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < 3 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
	return nil
}
