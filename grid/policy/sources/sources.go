// SPDX-License-Identifier: MIT

// Package sources reads what a policy asks about: how long the owner has been away, what
// other programs use, whether the machine runs on battery. Each fact names its source,
// or says why there is none.
package sources

import (
	"math"
	"time"

	"skep/grid/policy"
)

// A Reader reads facts of this machine. One goroutine at a time uses it.
type Reader struct {
	policy *policy.Policy
	others average
	system // of this operating system
}

// NewReader makes a reader of the facts that a policy asks about; nil asks about all.
func NewReader(p *policy.Policy) *Reader { return &Reader{policy: p, system: newSystem("/")} }

func (r *Reader) asks(k policy.Kind) bool { return r.policy == nil || r.policy.Asks(k) }

// Read reads facts. It takes milliseconds and blocks on nothing but a program of the
// system, which gets a second.
func (r *Reader) Read(now time.Time) *policy.Facts {
	f := &policy.Facts{Time: now}
	if r.asks(policy.Idle) {
		f.Idle = r.idle(now)
	}
	if r.asks(policy.Others) {
		f.Others = r.others.read(now, r.processorTimes)
	}
	if r.asks(policy.Battery) || r.asks(policy.Charge) {
		f.Battery, f.Charge = r.power()
	}
	if r.asks(policy.MemoryPressure) {
		f.MemoryPressure = r.pressure("memory")
	}
	if r.asks(policy.IOPressure) {
		f.IOPressure = r.pressure("io")
	}
	if r.asks(policy.FullScreen) {
		f.FullScreen = r.fullScreen()
	}
	if r.asks(policy.Remote) {
		f.Remote = r.remote()
	}
	if r.asks(policy.Metered) {
		f.Metered = r.metered(now)
	}
	return f
}

// Close closes what the reader keeps open.
func (r *Reader) Close() { r.close() }

// A userSession is a login of Windows; only an active one has a keyboard now.
type userSession struct {
	id     uint32
	active bool
}

// otherSession finds a session beside our own that somebody uses: users can be switched
// without logging out, and several can be logged in by Remote Desktop.
func otherSession(list []userSession, own uint32) (id uint32, is bool) {
	for _, s := range list {
		if s.active && s.id != own {
			return s.id, true
		}
	}
	return 0, false
}

// times are the machine's processor times since its start, in seconds of all processors:
// what was used, what this process and those below it used of it, and all that there was.
type times struct{ busy, own, all float64 }

// An average smooths what other programs use, so that a build between two compilers does
// not count as a pause of its user.
type average struct {
	at      time.Time
	last    times
	percent float64
	known   bool
}

const (
	averageEvery = 2 * time.Second // reading more often costs more than it tells
	averageOver  = 6.0             // seconds of the average
)

func (l *average) read(now time.Time, read func() (times, string, error)) policy.Fact[float64] {
	since := now.Sub(l.at)
	if !l.at.IsZero() && since >= 0 && since < averageEvery {
		return l.fact("averaged")
	}
	t, from, err := read()
	if err != nil {
		l.known, l.at = false, time.Time{}
		return policy.Silent[float64](err.Error())
	}
	if all := t.all - l.last.all; !l.at.IsZero() && all > 0 {
		used := math.Max(t.busy-l.last.busy-math.Max(t.own-l.last.own, 0), 0) / all * 100
		weight := 1 - math.Exp(-since.Seconds()/averageOver)
		if !l.known {
			l.percent, l.known = used, true
		}
		l.percent += (math.Min(used, 100) - l.percent) * weight
	}
	l.at, l.last = now, t
	return l.fact(from)
}

func (l *average) fact(from string) policy.Fact[float64] {
	if !l.known {
		return policy.Silent[float64]("it is measured between two readings, and this is the first")
	}
	return policy.Say(l.percent, from)
}
