// SPDX-License-Identifier: MIT

// Package load lets deadlines follow the load of this computer: a wait for another process must distinguish one that hangs from one that a busy computer slows down.
package load

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Max bounds Scale, so that a deadline is one on any computer.
const Max = 40

// Scale is by how much slower than an idle one this computer may be: its load
// for each processor, 1 to Max.
func Scale() float64 {
	text, _ := os.ReadFile("/proc/loadavg") // elsewhere there is none
	return scaleOf(string(text), runtime.NumCPU())
}

// scaleOf reads proc(5)'s loadavg. The average of the last minute rises slowly,
// so what wants to run at this moment counts as well.
func scaleOf(text string, processors int) float64 {
	var most float64
	fields := strings.Fields(text)
	if len(fields) >= 4 {
		running, _, _ := strings.Cut(fields[3], "/")
		for _, number := range []string{fields[0], running} {
			if v, err := strconv.ParseFloat(number, 64); err == nil {
				most = max(most, v)
			}
		}
	}
	return min(Max, max(1, most/float64(processors)))
}

// Stretch gives the time that takes as long now as d does on an idle computer.
// It is for limits that must be known in advance; a Timer sees the load change.
func Stretch(d time.Duration) time.Duration {
	return time.Duration(float64(d) * Scale())
}

// A budget is the time that is left, as an idle computer counts it.
type budget time.Duration

// charge takes a span of the clock that passed at this scale. One longer than
// most counts as most: this process itself did not run then.
func (b *budget) charge(span, most time.Duration, scale float64) (over bool) {
	*b -= budget(float64(min(span, most)) / scale)
	return *b <= 0
}

// A Timer closes C when the time that it was given has passed, counted as on an
// idle computer: while the load is 8 for each processor, a second counts as an
// eighth of one.
type Timer struct {
	C    <-chan struct{}
	stop chan struct{}
}

// look is how often a Timer looks at the load.
const look = 250 * time.Millisecond

// NewTimer starts a timer; scale is Scale, but in tests. Stop must be called.
func NewTimer(d time.Duration, scale func() float64) *Timer {
	over := make(chan struct{})
	t := &Timer{C: over, stop: make(chan struct{})}
	go t.run(budget(d), scale, over)
	return t
}

func (t *Timer) run(left budget, scale func() float64, over chan<- struct{}) {
	for last := time.Now(); ; {
		select {
		case <-t.stop:
			return
		case <-time.After(min(look, time.Duration(left))):
		}
		now := time.Now()
		if left.charge(now.Sub(last), 2*look, scale()) {
			close(over)
			return
		}
		last = now
	}
}

// Stop ends the timer; C is closed from then on only if it was before.
func (t *Timer) Stop() { close(t.stop) }

// WithTimeout is context.WithTimeout by a Timer. The context has no Deadline,
// because the future load is unknown.
func WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	timer := NewTimer(d, Scale)
	go func() {
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(context.DeadlineExceeded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(context.Canceled) }
}
