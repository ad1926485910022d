// SPDX-License-Identifier: MIT

package main

import (
	"slices"

	"skep/grid/agent"
	"skep/grid/proto"
	"skep/internal/cli"
)

// allowances say what the owner of a node permits programs to reach there. No option of
// skep run or skep exec can extend them.
type allowances struct {
	read, write []string
	network     bool
	limits      proto.Limits
}

func (a *allowances) options(f *cli.Flags) {
	list := func(to *[]string) func(string) error {
		return func(path string) error { *to = append(*to, path); return nil }
	}
	f.Func("allow", "let programs read `PATH` here (any number of times)", list(&a.read))
	f.Func("allow-write", "let programs read and change `PATH` here (any number of times)", list(&a.write))
	limitOptions(f, "limit-", "each program here", &a.limits)
	f.BoolVar(&a.network, "allow-network", false, "let programs use this machine's network")
}

func (a *allowances) isGiven() bool {
	return len(a.read)+len(a.write) > 0 || a.network || a.limits != (proto.Limits{})
}

// apply sets the allowances in an agent's configuration. It hides the state directories
// of this agent and of this user's commands, so that they can never be allowed.
func (a *allowances) apply(c *agent.Config, dir string) {
	c.Read, c.Write, c.Network, c.Limits = a.read, a.write, a.network, a.limits
	c.Hide = []string{dir}
	if own, err := cli.StateDir(); err == nil && !slices.Contains(c.Hide, own) {
		c.Hide = append(c.Hide, own)
	}
}
