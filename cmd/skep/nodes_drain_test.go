// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"strings"
	"testing"

	"skep/grid/hub"
	"skep/internal/cli"
)

// A node is drained and reopened as its operator types it.
func TestNodesDrain(t *testing.T) {
	f := newRollFleet(t, "a", "b")
	f.awaitNodes(2)
	state := " --state " + f.state
	if out, _ := f.skep(0, "nodes --drain a"+state); !strings.Contains(out, "a: drained; 'skep nodes --reopen a' gives it work again") {
		t.Error(out)
	}
	if out, _ := f.skep(0, "nodes --drain a --move"+state); !strings.Contains(out, "a: drained; ") {
		t.Error(out)
	}
	if out, _ := f.skep(0, "nodes"+state); !strings.Contains(out, "up, drained") {
		t.Error(out)
	}
	if _, text := f.skep(cli.Unreachable, "exec --on node=a"+state+" -- /bin/true"); !strings.Contains(text, "node=a is drained") {
		t.Error(text)
	}
	f.skep(0, "nodes --reopen a"+state)
	if out, _ := f.skep(0, "nodes"+state); strings.Contains(out, "drained") {
		t.Error(out)
	}
	for line, want := range map[string]string{"--drain=": "wants the name of a node", "--drain a --reopen b": "give one of", "--wait 1s": "needs --drain", "--move": "needs --drain, as --move does", "--reopen a --move": "needs --drain, as --move does", "--drain a --wait -1s": "takes a time"} {
		if _, text := f.skep(cli.Usage, "nodes "+line+state); !strings.Contains(text, want) {
			t.Errorf("%s: %s", line, text)
		}
	}
	if _, text := f.skep(cli.Failed, "nodes --drain nobody"+state); !strings.Contains(text, "no node is called") {
		t.Error(text)
	}
	for want, i := range map[string]hub.NodeInfo{"up": {State: "up", Running: 3}, "up, draining": {State: "up", Drained: true, Programs: 1}, "down, drained": {State: "down", Drained: true}} {
		if got := i.StateText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
