// SPDX-License-Identifier: MIT

package main

import (
	"path/filepath"
	"slices"

	"skep/grid/agent"
	"skep/grid/policy"
	"skep/grid/proto"
	"skep/internal/cli"
)

// allowances say what the owner of a node permits programs to reach there. No option of
// skep run or skep exec can extend them.
type allowances struct {
	read, write []string
	network     bool
	limits      proto.Limits
	policy      *policy.Policy
	policyName  string // absolute, if it is a file
	policyGiven string // the file as it was written
}

func (a *allowances) options(f *cli.Flags) {
	list := func(to *[]string) func(string) error {
		return func(path string) error { *to = append(*to, path); return nil }
	}
	f.Func("allow", "let programs read `PATH` here (any number of times)", list(&a.read))
	f.Func("allow-write", "let programs read and change `PATH` here (any number of times)", list(&a.write))
	f.Func("policy", "run programs only as the policy in `FILE` permits, or as always, desk or share does (always)", a.setPolicy)
	limitOptions(f, "limit-", "each program here", &a.limits)
	f.BoolVar(&a.network, "allow-network", false, "let programs use this machine's network")
}

func (a *allowances) isGiven() bool {
	return len(a.read)+len(a.write) > 0 || a.network || a.limits != (proto.Limits{}) || a.policy != nil
}

func (a *allowances) setPolicy(name string) (err error) {
	a.policy, err = readPolicy(name)
	if _, builtin := policy.BuiltinText(name); err == nil && !builtin {
		a.policyGiven = name
		name, err = filepath.Abs(name)
	}
	a.policyName = name
	return err
}

// apply sets the allowances in an agent's configuration. It hides the state directories
// of this agent and of this user's commands, so that they can never be allowed.
func (a *allowances) apply(c *agent.Config, dir string) {
	c.Read, c.Write, c.Network, c.Limits = a.read, a.write, a.network, a.limits
	c.Policy, c.PolicyName = a.policy, a.policyName
	c.Hide = []string{dir}
	if own, err := cli.StateDir(); err == nil && !slices.Contains(c.Hide, own) {
		c.Hide = append(c.Hide, own)
	}
}
