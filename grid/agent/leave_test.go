// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"os"
	"slices"
	"testing"
)

// A node that was asked to leave does so when no session, no worker that still ends, and
// no program is left.
func TestNodeLeavesWhenIdle(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		leave := make(chan os.Signal)
		close(leave)
		r.config.Leave = leave
		r.mustSucceed(r.start(fnLate, nil))
		left := make(chan bool, 1)
		go func() { left <- r.awaitLeave(t.Context()) }()
		r.execs["x"] = execution{cancel: func() {}}
		if r.stopIdle() {
			t.Fatal("it leaves a session and a program")
		}
		r.releaseSession("s")
		waitUntil(t, "the end of the session", func() bool {
			r.fake.mu.Lock()
			defer r.fake.mu.Unlock()
			return slices.Contains(r.fake.order, "released s")
		})
		if r.stopIdle() {
			t.Fatal("it leaves a program")
		}
		r.mustSucceed(r.start(fnLate, nil))
		r.mu.Lock()
		delete(r.execs, "x")
		r.mu.Unlock()
		if r.stopIdle() {
			t.Fatal("it leaves a session")
		}
		r.releaseSession("s")
		for !r.stopIdle() && t.Context().Err() == nil { // in no steps: they would hide that it is idle too early
		}
		r.fake.mu.Lock()
		defer r.fake.mu.Unlock()
		if want := []string{"written at exit", "released s", "written at exit", "released s"}; !slices.Equal(r.fake.order, want) {
			t.Errorf("it left after %q, want %q", r.fake.order, want)
		}
		if !r.stopped {
			t.Error("it is to leave, and takes calls")
		}
		if !<-left {
			t.Error("it does not leave")
		}
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if newRig(t, beeProgram(t), 1).awaitLeave(ended) {
		t.Error("a node that was never asked leaves")
	}
}
