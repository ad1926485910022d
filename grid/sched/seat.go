// SPDX-License-Identifier: MIT

package sched

import (
	"math"
	"slices"
	"time"
)

// A seat is one slot of a node. It belongs to the session that used it last, whose
// worker is still there; another session would have to end that worker and start its
// own. So a seat stays with a session for a quantum, unless a waiting session has
// fewer slots.
type seat struct {
	session *session
	started bool      // the session found no worker when its quantum began
	since   time.Time // when the session's quantum began
	left    time.Time // when its last lease ended
	lease   *lease    // the running lease; nil: free
	next    *lease    // the lease that runs when lease has ended
	fresh   bool      // free, and counted in session.fresh
}

// idleWorker names the worker that the call needs or leaves.
func (c *call) idleWorker() Idle { return Idle{c.session.id, c.worker} }

// takeSeat assigns a running lease to a seat of its node. The caller has found that
// there is a seat which the session may take. In between, idlePass.moveCalls may remove
// a lease that waits. This gives its session no more slots and no other session fewer
// slots, so the seat is still available.
func (s *Scheduler) takeSeat(l *lease) {
	s.setSeat(s.seatFor(l.node, l.call.session), l)
}

func (s *Scheduler) setSeat(t *seat, l *lease) {
	n, ss := l.node, l.call.session
	ss.addRuns(1, s.now)
	if key := l.call.idleWorker(); n.idle[key] > 0 {
		n.idle[key]--
	}
	s.clearFresh(t)
	if t.session != nil && t.lease == nil { // others could not use it meanwhile
		t.session.served += min(s.now.Sub(t.left), s.cfg.Hold)
	}
	if t.session != ss || l.turn && s.quantumOver(t) {
		t.started = !l.found
		t.session, t.since = ss, s.now
	}
	t.lease, l.seat = l, t
}

// leaveSeat frees the seat of a lease that ran. The lease that waits for the seat runs
// now; if there is none, the session keeps the seat.
func (s *Scheduler) leaveSeat(l *lease) {
	t, n := l.seat, l.node
	l.call.session.addRuns(-1, s.now)
	l.call.session.served += s.now.Sub(l.started)
	t.lease, t.left = nil, s.now
	next := t.next
	if next == nil || !n.up {
		s.fresh = append(s.fresh, t)
		return
	}
	next.endWait()
	n.ahead = slices.DeleteFunc(n.ahead, func(o *lease) bool { return o == next })
	s.ahead--
	n.running = append(n.running, next)
	n.used += next.call.memory
	next.Ahead, next.started = false, s.now
	s.setSeat(t, next)
}

// slots returns how many slots a session has: those where it runs a call, those that it
// just left, and the balance of those that it will get and lose when running calls end.
func (ss *session) slots() int { return ss.runs + ss.fresh + ss.gain }

// countFresh counts, for each session, the seats that it left within Config.Hold.
func (s *Scheduler) countFresh() {
	for _, t := range s.fresh {
		t.session.addFresh(-t.session.fresh)
		t.fresh = false
	}
	s.fresh = slices.DeleteFunc(s.fresh, func(t *seat) bool {
		return t.lease != nil || t.session.closed || s.now.Sub(t.left) >= s.cfg.Hold
	})
	for _, t := range s.fresh {
		t.session.addFresh(1)
		t.fresh = true
	}
	s.countWaiting()
	s.fresh = slices.DeleteFunc(s.fresh, func(t *seat) bool {
		over := s.quantumOver(t)
		if over {
			t.session.addFresh(-1)
			t.fresh = false
		}
		return over
	})
}

func (s *Scheduler) clearFresh(t *seat) {
	if at := slices.Index(s.fresh, t); at >= 0 {
		t.session.addFresh(-min(t.session.fresh, 1))
		t.fresh = false
		s.fresh = slices.Delete(s.fresh, at, at+1)
	}
}

func (s *Scheduler) freeSeat(t *seat) {
	s.clearFresh(t)
	t.session = nil
}

// seatFor returns a free seat that ss may take: its own, else one that is not reserved.
func (s *Scheduler) seatFor(n *node, ss *session) *seat {
	var free *seat
	for i := range n.seats {
		t := &n.seats[i]
		switch {
		case t.lease != nil:
		case t.session == ss:
			return t
		case ss.user.isServed() && (t.session == nil || t.session.user != ss.user):
		case !s.isReserved(t, ss) && (free == nil || t.since.Before(free.since)):
			free = t
		}
	}
	return free
}

// quantumOver reports whether the quantum of the seat's session is over. It lasts as long as
// no waiting session has fewer slots: otherwise two sessions that have a slot each would
// exchange them, and each would start another worker, at the end of each quantum. It is over
// at once if a session of its user with a greater priority waits.
func (s *Scheduler) quantumOver(t *seat) bool {
	ss, extra := t.session, 0
	if t.lease == nil && !t.fresh {
		extra = 1
	}
	if ss.isOutranked() {
		return true
	}
	return s.now.Sub(t.since) >= s.cfg.Turn &&
		(ss.leastWaiting() < ss.slots()+extra && s.turnOver(t, ss.user) || s.mustYield(t, extra))
}

// turnOver reports whether a seat has been its session's for long enough if a session of u comes
// next. The quantum pays for the start of a worker. A session that found a worker gets a shorter
// turn, which makes the shares even sooner, unless the next session of the same user was served
// for longer.
func (s *Scheduler) turnOver(t *seat, u *user) bool {
	had, ss := s.now.Sub(t.since), t.session
	return had >= s.cfg.Quantum || had >= s.cfg.Turn && !t.started && (ss.user != u || u.next.served <= ss.served)
}

// isReserved reports whether a free seat is reserved for its session, so that other
// must not take it.
func (s *Scheduler) isReserved(t *seat, other *session) bool {
	o := t.session
	return o != nil && !o.closed && !s.quantumOver(t) && !s.isUneven(o, other) &&
		(o.waits() || s.expectsCall(t))
}

// expectsCall reports whether the session of a free seat will probably call again soon,
// like a master that waits for each result.
func (s *Scheduler) expectsCall(t *seat) bool {
	return t.session.think <= s.cfg.Hold && s.now.Sub(t.left) < s.cfg.Hold
}

// noteWant updates a session's statistics before a call is queued.
func (s *Scheduler) noteWant(ss *session) {
	if ss.queue.len() > 0 || ss.runs > 0 {
		return
	}
	// An idle session earns no claim on the time that others used meanwhile. One that waits for
	// each result is not idle.
	least, any := time.Duration(0), false
	for _, o := range s.sessions {
		if o != ss && (o.queue.len() > 0 || o.runs > 0) && (!any || o.served < least) {
			least, any = o.served, true
		}
	}
	if !s.endedLately(ss) {
		ss.served = max(ss.served, least)
	}
	if !ss.done.IsZero() {
		away := min(s.now.Sub(ss.done), 4*s.cfg.Hold)
		ss.think += (away - ss.think) / 4
	}
}

// endedLately reports whether a call of the session ended so lately that its seat would be
// reserved for the next.
func (s *Scheduler) endedLately(ss *session) bool {
	return !ss.done.IsZero() && s.now.Sub(ss.done) < s.cfg.Hold
}

// grantSeated grants free seats to the sessions that own them. A session whose calls do
// not fit there loses the seat.
func (s *Scheduler) grantSeated() {
	if !s.anyWaits() {
		return
	}
	for _, n := range slices.Clone(s.open.free) { // grants change it
		for i := 0; n.open(false) && i < len(n.seats); i++ {
			t := &n.seats[i]
			ss := t.session
			if t.lease != nil || ss == nil || !ss.waits() || s.quantumOver(t) || ss.slots()-1 > s.leastHolds(ss) || s.isAhead(ss.user) {
				continue
			}
			if c := s.firstFor(n, ss); c != nil {
				s.grantCall(n, c, false, false)
				ss.queue.remove(c)
			} else {
				s.freeSeat(t)
			}
		}
	}
}

// firstFor returns the oldest call of a session that n can run now.
func (s *Scheduler) firstFor(n *node, ss *session) *call {
	for i := range min(ss.queue.len(), scanMax) {
		c := ss.queue.at(i)
		if s.hasRoom(n, c) && !s.isAvoided(n, c) && !c.runsOn(n) {
			return c
		}
	}
	return nil
}

// seatAfter returns the busy seat at which a call of ss may wait: one that ss will keep,
// else one that its session will not keep.
func (s *Scheduler) seatAfter(n *node, ss *session) *seat {
	var free *seat
	for i := range n.seats {
		t := &n.seats[i]
		switch keeps := s.willKeep(t); {
		case t.lease == nil || t.next != nil || t.lease.call.long:
		case ss.user.isServed() && t.session.user != ss.user: // it would have one more
		case keeps && t.session == ss:
			return t
		case !keeps && (free == nil || t.lease.started.Before(free.lease.started)):
			free = t
		}
	}
	return free
}

// queueForSeat makes a lease wait for a seat. It will begin a new quantum if the seat's
// session will not keep the seat.
func (s *Scheduler) queueForSeat(l *lease) {
	t := s.seatAfter(l.node, l.call.session)
	l.turn = !s.willKeep(t)
	l.After, l.seat, t.next = t.lease.Fence, t, l
	if o := t.session; o != l.call.session {
		l.from = o
		o.addGain(-1)
		l.call.session.addGain(1)
		if o.user != l.call.session.user {
			l.call.session.user.coming++
		}
	}
}

// endWait removes a lease from the seat that it waits for: it runs now, or was removed.
func (l *lease) endWait() {
	l.seat.next = nil
	if l.from != nil {
		l.from.addGain(1)
		l.call.session.addGain(-1)
		if l.from.user != l.call.session.user {
			l.call.session.user.coming--
		}
		l.from = nil
	}
}

// willKeep reports whether a busy seat will be kept when its lease ends.
func (s *Scheduler) willKeep(t *seat) bool {
	o := t.session
	return o != nil && !o.closed && !s.quantumOver(t) && o.slots()-1 <= o.leastWaiting() && !s.isAhead(o.user) &&
		(o.waits() || o.think <= s.cfg.Hold)
}

// leastHolds returns the smallest number of slots of a session of ss's user and priority that
// has waiting calls, or MaxInt if there is none.
func (s *Scheduler) leastHolds(ss *session) int {
	least := math.MaxInt
	for _, o := range s.sessions {
		if o.waits() && o.user == ss.user && o.rank == ss.rank {
			least = min(least, o.slots())
		}
	}
	return least
}

// wakeUp requests a Woken event for the time when a reservation expires, if other
// sessions wait.
func (s *Scheduler) wakeUp() {
	if s.wake.After(s.now) || !s.anyWaits() {
		return
	}
	var first time.Time
	for _, n := range s.open.free {
		for i := 0; n.open(false) && i < len(n.seats); i++ {
			t := &n.seats[i]
			if t.lease != nil || t.session == nil || t.session.queue.len() > 0 || s.quantumOver(t) || !s.expectsCall(t) {
				continue
			}
			if at := t.left.Add(s.cfg.Hold); first.IsZero() || at.Before(first) {
				first = at
			}
		}
	}
	if !first.IsZero() {
		s.wake = first
		s.emit(Wake{first})
	}
}
