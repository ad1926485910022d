// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"skep/internal/cli"
	"skep/o2g/launch"
)

type o2g struct {
	json bool
	pace
}

func (o *o2g) options(f *cli.Flags) {
	f.BoolVar(&o.json, "json", false, "print JSON, for programs")
	o.pace.options(f, "with top: ")
}

func (o *o2g) run(ctx context.Context, f *cli.Flags, words []string) error {
	if len(words) != 1 || words[0] != "status" && words[0] != "top" {
		return f.Expectf("a subcommand is expected: status or top")
	}
	if words[0] == "status" && (f.Given("interval") || f.Given("count")) {
		return f.Usagef("--interval and --count belong to skep o2g top")
	}
	if runtime.GOOS != "linux" {
		return cli.Errorf(cli.Refused, "O2G serves MPI programs on Linux only: use this command there")
	}
	if words[0] == "top" {
		return o.top(ctx)
	}
	list, refused := launch.ReadEndpoints(launch.StatusFolders())
	for _, err := range refused {
		fmt.Fprintln(os.Stderr, "skep:", err)
	}
	if o.json {
		if list == nil {
			list = []launch.Endpoint{}
		}
		return cli.PrintJSON(os.Stdout, list)
	}
	return showEndpoints(list)
}

func showEndpoints(list []launch.Endpoint) error {
	if len(list) == 0 {
		_, err := fmt.Println("no endpoint of this user is open here")
		return err
	}
	table := cli.NewTable("PID", "PROGRAM", "ENGINE", "ADDRESS", "PEERS", "SENT", "BYTES", "RECEIVED", "BYTES", "UNEXPECTED", "UNMATCHED", "POSTED")
	for _, e := range list {
		table.Row(e.PID, e.Program, e.Engine, e.Address, e.Connected, e.Sent, cli.FormatBytes(e.SentBytes), e.Received, cli.FormatBytes(e.ReceivedBytes), e.Unexpected, e.Unmatched, e.Posted)
	}
	if err := table.Write(os.Stdout); err != nil {
		return err
	}
	return printModules(list)
}

// printModules prints the kernel engine's counters of each endpoint that uses it.
func printModules(list []launch.Endpoint) error {
	table := cli.NewTable("PID", "PROGRAM", "SOFTIRQ", "WORKER", "IN PLACE", "SLAB", "LEFT TO WORKER", "STOPPED", "REFUSED")
	n := 0
	for _, e := range list {
		m := e.Module
		if m == nil {
			continue
		}
		n++
		table.Row(e.PID, e.Program, cli.FormatBytes(m.SoftirqBytes), cli.FormatBytes(m.WorkerBytes), cli.FormatBytes(m.DirectBytes),
			cli.FormatBytes(m.SlabPages*uint64(os.Getpagesize())), m.OverBudget, m.StoppedReading, m.RefusedMemory)
	}
	if n == 0 {
		return nil
	}
	fmt.Println()
	return table.Write(os.Stdout)
}
