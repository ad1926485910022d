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
