// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"skep/dynamos/update/roll"
	"skep/grid/hub"
	"skep/grid/rolls"
	"skep/internal/cli"
)

// A top shows what a hub and its nodes do, again and again.
type top struct {
	state string
	json  bool
	pace
}

func (t *top) options(f *cli.Flags) {
	f.StringVar(&t.state, "state", "", "the hub's `DIR`, as given to skep up")
	f.BoolVar(&t.json, "json", false, "print JSON, for programs: a line for each reading")
	t.pace.options(f, "")
}

func (t *top) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	c, err := openControl(t.state)
	if err != nil {
		return err
	}
	var at display
	if !t.json {
		at = newDisplay(os.Stdout)
	}
	before, err := c.Overview(ctx)
	if err != nil {
		return withExitCode(err)
	}
	ticker := time.NewTicker(t.pace.every())
	defer ticker.Stop()
	for n := 0; t.count == 0 || n < t.count; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		after, err := c.Overview(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return withExitCode(err)
		}
		if t.json {
			err = json.NewEncoder(os.Stdout).Encode(after)
		} else {
			_, err = io.WriteString(os.Stdout, at.fit(topText(&before, &after)))
		}
		if err != nil {
			return err
		}
		before = after
	}
	return nil
}

// rateOf returns how much a counter grew each second. It is smaller than before if the hub
// was started again.
func rateOf(before, after uint64, seconds float64) float64 {
	if after < before || seconds <= 0 {
		return 0
	}
	return float64(after-before) / seconds
}

// appliedLines adds the updates that no roll brought, with the sums of all nodes.
func appliedLines(text *strings.Builder, o *hub.Overview) {
	rolled := map[string]bool{}
	for i := range o.Rolls {
		rolled[o.Rolls[i].Spec.Name] = true
	}
	sums, nodes := map[string][]rolls.Function{}, map[string]int{}
	for i := range o.Nodes {
		for _, a := range o.Nodes[i].Kernel.Applied {
			if !rolled[a.Name] {
				sums[a.Name] = roll.AddFunctions(sums[a.Name], a.Functions)
				nodes[a.Name]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		fmt.Fprintf(text, "update %s, without a roll, on %d of the nodes\n", cli.CleanText(name), nodes[name])
		functionLines(text, sums[name])
	}
}

// functionLines adds a line for each function, with the sums of all nodes.
func functionLines(text *strings.Builder, list []rolls.Function) {
	for _, f := range list {
		if f.Uncounted {
			fmt.Fprintf(text, "  %s: calls are not counted\n", cli.CleanText(f.Symbol))
			continue
		}
		fmt.Fprintf(text, "  %s: old %s; new %s\n", cli.CleanText(f.Symbol), versionText(&f.Old), versionText(&f.New))
	}
}

func versionText(v *rolls.Version) string {
	return fmt.Sprintf("%d calls, %d errors, 99 %% in %s", v.Calls, v.Errors, latencyText(v.P99, v.P99))
}

// topText returns a summary and a table of nodes, with what they did between two readings.
func topText(before, after *hub.Overview) string {
	seconds := after.Time.Sub(before.Time).Seconds()
	c := &after.Calls
	var text strings.Builder
	fmt.Fprintf(&text, "%d of %d nodes up; %d sessions; calls: %d waiting, %d running, %d done, %d failed, %d ran again\n",
		after.Status.Nodes, len(after.Nodes), after.Status.Sessions, c.Waiting, c.Running, c.Done, c.Failed, c.Again)
	for i := range after.Rolls {
		r := &after.Rolls[i]
		n := r.Sums()
		fmt.Fprintf(&text, "roll of %s: %s, wave %d of %d; of %d nodes %d run it, %d committed, %d left out\n",
			cli.CleanText(r.Spec.Name), r.State, r.Wave, r.Waves, len(r.Nodes), n.Run, n.Committed, n.Left)
		functionLines(&text, r.Functions())
	}
	appliedLines(&text, after)
	old := map[string]*hub.NodeInfo{}
	for i := range before.Nodes {
		old[before.Nodes[i].ID] = &before.Nodes[i]
	}
	table := cli.NewTable("NAME", "SUBSTRATE", "STATE", "BUSY", "RUNNING", "DONE/S", "FAILED/S", "SENT/S", "RECEIVED/S", "KERNEL")
	for i := range after.Nodes {
		n := &after.Nodes[i]
		was := old[n.ID]
		if was == nil {
			was = &hub.NodeInfo{}
		}
		rate := func(before, after uint64) float64 { return rateOf(before, after, seconds) }
		table.Row(n.Name, n.Substrate, n.StateText(), fmt.Sprintf("%d/%d", n.Busy(), n.Slots), n.Running+n.Programs,
			rateText(rate(was.Done, n.Done)), rateText(rate(was.Failed, n.Failed)),
			byteRate(rate(was.Sent, n.Sent)), byteRate(rate(was.Received, n.Received)), kernelText(&n.Kernel))
	}
	if len(after.Nodes) > 0 {
		table.Write(&text)
	}
	return text.String()
}
