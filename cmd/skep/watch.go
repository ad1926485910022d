// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"skep/grid/hub"
	"skep/internal/cli"
)

// A watch shows the progress of a run. On a terminal it keeps one line per node up to date;
// above them it prints the workers' output and the calls that are retried. The lock guards
// nodes.
type watch struct {
	progress *cli.Progress

	lock  sync.Mutex
	nodes map[string]*share
}

// A share is one node's part of a run.
type share struct {
	name, substrate string
	running, done   int
	sent            uint64
}

func newWatch(f *os.File) *watch {
	return &watch{progress: cli.NewProgress(f), nodes: map[string]*share{}}
}

func (w *watch) close() { w.progress.Done() }

// followEvents shows events until their stream ends, and returns why: io.EOF if the hub ended it.
func (w *watch) followEvents(events *hub.Stream) error {
	for {
		e, err := events.Next()
		if err != nil {
			return err
		}
		if e.Missed > 0 {
			w.printError("%d events came too fast and are not shown; 'skep logs' shows what workers printed", e.Missed)
		}
		if text := w.countEvent(e); text != "" {
			w.progress.PrintAbove(text + "\n")
		}
		w.progress.Set(w.progressLines())
	}
}

// printError prints above the progress.
func (w *watch) printError(format string, args ...any) {
	w.progress.PrintAbove("skep: " + fmt.Sprintf(format, args...) + "\n")
}

// showAway says that a hub on another machine is away, or there again.
func (w *watch) showAway(err error) {
	if err == nil {
		w.printError("the hub answers again")
		return
	}
	w.printError("the hub does not answer; the run goes on there, and is kept for some time (%v)", err)
}

func (w *watch) shareOf(e hub.Event) *share {
	n := w.nodes[e.Node]
	if n == nil {
		n = &share{name: e.Name, substrate: e.Substrate}
		w.nodes[e.Node] = n
	}
	return n
}

// countEvent counts an event and returns the line to show for it.
func (w *watch) countEvent(e hub.Event) string {
	w.lock.Lock()
	defer w.lock.Unlock()
	name := cli.CleanText(e.Name)
	switch {
	case e.Type == "log":
		return name + ": " + cli.CleanText(e.Text)
	case e.Type == "node" && e.State != hub.NodeUp:
		return strings.TrimRight(fmt.Sprintf("skep: node %s is %s: %s", name, e.State, cli.CleanText(e.Text)), ": ")
	case e.Type == "session" && e.State == hub.SessionLate:
		return fmt.Sprintf("skep: node %s did not report the end of its workers, so their last lines may be missing; 'skep logs %s' shows them", name, e.Session)
	case e.Type != "call" || e.Node == "":
		return ""
	}
	n := w.shareOf(e)
	n.running = e.Running
	switch e.State {
	case hub.CallDone:
		n.done++
		n.sent += e.Sent + e.Fetched
	case hub.CallRequeued:
		n.sent += e.Sent
		return fmt.Sprintf("skep: call %d is run again, it was on node %s: %s", e.Call, name, cli.CleanText(e.Text))
	}
	return ""
}

func (w *watch) progressLines() []string {
	w.lock.Lock()
	defer w.lock.Unlock()
	var lines []string
	for _, n := range w.nodes {
		lines = append(lines, fmt.Sprintf("%-16s %-12s %3d running %5d done %8s sent", n.name, n.substrate, n.running, n.done, cli.FormatBytes(n.sent)))
	}
	slices.Sort(lines)
	return lines
}
