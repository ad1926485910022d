// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"skep/grid/hub"
	"skep/grid/proto"
	"skep/internal/cli"
)

type nodes struct {
	state string
	json  bool

	remove, drain, reopen string
	move                  bool
	wait                  time.Duration
}

func (n *nodes) options(f *cli.Flags) {
	f.StringVar(&n.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.BoolVar(&n.json, "json", false, "print JSON, for programs")
	f.StringVar(&n.remove, "remove", "", "remove the node `NAME` from the hub for good")
	f.StringVar(&n.drain, "drain", "", "give the node `NAME` no more work, and wait until it has finished what it has")
	f.BoolVar(&n.move, "move", false, "with --drain: begin its calls anew on other nodes at once, move its movable programs there, and wait for other programs only")
	f.StringVar(&n.reopen, "reopen", "", "give the drained node `NAME` work again")
	f.DurationVar(&n.wait, "wait", 10*time.Minute, "with --drain: wait at most this `TIME`; 0: do not wait")
}

func (n *nodes) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	given := 0
	for option, name := range map[string]string{"remove": n.remove, "drain": n.drain, "reopen": n.reopen} {
		if !f.Given(option) {
			continue
		}
		if given++; name == "" {
			return f.Usagef("--%s wants the name of a node", option)
		}
	}
	if given > 1 || n.wait < 0 || (f.Given("wait") || n.move) && n.drain == "" {
		return f.Usagef("give one of --remove, --drain and --reopen; --wait takes a time, and needs --drain, as --move does")
	}
	c, err := openControl(n.state)
	if err != nil {
		return err
	}
	if n.remove != "" {
		return withExitCode(c.RemoveNode(ctx, n.remove))
	}
	switch {
	case n.reopen != "":
		return withExitCode(c.DrainNode(ctx, n.reopen, hub.DrainEnd))
	case n.drain != "":
		return n.drainNode(ctx, c)
	}
	list, err := c.Nodes(ctx, "")
	if err != nil {
		return withExitCode(err)
	}
	if n.json {
		return cli.PrintJSON(os.Stdout, list)
	}
	table := cli.NewTable("NAME", "OS", "SUBSTRATE", "CONFINED", "CPUS", "FREE", "STATE", "KERNEL", "LAST SEEN", "SYSTEM")
	for _, i := range list {
		table.Row(i.Name, i.OS, i.Substrate, i.Confined, i.CPUs, fmt.Sprintf("%d/%d", i.Free, i.Slots), i.StateText(), kernelText(&i.Kernel), cli.FormatAgo(i.LastSeen), i.System)
	}
	if err := table.Write(os.Stdout); err != nil {
		return err
	}
	for _, i := range list {
		if i.Open != "" && i.State == hub.NodeUp {
			fmt.Fprintf(os.Stderr, "%s: open to programs: %s\n", cli.CleanText(i.Name), cli.CleanText(i.Open))
		}
		if len(i.Labels) > 0 && i.State == hub.NodeUp {
			fmt.Fprintf(os.Stderr, "%s: labels: %s\n", cli.CleanText(i.Name), cli.CleanText(strings.Join(i.Labels, ", ")))
		}
		if i.Objects > 0 {
			fmt.Fprintf(os.Stderr, "%s: %s\n", cli.CleanText(i.Name), objectsText(i.Objects))
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

// objectsText says what the end of a node would cost.
func objectsText(n int) string {
	if n == 1 {
		return "1 object of a program lives there, and is lost if the node ends"
	}
	return fmt.Sprintf("%d objects of programs live there, and are lost if the node ends", n)
}

// kernelText says what Skep changes in a node's kernel.
func kernelText(k *proto.Kernel) string {
	var list []string
	if len(k.Updates) > 0 {
		list = append(list, "updates "+strings.Join(k.Updates, ", "))
	}
	if k.O2G {
		list = append(list, "O2G")
	}
	if len(k.Lent) > 0 {
		list = append(list, "lends "+strings.Join(k.Lent, ", "))
	}
	return orDash(strings.Join(list, "; "))
}

const drainPoll = 200 * time.Millisecond

// drainNode drains a node, and waits until nothing of the hub runs there.
func (n *nodes) drainNode(ctx context.Context, c *hub.Client) error {
	how := hub.DrainKeep
	if n.move {
		how = hub.DrainMove
	}
	if err := c.DrainNode(ctx, n.drain, how); err != nil {
		return withExitCode(err)
	}
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	for over := time.After(n.wait); ; {
		list, err := c.Nodes(ctx, "")
		if err != nil {
			return withExitCode(err)
		}
		runs, objects := 0, 0
		for _, i := range list {
			if i.Name == n.drain || i.ID == n.drain {
				runs, objects = i.Held(), i.Objects
			}
		}
		if runs == 0 && objects > 0 {
			fmt.Fprintf(os.Stderr, "%s: %s\n", n.drain, objectsText(objects))
		}
		if runs == 0 {
			_, err := fmt.Printf("%s: drained; 'skep nodes --reopen %s' gives it work again\n", n.drain, n.drain)
			return err
		}
		if n.wait == 0 {
			_, err := fmt.Printf("%s: gets no more work, and %d calls and programs run there\n", n.drain, runs)
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return cli.Errorf(cli.Failed, "%s: %d calls and programs still run there; it gets no more work: 'skep nodes --drain %s --move' begins its calls anew on other nodes", n.drain, runs, n.drain)
		case <-poll.C:
		}
	}
}
