// SPDX-License-Identifier: MIT

package main

import (
	"context"

	"skep/internal/cli"
)

// lab has subcommands, each in a file lab_WORD.go.
type lab struct{}

func (l *lab) options(*cli.Flags) {}

func (l *lab) run(_ context.Context, f *cli.Flags, words []string) error {
	if len(labWords()) == 0 {
		return cli.Errorf(cli.Failed, "the lab boots Linux kernels on QEMU and runs on Linux alone: use skep lab on a Linux machine")
	}
	if len(words) == 0 {
		return f.Expectf("a subcommand is expected: up, shell, run, list or down")
	}
	return f.Usagef("there is no subcommand %q: there are up, shell, run, list and down", words[0])
}
