// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"skep/internal/cli"
	labs "skep/lab"
	"skep/lab/hold"
)

const labName = "lab"

// labMachine holds the options that describe a machine.
type labMachine struct {
	labs.Machine
}

func (m *labMachine) options(f *cli.Flags) {
	f.StringVar(&m.Kernel, "kernel", labs.Series()[0], "the kernel `SERIES`: "+strings.Join(labs.Series(), ", ")+", one with -debug, or the version of a package as 6.1.176-1")
	f.IntVar(&m.CPUs, "cpus", 2, "`N` processors")
	m.Memory = 1024
	f.Func("memory", "`SIZE` of memory (512M, 2G), default 1G", parseMiB(&m.Memory))
	f.IntVar(&m.NUMA, "numa", 1, "share processors and memory among `N` NUMA nodes")
	f.IntVar(&m.Nodes, "nodes", 0, "`N` network namespaces node1, node2, ... on one bridge")
	f.DurationVar(&m.Delay, "delay", 0, "`TIME` added to each packet of a node (20ms)")
	f.Func("loss", "`SHARE` of a node's packets that get lost (1%)", m.setLoss)
	f.Func("swap", "`SIZE` of a disk to swap to", func(s string) error {
		var d labs.Disk
		d.Swap = true
		m.Disks = append(m.Disks, d)
		return parseMiB(&m.Disks[len(m.Disks)-1].MiB)(s)
	})
	f.Func("module", "load the module `NAME`, ours or the kernel's (any number of times)", func(s string) error {
		m.Modules = append(m.Modules, s)
		return nil
	})
}

// parseMiB parses a size. It requires a unit, because a number alone would mean bytes.
func parseMiB(to *int) func(string) error {
	return func(s string) error {
		n, err := cli.ParseBytes(s)
		if err != nil {
			return err
		}
		if n < 1<<20 || n%(1<<20) != 0 {
			return errors.New("want whole MiB, as in 512M or 2G")
		}
		*to = int(n >> 20)
		return nil
	}
}

func (m *labMachine) setLoss(s string) error {
	number, found := strings.CutSuffix(s, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if !found || err != nil || !(percent >= 0 && percent <= 100) {
		return errors.New("want a share from 0% to 100%, as in 1%")
	}
	m.Loss = percent / 100
	return nil
}

// isGiven reports whether the command line describes a machine.
func (m *labMachine) isGiven(f *cli.Flags) bool {
	found := false
	f.Visit(func(o *flag.Flag) {
		found = found || !slices.Contains([]string{"name", "user", "node", "dir"}, o.Name)
	})
	return found
}

// check refuses impossible options before anything is fetched or created. Its messages
// name options, which those of lab.Machine.Check do not.
func (m *labMachine) check(f *cli.Flags, build string) error {
	if err := labs.CheckKernel(m.Kernel); err != nil {
		return f.Usagef("%v", err)
	}
	switch {
	case m.CPUs < 1:
		return f.Usagef("--cpus %d: at least 1", m.CPUs)
	case m.NUMA < 1:
		return f.Usagef("--numa %d: at least 1", m.NUMA)
	case m.Nodes == 0 && (m.Delay != 0 || m.Loss != 0):
		return f.Usagef("--delay and --loss need nodes: give --nodes N")
	case m.Name == "" || m.Name[0] == '.' || strings.Contains(m.Name, "/"):
		return f.Usagef("%q can't be the name of a machine", m.Name)
	}
	m.Build = build
	if err := m.Machine.Check(); err != nil {
		return f.Usagef("%v", err)
	}
	return nil
}

// describeMachine describes a machine for people.
func describeMachine(i *hold.Info) string {
	text := fmt.Sprintf("Linux %s, %d CPUs, %s", i.Release, i.CPUs, formatMiB(i.Memory))
	if i.CPUs == 1 {
		text = fmt.Sprintf("Linux %s, 1 CPU, %s", i.Release, formatMiB(i.Memory))
	}
	if i.Nodes > 0 {
		text += fmt.Sprintf(", %d nodes", i.Nodes)
	}
	return fmt.Sprintf("%s, up in %.1f s", text, i.Boot)
}

// formatMiB formats a size as the options accept it.
func formatMiB(n int) string {
	if n%1024 == 0 {
		return fmt.Sprintf("%dG", n/1024)
	}
	return fmt.Sprintf("%dM", n)
}
