// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strconv"

	"skep/internal/cli"
	"skep/internal/uapi"
	lent "skep/shimos/part"
)

type partAllow struct {
	group, cpus, memory string
	nobody              bool
}

func (p *partAllow) options(f *cli.Flags) {
	f.StringVar(&p.group, "group", "", "let members of `GROUP` create partitions")
	f.StringVar(&p.cpus, "cpus", "", "the CPUs that they may lend: a `LIST` such as 1,4-7")
	f.StringVar(&p.memory, "mem", "", "the memory that they may lend in total: a `SIZE` such as 2G, or 0=1G,1=1G by node")
	f.BoolVar(&p.nobody, "nobody", false, "let only root create partitions")
}

func (p *partAllow) run(_ context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	if p.nobody {
		return p.set(lent.Allowance{Group: uapi.ShimosNobody})
	}
	if p.group == "" && p.cpus == "" && p.memory == "" {
		return showAllowance()
	}
	if p.group == "" || p.cpus == "" || p.memory == "" {
		return f.Expectf("--group, --cpus and --mem are expected")
	}
	gid, err := groupNumber(p.group)
	if err != nil {
		return cli.WithCode(cli.Usage, err)
	}
	a := lent.Allowance{Group: gid}
	if a.CPUs, a.Memory, err = partSizes(p.cpus, p.memory); err != nil {
		return err
	}
	return p.set(a)
}

// set sets an allowance. It also stores it for the next boot if skep service install kernel
// was used.
func (p *partAllow) set(a lent.Allowance) error {
	if err := lent.SetAllowance(a); err != nil {
		return partError(err)
	}
	return keepAllowance(a)
}

func groupNumber(name string) (uint32, error) {
	if n, err := strconv.ParseUint(name, 10, 32); err == nil && uint32(n) != uapi.ShimosNobody {
		return uint32(n), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("there is no group %q: 'getent group' lists them", name)
	}
	n, err := strconv.ParseUint(g.Gid, 10, 32)
	return uint32(n), err
}

func showAllowance() error {
	a, err := lent.GetAllowance()
	if err != nil {
		return partError(err)
	}
	if a.Group == uapi.ShimosNobody {
		_, err := fmt.Println("only root may create partitions")
		return err
	}
	name := strconv.FormatUint(uint64(a.Group), 10)
	if g, err := user.LookupGroupId(name); err == nil {
		name = g.Name
	}
	table := cli.NewTable("GROUP", "CPUS", "NODE", "MEMORY")
	for node, bytes := range a.Memory {
		if bytes != 0 {
			table.Row(name, orDash(a.CPUs.String()), node, formatMiB(int(bytes>>20)))
		}
	}
	return table.Write(os.Stdout)
}
