// SPDX-License-Identifier: MIT

// Package gang lets groups of processes take turns: gang scheduling, where all processes of a
// job run at the same time, and those of no other one. A gang is a control group of version 2,
// which the kernel's freezer stops and lets go on as a whole.
package gang

import "time"

// A Kind is what is to be done with a gang.
type Kind int

// Stop freezes a gang. Prepare gets the memory ready for a gang, when no other one runs any more;
// Prepared reports the end. Go lets it run.
const (
	Stop Kind = iota
	Prepare
	Go
)

// An Act is one step of a switch. For Prepare, From is the gang that ran before, or -1 if there is
// none or it has ended. Late says that a gang had not stopped in time.
type Act struct {
	Kind       Kind
	Gang, From int
	Late       bool
}

type phase int

const (
	running   phase = iota // current runs until the deadline
	stopping               // all but next stop, until the deadline at the latest
	preparing              // none runs, and the memory is being prepared for next
	over                   // no gang is left
)

type member struct {
	ended, frozen bool
}

// A Rotation decides which gang runs, in turns of one period. It is pure: the caller gives it the
// time and what happened, and does what it says. It has no lock.
type Rotation struct {
	period, patience time.Duration
	members          []member
	phase            phase
	current, next    int // current is -1 before the first turn
	deadline         time.Time
	prepared         bool
}

// NewRotation returns the rotation of n gangs, none of which runs. A gang that is told to stop may
// take patience until the next one runs nevertheless.
func NewRotation(n int, period, patience time.Duration) *Rotation {
	return &Rotation{period: period, patience: patience, members: make([]member, n), phase: stopping, current: -1, next: 0}
}

// Begin returns the acts that stop all gangs but the first one.
func (r *Rotation) Begin(now time.Time) (acts []Act) {
	r.deadline = now.Add(r.patience)
	for i := range r.members {
		acts = append(acts, Act{Kind: Stop, Gang: i})
	}
	return acts
}

// Observe notes whether all processes of a gang are frozen, and whether it has none left. A gang
// that has ended does not come back.
func (r *Rotation) Observe(gang int, frozen, ended bool) {
	m := &r.members[gang]
	m.frozen, m.ended = frozen, m.ended || ended
}

// Prepared notes that the act Prepare has been done.
func (r *Rotation) Prepared() { r.prepared = true }

// Over reports whether no gang is left.
func (r *Rotation) Over() bool { return r.phase == over }

// Deadline returns when Step must be called at the latest, or zero if only an event matters.
func (r *Rotation) Deadline() time.Time { return r.deadline }

// Step returns what is to be done now, in this order.
func (r *Rotation) Step(now time.Time) (acts []Act) {
	for {
		act := r.advance(now)
		if act == nil {
			return acts
		}
		acts = append(acts, *act)
	}
}

func (r *Rotation) advance(now time.Time) *Act {
	if r.phase == over {
		return nil
	}
	if r.follower(r.current) < 0 {
		r.phase, r.deadline = over, time.Time{}
		return nil
	}
	switch r.phase {
	case running:
		return r.endTurn(now)
	case stopping:
		return r.awaitStop(now)
	}
	return r.beginTurn(now)
}

// endTurn stops the gang that runs, if its time is over and another one waits.
func (r *Rotation) endTurn(now time.Time) *Act {
	next := r.follower(r.current)
	if next == r.current {
		r.deadline = time.Time{} // it is the last one
		return nil
	}
	ended := r.members[r.current].ended
	if !ended && now.Before(r.deadline) {
		return nil
	}
	r.phase, r.next, r.deadline = stopping, next, now.Add(r.patience)
	if ended {
		return r.awaitStop(now)
	}
	return &Act{Kind: Stop, Gang: r.current}
}

// awaitStop prepares the memory for the next gang when all others have stopped.
func (r *Rotation) awaitStop(now time.Time) *Act {
	late := false
	for i, m := range r.members {
		late = late || i != r.next && !m.frozen && !m.ended
	}
	if late && now.Before(r.deadline) {
		return nil
	}
	r.chooseNext()
	from := r.current
	if from >= 0 && (r.members[from].ended || from == r.next) {
		from = -1
	}
	r.phase, r.deadline, r.prepared = preparing, time.Time{}, false
	return &Act{Kind: Prepare, Gang: r.next, From: from, Late: late}
}

// beginTurn lets the next gang run when the memory is ready.
func (r *Rotation) beginTurn(now time.Time) *Act {
	if !r.prepared {
		return nil
	}
	if r.members[r.next].ended {
		r.phase, r.deadline = stopping, now
		return r.awaitStop(now)
	}
	r.phase, r.current, r.deadline = running, r.next, now.Add(r.period)
	return &Act{Kind: Go, Gang: r.current}
}

// chooseNext takes another gang if the chosen one has ended.
func (r *Rotation) chooseNext() {
	if r.members[r.next].ended {
		r.next = r.follower(r.next)
	}
}

// follower returns the next gang after this one that has not ended, which may be itself, or -1.
func (r *Rotation) follower(gang int) int {
	n := len(r.members)
	for i := 1; i <= n; i++ {
		if next := (gang + i + n) % n; !r.members[next].ended {
			return next
		}
	}
	return -1
}
