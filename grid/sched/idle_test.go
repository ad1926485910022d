// SPDX-License-Identifier: MIT

package sched

import (
	"testing"
	"time"
)

// takeIdlePairs is the reference for takeIdle. It compares each lease with each idle
// node.
func (s *Scheduler) takeIdlePairs(tick bool) {
	for {
		var victim *lease
		var target *node
		for _, n := range s.nodes {
			if n.isUsable() && len(n.running) == 0 && n.want > 0 {
				if l := s.bestFor(n, tick); l != nil && (victim == nil || isBetter(l, victim)) {
					victim, target = l, n
				}
			}
		}
		if victim == nil {
			return
		}
		if victim.Ahead {
			s.emit(Cancel{victim.Lease})
			s.removeLease(victim)
		}
		s.grantCall(target, victim.call, false, true)
	}
}

func (s *Scheduler) bestFor(n *node, tick bool) (best *lease) {
	for _, o := range s.nodes {
		for _, l := range o.all() {
			c := l.call
			s.steps++
			if o == n || c.session.queue.len() > 0 || !s.hasRoom(n, c) ||
				c.runsOn(n) || s.isAvoided(n, c) || !l.Ahead && (!tick || !s.isSlow(l)) {
				continue
			}
			if best == nil || isBetter(l, best) {
				best = l
			}
		}
	}
	return best
}

// TestIdle_sameOrder: takeIdle grants idle nodes the same leases in the same order as
// the reference.
func TestIdle_sameOrder(t *testing.T) {
	moved := 0
	for seed := range uint64(160) {
		cfg := Config{Losses: 1 << 30, Copies: 2 + int(seed%3)}
		if seed%2 == 0 {
			cfg.Hold = 1
		} else {
			cfg.Hold, cfg.Quantum = 5*time.Second, time.Minute // seats stay reserved for long
		}
		m := newSim(t, seed)
		m.same = false // reserved seats break the fairness rule
		m.s, m.twin = New(cfg), New(cfg)
		m.twin.grantIdle = m.twin.takeIdlePairs
		inner := m.s.grantIdle
		m.s.grantIdle = func(tick bool) {
			before := m.s.grants
			inner(tick)
			moved += int(m.s.grants - before)
		}
		for id := range 3 {
			m.handle(SessionOpen{Session: SessionID(id + 1)})
		}
		for n := range 900 {
			if m.most = 300; n%100 > 40 { // repeatedly no new calls, as at the end of sessions
				m.most = 0
				for _, o := range m.nodes {
					if o.up && !o.mute && m.r.IntN(3) == 0 {
						m.askLeases(o)
					}
				}
			}
			m.step()
		}
	}
	if moved < 1000 {
		t.Errorf("only %d leases moved in all: this compares nothing", moved)
	}
}

// TestIdle_steps: half of the nodes run slow calls, the other half is idle. The number
// of steps grows linearly with the nodes.
func TestIdle_steps(t *testing.T) {
	t.Run("copies", func(t *testing.T) { idleSteps(t, 0) })
	t.Run("no idle node is large enough", func(t *testing.T) { idleSteps(t, 2<<30) })
}

func idleSteps(t *testing.T, memory uint64) {
	const half = 300
	s := New(Config{Hold: 1})
	s.Handle(epoch, SessionOpen{Session: 1})
	name := func(i int) NodeID { return NodeID(string(rune(0x4e00 + i))) }
	for i := range half {
		s.Handle(epoch, NodeUp{Node: name(i), Slots: 1, Memory: 2 << 30})
		s.Handle(epoch, Ask{Node: name(i), Slots: 1, Memory: 2 << 30})
		s.Handle(epoch, CallQueued{Call: CallID(i + 1), Session: 1, Memory: memory})
	}
	// One finished call sets the function's usual duration.
	s.Handle(epoch, CallDone{Node: name(0), Call: 1, Fence: 1, Duration: time.Second})
	for i := range half {
		s.Handle(epoch, NodeUp{Node: name(half + i), Slots: 1, Memory: 1 << 30})
		s.Handle(epoch, Ask{Node: name(half + i), Slots: 1, Memory: 1 << 30})
	}
	s.steps = 0
	copies := 0
	for _, a := range s.Handle(epoch.Add(10*time.Second), Tick{}) {
		if g, ok := a.(Grant); ok && g.Lease.Copy {
			copies++
		}
	}
	if (copies == 0) != (memory > 1<<30) {
		t.Fatalf("%d copies were granted", copies)
	}
	if s.steps > 20*half {
		t.Errorf("%d copies took %d steps for %d nodes", copies, s.steps, 2*half)
	}
}

// TestDurationIsLearned: each new duration of a function has a weight of one quarter.
// A result without a duration counts the time since the lease started.
func TestDurationIsLearned(t *testing.T) {
	s := New(Config{})
	s.now = epoch.Add(8 * time.Second)
	w, c := work{}, &call{session: &session{times: map[work]time.Duration{}}}
	n, l := &node{shown: map[work]bool{}}, &lease{call: c, started: epoch}
	for _, step := range []struct{ says, want time.Duration }{
		{0, 8 * time.Second}, {4 * time.Second, 7 * time.Second}, {0, 7250 * time.Millisecond}, {3250 * time.Millisecond, 6250 * time.Millisecond},
	} {
		s.learnDuration(n, l, step.says)
		if got := c.session.times[w]; got != step.want || !n.shown[w] {
			t.Errorf("after a call of %v a call usually takes %v, want %v", step.says, got, step.want)
		}
	}
}
