// SPDX-License-Identifier: MIT

package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A play drives a Machine and writes down what it does.
type play struct {
	t    *testing.T
	m    *Machine
	now  time.Time
	rest *Facts
}

func newPlay(t *testing.T, text string, cpus int) *play {
	p := &play{t: t, m: NewMachine(mustParse(t, text), cpus), now: noon, rest: atRest()}
	return p
}

func show(list []Action) string {
	var words []string
	for _, a := range list {
		words = append(words, fmt.Sprint([]string{"pause", "resume", "return"}[a.Do], a.ID))
	}
	return strings.Join(words, " ")
}

func (p *play) want(got []Action, want string, allowed int) {
	p.t.Helper()
	if show(got) != want || p.m.Allowed().Slots != allowed {
		p.t.Errorf("at %v: %q with %d allowed; want %q with %d", p.now.Sub(noon), show(got), p.m.Allowed().Slots, want, allowed)
	}
}

// step sets for how long the owner has been away, and lets time pass.
func (p *play) step(after, idle time.Duration) []Action {
	p.now = p.now.Add(after)
	p.rest.Idle.Value = idle
	return p.m.Step(p.now, p.rest)
}

func TestMachineStory(t *testing.T) {
	p := newPlay(t, "use all when idle 15m\nuse 25% when idle 1m\npause 10m\nsettle 10s", 4)
	p.want(p.m.Start(p.now, 1, true), "pause1", 0) // nothing is permitted before the first step
	p.want(p.step(0, time.Hour), "resume1", 4)     // the first step does not settle
	p.want(p.m.Start(p.now, 2, true), "", 4)
	p.want(p.m.Start(p.now, 3, true), "", 4)
	p.want(p.m.Start(p.now, 9, false), "", 4)

	p.want(p.step(time.Second, 0), "pause1 pause2 pause3 pause9", 0) // the owner is back
	p.want(p.step(time.Minute, time.Minute), "", 0)
	p.want(p.step(9*time.Second, 69*time.Second), "", 0)
	p.want(p.step(time.Second, 70*time.Second), "resume1 resume9", 1) // a quarter, after it settled
	p.want(p.m.End(p.now, 1), "resume2", 1)
	p.want(p.m.Start(p.now, 4, true), "pause4", 1)

	p.want(p.step(8*time.Minute+49*time.Second, 10*time.Minute), "", 1)
	p.want(p.step(time.Second, 10*time.Minute), "return3", 1) // paused for ten minutes
	p.want(p.m.End(p.now, 3), "", 1)
	p.want(p.step(70*time.Second, 11*time.Minute), "return4", 1)
	p.want(p.step(230*time.Second, 15*time.Minute), "", 1)
	p.want(p.m.Start(p.now, 5, true), "pause5", 1)
	p.want(p.step(10*time.Second, 15*time.Minute), "resume5", 4)
	p.want(p.step(time.Second, 0), "pause2 pause9 pause5", 0)
	p.want(p.step(time.Hour, 0), "return2 return5", 0) // what a user started by hand stays
	p.want(p.step(20*time.Minute, 20*time.Minute), "", 0)
	p.want(p.step(10*time.Second, 20*time.Minute), "resume9", 4)
}

// Less at any moment of the settling counts for all of it, and an interruption begins it anew.
func TestMachineSettles(t *testing.T) {
	p := newPlay(t, "use all when idle 15m\nuse 2 slots when idle 5m\nuse 1 slot when idle 1m\nsettle 10s", 8)
	p.want(p.step(0, 0), "", 0)
	p.want(p.step(time.Second, time.Hour), "", 0)
	p.want(p.step(5*time.Second, 5*time.Minute), "", 0)
	p.want(p.step(5*time.Second, time.Hour), "", 2)
	p.want(p.step(time.Second, time.Hour), "", 2)
	p.want(p.step(9*time.Second, time.Minute), "", 1)
	p.want(p.step(time.Second, time.Hour), "", 1)
	p.want(p.step(9*time.Second, time.Hour), "", 1)
	p.want(p.step(time.Second, time.Hour), "", 8)
}

func TestMachineNoPause(t *testing.T) {
	p := newPlay(t, "use all when idle 15m\npause 0s\nsettle 0s", 2)
	p.step(0, time.Hour)
	p.m.Start(p.now, 1, true)
	p.want(p.step(time.Second, 0), "pause1 return1", 0) // at once
	p.want(p.step(time.Second, time.Hour), "", 2)
}

// A day is a machine's day in the simulator: its owner comes and goes, the plug is
// pulled, programs of others run, and work is always there.
type day struct {
	*rand.Rand
	facts   *Facts
	input   time.Time // of the owner, last
	present bool
}

func (d *day) change(now time.Time) {
	switch d.IntN(12) {
	case 0, 1, 2:
		d.present = !d.present
	case 3:
		d.facts.Battery.Value = !d.facts.Battery.Value
	case 4:
		d.facts.FullScreen.Value = d.present && d.IntN(2) == 0
	case 5:
		d.facts.Others.Value = d.Float64() * 100
	case 6:
		d.facts.MemoryPressure.Value = d.Float64() * 40
	case 7:
		d.facts.Remote.Value = !d.facts.Remote.Value
	case 8:
		d.facts.Idle.Known = d.IntN(4) != 0
	}
	if d.present {
		d.input = now
	}
	d.facts.Time, d.facts.Idle.Value = now, now.Sub(d.input)
}

// stepMax is the longest time between two looks of a simulated day.
const stepMax = 4 * time.Minute

// A ward checks what a Machine promises, at every step, against its own account.
type ward struct {
	t       *testing.T
	p       *Policy
	cpus    int
	running map[uint64]bool // false: paused
	since   map[uint64]time.Time
	past    []moment
	next    uint64
}

// A moment is what was permitted then.
type moment struct {
	at    time.Time
	slots int
}

func (w *ward) apply(now time.Time, list []Action) {
	for _, a := range list {
		on, known := w.running[a.ID]
		if !known || a.Do == Pause && !on || a.Do == Resume && on || a.Do == Return && on {
			w.t.Fatalf("%v of a program that is known: %v, running: %v", a, known, on)
		}
		switch a.Do {
		case Pause:
			w.running[a.ID], w.since[a.ID] = false, now
		case Resume:
			w.running[a.ID] = true
		case Return:
			if now.Sub(w.since[a.ID]) < w.p.Pause {
				w.t.Fatalf("program %d was returned after %v", a.ID, now.Sub(w.since[a.ID]))
			}
			delete(w.running, a.ID)
		}
	}
}

func (w *ward) check(now time.Time, m *Machine, f *Facts) {
	used := 0
	for id, on := range w.running {
		if on {
			used++
		} else if now.Sub(w.since[id]) >= w.p.Pause {
			w.t.Fatalf("program %d has been paused for %v", id, now.Sub(w.since[id]))
		}
	}
	d := w.p.Decide(f, w.cpus)
	if used > d.Slots {
		w.t.Fatalf("%d programs run, the owner permits %d (%s)", used, d.Slots, d.Why())
	}
	if allowed := m.Allowed().Slots; used != min(allowed, len(w.running)) || m.Paused() != len(w.running)-used {
		w.t.Fatalf("%d of %d programs run, %d are allowed, %d paused", used, len(w.running), allowed, m.Paused())
	}
	// What has been permitted for long enough is used: steps are at most stepMax apart.
	w.past = append(w.past, moment{now, d.Slots})
	for len(w.past) > 1 && now.Sub(w.past[1].at) > 2*w.p.Settle+3*stepMax {
		w.past = w.past[1:]
	}
	least := slices.MinFunc(w.past, func(a, b moment) int { return a.slots - b.slots }).slots
	if now.Sub(w.past[0].at) > 2*w.p.Settle+3*stepMax && m.Allowed().Slots < least {
		w.t.Fatalf("%d are allowed, and at least %d permitted since %v", m.Allowed().Slots, least, now.Sub(w.past[0].at))
	}
}

// The owner is never disturbed beyond the policy, nothing stays paused for longer than
// it says, and no permitted slot stays unused for longer than settling takes.
func TestMachineDays(t *testing.T) {
	days := 10000
	if testing.Short() {
		days = 500
	}
	names := BuiltinNames()
	for n := range days {
		text, _ := BuiltinText(names[n%len(names)])
		d := &day{Rand: rand.New(rand.NewPCG(uint64(n), 7)), facts: atRest(), input: noon}
		w := &ward{t: t, p: mustParse(t, text), cpus: 1 + d.IntN(8), running: map[uint64]bool{}, since: map[uint64]time.Time{}}
		m := NewMachine(w.p, w.cpus)
		now, end := noon, noon.Add(24*time.Hour)
		for now.Before(end) {
			now = now.Add(time.Second + time.Duration(d.Int64N(int64(stepMax))))
			if d.IntN(8) == 0 {
				d.change(now)
			} else if d.facts.Time = now; !d.present {
				d.facts.Idle.Value = now.Sub(d.input)
			}
			w.apply(now, m.Step(now, d.facts))
			w.check(now, m, d.facts)
			for len(w.running) < m.Allowed().Slots && d.IntN(3) > 0 {
				w.next++
				w.running[w.next] = true
				w.apply(now, m.Start(now, w.next, true))
			}
			for id := range w.running {
				if w.running[id] && d.IntN(50) == 0 {
					delete(w.running, id)
					w.apply(now, m.End(now, id))
				}
				break
			}
			w.check(now, m, d.facts)
			if t.Failed() {
				t.Fatalf("day %d", n)
			}
		}
	}
}

// A program without a slot stays paused, and one that can be moved is asked to leave as often
// as it was paused for Pause.
func TestMovableProgramsLeave(t *testing.T) {
	p := newPlay(t, "use none when battery\nuse all\npause 1m\nsettle 0s", 4)
	p.m.Step(p.now, p.rest)
	p.m.Start(p.now, 1, false)
	p.m.Start(p.now, 2, false)
	p.m.Moves(2)
	busy := *p.rest
	busy.Battery.Value = true
	steps := []struct {
		after time.Duration
		want  string
	}{{0, "pause1 pause2"}, {59 * time.Second, ""}, {time.Second, "return2"}, {59 * time.Second, ""}, {time.Second, "return2"}}
	for _, s := range steps {
		p.now = p.now.Add(s.after)
		if got := show(p.m.Step(p.now, &busy)); got != s.want {
			t.Errorf("%v later: %q, want %q", s.after, got, s.want)
		}
	}
	p.m.End(p.now, 2)
	if got := show(p.m.Step(p.now, p.rest)); got != "resume1" {
		t.Errorf("later: %q", got)
	}
}
