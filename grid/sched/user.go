// SPDX-License-Identifier: MIT

package sched

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A user owns sessions. Users share the slots by their weights: of those whose calls wait, the
// one comes first that used the least time in proportion to its weight.
type user struct {
	id     UserID
	weight int
	most   int // slots at a time; 0: no limit
	last   uint64

	// Sums over its sessions.
	runs, fresh, gain int
	coming            int // leases that wait for seats of other users
	borrowed          int // lent places that it has, less those that it lent: countBorrowed

	used time.Duration // slot time until at, divided by the weight
	at   time.Time

	served time.Duration // the longest of its sessions that wait or run

	// Of its sessions with waiting calls, as countWaiting found them.
	waiting bool
	top     int      // the greatest priority
	next    *session // of those with that priority, the one that byShare lists first
}

// userOf returns a user, who may be new.
func (s *Scheduler) userOf(id UserID) *user {
	if at := slices.IndexFunc(s.users, func(u *user) bool { return u.id == id }); at >= 0 {
		return s.users[at]
	}
	u := &user{id: id, weight: 1, at: s.now}
	s.users = append(s.users, u)
	return u
}

func (u *user) set(now time.Time, e UserSet) {
	u.charge(now)
	u.weight, u.most = max(e.Weight, 1), max(e.Slots, 0)
}

// charge counts the time of the slots that the user has had.
func (u *user) charge(now time.Time) {
	u.used, u.at = u.usedBy(now), now
}

func (u *user) usedBy(now time.Time) time.Duration {
	return u.used + now.Sub(u.at)*time.Duration(u.runs)/time.Duration(u.weight)
}

func (u *user) slots() int { return u.runs + u.fresh + u.gain }

// isFull reports whether the user must not get one more slot. Calls that wait keep theirs.
func (u *user) isFull() bool { return u.most > 0 && u.runs+max(u.borrowed, 0)+u.coming >= u.most }

// isBusy reports whether as many calls of the user run as it has slots, not counting those that
// wait for inner ones.
func (u *user) isBusy() bool { return u.most > 0 && u.runs+u.borrowed >= u.most }

// isServed reports whether the user has all slots that it may have, counting those that it
// just left. Without them its sessions would take others' seats from each other by turns.
func (u *user) isServed() bool {
	return u.most > 0 && u.runs+max(u.borrowed, 0)+u.coming+u.fresh >= u.most
}

// compare orders users: by the time that they used, then by their slots, both in proportion to
// their weights, then by their last grant.
func (u *user) compare(o *user, now time.Time) int {
	return cmp.Or(cmp.Compare(u.usedBy(now), o.usedBy(now)), cmp.Compare(u.slots()*o.weight, o.slots()*u.weight),
		cmp.Compare(u.last, o.last), cmp.Compare(u.id, o.id))
}

func (ss *session) addRuns(n int, now time.Time) {
	ss.user.charge(now)
	ss.runs += n
	ss.user.runs += n
}

func (ss *session) addFresh(n int) {
	ss.fresh += n
	ss.user.fresh += n
}

func (ss *session) addGain(n int) {
	ss.gain += n
	ss.user.gain += n
}

// waits reports whether the session has calls that a slot would help.
func (ss *session) waits() bool { return ss.queue.len() > 0 && !ss.user.isFull() }

// isOutranked reports whether a session of its user with a greater priority waits.
func (ss *session) isOutranked() bool { return ss.user.waiting && ss.user.top > ss.rank }

// leastWaiting returns the smallest number of slots of a waiting session of its user and
// priority, as countWaiting found it, or MaxInt.
func (ss *session) leastWaiting() int {
	if ss.user.waiting && ss.user.top == ss.rank {
		return ss.user.next.slots()
	}
	return math.MaxInt
}

// anyWaits reports whether a slot would help any session.
func (s *Scheduler) anyWaits() bool { return slices.ContainsFunc(s.sessions, (*session).waits) }

// creditQuanta bounds the time that a user or a session whose calls could not run may catch up
// later, in quanta of all slots or of one.
const creditQuanta = 10

// countWaiting finds for each user what waits.
func (s *Scheduler) countWaiting() {
	for _, u := range s.users {
		u.waiting, u.next, u.served = false, nil, 0
	}
	for _, ss := range s.sessions {
		if ss.queue.len() > 0 || ss.runs > 0 {
			ss.user.served = max(ss.user.served, ss.served)
		}
	}
	for _, ss := range s.sessions {
		if ss.waits() {
			ss.served = max(ss.served, ss.user.served-creditQuanta*s.cfg.Quantum)
		}
		if u := ss.user; ss.waits() && (!u.waiting || ss.compare(u.next) < 0) {
			u.waiting, u.top, u.next = true, ss.rank, ss
		}
	}
	if len(s.users) < 2 {
		return
	}
	most, slots := time.Duration(0), 0
	for _, u := range s.users {
		if u.waiting || u.runs > 0 {
			most = max(most, u.usedBy(s.now))
		}
	}
	for _, n := range s.nodes {
		slots += n.slots
	}
	for _, u := range s.users {
		credit := creditQuanta * s.cfg.Quantum * time.Duration(max(slots, 1)) / time.Duration(u.weight)
		if u.waiting && u.usedBy(s.now) < most-credit {
			u.used, u.at = most-credit, s.now
		}
	}
}

// noteUser is called before a call of the user is queued. A user whose calls did not wait
// earned no claim on the time that others used meanwhile, but for one quantum while it uses
// slots or was not away for longer than a seat is reserved.
func (s *Scheduler) noteUser(u *user) {
	least, any, here := time.Duration(0), false, u.runs > 0
	for _, ss := range s.sessions {
		o := ss.user
		if o == u && ss.queue.len() > 0 {
			return
		}
		here = here || o == u && s.endedLately(ss)
		if o != u && o.most == 0 && (ss.queue.len() > 0 || ss.runs > 0) {
			if used := o.usedBy(s.now); !any || used < least {
				least, any = used, true
			}
		}
	}
	if !any {
		return
	}
	if here {
		least -= s.cfg.Quantum / time.Duration(u.weight)
	}
	u.used, u.at = max(u.usedBy(s.now), least), s.now
}

// mustYield reports whether a seat of u, whose quantum is over, is due to a waiting user: one
// that would not have a greater part than u has now, or that is a quantum behind. extra is
// what u's number of slots lacks.
func (s *Scheduler) mustYield(t *seat, extra int) bool {
	u := t.session.user
	for _, o := range s.users {
		if o == u || !o.waiting || !s.turnOver(t, o) {
			continue
		}
		behind := u.usedBy(s.now) - o.usedBy(s.now)
		if behind >= 0 && (o.slots()+1)*u.weight <= (u.slots()+extra)*o.weight || behind >= s.cfg.Quantum/time.Duration(o.weight) {
			return true
		}
	}
	return false
}

// isAhead reports whether a waiting user used less time than u, and would have a smaller part
// than u has now even if it got one of u's slots.
func (s *Scheduler) isAhead(u *user) bool {
	return slices.ContainsFunc(s.users, func(o *user) bool { return o != u && o.waiting && o.isBehind(u, s.now) })
}

func (u *user) isBehind(o *user, now time.Time) bool {
	return (u.slots()+1)*o.weight < o.slots()*u.weight && u.usedBy(now) <= o.usedBy(now)
}

// isUneven reports whether other has so much less than owner that owner must not keep a free
// seat from it.
func (s *Scheduler) isUneven(owner, other *session) bool {
	switch {
	case owner.user != other.user:
		return other.user.isBehind(owner.user, s.now)
	case owner.rank != other.rank:
		return other.rank > owner.rank
	}
	return owner.slots()-1 > other.slots()
}
