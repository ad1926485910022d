// SPDX-License-Identifier: MIT

package hub

import (
	"testing"
	"time"

	"skep/grid/proto"
)

// A hub that was stopped heard nobody, which is no silence of its nodes: they keep their calls, also
// those that it adopted from an earlier hub, and their identities.
func TestStoppedHubLosesNoNode(t *testing.T) {
	stopped := &clock{}
	w, m, a := newTrio(t, func(c *Config) { c.look, c.Keep = stopped.now, true }, 1)
	m.call(5, []byte("x"))
	first := a.nextLease()
	sleep := func() {
		// Both at once, so that no look falls between them.
		w.hub.mu.Lock()
		w.clock.advance(time.Hour)
		stopped.advance(time.Hour)
		w.hub.mu.Unlock()
	}
	sleep()
	b := w.startAgent(1) // by its hello the hub has looked
	if c, _ := w.hub.identityHolder(a.node.ID(), "another"); c == nil {
		t.Error("a copy of a node's identity is admitted")
	}
	a.sendVerb(proto.VerbBeat, proto.Beat{Running: []uint64{}}, nil) // sent before the lease came
	if n := w.hub.Nodes(); n[0].State != NodeUp || n[1].State != NodeUp {
		t.Errorf("%+v", n)
	}
	a.sendDone(first, []byte("right"))
	if r, got := m.readResult(5); string(got) != "right" || r.Attempt != 1 {
		t.Errorf("%+v %q", r, got)
	}
	if len(b.leases)+len(a.cancels) > 0 {
		t.Error("a call ran twice")
	}
	// A node that is silent while the hub runs is still found.
	m.call(6, nil)
	b.nextLease()
	w.clock.advance(13 * time.Second)
	waitUntil(t, "silent", func() bool { return w.hub.Nodes()[0].State == NodeSilent })
}

// So are leases that the hub adopted.
func TestStoppedHubLosesNoAdoptedCall(t *testing.T) {
	stopped := &clock{}
	w, m, a := newTrio(t, func(c *Config) { c.look, c.Keep = stopped.now, true }, 1)
	m.call(7, nil)
	l := a.nextLease()
	w.crash(nil)
	r := w.returnMaster(m)
	r.call(7, nil)
	a.returnAgent(0, carriedLease(l))
	receiveFrom(t, "a resume", a.resumes)
	w.hub.mu.Lock()
	w.clock.advance(time.Hour)
	stopped.advance(time.Hour)
	w.hub.mu.Unlock()
	b := w.startAgent(1)
	a.sendVerb(proto.VerbBeat, proto.Beat{Running: []uint64{}}, nil)
	a.sendDone(l, []byte("right"))
	if got := r.readData(7); got != "right" {
		t.Errorf("%q", got)
	}
	if len(b.leases) > 0 {
		t.Error("a call ran twice")
	}
}
