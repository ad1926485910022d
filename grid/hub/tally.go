// SPDX-License-Identifier: MIT

package hub

import (
	"slices"
	"time"

	"skep/internal/lockdep"
)

// Counts of calls, since the hub or the session began.
type Counts struct {
	Waiting int    `json:"waiting"` // for a lease
	Running int    `json:"running"`
	Done    uint64 `json:"done"`
	Failed  uint64 `json:"failed"`  // also those that their program cancelled
	Again   uint64 `json:"again"`   // runs that were lost, so that the call ran again
	Dropped uint64 `json:"dropped"` // calls whose program ended first
}

// An Interval counts what happened in a part of the last minutes.
type Interval struct {
	Began    time.Time `json:"began"`
	Done     uint64    `json:"done"`
	Failed   uint64    `json:"failed"`
	Again    uint64    `json:"again"`
	Sent     uint64    `json:"sent"`     // bytes to nodes for calls that ended
	Received uint64    `json:"received"` // bytes of their results
}

const (
	intervalTime = 10 * time.Second
	intervals    = 60
	troublesMax  = 50 // calls that failed or ran again
	endedMax     = 50 // sessions
)

// A tally counts calls over the life of a hub. Hub.mu guards it.
type tally struct {
	began    time.Time
	counts   Counts // but for those that live
	interval [intervals]struct {
		number int // of intervals since began
		Interval
	}
	troubles []Event
	ended    []SessionInfo
}

// intervalAt returns the number of the interval at this time. A clock that was set back does not
// count below 0.
func (t *tally) intervalAt(now time.Time) int { return max(0, int(now.Sub(t.began)/intervalTime)) }

// tallyOf returns the tally of one user with an account.
func (h *Hub) tallyOf(user string) *tally {
	lockdep.AssertHeld(&h.mu)
	t := h.userTallies[user]
	if t == nil {
		t = &tally{began: h.started}
		h.userTallies[user] = t
	}
	return t
}

// talliesOf lists those in which the calls of a user count.
func (h *Hub) talliesOf(user string) []*tally {
	if user == "" {
		return []*tally{&h.tally}
	}
	return []*tally{&h.tally, h.tallyOf(user)}
}

// note counts what an event says of a call.
func (t *tally) note(e *Event, of *Counts) {
	n := t.intervalAt(e.Time)
	i := &t.interval[n%intervals]
	if i.number != n {
		i.number, i.Interval = n, Interval{}
	}
	switch e.State {
	case CallDone:
		t.counts.Done, of.Done, i.Done = t.counts.Done+1, of.Done+1, i.Done+1
		i.Sent += e.Sent + e.Fetched
		i.Received += e.Received
	case CallFailed:
		t.counts.Failed, of.Failed, i.Failed = t.counts.Failed+1, of.Failed+1, i.Failed+1
		t.troubles = keepLast(t.troubles, *e, troublesMax)
	case CallRequeued:
		t.counts.Again, of.Again, i.Again = t.counts.Again+1, of.Again+1, i.Again+1
		t.troubles = keepLast(t.troubles, *e, troublesMax)
	}
}

// history returns all intervals, the oldest first.
func (t *tally) history(now time.Time) []Interval {
	list := make([]Interval, 0, intervals)
	last := t.intervalAt(now)
	for n := max(0, last-intervals+1); n <= last; n++ {
		i := t.interval[n%intervals]
		if i.number != n {
			i.Interval = Interval{}
		}
		i.Began = t.began.Add(time.Duration(n) * intervalTime)
		list = append(list, i.Interval)
	}
	return list
}

// keepLast appends to a list of at most so many.
func keepLast[T any](list []T, v T, most int) []T {
	if len(list) >= most {
		list = slices.Delete(list, 0, len(list)-most+1)
	}
	return append(list, v)
}
