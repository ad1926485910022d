// SPDX-License-Identifier: MIT

package sched

import (
	"container/heap"
	"fmt"
	"slices"
	"testing"
	"time"
)

// A market simulates masters that share nodes, on a simulated clock. Its nodes keep
// idle workers like agents: one process per slot, for calls of its session only.
type market struct {
	t      *testing.T
	s      *Scheduler
	now    time.Time
	events timeline
	agents map[NodeID]*marketAgent
	think  time.Duration // from a result to the master's next call; < 0: it submits all calls at once
	length func(SessionID) time.Duration
	spare  int                         // idle workers that a node keeps beyond its slots
	slow   map[SessionID]time.Duration // masters that wait for each result, and think
	quiet  map[SessionID]bool          // masters that submit nothing more
	ran    func(SessionID, int)        // is told of each call that begins, +1, or ends, -1

	cancels bool // leases may be cancelled
	calls   CallID
	done    map[SessionID]int
	starts  int // of workers
	woken   int
}

type marketAgent struct {
	id    NodeID
	slots int
	taken int
	idle  []SessionID // sessions of the idle workers, the longest idle first
	wait  []Lease

	dropped []Fence
	running map[Fence]bool
}

type moment struct {
	at    time.Time
	order int
	do    func()
}

type timeline []moment

func (l timeline) Len() int { return len(l) }
func (l timeline) Less(i, j int) bool {
	return l[i].at.Before(l[j].at) || l[i].at.Equal(l[j].at) && l[i].order < l[j].order
}
func (l timeline) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l *timeline) Push(x any)   { *l = append(*l, x.(moment)) }
func (l *timeline) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

const (
	quantum   = 250 * time.Millisecond
	startTime = 10 * time.Millisecond // to end one worker and start another
	callTime  = 2 * time.Millisecond
	sendTime  = 200 * time.Microsecond // from the end of a call to the hub's next lease
)

func newMarket(t *testing.T, nodes, slots, masters int, think time.Duration) *market {
	m := &market{t: t, s: New(Config{Quantum: quantum, Hold: 5 * time.Millisecond}), now: epoch, agents: map[NodeID]*marketAgent{}, think: think,
		done: map[SessionID]int{}, length: func(SessionID) time.Duration { return callTime }, ran: func(SessionID, int) {}}
	for i := range masters {
		m.handle(SessionOpen{Session: SessionID(i + 1)})
	}
	m.start(nodes, slots, masters)
	return m
}

// start brings up the nodes, and each master submits its first calls.
func (m *market) start(nodes, slots, masters int) {
	for i := range nodes {
		a := &marketAgent{id: NodeID(fmt.Sprint("n", i)), slots: slots, running: map[Fence]bool{}}
		m.agents[a.id] = a
		m.handle(NodeUp{Node: a.id, Slots: slots, Memory: 1 << 40, Apart: true})
		m.askLease(a)
	}
	for i := range masters {
		for range 1 + 50*int(min(max(-m.think, 0), 1)) {
			m.submit(SessionID(i + 1))
		}
	}
}

func (m *market) scheduleAfter(d time.Duration, do func()) {
	heap.Push(&m.events, moment{m.now.Add(d), len(m.events), do})
}

func (m *market) submit(id SessionID) {
	m.calls++
	m.handle(CallQueued{Call: m.calls, Session: id, Worker: modA})
}

func (m *market) handle(ev Event) {
	for _, a := range m.s.Handle(m.now, ev) {
		switch a := a.(type) {
		case Grant:
			m.leaseGranted(m.agents[a.Lease.Node], a.Lease)
		case Wake:
			m.woken++
			m.scheduleAfter(a.At.Sub(m.now), func() { m.handle(Woken{}) })
		case Commit:
			m.done[a.Lease.Session]++
			m.submitNext(a.Lease.Session)
		case Cancel:
			if !m.cancels {
				m.t.Fatalf("a lease was cancelled: %+v", a.Lease)
			}
			m.drop(m.agents[a.Lease.Node], a.Lease)
		}
	}
}

// submitNext submits a master's next call after a result.
func (m *market) submitNext(id SessionID) {
	after, slow := m.slow[id]
	switch {
	case m.quiet[id] || slow && len(m.s.bySess[id].live) > 0: // a burst of its ends first
	case slow:
		m.scheduleAfter(after, func() { m.submit(id) })
	default:
		m.scheduleAfter(max(m.think, 0), func() { m.submit(id) })
	}
}

func (m *market) leaseGranted(a *marketAgent, l Lease) {
	if a.running[l.After] {
		a.wait = append(a.wait, l)
		return
	}
	a.running[l.Fence] = true
	a.taken++
	if a.taken > a.slots {
		m.t.Fatalf("%d leases run on %d slots", a.taken, a.slots)
	}
	m.ran(l.Session, 1)
	length := m.length(l.Session)
	if !a.reuseWorker(l.Session) {
		m.starts++
		length += startTime
		if len(a.idle)+a.taken > a.slots+m.spare {
			a.idle = a.idle[1:]
		}
	}
	m.scheduleAfter(length, func() { m.leaseFinished(a, l) })
}

func (a *marketAgent) reuseWorker(id SessionID) bool {
	for i := len(a.idle) - 1; i >= 0; i-- {
		if a.idle[i] == id {
			a.idle = append(a.idle[:i], a.idle[i+1:]...)
			return true
		}
	}
	return false
}

// drop ends a lease. The result of one that runs is not reported.
func (m *market) drop(a *marketAgent, l Lease) {
	a.wait = slices.DeleteFunc(a.wait, func(o Lease) bool { return o.Fence == l.Fence })
	a.dropped = append(a.dropped, l.Fence)
	if a.running[l.Fence] {
		m.ran(l.Session, -1)
	}
}

func (m *market) leaseFinished(a *marketAgent, l Lease) {
	a.taken--
	if !slices.Contains(a.dropped, l.Fence) {
		m.ran(l.Session, -1)
	}
	delete(a.running, l.Fence)
	a.idle = append(a.idle, l.Session)
	if at := slices.IndexFunc(a.wait, func(o Lease) bool { return o.After == l.Fence }); at >= 0 {
		next := a.wait[at]
		a.wait = slices.Delete(a.wait, at, at+1)
		m.leaseGranted(a, next)
	}
	m.scheduleAfter(sendTime, func() {
		if slices.Contains(a.dropped, l.Fence) {
			m.askLease(a)
			return
		}
		m.handle(CallDone{Node: a.id, Call: l.Call, Fence: l.Fence, Duration: callTime})
		m.askLease(a)
	})
}

func (m *market) askLease(a *marketAgent) {
	ev := Ask{Node: a.id, Slots: a.slots - a.taken, Memory: 1 << 40}
	for _, id := range a.idle {
		ev.Idle = append(ev.Idle, Idle{id, modA})
	}
	m.handle(ev)
}

// run advances the clock by d and returns how many calls ended meanwhile.
func (m *market) run(d time.Duration) (all int) {
	for end := m.now.Add(d); len(m.events) > 0 && m.events[0].at.Before(end); {
		next := heap.Pop(&m.events).(moment)
		m.now = next.at
		next.do()
	}
	for _, n := range m.done {
		all += n
	}
	return all
}

// checkEvenShares fails if a session's share differs from the fair one by more than a
// tenth.
func (m *market) checkEvenShares(all int) {
	m.t.Helper()
	share := float64(all) / float64(len(m.s.sessions))
	for _, ss := range m.s.sessions {
		if n := float64(m.done[ss.id]); n < 0.9*share || n > 1.1*share {
			m.t.Errorf("session %d: %v calls, its share are %.0f", ss.id, n, share)
		}
	}
}

// Many masters together complete as many calls as one master, and each gets its share,
// whether they wait for each result or submit all calls at once.
func TestMastersShareByQuanta(t *testing.T) {
	for _, c := range []struct {
		nodes, slots, masters int
	}{{1, 1, 4}, {1, 2, 4}, {1, 2, 16}, {4, 2, 16}, {3, 2, 4}, {4, 1, 3}, {2, 2, 3}} {
		for _, think := range []time.Duration{-1, 0, 3 * time.Millisecond} {
			t.Run(fmt.Sprintf("%d nodes of %d, %d masters, think %v", c.nodes, c.slots, c.masters, think), func(t *testing.T) {
				slots := c.nodes * c.slots
				m := newMarket(t, c.nodes, c.slots, c.masters, think)
				span := time.Duration(max(10*c.masters/slots, 10)) * quantum // ten quanta for each master
				all := m.run(span)
				m.checkEvenShares(all)
				one := newMarket(t, c.nodes, c.slots, 1, think).run(span)
				if think >= 0 {
					one *= min(slots, c.masters) // a master that waits for each result uses one slot
				}
				t.Logf("%d calls, %d by one; %d workers started, woken %d times", all, one, m.starts, m.woken)
				if float64(all) < 0.9*float64(one) {
					t.Errorf("%d masters did %d calls, one alone %d", c.masters, all, one)
				}
				if most := int(span/quantum+2) * slots * 5 / 4; m.starts > most {
					t.Errorf("%d workers were started in %v on %d slots", m.starts, span, slots)
				}
			})
		}
	}
}

// Masters that have a slot each do not exchange them, which would start workers for nothing.
func TestEvenMastersKeepTheirSlots(t *testing.T) {
	for _, c := range []struct{ nodes, slots, masters int }{{1, 2, 2}, {2, 2, 4}, {3, 1, 3}, {1, 4, 2}} {
		for _, think := range []time.Duration{-1, 0, 3 * time.Millisecond} {
			t.Run(fmt.Sprintf("%d nodes of %d, %d masters, think %v", c.nodes, c.slots, c.masters, think), func(t *testing.T) {
				m := newMarket(t, c.nodes, c.slots, c.masters, think)
				all := m.run(20 * quantum)
				m.checkEvenShares(all)
				// At the beginning the first one may get slots that others take.
				if most := 2 * c.nodes * c.slots; m.starts > most {
					t.Errorf("%d workers were started on %d slots", m.starts, c.nodes*c.slots)
				}
			})
		}
	}
}

// A slot is not reserved for a master that takes long between calls, or that has
// disconnected.
func TestSeatsAreReleased(t *testing.T) {
	m := newMarket(t, 1, 1, 2, 0)
	m.run(100 * time.Millisecond)
	m.think = time.Second // holds for each master after its next result
	before := m.done[1] + m.done[2]
	m.run(10 * time.Second)
	if n := m.done[1] + m.done[2] - before; n < 16 {
		t.Errorf("%d calls in 10 s from two masters that call once a second", n)
	}
	s := New(Config{})
	for _, st := range []step{
		{0, SessionOpen{Session: 1}, nil}, {0, SessionOpen{Session: 2}, nil}, {0, nodeUp("a", 1), nil}, {0, askSlots("a", 1), nil},
		{0, submitCall(1, 1, modA), []string{"grant 1 to a #1"}}, {0, submitCall(2, 2, modA), nil},
		{0.1, callDone("a", 1, 1), []string{"commit 1 #1"}},
		{0.1, askSlots("a", 1), []string{"wake at 200ms"}}, // reserved for session 1
		{0.11, SessionClose{1}, []string{"grant 2 to a #2"}},
	} {
		at := epoch.Add(time.Duration(st.at * float64(time.Second)))
		var got []string
		for _, a := range s.Handle(at, st.ev) {
			got = append(got, formatAction(a))
		}
		if fmt.Sprint(got) != fmt.Sprint(st.want) {
			t.Errorf("at %v, %#v: got %q, want %q", st.at, st.ev, got, st.want)
		}
	}
}

// A new master does not wait for the end of a quantum if another master has more slots.
func TestNewMasterIsServedAtOnce(t *testing.T) {
	m := newMarket(t, 1, 4, 1, -1)
	m.run(50 * time.Millisecond)
	m.handle(SessionOpen{Session: 2})
	for range 50 {
		m.submit(2)
	}
	m.run(50 * time.Millisecond)
	if m.done[2] == 0 {
		t.Error("a newcomer waited for the quantum of another that had all the slots")
	}
}
