// SPDX-License-Identifier: MIT

package sched

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"skep/grid/policy"
)

// Days of a grid of PCs, each with an owner who comes and goes, and of the scheduler that
// gives them calls. The clock is the simulator's. What each part promises is checked at
// each event against the simulator's own account.

// daysVariable is how many days TestOwnersDays lives instead of 20.
const daysVariable = "SKEP_DAYS"

// What the agent does: it looks this often while programs run, and while none runs.
const (
	lookEvery  = time.Second
	lookSeldom = 5 * time.Second
)

// starveMax is how long a call may wait while a node is idle whose owner permits work: until
// the next look, the policy's settling, and the time for which a node that failed a call
// does not get it again, each to the next second.
const starveMax = lookSeldom + 10*time.Second + 10*time.Second + 3*time.Second

// A pc is a node, and the agent's part in the simulation.
type pc struct {
	id      NodeID
	rules   *policy.Policy
	m       *policy.Machine
	slots   int
	up      bool
	facts   *policy.Facts
	present bool
	input   time.Time // the owner's last
	change  time.Time // the next of the owner's doings
	looked  time.Time // last
	look    time.Time // next
	runs    map[Fence]*run
	waiting []Lease
	over    time.Time // more runs than is permitted since; zero: no
	free    time.Time // it may run calls and runs none, and a call waits, since; zero: no
}

type run struct {
	lease  Lease
	left   time.Duration
	since  time.Time // it runs, or is paused, since
	paused bool
}

// A grid is all of them on one day.
type grid struct {
	*rand.Rand
	t     *testing.T
	s     *Scheduler
	now   time.Time
	pcs   []*pc
	calls map[CallID]time.Duration // of those that have not ended: how long they run
	begun map[CallID]int           // that have a slot now: on how many nodes
	next  CallID
	tick  time.Time // next tick of the hub, while calls wait beside an idle node
	stats dayStats
	seed  uint64
}

type dayStats struct {
	calls, pauses, returns, vanished int
	disturbed, starved               time.Duration // longest
}

const dayPolicyOfHours = `use none when battery
use 2 slots when hours 20:00-07:00
use 50% when idle 5m and others below 25%
use all when idle 15m
pause 2m
settle 10s
`

func dayPolicy(t *testing.T, n int) *policy.Policy {
	text := dayPolicyOfHours
	if names := policy.BuiltinNames(); n < len(names) {
		text, _ = policy.BuiltinText(names[n])
	}
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newGrid(t *testing.T, seed uint64) *grid {
	g := &grid{Rand: rand.New(rand.NewPCG(seed, 22)), t: t, seed: seed, s: New(Config{}), now: epoch,
		calls: map[CallID]time.Duration{}, begun: map[CallID]int{}}
	g.handle(SessionOpen{Session: 1})
	for i := range 2 + g.IntN(4) {
		n := &pc{id: NodeID(fmt.Sprint("pc", i)), rules: dayPolicy(t, g.IntN(4)), slots: 1 + g.IntN(4),
			input: g.now, change: g.now, facts: &policy.Facts{
				Idle: policy.Say(time.Duration(0), ""), Others: policy.Say(5.0, ""), MemoryPressure: policy.Say(0.0, ""),
				Battery: policy.Say(false, ""), FullScreen: policy.Say(false, "")}}
		g.pcs = append(g.pcs, n)
		g.rise(n)
	}
	return g
}

// rise starts a PC's agent, which connects.
func (g *grid) rise(n *pc) {
	n.up, n.m, n.runs, n.waiting = true, policy.NewMachine(n.rules, n.slots), map[Fence]*run{}, nil
	n.look, n.looked = g.now, time.Time{}
	g.handle(NodeUp{Node: n.id, Slots: n.slots, Memory: 1})
	g.ask(n)
}

// vanish ends it: the PC sleeps, or its lid is closed, or its plug is pulled.
func (g *grid) vanish(n *pc) {
	n.up, n.over, n.free = false, time.Time{}, time.Time{}
	g.stats.vanished++
	for _, r := range n.runs {
		g.leave(r.lease.Call)
	}
	n.runs, n.waiting = nil, nil
	g.handle(NodeDown{n.id})
}

func (g *grid) ask(n *pc) {
	g.handle(Ask{Node: n.id, Slots: max(n.m.Allowed().Slots-len(n.runs), 0), Memory: 1})
}

func (g *grid) pc(id NodeID) *pc {
	return g.pcs[slices.IndexFunc(g.pcs, func(n *pc) bool { return n.id == id })]
}

// handle passes an event to the scheduler and does what it says.
func (g *grid) handle(ev Event) {
	var asks []*pc
	for _, a := range g.s.Handle(g.now, ev) {
		switch a := a.(type) {
		case Grant:
			n := g.pc(a.Lease.Node)
			n.waiting = append(n.waiting, a.Lease)
			g.begin(n)
		case Cancel:
			n := g.pc(a.Lease.Node)
			n.waiting = slices.DeleteFunc(n.waiting, func(l Lease) bool { return l.Fence == a.Lease.Fence })
			if n.runs[a.Lease.Fence] != nil {
				g.end(n, a.Lease.Fence)
				asks = append(asks, n)
			}
		case Commit:
			delete(g.calls, a.Lease.Call)
		case FailCall:
			g.t.Fatalf("day %d, %v: call %d failed: %s", g.seed, g.now.Sub(epoch), a.Call, a.Why)
		}
	}
	for _, n := range asks {
		g.ask(n)
	}
}

// begin gives the free slots to the leases that wait, as the agent's pool does.
func (g *grid) begin(n *pc) {
	for len(n.runs) < n.m.Allowed().Slots {
		at := slices.IndexFunc(n.waiting, func(l Lease) bool { return !n.holds(l.After) })
		if at < 0 {
			break
		}
		l := n.waiting[at]
		n.waiting = slices.Delete(n.waiting, at, at+1)
		if len(n.runs) == 0 { // the agent looks at once, but not twice a second
			n.look = later(n.looked.Add(lookEvery), g.now)
		}
		n.runs[l.Fence] = &run{lease: l, left: g.calls[l.Call], since: g.now}
		g.begun[l.Call]++
		g.apply(n, n.m.Start(g.now, uint64(l.Fence), true))
	}
	if len(n.stuck()) > 0 {
		n.look = earlier(n.look, g.now.Add(n.every()))
	}
}

func (n *pc) holds(f Fence) bool {
	return f != 0 && (n.runs[f] != nil || slices.ContainsFunc(n.waiting, func(l Lease) bool { return l.Fence == f }))
}

func later(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

// end takes a program away.
func (g *grid) end(n *pc, f Fence) {
	g.leave(n.runs[f].lease.Call)
	delete(n.runs, f)
	g.apply(n, n.m.End(g.now, uint64(f)))
	g.begin(n)
}

func (g *grid) leave(c CallID) {
	if g.begun[c]--; g.begun[c] == 0 {
		delete(g.begun, c)
	}
}

func (g *grid) apply(n *pc, list []policy.Action) {
	for _, a := range list {
		r := n.runs[Fence(a.ID)]
		switch a.Do {
		case policy.Pause:
			r.left -= g.now.Sub(r.since)
			r.paused, r.since = true, g.now
			g.stats.pauses++
		case policy.Resume:
			r.paused, r.since = false, g.now
		case policy.Return:
			if g.now.Sub(r.since) < n.rules.Pause {
				g.t.Fatalf("day %d, %v: %s returns a call that was paused for %v", g.seed, g.now.Sub(epoch), n.id, g.now.Sub(r.since))
			}
			g.stats.returns++
			g.end(n, r.lease.Fence)
			g.giveBack(n, r.lease)
			g.ask(n)
		}
	}
}

func (g *grid) giveBack(n *pc, l Lease) {
	g.handle(CallFailed{Node: n.id, Call: l.Call, Fence: l.Fence, Kind: Returned, Why: "the owner needs the computer"})
}

// lookAt is a look of the agent.
func (g *grid) lookAt(n *pc) {
	before := n.m.Allowed()
	g.apply(n, n.m.Step(g.now, n.factsAt(g.now)))
	after := n.m.Allowed()
	back := n.stuck()
	if after.Slots < before.Slots {
		back = slices.Clone(n.waiting)
	}
	for _, l := range back {
		n.waiting = slices.DeleteFunc(n.waiting, func(o Lease) bool { return o.Fence == l.Fence })
		g.giveBack(n, l)
	}
	if after != before {
		g.begin(n)
		g.ask(n)
	}
	n.looked = g.now
	n.planLook(g.now)
}

// stuck lists the leases that wait for no other lease, on a PC whose owner needs a part.
func (n *pc) stuck() (list []Lease) {
	allowed := n.m.Allowed().Slots
	for _, l := range n.waiting {
		if allowed < n.slots && len(n.runs) >= allowed && !n.holds(l.After) {
			list = append(list, l)
		}
	}
	return list
}

// every is how often the agent looks now.
func (n *pc) every() time.Duration {
	if len(n.runs) > 0 {
		return lookEvery
	}
	return lookSeldom
}

// planLook finds the next look that can change anything; all others see what the last saw.
func (n *pc) planLook(now time.Time) {
	every := n.every()
	next := n.change
	sooner := func(at time.Time) {
		if at.After(now) && at.Before(next) {
			next = at
		}
	}
	if n.rules.Asks(policy.Hours) {
		sooner(now.Truncate(time.Minute).Add(time.Minute))
	}
	for _, r := range n.rules.Rules {
		for _, t := range r.When {
			if t.Kind == policy.Idle && !n.present {
				sooner(n.input.Add(t.For))
			}
		}
	}
	for _, r := range n.runs {
		if r.paused {
			sooner(r.since.Add(n.rules.Pause))
		}
	}
	n.look = now.Add(every)
	if n.rules.Decide(n.factsAt(now), n.slots) == n.m.Allowed() && len(n.stuck()) == 0 { // nothing settles
		if skip := next.Sub(n.look); skip > 0 {
			n.look = n.look.Add((skip + every - 1) / every * every)
		}
	}
}

func (n *pc) factsAt(now time.Time) *policy.Facts {
	if n.present {
		n.input = now
	}
	n.facts.Time, n.facts.Idle.Value = now, now.Sub(n.input)
	return n.facts
}

// act is something that the owner does.
func (g *grid) act(n *pc) {
	n.factsAt(g.now)
	switch g.IntN(10) {
	case 0, 1, 2, 3:
		n.present = !n.present
		n.factsAt(g.now)
	case 4:
		n.facts.Battery.Value = g.IntN(4) == 0
	case 5:
		n.facts.FullScreen.Value = n.present && g.IntN(2) == 0
	case 6:
		n.facts.Others.Value = g.Float64() * 100
	case 7:
		n.facts.MemoryPressure.Value = g.Float64() * 30
	case 8:
		if n.up {
			g.vanish(n)
		}
	case 9:
		n.facts.Others.Value = 5
	}
	n.change = g.now.Add(time.Duration(g.ExpFloat64() * float64(20*time.Minute)))
	switch {
	case !n.up && g.IntN(2) == 0:
		g.rise(n)
	case n.up:
		every, since := n.every(), g.now.Sub(n.looked)
		n.look = n.looked.Add((since + every - 1) / every * every) // the looks went on meanwhile
	}
}

// submit makes some calls, so that at times there is too much work, and at times none.
func (g *grid) submit() {
	for range g.IntN(12) {
		g.next++
		g.stats.calls++
		g.calls[g.next] = time.Second + time.Duration(g.ExpFloat64()*float64(10*time.Minute))
		g.handle(CallQueued{Call: g.next, Session: 1, Function: 1})
	}
}

// check compares all promises with what is.
func (g *grid) check() {
	hungry := len(g.calls) > len(g.begun)
	for _, n := range g.pcs {
		if !n.up {
			continue
		}
		may := n.rules.Decide(n.factsAt(g.now), n.slots).Slots
		on := 0
		for _, r := range n.runs {
			if !r.paused {
				on++
			} else if d := g.now.Sub(r.since); d > n.rules.Pause+lookEvery {
				g.t.Fatalf("day %d, %v: %s pauses a call for %v", g.seed, g.now.Sub(epoch), n.id, d)
			}
		}
		longest(g.now, &n.over, on > may, &g.stats.disturbed)
		longest(g.now, &n.free, hungry && may > 0 && len(n.runs) == 0, &g.stats.starved)
	}
	if g.stats.disturbed > lookEvery {
		g.t.Fatalf("day %d, %v: an owner was disturbed for %v", g.seed, g.now.Sub(epoch), g.stats.disturbed)
	}
	if g.stats.starved > starveMax {
		g.t.Fatalf("day %d, %v: calls waited for %v while a node was idle", g.seed, g.now.Sub(epoch), g.stats.starved)
	}
}

// longest notes for how long something has been so.
func longest(now time.Time, since *time.Time, is bool, most *time.Duration) {
	switch {
	case !since.IsZero():
		*most = max(*most, now.Sub(*since))
		if !is {
			*since = time.Time{}
		}
	case is:
		*since = now
	}
}

// live passes until end: each round goes to the next event of anybody.
func (g *grid) live(end time.Time) {
	work := g.now
	for g.now.Before(end) {
		next := work
		for _, n := range g.pcs {
			next = earlier(next, n.change)
			if n.up {
				next = earlier(next, n.look)
			}
			for _, r := range n.runs {
				if n.up && !r.paused {
					next = earlier(next, r.since.Add(r.left))
				}
			}
		}
		if slices.ContainsFunc(g.pcs, func(n *pc) bool { return !n.free.IsZero() }) {
			next = earlier(next, later(g.tick, g.now))
		}
		g.now = next
		if !g.now.Before(work) {
			work = g.now.Add(time.Duration(g.ExpFloat64() * float64(15*time.Minute)))
			g.submit()
		}
		for _, n := range g.pcs {
			g.turn(n)
		}
		if !g.now.Before(g.tick) { // the hub's: nodes that are up beat
			for _, n := range g.pcs {
				if n.up {
					g.handle(Beat{Node: n.id, Leases: n.fences()})
				}
			}
			g.handle(Tick{})
			g.tick = g.now.Add(time.Second)
		}
		g.check()
	}
}

// turn does what is due on a PC.
func (g *grid) turn(n *pc) {
	for _, f := range slices.Sorted(maps.Keys(n.runs)) {
		r := n.runs[f]
		if !n.up || r == nil || r.paused || r.since.Add(r.left).After(g.now) {
			continue
		}
		g.end(n, f)
		g.handle(CallDone{Node: n.id, Call: r.lease.Call, Fence: f})
		g.ask(n)
	}
	if !n.change.After(g.now) {
		g.act(n)
	}
	if n.up && !n.look.After(g.now) {
		g.lookAt(n)
	}
}

func (n *pc) fences() (list []Fence) {
	for f := range n.runs {
		list = append(list, f)
	}
	for _, l := range n.waiting {
		list = append(list, l.Fence)
	}
	return list
}

func earlier(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }

// The owner of no PC is disturbed for longer than a look takes, no call waits while an
// idle PC could run it, none is lost, and none fails for what owners do.
func TestOwnersDays(t *testing.T) {
	days := 20
	if text := os.Getenv(daysVariable); text != "" {
		var err error
		if days, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	var sum dayStats
	for n := range days {
		g := newGrid(t, uint64(n))
		g.live(epoch.Add(24 * time.Hour))
		if t.Failed() {
			t.Fatalf("day %d", n)
		}
		s := &g.stats
		sum = dayStats{sum.calls + s.calls, sum.pauses + s.pauses, sum.returns + s.returns, sum.vanished + s.vanished,
			max(sum.disturbed, s.disturbed), max(sum.starved, s.starved)}
	}
	t.Logf("%d days: %d calls, %d pauses, %d returns, %d nodes vanished; an owner was disturbed for at most %v, a call waited beside an idle node for at most %v",
		days, sum.calls, sum.pauses, sum.returns, sum.vanished, sum.disturbed, sum.starved)
	if sum.pauses == 0 || sum.returns == 0 || sum.vanished == 0 {
		t.Error("nothing was tried")
	}
}
