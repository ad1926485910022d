// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"os"
	"time"

	"skep/internal/cli"
	"skep/lab/hold"
)

type labList struct{ json bool }

func (l *labList) options(f *cli.Flags) {
	f.BoolVar(&l.json, "json", false, "print JSON, for programs")
}

func (l *labList) run(_ context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	build, err := labBuild()
	if err != nil {
		return err
	}
	running, dead, err := hold.List(build)
	if err != nil {
		return err
	}
	all := []*hold.Info{}
	for _, m := range running {
		all = append(all, &m.Info)
	}
	all = append(all, dead...)
	if l.json {
		return cli.PrintJSON(os.Stdout, all)
	}
	table := cli.NewTable("NAME", "KERNEL", "CPUS", "MEMORY", "NODES", "UP SINCE", "STATE")
	for _, i := range all {
		state := string(i.State)
		if i.Cause != "" {
			state += ": " + i.Cause
		}
		table.Row(i.Name, i.Kernel, i.CPUs, formatMiB(i.Memory), i.Nodes, sinceText(i.Since), state)
	}
	return table.Write(os.Stdout)
}

func sinceText(when time.Time) string {
	if when.IsZero() {
		return "-"
	}
	return when.Local().Format("2006-01-02 15:04:05")
}
