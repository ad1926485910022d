// SPDX-License-Identifier: MIT

package main

import (
	"os/exec"

	"skep/internal/cli"
)

func leaveTerminal(*exec.Cmd) error {
	return cli.Errorf(cli.Usage, "only Linux runs programs detached: use skep run --detach on a Linux machine")
}

func ignoreTerminal() error { return nil }

func endWithThis(*exec.Cmd) func() { return func() {} }

func endProcess(int) error { return leaveTerminal(nil) }
