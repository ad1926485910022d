// SPDX-License-Identifier: MIT

package roll

import (
	"strings"
	"testing"
	"time"
)

// What a node refused it does not try again, and what harmed it in an earlier boot it
// does not run.
func TestNodeTriesOnce(t *testing.T) {
	n, e := newTestNode()
	e.fail = "load"
	for i := range 3 {
		n.Obey(time.Duration(i+1)*second, Order{Boot: "1", Stamp: time.Duration(i+1) * second, Goal: Canary, Grant: true})
	}
	e.check(t, "a step that fails", "stage load")
	n, e = newTestNode()
	n.Bad = "the machine ended while it ran the update on trial"
	n.Obey(second, Order{Boot: "1", Stamp: second, Goal: Full, Grant: true})
	e.check(t, "harmed in an earlier boot", "")
}

// A wave has its whole time before the next one begins.
func TestWaveHasItsTime(t *testing.T) {
	r := newTestRoll(t, 4)
	if !r.run(func() bool { return r.nodes[0].Phase == Canary }) {
		t.Fatal(r.phases())
	}
	canary := r.now
	if !r.run(func() bool { return r.nodes[0].Phase == Full }) || r.now-canary < simTimes.Canary {
		t.Errorf("%s after %v in the first policy", r.phases(), r.now-canary)
	}
	full := r.now
	if !r.run(func() bool { return r.nodes[1].Phase == Canary }) || r.now-full < simTimes.Settle {
		t.Errorf("%s after %v in the whole policy", r.phases(), r.now-full)
	}
}

// A report that another one overtook changes nothing, and gets no order.
func TestOvertakenReport(t *testing.T) {
	r := newTestRoll(t, 3)
	if !r.run(func() bool { return r.nodes[0].Phase == Canary }) {
		t.Fatal(r.phases())
	}
	r.run(func() bool { return true })
	report := r.nodes[0].Report(r.now - second)
	report.Phase = Staged
	if o := r.Report(r.now, report); o != (Order{}) || r.Nodes["a"].Last.Phase != Canary {
		t.Errorf("%+v, %v", o, r.Nodes["a"].Last.Phase)
	}
}

// A hub that was away blames no node, and the roll goes on.
func TestHubThatWasAway(t *testing.T) {
	r := newTestRoll(t, 4)
	if !r.run(func() bool { return r.nodes[1].Phase == Full }) {
		t.Fatal(r.phases())
	}
	r.now += 10 * simTimes.Dead
	for _, n := range r.nodes {
		if n.Tick(r.now); n.Phase.exposed() {
			t.Errorf("without a hub %s runs the update", n.Name)
		}
	}
	r.Tick(r.now)
	if !r.run(func() bool { return r.State == Done }) {
		t.Errorf("%v, %q", r.State, r.Why)
	}
}

// Nodes that catch up do so a few at a time, and none without a module for its kernel.
func TestFewCatchUpAtATime(t *testing.T) {
	r := newTestRoll(t, 3)
	if !r.run(func() bool { return r.State == Done }) {
		t.Fatal(r.phases())
	}
	for _, name := range []string{"u", "v", "w"} {
		n, _ := newTestNode()
		n.Name, n.Fits = name, name != "u"
		r.nodes = append(r.nodes, n)
	}
	most := 0
	done := r.run(func() bool {
		running := 0
		for _, n := range r.nodes {
			if n.Phase.exposed() {
				running++
			}
		}
		most = max(most, running)
		return r.nodes[4].Phase == Committed && r.nodes[5].Phase == Committed
	})
	if !done || most != 1 || r.nodes[3].Phase >= Canary {
		t.Errorf("%s, %d at a time", r.phases(), most)
	}
}

// Machines may lock up when they load the update. Then those of one wave did, and the
// others never load it.
func TestMachineThatLocksUpAtLoad(t *testing.T) {
	r := newTestRoll(t, 4)
	if !r.run(func() bool { return r.nodes[0].Phase >= Loaded }) || r.phases() != "lsss" {
		t.Fatal(r.phases())
	}
	others, did := r.nodes[1:], false
	r.nodes = others
	stopped := r.run(func() bool {
		for _, n := range others {
			did = did || n.Phase >= Loaded && n.Phase != Reverted
		}
		return r.State == Stopped
	})
	if !stopped || did || !strings.Contains(r.Why, "a: it was silent while it loaded") {
		t.Errorf("%s, %v %q", r.phases(), r.State, r.Why)
	}
}

// A step that may succeed later is tried again, and is no refusal.
func TestNodeTriesLater(t *testing.T) {
	n, e := newTestNode()
	e.fail, e.later = "stage", true
	for i := range 2 {
		n.Obey(time.Duration(i+1)*second, Order{Boot: "1", Stamp: time.Duration(i+1) * second, Goal: Staged})
	}
	if e.check(t, "a step that fails for now", "stage stage"); n.Refused != "" || n.Phase != None {
		t.Errorf("%+v", n)
	}
	e.fail = ""
	n.Obey(3*second, Order{Boot: "1", Stamp: 3 * second, Goal: Staged})
	if e.check(t, "later", "stage"); n.Phase != Staged {
		t.Errorf("%v", n.Phase)
	}
}

// A lease is extended in the kernel by each order, and the time in the phase goes on.
func TestNodeExtendsItsLease(t *testing.T) {
	n, e := newTestNode()
	for i := range 4 {
		now := time.Duration(10+i) * second
		n.Obey(now, Order{Boot: "1", Stamp: now, Goal: Full, Grant: true})
	}
	if e.check(t, "four orders", "stage load node node node node"); e.until != 16*second {
		t.Errorf("the kernel's policy ends at %v", e.until)
	}
	if r := n.Report(13 * second); r.For != 3*second {
		t.Errorf("%v in the phase", r.For)
	}
}

// The first wave waits for nodes that still verify the package: its size depends on them.
// It does not wait for ever.
func TestFirstWaveWaitsForNodes(t *testing.T) {
	for _, c := range []struct {
		what  string
		last  Report
		waits time.Duration
	}{
		{"a node that was never heard", Report{}, simTimes.Dead},
		{"a node that fetches", Report{Boot: "1", Fits: true}, simTimes.Slow},
		{"a node for which there is no module", Report{Boot: "1"}, 0},
	} {
		r := newTestRoll(t, 3)
		r.nodes = r.nodes[:2]
		r.run(func() bool {
			if c.last.Boot != "" {
				c.last.Stamp = r.now
				r.Nodes["c"].Last, r.Nodes["c"].At = c.last, r.now
			}
			return r.Begun > 0
		})
		if late := r.now - r.First; late < c.waits || late > c.waits+3*second {
			t.Errorf("%s: the first wave began after %v, want %v", c.what, late, c.waits)
		}
	}
}

// A node that refused the package may take it after a boot, with another kernel.
func TestNodeThatRefusedBoots(t *testing.T) {
	h := NewHub(Plan{Waves: []Wave{{Percent: 100}}, Times: simTimes}, []string{"a"})
	h.Report(second, Report{Node: "a", Boot: "1", Stamp: second, Refused: "not for this kernel"})
	if m := h.Nodes["a"]; m.Failed == "" {
		t.Fatal("it did not refuse")
	}
	h.Report(2*second, Report{Node: "a", Boot: "1", Stamp: 2 * second})
	if m := h.Nodes["a"]; m.Failed == "" {
		t.Error("in the same boot it is asked again")
	}
	if o := h.Report(3*second, Report{Node: "a", Boot: "2", Stamp: second}); o.Goal != Staged || h.Nodes["a"].Failed != "" {
		t.Errorf("after a boot: %+v, %+v", o, h.Nodes["a"])
	}
	h.Report(4*second, Report{Node: "a", Boot: "3", Stamp: second, Bad: "WARN"})
	h.Nodes["a"].Failed = "WARN"
	if o := h.Report(5*second, Report{Node: "a", Boot: "4", Stamp: second, Bad: "WARN"}); o.Goal == Staged && h.Nodes["a"].Failed == "" {
		t.Errorf("a node that was harmed: %+v", o)
	}
}

// Who may run the update is asked at each order: a node that failed, that shall not run it or
// no longer, and any node of a roll that stopped, may not.
func TestWhoMayRun(t *testing.T) {
	for _, c := range []struct {
		what                 string
		m                    Member
		state                State
		runs, mayRun, grants bool
	}{
		{"a node that was not chosen", Member{Goal: Canary}, Running, false, false, true},
		{"the first policy", Member{Chosen: true, Goal: Canary}, Running, true, true, true},
		{"the whole policy", Member{Chosen: true, Goal: Full}, Running, true, true, true},
		{"the commit", Member{Chosen: true, Goal: Committed}, Running, true, true, true},
		{"committed", Member{Chosen: true, Goal: Committed, Last: Report{Phase: Committed}}, Running, false, false, true},
		{"a module that is loaded", Member{Chosen: true, Goal: Loaded}, Running, false, false, false},
		{"a node that reverts", Member{Chosen: true, Goal: Leaving}, Running, false, false, false},
		{"a roll that stopped", Member{Chosen: true, Goal: Full}, Stopped, true, true, false},
		{"a node that failed", Member{Chosen: true, Goal: Full, Failed: "x"}, Running, false, true, false},
		{"one that failed and reverted", Member{Chosen: true, Goal: Reverted, Failed: "x", Last: Report{Phase: Reverted}}, Running, false, false, false},
		{"one that failed when it had committed", Member{Chosen: true, Goal: Reverted, Failed: "x", Last: Report{Phase: Committed}}, Running, false, false, false},
		{"one that failed before it was chosen", Member{Goal: Reverted, Failed: "x"}, Running, false, false, false},
	} {
		h := &Hub{State: c.state, Plan: newTestRoll(t, 1).Plan}
		if got := c.m.runs(); got != c.runs {
			t.Errorf("%s runs it: %v", c.what, got)
		}
		if got := c.m.mayRun(); got != c.mayRun {
			t.Errorf("%s may run it: %v", c.what, got)
		}
		if got := h.grants(second, &c.m); got != c.grants {
			t.Errorf("%s is granted it: %v", c.what, got)
		}
	}
}

// When all had their time a roll can still be paused, and the sums over all nodes still count.
func TestConfirmingRollIsWatched(t *testing.T) {
	newConfirming := func() *testRoll {
		r := newTestRoll(t, 3)
		if !r.run(func() bool { return r.State == Confirming }) {
			t.Fatalf("%s, %v", r.phases(), r.State)
		}
		return r
	}
	r := newConfirming()
	r.Pause("to look")
	if r.run(func() bool { return r.State != Paused }) || r.Why != "to look" || r.phases() != "nnn" {
		t.Errorf("paused: %s, %v %q", r.phases(), r.State, r.Why)
	}
	r.Resume()
	if !r.run(func() bool { return r.State == Done }) || r.phases() != "ccc" {
		t.Errorf("resumed: %s, %v", r.phases(), r.State)
	}
	r = newConfirming()
	r.nodes[0].Health = Health{OldCalls: 10, NewCalls: 10, NewErrors: 2}
	if !r.run(func() bool { return r.State == Stopped }) || !strings.Contains(r.Why, "its calls fail more often") {
		t.Errorf("%s, %v %q", r.phases(), r.State, r.Why)
	}
}

// A boot is harm also while the module is only loaded: its code may have caused it.
func TestMachineThatBootsAtLoad(t *testing.T) {
	r := newTestRoll(t, 4)
	if !r.run(func() bool { return r.nodes[0].Phase == Loaded }) {
		t.Fatal(r.phases())
	}
	r.nodes[0].Boot, r.nodes[0].Phase = "2", None
	if !r.run(func() bool { return r.State == Stopped }) || !r.Blocked || !strings.Contains(r.Harmed, "a: it booted while it loaded") {
		t.Errorf("%s, %v %q", r.phases(), r.State, r.Harmed)
	}
}

// A report that comes twice says nothing new: not that its node is still there.
func TestReportThatComesTwice(t *testing.T) {
	r := newTestRoll(t, 2)
	report := r.nodes[0].Report(second)
	if o := r.Report(second, report); o.Stamp != second {
		t.Fatalf("%+v", o)
	}
	if o := r.Report(9*second, report); o != (Order{}) || r.Nodes["a"].At != second {
		t.Errorf("%+v; the last report came at %v", o, r.Nodes["a"].At)
	}
}

// A node that catches up has the times of a wave, and none catches up while a newer roll
// supersedes this one. A node that comes back with another kernel, in which nothing was on trial,
// was not harmed: it catches up.
func TestCatchingUpTakesItsTime(t *testing.T) {
	r := newTestRoll(t, 3)
	if !r.run(func() bool { return r.State == Done }) {
		t.Fatal(r.phases())
	}
	a := r.nodes[0]
	r.Held = true
	a.Boot, a.Phase = "2", None
	if r.run(func() bool { return a.Phase >= Loaded }) || r.Blocked || r.Nodes["a"].Failed != "" {
		t.Fatalf("held: %s, %q", r.phases(), r.Harmed)
	}
	r.Held = false
	if !r.run(func() bool { return a.Phase.exposed() }) {
		t.Fatal(r.phases())
	}
	began := r.now
	if !r.run(func() bool { return a.Phase == Committed }) || r.now-began < simTimes.Canary+simTimes.Settle {
		t.Errorf("%s, after %v", r.phases(), r.now-began)
	}
}
