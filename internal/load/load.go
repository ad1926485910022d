// SPDX-License-Identifier: MIT

// Package load adapts time limits to the load of this computer. With it a wait for another
// process distinguishes a process that hangs from one that is slow on a busy computer.
package load

import (
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Max limits Scale, so that every wait ends.
const Max = 40

// Scale returns how many times slower than an idle computer this one may be: its load per
// processor, from 1 to Max.
func Scale() float64 {
	text, _ := os.ReadFile("/proc/loadavg") // exists only on Linux
	return scaleOf(string(text), runtime.NumCPU())
}

// scaleOf parses /proc/loadavg. The average of the last minute rises slowly, so the number
// of tasks that are runnable now counts as well.
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

// Stretch returns the time that corresponds at the present load to d on an idle computer.
// It is for limits that must be known in advance; a Timer follows changes of the load.
func Stretch(d time.Duration) time.Duration {
	return time.Duration(float64(d) * Scale())
}

// A budget is the remaining time in seconds of an idle computer.
type budget time.Duration

// charge subtracts a span of clock time that passed at this scale. A span longer than most
// counts as most, because then this process itself did not run.
func (b *budget) charge(span, most time.Duration, scale float64) (over bool) {
	*b -= budget(float64(min(span, most)) / scale)
	return *b <= 0
}

// A Timer closes C when its time has passed, counted as on an idle computer: while the load
// per processor is 8, a second counts as an eighth of a second.
type Timer struct {
	C    <-chan struct{}
	stop chan struct{}
}

// look is the interval at which a Timer reads the load.
const look = 250 * time.Millisecond

// NewTimer starts a timer. scale is Scale except in tests. The caller must call Stop.
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

// Stop ends the timer. C stays open if it was not closed before.
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
