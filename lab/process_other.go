// SPDX-License-Identifier: MIT

//go:build !linux

package lab

import "os/exec"

func run(cmd *exec.Cmd) error { return cmd.Run() }
