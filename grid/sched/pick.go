// SPDX-License-Identifier: MIT

package sched

import (
	"cmp"
	"slices"
)

// scanMax limits how many waiting calls of a session are tried if the first ones fit
// no node. The calls of one session rarely differ in what they need.
const scanMax = 256

// assignCalls grants leases until nothing fits: first free slots to the sessions that
// own them, then the other free slots, then places ahead at busy nodes, then leases
// that idle nodes can take over. Running calls are compared with the clock only on a
// tick, because that visits every lease.
func (s *Scheduler) assignCalls(tick bool) {
	s.countFresh()
	s.grantInner()
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
// whichever call ends first, so it needs no more memory than each of them. A call for which
// another waits must not wait for that one's end.
func (n *node) fitsAhead(c *call) bool {
	if c.long || c.inner || !n.shown[c.work] {
		return false
	}
	for _, l := range n.running {
		if l.call.memory < c.memory {
			return false
		}
	}
	return true
}

// open reports whether the node can take another lease, running or ahead, before the
// call is known.
func (n *node) open(ahead bool) bool {
	if ahead {
		return n.takes() && n.countSeated() >= n.slots && len(n.ahead) < n.countSeated()
	}
	return n.takes() && n.want > 0 && n.countSeated() < n.slots
}

// grantOne grants one waiting call: the oldest one that fits somewhere, of the session
// with the smallest share. It reports whether it granted one.
func (s *Scheduler) grantOne(fits func(*node, *call) bool, seat func(*node, *session) *seat, ahead bool) bool {
	if s.countWaiting(); !s.anyWaits() {
		return false
	}
	if !ahead && len(s.open.free) == 0 || ahead && len(s.open.ready) == 0 {
		return false
	}
	for _, ss := range s.byShare() {
		if !ahead && ss.user.isFull() {
			continue
		}
		seated := s.seatedNodes(ss, seat, ahead)
		var none []int // kinds that fit nowhere
		for i := range min(ss.queue.len(), scanMax) {
			c := ss.queue.at(i)
			if c.isPlain() && slices.Contains(none, c.kind) {
				continue
			}
			if !ahead && len(seated(c)) == 0 {
				break // for none of its calls is there a seat
			}
			if n := s.bestNode(seated(c), c, fits); n != nil {
				s.grantCall(n, c, ahead, true)
				ss.queue.remove(c) // only now: grantCall's choice of a seat depends on the queue
				return true
			}
			if c.isPlain() {
				none = append(none, c.kind)
			}
		}
	}
	return false
}

// seatedNodes returns a function that lists the nodes where a call of ss may take a seat.
func (s *Scheduler) seatedNodes(ss *session, seat func(*node, *session) *seat, ahead bool) func(*call) []*node {
	found := map[work][]*node{}
	return func(c *call) []*node {
		key, nodes := work{}, s.open.free // the same for all calls
		if ahead {
			key, nodes = c.work, s.open.ready[c.work]
		}
		list, ok := found[key]
		if ok {
			return list
		}
		s.looks += len(nodes)
		for _, n := range nodes {
			if seat(n, ss) != nil {
				list = append(list, n)
			}
		}
		found[key] = list
		return list
	}
}

// A kind is what a call needs of a node. Of calls with the same kind, one that fits
// nowhere needs no other try.
type kind struct {
	work   work
	worker Worker
	memory uint64
	backs  bool
	inner  bool
}

// kindsMax bounds what a session remembers. After that equal calls may have two numbers.
const kindsMax = 1024

// kindOf numbers the kind of a call.
func (ss *session) kindOf(c *call) int {
	k := kind{c.work, c.worker, c.memory, c.backs, c.inner}
	n, ok := ss.kinds[k]
	if !ok {
		if len(ss.kinds) >= kindsMax {
			clear(ss.kinds)
		}
		ss.kindLast++
		n = ss.kindLast
		ss.kinds[k] = n
	}
	return n
}

// isPlain reports whether the kind of a call says all that it needs of a node.
func (c *call) isPlain() bool { return c.only == "" && len(c.ends)+len(c.leases) == 0 }

// byShare returns the sessions with waiting calls, those of the user with the smallest share
// first; see user.compare. Those of one user are in the order of session.compare.
func (s *Scheduler) byShare() []*session {
	var list []*session
	for _, ss := range s.sessions {
		if ss.queue.len() > 0 {
			list = append(list, ss)
		}
	}
	slices.SortStableFunc(list, func(a, b *session) int {
		if a.user != b.user {
			return a.user.compare(b.user, s.now)
		}
		return a.compare(b)
	})
	return list
}

// compare orders sessions of one user: the greatest priority first, then by their slots, then by
// the time they were served, then by their last grant.
func (ss *session) compare(o *session) int {
	return cmp.Or(cmp.Compare(o.rank, ss.rank), cmp.Compare(ss.slots(), o.slots()), cmp.Compare(ss.served, o.served), cmp.Compare(ss.last, o.last))
}

// bestNode chooses a node for c: one that holds most of its data, since data is larger than
// programs; else one with an idle worker for it, else one that holds its blobs, else the one with
// the oldest last grant.
func (s *Scheduler) bestNode(nodes []*node, c *call, fits func(*node, *call) bool) *node {
	var best *node
	rank := -1
	for _, n := range nodes {
		if !fits(n, c) || s.isAvoided(n, c) || c.runsOn(n) {
			continue
		}
		r := 3 * n.countHeld(c.data)
		if n.idle[c.idleWorker()] > 0 {
			r += 2
		} else if n.hasWorker(c.worker) {
			r++
		}
		if r > rank || r == rank && n.last < best.last {
			best, rank = n, r
		}
	}
	return best
}

// isAvoided reports whether c must not run on n now. A node where the call failed is
// avoided for Config.Avoid, or only for Config.Again if the call failed on all nodes
// that take work and may run it.
func (s *Scheduler) isAvoided(n *node, c *call) bool {
	if !c.mayRun(n) {
		return true
	}
	if len(c.ends) == 0 {
		return false
	}
	span := s.cfg.Again
	if slices.ContainsFunc(s.nodes, func(o *node) bool { return o != n && o.takes() && c.mayRun(o) && !c.endedOn(o) }) {
		span = s.cfg.Avoid
	}
	return slices.ContainsFunc(c.ends, func(e end) bool {
		return e.node == n.id && s.now.Sub(e.at) < span
	})
}

// mayRun reports whether the program has not excluded the node: by binding the call to another,
// or by a selector.
func (c *call) mayRun(n *node) bool {
	return (c.only == "" || c.only == n.id) && (n.apart || c.session.user.id == "") && (n.backs || !c.backs) && c.session.on.Matches(&n.about)
}

func (c *call) endedOn(n *node) bool {
	return slices.ContainsFunc(c.ends, func(e end) bool { return e.node == n.id })
}

func (n *node) hasWorker(w Worker) bool {
	return n.held[w.Module] && (w.Init == Digest{} || n.held[w.Init])
}

func (n *node) countHeld(list []Digest) (count int) {
	for _, d := range list {
		if n.held[d] {
			count++
		}
	}
	return count
}

func (c *call) runsOn(n *node) bool {
	return slices.ContainsFunc(c.leases, func(l *lease) bool { return l.node == n })
}

// newLease makes a lease of c for n.
func (s *Scheduler) newLease(n *node, c *call, ahead, turn bool) *lease {
	s.fence++
	s.grants++
	c.grants++
	l := &lease{
		Lease: Lease{
			Call: c.id, Fence: s.fence, Node: n.id, Session: c.session.id,
			Attempt: c.grants, Ahead: ahead, Copy: len(c.leases) > 0,
		},
		call: c, node: n, turn: turn, found: n.idle[c.idleWorker()] > 0,
		granted: s.now, started: s.now, seen: s.now,
	}
	n.last, c.session.last, c.session.user.last = s.grants, s.grants, s.grants
	c.leases = append(c.leases, l)
	return l
}

// grantCall grants c to n. turn says that the session was chosen by its share, so that
// a new quantum begins if the old one is over.
func (s *Scheduler) grantCall(n *node, c *call, ahead, turn bool) {
	l := s.newLease(n, c, ahead, turn)
	if ahead {
		s.queueForSeat(l)
		n.ahead = append(n.ahead, l)
		s.ahead++
	} else {
		s.runLease(l)
		n.want--
		s.takeSeat(l)
	}
	s.sendLease(l)
}

// runLease takes the memory of a lease.
func (s *Scheduler) runLease(l *lease) {
	n := l.node
	n.running = append(n.running, l)
	n.used += l.call.memory
	n.spare -= l.call.memory
}

// sendLease grants a lease; its node will then hold what the call needs.
func (s *Scheduler) sendLease(l *lease) {
	n, c := l.node, l.call
	n.held[c.worker.Module] = true
	for _, d := range c.data {
		n.held[d] = true
	}
	if c.worker.Init != (Digest{}) {
		n.held[c.worker.Init] = true
	}
	s.open.update(n)
	s.emit(Grant{l.Lease})
}
