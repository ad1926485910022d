// SPDX-License-Identifier: MIT

package sched

import "slices"

// A call may wait for calls that a function of its master makes. Its slot stays its session's,
// and its memory is used, but the node may run one more call in its place. Only such inner calls
// get these places: if others did, each of them could wait too, and there would be no end of
// waiting calls. So a waiting call always has a place for the call that it waits for, on its own
// node. As long as one inner call waits, a node all of whose calls wait has such a place.
type lend struct {
	fence   Fence
	session SessionID
}

func (s *Scheduler) setLend(e Lend) {
	n := s.byNode[e.Node]
	if n == nil {
		return
	}
	n.endLend(e.Fence)
	if e.On {
		n.lends = append(n.lends, lend{e.Fence, e.Session})
	}
	s.countBorrowed()
}

// EndLend forgets that a lease lends its place, which the scheduler does not know. It is no event,
// because a place less lets nothing begin.
func (s *Scheduler) EndLend(id NodeID, f Fence) {
	if n := s.byNode[id]; n != nil {
		n.endLend(f)
	}
}

// Lent returns how many leases of a node lend their places.
func (s *Scheduler) Lent(id NodeID) int {
	if n := s.byNode[id]; n != nil {
		return len(n.lends)
	}
	return 0
}

// endLend reports whether the lease lent its place.
func (n *node) endLend(f Fence) bool {
	before := len(n.lends)
	n.lends = slices.DeleteFunc(n.lends, func(l lend) bool { return l.fence == f })
	return len(n.lends) < before
}

// countSeated counts the running leases that have slots.
func (n *node) countSeated() int { return len(n.running) - n.extra }

// hasPlace reports whether fewer leases than were lent have lent places.
func (n *node) hasPlace() bool {
	return n.isUsable() && n.extra < len(n.lends)
}

// countBorrowed finds how many lent places the users with limits have beyond those that they lent
// themselves. A user all of whose calls wait has less than none, and so always gets one.
func (s *Scheduler) countBorrowed() {
	for _, u := range s.users {
		u.borrowed = 0
	}
	for _, n := range s.nodes {
		if len(n.lends) == 0 && n.extra == 0 {
			continue
		}
		for _, l := range n.running {
			u := l.call.session.user
			if l.Extra {
				u.borrowed++
			}
			if slices.ContainsFunc(n.lends, func(o lend) bool { return o.fence == l.Fence }) {
				u.borrowed--
			}
		}
	}
}

// grantInner gives lent places to inner calls: the oldest of a session that lends there, else the
// oldest of all. A drained node gives them too, because what runs there ends only after them.
func (s *Scheduler) grantInner() {
	if len(s.inner) == 0 {
		return
	}
	for _, n := range s.nodes {
		for n.hasPlace() {
			c := s.firstInner(n)
			if c == nil {
				break
			}
			l := s.newLease(n, c, false, false)
			l.Extra = true
			n.extra++
			s.runLease(l)
			s.countBorrowed()
			if key := c.idleWorker(); n.idle[key] > 0 {
				n.idle[key]--
			}
			c.session.queue.remove(c)
			s.sendLease(l)
		}
	}
}

func (s *Scheduler) firstInner(n *node) (other *call) {
	for _, c := range s.inner {
		switch {
		case len(c.leases) > 0 || !n.hasMemory(c) || s.isAvoided(n, c) || c.session.user.isBusy():
		case slices.ContainsFunc(n.lends, func(l lend) bool { return l.session == c.session.id }):
			return c
		case other == nil:
			other = c
		}
	}
	return other
}

func (s *Scheduler) dropInner(c *call) {
	if c.inner {
		s.inner = slices.DeleteFunc(s.inner, func(o *call) bool { return o == c })
	}
}

// mayGetRoom reports whether the memory for an inner call is free, or something runs that may end
// without it.
func (n *node) mayGetRoom(c *call) bool {
	return n.isUsable() && (n.hasMemory(c) || slices.ContainsFunc(n.running, func(l *lease) bool {
		return !slices.ContainsFunc(n.lends, func(o lend) bool { return o.fence == l.Fence })
	}))
}
