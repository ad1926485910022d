// SPDX-License-Identifier: MIT

package main

import (
	"context"

	"skep/grid/agent"
	"skep/internal/cli"
)

// guard is the process between an agent and one of its programs, on Linux.
type guard struct{}

func (g *guard) options(*cli.Flags) {}

func (g *guard) run(context.Context, *cli.Flags, []string) error {
	return cli.Exit(agent.RunGuard())
}
