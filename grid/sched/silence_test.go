// SPDX-License-Identifier: MIT

package sched

import (
	"testing"
	"time"
)

// Time in which the caller did not run is no silence of a node, no absence of a lease, and no time
// in which a call found no node. What comes after it counts.
func TestSleepIsNoSilence(t *testing.T) {
	s, now := New(Config{}), time.Unix(1000, 0)
	do := func(ev Event) (got []Action) {
		for _, a := range s.Handle(now, ev) {
			switch a.(type) {
			case MarkSilent, Requeued, FailCall:
				got = append(got, a)
			}
		}
		return got
	}
	do(NodeUp{Node: "a", Slots: 1, Memory: 10})
	do(SessionOpen{Session: 1})
	do(Ask{Node: "a", Slots: 1, Memory: 10})
	do(CallQueued{Call: 1, Session: 1})
	do(CallQueued{Call: 2, Session: 1, Memory: 11})
	for range 2 {
		now = now.Add(time.Hour)
		do(Slept{time.Hour})
		for _, ev := range []Event{Tick{}, Beat{Node: "a", Leases: []Fence{}}, Tick{}} {
			if got := do(ev); len(got) > 0 {
				t.Fatalf("after %T: %+v", ev, got)
			}
		}
	}
	now = now.Add(8 * time.Second)
	if got := do(Beat{Node: "a", Leases: []Fence{}}); len(got) != 1 {
		t.Errorf("a lease that is absent: %+v", got)
	}
	now = now.Add(time.Minute)
	if got := do(Tick{}); len(got) != 1 {
		t.Errorf("a node that is silent: %+v", got)
	}
	do(Beat{Node: "a", Leases: []Fence{}})
	if got := do(Tick{}); len(got) != 1 {
		t.Errorf("a call that fits nowhere: %+v", got)
	}
	// A longer time than that of the silence does not lengthen the next one.
	do(Slept{time.Hour})
	now = now.Add(12 * time.Second)
	if got := do(Tick{}); len(got) != 1 {
		t.Errorf("a node that is silent again: %+v", got)
	}
}
