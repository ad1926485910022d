// SPDX-License-Identifier: MIT

package hub

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skep/dynamos/update/roll"
	"skep/grid/proto"
)

// A drained node finishes what it has, and gets nothing more until it is reopened, also not
// what it had asked for before. The audit log says who drained it.
func TestDrainedNodeGetsNoWork(t *testing.T) {
	w, m, a := newTrio(t, nil, 2)
	name, id := w.hub.Nodes()[0].Name, a.node.ID()
	m.call(2, []byte("x"))
	first := a.nextLease()
	if err := w.cli.DrainNode(t.Context(), name, DrainKeep); err != nil {
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
	if err := w.cli.DrainNode(t.Context(), name, DrainEnd); err != nil {
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
	if err := w.cli.DrainNode(t.Context(), "nobody", DrainKeep); err == nil || !strings.Contains(err.Error(), "no node is called") {
		t.Error(err)
	}
}

// A node that shuts down gives its calls to others before its connection ends. Users are told
// why they begin anew, and it counts as no failure of the node. When it is back it gets work
// again.
func TestNodeThatShutsDown(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(2, []byte("x"))
	first := a.nextLease()
	b := w.startAgent(1)
	if _, err := a.nats.Request(proto.FromNode(a.node.ID(), proto.VerbLeave), nil, testTimeout); err != nil {
		t.Fatal(err)
	}
	second := b.nextLease() // a is still connected
	if second.Call != first.Call || second.Fence == first.Fence {
		t.Errorf("%+v after %+v", second, first)
	}
	n := w.hub.Nodes()
	i := slices.IndexFunc(n, func(n NodeInfo) bool { return n.ID == a.node.ID() })
	if n[i].State != NodeDown || n[i].Problem != "it was shut down" {
		t.Errorf("%+v", n[i])
	}
	if o, err := w.hub.Overview(); err != nil || o.Calls.Again != 1 || n[i].Failed != 0 || len(o.Troubles) != 1 ||
		o.Troubles[0].Text != "its node was shut down" {
		t.Errorf("%+v, %+v, %v", o.Troubles, o.Calls, err)
	}
	a.cutConnection()
	b.sendDone(second, []byte("b"))
	if _, got := m.readResult(2); string(got) != "b" {
		t.Errorf("%q", got)
	}
	a.connect()
	a.sendHello(1)
	a.askLeases(1)
	m.call(3, []byte("y"))
	a.sendDone(a.nextLease(), []byte("a"))
	if _, got := m.readResult(3); string(got) != "a" {
		t.Errorf("%q", got)
	}
}

// A drain that cannot be stored does not take effect.
func TestDrainThatIsNotStored(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	w.hub.roster.file = filepath.Join(t.TempDir(), "missing", "nodes.json")
	err := w.cli.DrainNode(t.Context(), a.node.ID(), DrainKeep)
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

// A node says how its updates do, whoever applied them, and the page shows it. The hub bounds
// what it says.
func TestFiguresOfANode(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	odd := "arp\x1b[2J" + strings.Repeat("x", 1000)
	list := make([]roll.Applied, proto.KernelMax+1)
	list[0] = roll.Applied{Name: odd, State: "committed", End: odd, Advised: true, Left: -1, Functions: make([]roll.Function, roll.FiguresMax-1)}
	list[0].Functions[0] = roll.Function{Symbol: odd, Old: roll.Version{Calls: 77}, New: roll.Version{Calls: 12345, Errors: 67}}
	list[1] = roll.Applied{Name: "tcp", Left: 3, Functions: []roll.Function{{Symbol: "f", Uncounted: true}, {Symbol: "g"}}}
	a.sendVerb(proto.VerbBeat, proto.Beat{Kernel: proto.Kernel{Applied: list}}, nil)
	waitUntil(t, "shown", func() bool { return len(w.hub.Nodes()[0].Kernel.Applied) > 0 })
	got := w.hub.Nodes()[0].Kernel.Applied
	if len(got) != proto.KernelMax || len(got[0].Functions) != roll.FiguresMax-1 || len(got[1].Functions) != 1 || got[0].Left != 0 || got[1].Left != 3 {
		t.Errorf("%d updates, %+v", len(got), got[:2])
	}
	for _, text := range []string{got[0].Name, got[0].End, got[0].Functions[0].Symbol} {
		if strings.Contains(text, "\x1b") || len(text) > 256 {
			t.Errorf("%.300q", text)
		}
	}
	o, err := w.hub.Overview()
	if err != nil {
		t.Fatal(err)
	}
	page := render(t, "overview", newPage(o, true))
	for _, want := range []string{`<td class="n">12345<td class="n">0<td class="n">67<`, "reboot advised", `<td colspan="5">not counted`, "3 functions more on "} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
}

// The beat of a drained node that has free slots does not ask for work, as that of another
// node does whose asks may be lost.
func TestBeatOfADrainedNode(t *testing.T) {
	w, m, a := newTrio(t, nil, 2)
	name := w.hub.Nodes()[0].Name
	if err := w.cli.DrainNode(t.Context(), name, DrainKeep); err != nil {
		t.Fatal(err)
	}
	a.askLeases(2)
	a.sendVerb(proto.VerbBeat, proto.Beat{Free: 1, Running: []uint64{}}, nil)
	waitUntil(t, "the beat", func() bool { return w.hub.Nodes()[0].Free == 1 })
	m.call(2, []byte("x"))
	b := w.startAgent(1)
	b.sendDone(b.nextLease(), []byte("b"))
	if _, got := m.readResult(2); string(got) != "b" {
		t.Errorf("call 2: %q", got)
	}
	if n := w.hub.Nodes(); n[0].Running+n[1].Running != 0 {
		t.Errorf("%+v", n)
	}
}

// A drained node whose slots are busy fetches no next call ahead, so that it comes to an end.
// What it had fetched begins on another node.
func TestDrainedNodeFetchesNothingAhead(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(2, []byte("x"))
	a.sendDone(a.nextLease(), []byte("a"))
	m.readResult(2)
	a.askLeases(1)
	m.call(3, []byte("x"))
	third := a.nextLease()
	m.call(4, []byte("x"))
	if l := a.nextLease(); l.After != third.Fence {
		t.Fatalf("nothing is fetched ahead: %+v", l)
	}
	if err := w.cli.DrainNode(t.Context(), w.hub.Nodes()[0].Name, DrainKeep); err != nil {
		t.Fatal(err)
	}
	m.call(5, []byte("x"))
	b := w.startAgent(2)
	for call := range uint64(2) {
		b.sendDone(b.nextLease(), []byte("b"))
		if _, got := m.readResult(4 + call); string(got) != "b" {
			t.Errorf("call %d: %q", 4+call, got)
		}
	}
	a.sendDone(third, []byte("a"))
	if _, got := m.readResult(3); string(got) != "a" {
		t.Errorf("call 3: %q", got)
	}
}

// What a drained node runs begins anew elsewhere if that is asked for, and counts as lost
// nowhere. Its own answer comes too late.
func TestDrainMovesCalls(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(2, []byte("x"))
	first := a.nextLease()
	b := w.startAgent(1)
	if err := w.cli.DrainNode(t.Context(), a.node.ID(), DrainMove); err != nil {
		t.Fatal(err)
	}
	e := m.waitForEvent("why it begins anew", func(e Event) bool { return e.Type == "call" && e.State == CallRequeued })
	if e.Text != drainedWhy || e.Call != first.Call || e.Node != a.node.ID() {
		t.Errorf("the event says %+v", e)
	}
	moved := b.nextLease()
	if c := receiveFrom(t, "a cancel", a.cancels); c.Fence != first.Fence || moved.Call != first.Call {
		t.Errorf("cancelled is the lease %d of %d, moved the call %d of %d", c.Fence, first.Fence, moved.Call, first.Call)
	}
	a.sendDone(first, []byte("late"))
	b.sendDone(moved, []byte("b"))
	if _, got := m.readResult(2); string(got) != "b" {
		t.Errorf("%q", got)
	}
	a.cutConnection() // it boots
	awaitNode := func(what string, is func(*NodeInfo) bool) {
		t.Helper()
		waitUntil(t, what, func() bool {
			return slices.ContainsFunc(w.hub.Nodes(), func(n NodeInfo) bool { return n.ID == a.node.ID() && is(&n) })
		})
	}
	awaitNode("the boot", func(n *NodeInfo) bool { return n.State == NodeDown })
	a.connect()
	a.sendHello(1)
	a.askLeases(1)
	a.sendVerb(proto.VerbBeat, proto.Beat{Running: []uint64{}}, nil)
	awaitNode("its question", func(n *NodeInfo) bool { return n.Free == 0 && n.State == NodeUp })
	m.call(3, []byte("x"))
	m.bindModule() // is answered after the call was queued
	for _, n := range w.hub.Nodes() {
		if n.Running != 0 || n.Drained != (n.ID == a.node.ID()) {
			t.Errorf("%+v", n)
		}
	}
}
