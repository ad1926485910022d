// SPDX-License-Identifier: MIT

package rolls

import (
	"slices"
	"testing"

	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
)

// logged returns who did what, of each line of the hub's audit log.
func (f *fleet) logged() (list []string) {
	f.t.Helper()
	a, err := f.hub.Audit("fix")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, line := range a.Lines {
		r, err := trust.ParseRecord(line)
		if err != nil {
			f.t.Fatal(err)
		}
		list = append(list, r.Who+" "+r.What)
	}
	return list
}

// Who pauses, resumes, stops or forgets a roll is in the log, and what the hub does itself.
func TestAuditOfActs(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	act := func(who, action string) {
		t.Helper()
		if err := f.hub.Act(who, "fix", action); err != nil {
			t.Fatal(err)
		}
	}
	act("user:1000:alice", ActionPause)
	if err := f.hub.NodeEvent("token", trust.VerbJoined, "b c"); err != nil {
		t.Fatal(err)
	}
	f.open() // the hub is started again
	act("user:1001:bob", ActionResume)
	act("user:0:root", ActionStop)
	act("user:0:root", ActionForget)
	want := []string{"user:7:test begun", "user:1000:alice paused", "token joined", "user:1001:bob resumed", "user:0:root stopped", "user:0:root forgotten"}
	f.begin(testSpec, "all") // the log goes on after the roll was forgotten
	f.nodes["a"].k.state, f.nodes["a"].k.end = OnTrial, ""
	f.awaitState(roll.Done)
	want = append(want, "user:7:test begun", "hub done")
	if got := f.logged(); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}
