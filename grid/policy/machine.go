// SPDX-License-Identifier: MIT

package policy

import (
	"cmp"
	"slices"
	"time"
)

// A Machine applies a policy to the programs that run on one machine. It is pure: equal
// calls give equal actions. Its caller calls it from one goroutine at a time, gives it
// times that do not decrease, and carries out the actions in their order.
//
//	           Start              less is permitted             paused for Pause
//	(absent) ---------> running <------------------> paused ---------------------> (returned)
//	                       |     more is permitted     |
//	                       '-------> (ended) <---------'  End
//
// Less takes effect at once, and on the programs that started last, because they lose
// least. More takes effect after Settle, and on the programs that started first.
type Machine struct {
	policy  *Policy
	slots   int
	begun   bool
	allowed Decision
	more    struct { // what has been permitted since a moment, beyond what is allowed
		since time.Time
		least Decision
	}
	jobs []*job // in the order of their starts
}

// A job is a program that runs or is paused. Programs that a user started by hand (skep
// exec) use no slot: they run while anything at all is permitted.
type job struct {
	id     uint64
	slot   bool
	moves  bool
	paused bool
	since  time.Time // when it was paused
}

// What an Action does to a program.
const (
	Pause Verb = iota
	Resume
	Return // end it here, its call goes back to the hub; or ask that it is moved
)

// A Verb is one of the constants above.
type Verb int

// An Action concerns the program that Start named.
type Action struct {
	Do Verb
	ID uint64
}

// NewMachine makes a machine with a number of slots. Nothing is
// permitted before its first Step.
func NewMachine(p *Policy, slots int) *Machine { return &Machine{policy: p, slots: slots} }

// Allowed is the decision in force, after Settle.
func (m *Machine) Allowed() Decision { return m.allowed }

// Start says that a program runs, and whether it uses a slot. It may have started just
// after less was permitted; then it is paused at once.
func (m *Machine) Start(now time.Time, id uint64, slot bool) []Action {
	m.jobs = append(m.jobs, &job{id: id, slot: slot})
	return m.balance(now)
}

// Moves says that a program can be moved, though it uses no slot. It is to leave when a call
// would, and again each time that it has been paused for Pause.
func (m *Machine) Moves(id uint64) {
	for _, j := range m.jobs {
		if j.id == id {
			j.moves = true
		}
	}
}

// End says that a program ended, also if that was for a Return.
func (m *Machine) End(now time.Time, id uint64) []Action {
	m.jobs = slices.DeleteFunc(m.jobs, func(j *job) bool { return j.id == id })
	return m.balance(now)
}

// Paused counts the paused programs.
func (m *Machine) Paused() (n int) {
	for _, j := range m.jobs {
		if j.paused {
			n++
		}
	}
	return n
}

// Step takes the facts of a moment. It is called every second while programs
// run, and every few seconds otherwise, also if nothing changed.
func (m *Machine) Step(now time.Time, f *Facts) []Action {
	d := m.policy.Decide(f, m.slots)
	switch {
	case !m.begun || d.Slots <= m.allowed.Slots:
		m.allowed, m.begun = d, true
		m.more.since = time.Time{}
	case m.more.since.IsZero():
		m.more.since, m.more.least = now, d
	case d.Slots < m.more.least.Slots:
		m.more.least = d
	}
	if !m.more.since.IsZero() && now.Sub(m.more.since) >= m.policy.Settle {
		m.allowed = m.more.least
		m.more.since = time.Time{}
	}
	return append(m.balance(now), m.expire(now)...)
}

// balance pauses and resumes programs until as many run as are permitted.
func (m *Machine) balance(now time.Time) (list []Action) {
	room := m.allowed.Slots
	for _, j := range m.jobs {
		may := m.allowed.Slots > 0
		if j.slot {
			may = room > 0
			room--
		}
		switch {
		case may && j.paused:
			j.paused = false
			list = append(list, Action{Resume, j.id})
		case !may && !j.paused:
			j.paused, j.since = true, now
			list = append(list, Action{Pause, j.id})
		}
	}
	// A slot must be free before another program gets it.
	slices.SortStableFunc(list, func(a, b Action) int { return cmp.Compare(a.Do, b.Do) })
	return list
}

// expire gives back what was paused for too long. Programs without a slot stay paused,
// because nobody could run them elsewhere, or until they were moved.
func (m *Machine) expire(now time.Time) (list []Action) {
	m.jobs = slices.DeleteFunc(m.jobs, func(j *job) bool {
		if !j.paused || !j.slot && !j.moves || now.Sub(j.since) < m.policy.Pause {
			return false
		}
		list = append(list, Action{Return, j.id})
		j.since = now
		return j.slot
	})
	return list
}
