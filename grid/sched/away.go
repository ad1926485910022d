// SPDX-License-Identifier: MIT

package sched

// A node is away when its connection broke or it is silent. What it runs goes on, and it may come
// back. So its leases are kept for Config.Keep, and its results count if it brings them by then.
// Meanwhile it gets no more leases. As it may also be dead, its calls may soon begin on other
// nodes too, but those that nothing may run twice; the first result ends both leases.

// nodeAway notes that the connection of a node ended. If it was silent before, its time goes on.
func (s *Scheduler) nodeAway(id NodeID) {
	n := s.byNode[id]
	if n == nil || n.away {
		return
	}
	if !n.silent {
		n.since, n.offered = s.now, false
	}
	n.away, n.silent = true, false
	s.open.update(n)
}

// watchAway ends the time of a node that is away, or has its calls begin elsewhere too. A silent
// node was waited for already.
func (s *Scheduler) watchAway(n *node) {
	if !n.away && (!n.silent || n.lost) {
		return
	}
	passed := s.now.Sub(n.since)
	switch {
	case passed >= s.cfg.Keep:
		n.lost = true
		s.emit(MarkLost{n.id})
		if n.away {
			s.nodeDown(n.id)
			return
		}
		s.loseNode(n, "its node is silent")
	case !n.offered && (n.silent || passed >= s.cfg.Offer):
		n.offered = true
		for _, l := range n.all() {
			s.offerCall(l)
		}
	}
}

// offerCall queues a call whose lease is kept. One that may call its master has one lease at a
// time, so it loses that if it may begin anew.
func (s *Scheduler) offerCall(l *lease) {
	c, why := l.call, "its node is away"
	if l.node.silent {
		why = "its node is silent"
	}
	switch {
	case c.once != "" || c.long || c.only != "" || len(c.leases) > 1:
	case c.backs:
		s.removeLease(l)
		s.loseLease(l, why)
	default:
		s.emit(Offered{l.Lease, why})
		c.session.queue.add(c)
	}
}

// takeBack ends the time for which a node was away. What was offered and has not begun elsewhere
// waits for no other node.
func (s *Scheduler) takeBack(n *node) {
	n.away, n.silent, n.lost = false, false, false
	for _, l := range n.all() {
		l.call.session.queue.remove(l.call)
	}
	s.open.update(n)
}

// nodeBack takes back a node that says which leases it still has. The others are lost.
func (s *Scheduler) nodeBack(n *node, e NodeUp) {
	n.heard, n.want = s.now, 0
	n.memory, n.about, n.apart, n.backs = e.Memory, e.About, e.Apart, e.Callbacks
	s.takeBack(n)
	has := map[Fence]bool{}
	for _, f := range e.Leases {
		has[f] = true
	}
	for _, l := range n.all() {
		if l.seen = s.now; !has[l.Fence] {
			s.removeLease(l)
			s.loseLease(l, "its node does not know of it")
		}
	}
}
