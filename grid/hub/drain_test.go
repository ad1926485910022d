// SPDX-License-Identifier: MIT

package hub

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"skep/grid/proto"
)

// A drained node finishes what it has, and gets nothing more until it is reopened, also not
// what it had asked for before. The audit log says who drained it.
func TestDrainedNodeGetsNoWork(t *testing.T) {
	w, m, a := newTrio(t, nil, 2)
	name, id := w.hub.Nodes()[0].Name, a.node.ID()
	m.call(2, []byte("x"))
	first := a.nextLease()
	if err := w.cli.DrainNode(t.Context(), name, true); err != nil {
		t.Fatal(err)
	}
	if n := w.hub.Nodes()[0]; !n.Drained || n.Running != 1 {
		t.Errorf("%+v", n)
	}
	m.call(3, []byte("y"))
	a.askLeases(2)
	b := w.startAgent(1)
	second := b.nextLease() // a, which asked before, did not get it
	b.sendDone(second, []byte("b"))
	if _, got := m.readResult(3); string(got) != "b" {
		t.Errorf("call 3: %q", got)
	}
	a.sendDone(first, []byte("a"))
	if _, got := m.readResult(2); string(got) != "a" {
		t.Errorf("call 2: %q", got)
	}
	list, err := w.cli.Nodes(t.Context(), "all")
	if err != nil || len(list) != 1 || list[0].ID != b.node.ID() {
		t.Errorf("chosen: %+v, %v", list, err)
	}
	_, err = w.cli.Nodes(t.Context(), "node="+name)
	wantProblem(t, "a drained node alone", err, proto.ProblemRequest, "is drained: `skep nodes --reopen NAME`")
	blob, err := w.cli.Program(t.Context(), filepath.Join(w.dirs, "mod.rex"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.cli.Exec(t.Context(), ExecRequest{Node: id, Program: blob.Digest, Name: "mod"}, nil, io.Discard, io.Discard)
	wantProblem(t, "a program on it", err, proto.ProblemGone, "is drained: `skep nodes --reopen "+name)
	if r, err := openRoster(w.hub.roster.file); err != nil || !r.isDrained(id) {
		t.Errorf("a restart of the hub reopens it: %v", err)
	}
	if err := w.cli.DrainNode(t.Context(), name, false); err != nil {
		t.Fatal(err)
	}
	a.askLeases(1)
	m.call(4, []byte("z"))
	a.sendDone(a.nextLease(), []byte("again"))
	if _, got := m.readResult(4); string(got) != "again" {
		t.Errorf("call 4: %q", got)
	}
	log, err := w.hub.rolls.Audit(name)
	if text := strings.Join(log.Lines, "\n"); err != nil || !strings.Contains(text, " drained "+name+" ") || !strings.Contains(text, " reopened "+name+" ") {
		t.Errorf("%v: %q", err, text)
	}
	if err := w.cli.DrainNode(t.Context(), "nobody", true); err == nil || !strings.Contains(err.Error(), "no node is called") {
		t.Error(err)
	}
}

// A drain that cannot be stored does not take effect.
func TestDrainThatIsNotStored(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	w.hub.roster.file = filepath.Join(t.TempDir(), "missing", "nodes.json")
	err := w.cli.DrainNode(t.Context(), a.node.ID(), true)
	wantProblem(t, "no directory", err, proto.ProblemInternal, "missing")
	if n := w.hub.Nodes()[0]; n.Drained || w.hub.roster.isDrained(n.ID) {
		t.Errorf("%+v", n)
	}
}

// What a node says of its kernel is shown as far as it has room, and without what a
// terminal would obey.
func TestKernelOfANode(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	many := make([]string, proto.KernelMax+1)
	many[0] = "arp\x1b[2J" + strings.Repeat("x", 1000)
	a.sendVerb(proto.VerbBeat, proto.Beat{Kernel: proto.Kernel{Updates: many, O2G: true, Lent: []string{"2-3"}}}, nil)
	waitUntil(t, "shown", func() bool { return w.hub.Nodes()[0].Kernel.O2G })
	k := w.hub.Nodes()[0].Kernel
	if len(k.Updates) != proto.KernelMax || strings.Contains(k.Updates[0], "\x1b") || len(k.Updates[0]) > 256 || !k.O2G || len(k.Lent) != 1 {
		t.Errorf("%d updates, %.300q, %+v", len(k.Updates), k.Updates[0], k.Lent)
	}
}
