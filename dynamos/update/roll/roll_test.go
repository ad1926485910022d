// SPDX-License-Identifier: MIT

package roll

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWaves(t *testing.T) {
	waves, err := ParseWaves("1,5%,25%,all")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int][]int{1: {1, 1, 1, 1}, 10: {1, 1, 2, 10}, 100: {1, 5, 25, 100}, 1000: {1, 50, 250, 1000}} {
		var got []int
		for _, w := range waves {
			got = append(got, w.Size(n))
		}
		if !slices.Equal(got, want) {
			t.Errorf("of %d nodes: %v, want %v", n, got, want)
		}
	}
	for _, text := range []string{"", "1", "0,all", "-1,all", "5%", "all,all", "5,3,all", "50%,20%,all", "10%,5,all", "101%,all", "0%,all", "01,all", "x,all", "1,,all",
		strings.Repeat("1,", 40) + "all"} {
		if list, err := ParseWaves(text); err == nil {
			t.Errorf("%q: taken as %v", text, list)
		}
	}
}

// The sums over all nodes show what no single node can.
func TestJudge(t *testing.T) {
	r := Rules{Least: 1000, Errors: 5}
	for _, c := range []struct {
		h   Health
		bad bool
	}{
		{Health{OldCalls: 1000, OldErrors: 10, NewCalls: 1000, NewErrors: 15}, false},
		{Health{OldCalls: 1000, OldErrors: 10, NewCalls: 1000, NewErrors: 16}, true},
		{Health{OldCalls: 1000, OldErrors: 10, NewCalls: 999, NewErrors: 999}, false},
		{Health{OldCalls: 999, NewCalls: 1000, NewErrors: 1000}, false},
		{Health{OldCalls: 4000, OldErrors: 4000, NewCalls: 1000, NewErrors: 1000}, false},
		{Health{}, false},
	} {
		if got := r.Judge(c.h) != ""; got != c.bad {
			t.Errorf("%+v: %v", c.h, got)
		}
	}
	if (Rules{}).Judge(Health{OldCalls: 1, NewCalls: 1, NewErrors: 1}) != "" {
		t.Error("judged without a rule")
	}
}

// An engineLog records what a node does.
type engineLog struct {
	did   []string
	fail  string
	later bool // the failure is one for now
	until time.Duration
}

func (e *engineLog) do(what string) error {
	e.did = append(e.did, what)
	if what == e.fail && e.later {
		return fmt.Errorf("%w: %s", ErrLater, what)
	}
	if what == e.fail {
		return errors.New(what + " fails")
	}
	return nil
}

func (e *engineLog) Stage() error { return e.do("stage") }
func (e *engineLog) Load() error  { return e.do("load") }
func (e *engineLog) Select(p Phase, until time.Duration) error {
	e.until = until
	return e.do(p.String())
}
func (e *engineLog) Commit() error { return e.do("commit") }
func (e *engineLog) Revert() error { return e.do("revert") }

const second = time.Second

func newTestNode() (*Node, *engineLog) {
	e := &engineLog{}
	return &Node{Name: "a", Boot: "1", Engine: e, Lease: 3 * second, Fits: true}, e
}

func (e *engineLog) check(t *testing.T, what, want string) {
	t.Helper()
	if got := strings.Join(e.did, " "); got != want {
		t.Errorf("%s: did %q, want %q", what, got, want)
	}
	e.did = nil
}

// A node runs the update only with a lease that began at its own report.
func TestNodeNeedsALease(t *testing.T) {
	n, e := newTestNode()
	n.Obey(10*second, Order{Boot: "1", Stamp: 10 * second, Goal: Full})
	e.check(t, "without a lease", "stage load")
	n.Obey(13*second, Order{Boot: "1", Stamp: 11 * second, Goal: Full, Grant: true})
	if e.check(t, "with a lease", "node"); e.until != 14*second {
		t.Errorf("the kernel ends the policy at %v, the lease at 14s", e.until)
	}
	n.Tick(14*second - 1)
	e.check(t, "before the end of the lease", "")
	n.Tick(14 * second)
	e.check(t, "at the end of the lease", "loaded")
	n.Obey(20*second, Order{Boot: "1", Stamp: 17 * second, Goal: Full, Grant: true})
	e.check(t, "an answer that comes too late", "")
	n.Obey(20*second, Order{Boot: "1", Stamp: 19 * second, Goal: Committed, Grant: true})
	e.check(t, "commit", "node commit")
	n.Tick(100 * second)
	n.Obey(101*second, Order{Boot: "1", Stamp: 101 * second, Goal: Reverted})
	e.check(t, "what is committed needs no lease, and a hub cannot revert it", "")
}

// Orders of another boot, overtaken ones, and those from the future are not obeyed.
func TestNodeIgnoresOldOrders(t *testing.T) {
	n, e := newTestNode()
	n.Obey(10*second, Order{Boot: "1", Stamp: 10 * second, Goal: Canary, Grant: true})
	e.check(t, "the first order", "stage load canary")
	for what, o := range map[string]Order{
		"another boot": {Boot: "0", Stamp: 11 * second, Goal: Full, Grant: true},
		"overtaken":    {Boot: "1", Stamp: 9 * second, Goal: Full, Grant: true},
		"twice":        {Boot: "1", Stamp: 10 * second, Goal: Full, Grant: true},
		"the future":   {Boot: "1", Stamp: 60 * second, Goal: Full, Grant: true},
	} {
		n.Obey(12*second, o)
		e.check(t, what, "")
	}
	n.Obey(12*second, Order{Boot: "1", Stamp: 12 * second, Goal: Canary})
	e.check(t, "a lease that is taken back", "loaded")
	n.Obey(13*second, Order{Boot: "1", Stamp: 13 * second, Goal: Reverted})
	e.check(t, "revert", "revert")
	n.Obey(14*second, Order{Boot: "1", Stamp: 14 * second, Goal: Full, Grant: true})
	e.check(t, "after the revert", "")
	if n.Phase != Leaving {
		t.Errorf("%v", n.Phase)
	}
	if n.Drained(); n.Phase != Reverted {
		t.Errorf("%v", n.Phase)
	}
}

// A node that refuses, or was harmed, never runs the update again.
func TestNodeThatRefuses(t *testing.T) {
	for _, step := range []string{"stage", "load", "canary"} {
		n, e := newTestNode()
		e.fail = step
		for i := range 3 {
			n.Obey(time.Duration(i+1)*second, Order{Boot: "1", Stamp: time.Duration(i+1) * second, Goal: Canary, Grant: true})
		}
		if r := n.Report(5 * second); r.Refused != step+" fails" || r.Phase.exposed() || e.did[len(e.did)-1] != step {
			t.Errorf("%s: %+v, did %v", step, r, e.did)
		}
	}
	n, e := newTestNode()
	n.Obey(second, Order{Boot: "1", Stamp: second, Goal: Canary, Grant: true})
	e.did = nil
	n.Harm("WARN")
	n.Harm("later")
	n.Obey(2*second, Order{Boot: "1", Stamp: 2 * second, Goal: Full, Grant: true})
	if e.check(t, "after harm", ""); n.Bad != "WARN" || n.Phase != Leaving {
		t.Errorf("%+v", n)
	}
}

// A testRoll has nodes that obey at once, and a clock of half seconds.
type testRoll struct {
	*Hub
	nodes []*Node
	now   time.Duration
}

func newTestRoll(t *testing.T, count int) *testRoll {
	t.Helper()
	waves, err := ParseWaves("1,50%,all")
	if err != nil {
		t.Fatal(err)
	}
	r := &testRoll{}
	var names []string
	for i := range count {
		n, _ := newTestNode()
		n.Name = string(rune('a' + i))
		r.nodes, names = append(r.nodes, n), append(names, n.Name)
	}
	r.Hub = NewHub(Plan{Waves: waves, Times: simTimes, Rules: Rules{Least: 10, Errors: 100}, MaxUnavailable: 1}, names)
	return r
}

// run lets time pass until the roll has a state, for at most two minutes.
func (r *testRoll) run(until func() bool) bool {
	for range 240 {
		r.now += second / 2
		for _, n := range r.nodes {
			n.Tick(r.now)
			n.Obey(r.now, r.Report(r.now, n.Report(r.now)))
		}
		r.Tick(r.now)
		if until() {
			return true
		}
	}
	return false
}

func (r *testRoll) phases() (text string) {
	for _, n := range r.nodes {
		text += n.Phase.String()[:1]
	}
	return text
}

// Nodes get the update wave by wave; a paused roll goes no further, and those that run it
// continue; a node that joins later gets what is committed.
func TestRollStepByStep(t *testing.T) {
	r := newTestRoll(t, 4)
	if !r.run(func() bool { return r.nodes[0].Phase == Full }) || r.phases() != "nsss" {
		t.Fatalf("the first wave: %s", r.phases())
	}
	r.Pause("to look")
	r.run(func() bool { return false })
	if r.phases() != "nsss" || r.State != Paused {
		t.Errorf("paused: %s, %v", r.phases(), r.State)
	}
	r.Resume()
	if !r.run(func() bool { return r.nodes[1].Phase == Canary }) || r.phases() != "ncss" {
		t.Errorf("the second wave: %s", r.phases())
	}
	if !r.run(func() bool { return r.State == Done }) || r.phases() != "cccc" || r.nodes[3].Phase != Committed {
		t.Errorf("the end: %s, %v", r.phases(), r.State)
	}
	late, _ := newTestNode()
	late.Name = "z"
	r.nodes = append(r.nodes, late)
	if !r.run(func() bool { return late.Phase == Committed }) {
		t.Errorf("a node that joined later is %v", late.Phase)
	}
	r.Stop("too late")
	if r.State != Done {
		t.Error("a roll that is done was stopped")
	}
}

// Each sign of harm stops a roll, and every node that did not commit reverts.
func TestRollStops(t *testing.T) {
	for want, harm := range map[string]func(r *testRoll){
		"a: WARN":                                 func(r *testRoll) { r.nodes[0].Harm("WARN") },
		"a: it booted while it loaded or ran":     func(r *testRoll) { r.nodes[0].Boot, r.nodes[0].Phase = "2", None },
		"a: it was silent while it loaded or ran": func(r *testRoll) { r.nodes = r.nodes[1:] },
		"its calls fail more often":               func(r *testRoll) { r.nodes[0].Health = Health{OldCalls: 10, NewCalls: 10, NewErrors: 2} },
		"by an operator":                          func(r *testRoll) { r.Stop("by an operator") },
		"all 1 chosen nodes failed":               func(r *testRoll) { r.nodes[0].Refused = "it lost its disk" },
	} {
		r := newTestRoll(t, 4)
		if !r.run(func() bool { return r.nodes[0].Phase == Full }) {
			t.Fatal(r.phases())
		}
		all := r.nodes
		harm(r)
		if !r.run(func() bool { return r.State == Stopped }) || !strings.Contains(r.Why, want) {
			t.Errorf("want %q: %v, %q", want, r.State, r.Why)
		}
		r.run(func() bool { return r.now > 200*second })
		for _, n := range all[1:] {
			if n.Phase != Reverted {
				t.Errorf("%s: %s is %v", want, n.Name, n.Phase)
			}
		}
		if all[0].Tick(r.now); all[0].Phase.exposed() {
			t.Errorf("%s: the first node still runs it", want)
		}
	}
}

// One failed node is left out, as the plan permits; the second one stops the roll.
func TestTooManyFailedNodes(t *testing.T) {
	r := newTestRoll(t, 6)
	if !r.run(func() bool { return r.nodes[0].Phase == Full && r.nodes[1].Phase == Full }) {
		t.Fatal(r.phases())
	}
	r.nodes[0].Refused = "it lost its disk"
	if !r.run(func() bool { return r.Nodes[r.nodes[0].Name].Failed != "" }) || r.State != Running {
		t.Fatalf("%s, %v %q", r.phases(), r.State, r.Why)
	}
	if r.run(func() bool { return r.State == Stopped || r.nodes[1].Phase == Full && r.nodes[2].Phase == Full }); r.State == Stopped {
		t.Fatalf("%s, %q", r.phases(), r.Why)
	}
	r.nodes[1].Refused = "it lost its disk too"
	if !r.run(func() bool { return r.State == Stopped }) || r.Why != "2 nodes failed, more than 1" {
		t.Errorf("%s, %v %q", r.phases(), r.State, r.Why)
	}
}

// Too many silent nodes hold a roll; when they are back it goes on.
func TestRollIsHeld(t *testing.T) {
	r := newTestRoll(t, 6)
	away := r.nodes[4:]
	r.nodes = r.nodes[:4]
	if r.run(func() bool { return r.nodes[0].Phase == Full }) || !strings.Contains(r.Why, "held: 2 nodes are silent, more than 1") {
		t.Errorf("%s, %q", r.phases(), r.Why)
	}
	r.nodes = append(r.nodes, away...)
	if !r.run(func() bool { return r.State == Done }) || r.phases() != "cccccc" {
		t.Errorf("%s, %v %q", r.phases(), r.State, r.Why)
	}
}

// While a node that runs the update is silent, nobody runs it.
func TestSilentNodeHoldsUpAll(t *testing.T) {
	r := newTestRoll(t, 4)
	if !r.run(func() bool { return r.nodes[0].Phase == Full && r.nodes[1].Phase == Full }) {
		t.Fatal(r.phases())
	}
	silent := r.nodes[0]
	r.nodes = r.nodes[1:]
	began := r.now
	if !r.run(func() bool { return !r.nodes[0].Phase.exposed() }) || r.now-began > simTimes.Fresh+second {
		t.Errorf("after %v: %s", r.now-began, r.phases())
	}
	r.nodes = append([]*Node{silent}, r.nodes...)
	if !r.run(func() bool { return r.State == Done }) {
		t.Errorf("%s, %v %q", r.phases(), r.State, r.Why)
	}
}

// A node that was left out while it is silent may be harmed: it still holds up all, and
// stops the roll if it stays silent.
func TestLeftOutNodeIsNotForgotten(t *testing.T) {
	for _, back := range []bool{true, false} {
		r := newTestRoll(t, 4)
		if !r.run(func() bool { return r.nodes[0].Phase == Full && r.nodes[1].Phase == Full }) {
			t.Fatal(r.phases())
		}
		out := r.nodes[0]
		r.fail(r.Nodes[out.Name], "it does not follow")
		r.nodes = r.nodes[1:]
		if !r.run(func() bool { return !r.nodes[0].Phase.exposed() }) {
			t.Errorf("the others run on: %s", r.phases())
		}
		if !back {
			if !r.run(func() bool { return r.State == Stopped }) || !strings.Contains(r.Why, "a: it was silent") {
				t.Errorf("%v, %q", r.State, r.Why)
			}
			continue
		}
		r.nodes = append(r.nodes, out)
		if r.run(func() bool { return r.nodes[0].Phase == Full && out.Phase != Leaving }) {
			t.Errorf("the others run before it has left: %s", r.phases())
		}
		out.Drained()
		if !r.run(func() bool { return r.State == Done }) || out.Phase != Reverted {
			t.Errorf("%s, %v %q", r.phases(), r.State, r.Why)
		}
	}
}

// A node that says it committed what nobody ordered, and one without a module for its
// kernel, get nothing.
func TestNodesThatGetNothing(t *testing.T) {
	r := newTestRoll(t, 4)
	r.nodes[1].Fits = false
	if !r.run(func() bool { return r.nodes[0].Phase == Full }) {
		t.Fatal(r.phases())
	}
	r.nodes[0].Phase = Committed
	if !r.run(func() bool { return r.State == Stopped }) || !strings.Contains(r.Nodes["a"].Failed, "nobody ordered that") {
		t.Errorf("%v %q, %q", r.State, r.Why, r.Nodes["a"].Failed)
	}
	if r.Nodes["b"].Chosen || r.nodes[1].Phase.exposed() {
		t.Error("a node without a module for its kernel was chosen")
	}
}

// Before a roll commits, each node must have been well after all had their time.
func TestCommitNeedsEachNode(t *testing.T) {
	r := newTestRoll(t, 3)
	if !r.run(func() bool { return r.State == Confirming }) {
		t.Fatalf("%s, %v", r.phases(), r.State)
	}
	m := r.Nodes["b"]
	m.Heard = r.Decided - 1
	r.confirm(r.now)
	if r.State != Confirming {
		t.Error("committed without a report of b after the decision")
	}
	for _, m := range r.Nodes {
		m.Heard = r.Decided
	}
	m.Last.Phase = Loaded
	if r.confirm(r.now); r.State != Confirming {
		t.Error("committed while no call of b enters the update")
	}
	m.Last.Phase = Full
	if r.confirm(r.now); r.State != Committing {
		t.Errorf("all were well after the decision, and the roll is %v", r.State)
	}
}

// That a report comes says nothing: it may have been on its way for long. What counts is
// the hub's time that the node had heard.
func TestLateReportIsNoSignOfHealth(t *testing.T) {
	r := newTestRoll(t, 3)
	if !r.run(func() bool { return r.nodes[0].Phase == Canary }) {
		t.Fatal(r.phases())
	}
	heard := r.Nodes["a"].Heard
	for range 6 {
		r.now += second / 2
		report := r.nodes[0].Report(r.now)
		report.Heard = heard
		if o := r.Report(r.now, report); o.Grant != (heard+simTimes.Fresh > r.now) {
			t.Errorf("heard %v, and at %v granted: %v", heard, r.now, o.Grant)
		}
	}
}

// After a harm nobody catches up, and those that are catching up revert.
func TestHarmEndsCatchingUp(t *testing.T) {
	r := newTestRoll(t, 3)
	if !r.run(func() bool { return r.State == Done }) {
		t.Fatal(r.phases())
	}
	r.Plan.MaxUnavailable = 2
	for _, name := range []string{"x", "y"} {
		n, _ := newTestNode()
		n.Name = name
		r.nodes = append(r.nodes, n)
	}
	x, y := r.nodes[3], r.nodes[4]
	if !r.run(func() bool { return x.Phase.exposed() && y.Phase.exposed() }) {
		t.Fatal(r.phases())
	}
	x.Harm("WARN")
	if !r.run(func() bool { return y.Phase == Leaving }) || r.State != Done {
		t.Errorf("%s, %v", r.phases(), r.State)
	}
	y.Harm("oops")
	if !r.run(func() bool { return r.Nodes[y.Name].Failed == "oops" }) || r.Harmed != "x: WARN" {
		t.Errorf("the first node that was harmed: %q", r.Harmed)
	}
	late, _ := newTestNode()
	late.Name = "z"
	r.nodes = append(r.nodes, late)
	if r.run(func() bool { return late.Phase >= Canary }) {
		t.Errorf("a node got what harmed another: %s", r.phases())
	}
}

// A superseded update leaves without harm, also if the node boots while it drains.
func TestSupersededIsNoHarm(t *testing.T) {
	h := NewHub(Plan{Waves: []Wave{{Percent: 100}}, Times: DefaultTimes}, []string{"a"})
	h.State = Done
	h.Nodes["a"] = &Member{Goal: Committed, Chosen: true, Last: Report{Boot: "1", Stamp: 1, Phase: Committed}}
	h.Report(time.Second, Report{Node: "a", Boot: "1", Stamp: 2, Phase: Leaving, Superseded: "superseded by b"})
	h.Report(2*time.Second, Report{Node: "a", Boot: "2", Stamp: 1, Phase: None, Superseded: "superseded by b"})
	if m := h.Nodes["a"]; m.Failed != "superseded by b" || h.Blocked || h.State != Done {
		t.Errorf("%q, blocked %v, %v", m.Failed, h.Blocked, h.State)
	}
}
