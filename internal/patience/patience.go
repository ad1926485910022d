// SPDX-License-Identifier: MIT

// Package patience counts how long a program still waits for another one. Time in which this
// process was stopped, or its machine slept, hardly counts: the other one could not be heard then.
package patience

import "time"

// A Patience is the time that is left. One goroutine uses it.
type Patience struct {
	all, left time.Duration
	most      time.Duration // what one try counts for at most
}

// New is a patience of so long. A try counts for at most most.
func New(long, most time.Duration) *Patience { return &Patience{long, long, most} }

// Spend counts a try that began then. It returns false if that was the last one.
func (p *Patience) Spend(began time.Time) bool {
	p.left -= min(time.Since(began), p.most)
	return p.left > 0
}

// Spent is how much was counted.
func (p *Patience) Spent() time.Duration { return p.all - p.left }

const (
	tick      = time.Second
	ticksMost = 2 // that a wait counts for, also if this process did not run
)

// Ticks is a patience that only waits.
func Ticks(long time.Duration) *Patience { return New(long, ticksMost*min(tick, long)) }

// Wait waits for a second, or for what is left, and counts that. It returns false if nothing is
// left, or stop is closed.
func (p *Patience) Wait(stop <-chan struct{}) bool {
	if p.left <= 0 {
		return false
	}
	began := time.Now()
	t := time.NewTimer(min(p.left, tick))
	defer t.Stop()
	select {
	case <-t.C:
	case <-stop:
		return false
	}
	p.Spend(began)
	return true
}
