// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"skep/grid/hub"
	"skep/internal/cli"
)

type nodes struct {
	state string
	json  bool

	remove string
}

func (n *nodes) options(f *cli.Flags) {
	f.StringVar(&n.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.BoolVar(&n.json, "json", false, "print JSON, for programs")
	f.StringVar(&n.remove, "remove", "", "remove the node `NAME` from the hub for good")
}

func (n *nodes) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	if f.Given("remove") && n.remove == "" {
		return f.Usagef("--remove wants the name of a node")
	}
	c, err := openControl(n.state)
	if err != nil {
		return err
	}
	if n.remove != "" {
		return withExitCode(c.RemoveNode(ctx, n.remove))
	}
	list, err := c.Nodes(ctx, "")
	if err != nil {
		return withExitCode(err)
	}
	if n.json {
		return cli.PrintJSON(os.Stdout, list)
	}
	table := cli.NewTable("NAME", "OS", "SUBSTRATE", "CONFINED", "CPUS", "FREE", "STATE", "LAST SEEN", "SYSTEM")
	for _, i := range list {
		table.Row(i.Name, i.OS, i.Substrate, i.Confined, i.CPUs, fmt.Sprintf("%d/%d", i.Free, i.Slots), i.State, agoText(i.LastSeen), i.System)
	}
	if err := table.Write(os.Stdout); err != nil {
		return err
	}
	for _, i := range list {
		if i.Open != "" && i.State == hub.NodeUp {
			fmt.Fprintf(os.Stderr, "%s: open to programs: %s\n", cli.CleanText(i.Name), cli.CleanText(i.Open))
		}
		if i.Owner != "" && i.State == hub.NodeUp {
			fmt.Fprintf(os.Stderr, "%s: %s\n", cli.CleanText(i.Name), cli.CleanText(i.Owner))
		}
		if i.Problem != "" {
			fmt.Fprintf(os.Stderr, "%s: %s\n", cli.CleanText(i.Name), cli.CleanText(i.Problem))
		}
	}
	return nil
}

// agoText formats how long ago something was.
func agoText(when time.Time) string {
	if when.IsZero() {
		return "never"
	}
	d := time.Since(when)
	switch {
	case d < 5*time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	}
	return strings.TrimSpace(when.Local().Format("2006-01-02"))
}
