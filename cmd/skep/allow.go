// SPDX-License-Identifier: MIT

package main

import (
	"slices"

	"skep/grid/agent"
	"skep/grid/proto"
	"skep/internal/cli"
)

// allowances are what the owner of a node lets programs reach there. No option
// of skep run or skep exec on a hub adds to them.
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

// apply puts them into an agent's configuration. State directories are never
// allowed: that of this agent, and the one that commands use by themselves.
func (a *allowances) apply(c *agent.Config, dir string) {
	c.Read, c.Write, c.Network, c.Limits = a.read, a.write, a.network, a.limits
	c.Hide = []string{dir}
	if own, err := cli.StateDir(); err == nil && !slices.Contains(c.Hide, own) {
		c.Hide = append(c.Hide, own)
	}
}
