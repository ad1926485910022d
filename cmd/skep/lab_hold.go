// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"skep/internal/cli"
	"skep/internal/lab/hold"
)

// labHold is started by up and run: its standard streams carry an order.
type labHold struct{}

func (h *labHold) options(*cli.Flags) {}

func (h *labHold) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.None(words); err != nil {
		return err
	}
	if isTerminal(os.Stdin) {
		return f.Usagef("skep starts this by itself")
	}
	// Nobody may be left to hear an answer; that must not end the machine.
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP)
	return hold.Serve(ctx, os.Stdin, os.Stdout, hold.Lab)
}
