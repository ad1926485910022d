// SPDX-License-Identifier: MIT

package sched

import (
	"cmp"
	"math"
	"slices"
)

// scanMax bounds how many waiting calls of a session are looked at when the
// first ones fit no node; they differ rarely.
const scanMax = 256

// assignCalls grants until nothing fits: free slots first, to those who have them
// already, then what may wait at a busy node, then what an idle node can take
// over near the end. Calls that run are compared with the clock only on a tick:
// it costs nodes times leases.
func (s *Scheduler) assignCalls(tick bool) {
	s.countFresh()
	s.grantSeated()
	for s.grantOne((*node).hasMemory, s.seatFor, false) {
	}
	for s.grantOne((*node).fitsAhead, s.seatAfter, true) {
	}
	if tick || s.ahead > 0 {
		s.grantIdle(tick)
	}
	s.wakeUp()
}

// hasRoom reports whether a slot and the memory for c are free now.
func (s *Scheduler) hasRoom(n *node, c *call) bool {
	return n.open(false) && n.hasMemory(c) && s.seatFor(n, c.session) != nil
}

// hasMemory reports whether the memory for c is free now.
func (n *node) hasMemory(c *call) bool {
	return c.memory <= n.spare && c.memory <= n.memory-min(n.used, n.memory)
}

// fitsAhead reports whether c may wait at a busy node. It must fit in the place of
// whichever call ends first, so it needs no more memory than each of them.
func (n *node) fitsAhead(c *call) bool {
	if !n.shown[c.work] {
		return false
	}
	for _, l := range n.running {
		if l.call.memory < c.memory {
			return false
		}
	}
	return true
}

// open is what is asked before a call is known.
func (n *node) open(ahead bool) bool {
	if ahead {
		return n.isUsable() && len(n.running) >= n.slots && len(n.ahead) < len(n.running)
	}
	return n.isUsable() && n.want > 0 && len(n.running) < n.slots
}

// grantOne grants one waiting call: of the session with the smallest share the
// oldest that fits somewhere. It says whether it did.
func (s *Scheduler) grantOne(fits func(*node, *call) bool, seat func(*node, *session) *seat, ahead bool) bool {
	if s.least = s.leastHolds(); s.least == math.MaxInt {
		return false // nobody waits
	}
	var nodes []*node
	for _, n := range s.nodes {
		if n.open(ahead) {
			nodes = append(nodes, n)
		}
	}
	if len(nodes) == 0 {
		return false
	}
	for _, ss := range s.byShare() {
		var seated []*node
		for _, n := range nodes {
			if seat(n, ss) != nil {
				seated = append(seated, n)
			}
		}
		for i := range min(ss.queue.len(), scanMax) {
			if len(seated) == 0 {
				break
			}
			c := ss.queue.at(i)
			if n := s.bestNode(seated, c, fits); n != nil {
				s.grantCall(n, c, ahead, true)
				ss.queue.remove(c) // what is waiting decides about seats
				return true
			}
		}
	}
	return false
}

// byShare returns the sessions that wait, the one for which the fewest leases run
// first; among equals the one that had the least time, or was served longest ago.
func (s *Scheduler) byShare() []*session {
	var list []*session
	for _, ss := range s.sessions {
		if ss.queue.len() > 0 {
			list = append(list, ss)
		}
	}
	slices.SortStableFunc(list, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.slots(), b.slots()), cmp.Compare(a.served, b.served), cmp.Compare(a.last, b.last))
	})
	return list
}

// bestNode chooses a node for c: one with an idle worker for it, then one that
// holds its blobs, then the one that was used longest ago.
func (s *Scheduler) bestNode(nodes []*node, c *call, fits func(*node, *call) bool) *node {
	var best *node
	rank := -1
	for _, n := range nodes {
		if !fits(n, c) || s.isAvoided(n, c) || c.runsOn(n) {
			continue
		}
		r := 0
		if n.idle[c.idleWorker()] > 0 {
			r = 2
		} else if n.hasWorker(c.worker) {
			r = 1
		}
		if r > rank || r == rank && n.last < best.last {
			best, rank = n, r
		}
	}
	return best
}

// isAvoided is true for a while on a node where this call failed: long enough to
// let another node have it, or a moment where there is no other. It is always true on
// other nodes than the one that the call is bound to.
func (s *Scheduler) isAvoided(n *node, c *call) bool {
	if c.only != "" && c.only != n.id {
		return true
	}
	span := s.cfg.Again
	if slices.ContainsFunc(s.nodes, func(o *node) bool { return o != n && o.isUsable() && !c.endedOn(o) }) {
		span = s.cfg.Avoid
	}
	return slices.ContainsFunc(c.ends, func(e end) bool {
		return e.node == n.id && s.now.Sub(e.at) < span
	})
}

func (c *call) endedOn(n *node) bool {
	return slices.ContainsFunc(c.ends, func(e end) bool { return e.node == n.id })
}

func (n *node) hasWorker(w Worker) bool {
	return n.held[w.Module] && (w.Init == Digest{} || n.held[w.Init])
}

func (c *call) runsOn(n *node) bool {
	return slices.ContainsFunc(c.leases, func(l *lease) bool { return l.node == n })
}

// grantCall gives c to n. turn: the session was chosen before others, so a new
// quantum begins when the old one is over.
func (s *Scheduler) grantCall(n *node, c *call, ahead, turn bool) {
	s.fence++
	s.grants++
	c.grants++
	l := &lease{
		Lease: Lease{
			Call: c.id, Fence: s.fence, Node: n.id, Session: c.session.id,
			Attempt: c.grants, Ahead: ahead, Copy: len(c.leases) > 0,
		},
		call: c, node: n, turn: turn,
		granted: s.now, started: s.now, seen: s.now,
	}
	n.last, c.session.last = s.grants, s.grants
	c.leases = append(c.leases, l)
	if ahead {
		s.queueForSeat(l)
		n.ahead = append(n.ahead, l)
		s.ahead++
	} else {
		n.running = append(n.running, l)
		n.used += c.memory
		n.want--
		n.spare -= c.memory
		s.takeSeat(l)
	}
	n.held[c.worker.Module] = true
	if c.worker.Init != (Digest{}) {
		n.held[c.worker.Init] = true
	}
	s.emit(Grant{l.Lease})
}
