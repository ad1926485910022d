// SPDX-License-Identifier: MIT

package sched

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// sim simulates volatile nodes around a scheduler. It keeps its own record from the
// actions alone and compares the scheduler's state with it.
type sim struct {
	t     *testing.T
	r     *rand.Rand
	s     *Scheduler
	now   time.Time
	nodes []*simNode
	calls map[CallID]*simCall
	held  map[SessionID]int // leases of each session
	runs  map[SessionID]int // running leases of each session
	fence Fence
	most  int        // limit on the number of calls
	same  bool       // all calls are equal, so fairness can be checked
	away  bool       // nodes come back to what they have
	twin  *Scheduler // a second implementation to compare with, or nil
}

type simNode struct {
	id     NodeID
	up     bool
	mute   bool // up but silent
	slots  int
	memory uint64
	leases map[Fence]Lease // leases that the scheduler should count on this node
	ahead  []Lease         // those of them that wait, in order
	work   map[Fence]Lease // leases that the node itself holds, revoked or not
}

type simCall struct {
	id      CallID
	session SessionID
	memory  uint64
	current map[Fence]bool
	done    int
	failed  int
	closed  bool
	waiting bool
}

func newSim(t *testing.T, seed uint64) *sim {
	m := &sim{
		t: t, r: rand.New(rand.NewPCG(seed, 1)), s: New(Config{Losses: 1 << 30, Hold: 1, Keep: -1}), now: epoch,
		calls: map[CallID]*simCall{}, held: map[SessionID]int{}, runs: map[SessionID]int{},
		most: 300, same: seed%2 == 0,
	}
	for i := range 2 + m.r.IntN(6) {
		m.nodes = append(m.nodes, &simNode{
			id: NodeID('a' + rune(i)), slots: 1 + m.r.IntN(4), memory: 100,
			leases: map[Fence]Lease{}, work: map[Fence]Lease{},
		})
	}
	return m
}

func (m *sim) nodeByID(id NodeID) *simNode {
	for _, n := range m.nodes {
		if n.id == id {
			return n
		}
	}
	m.t.Fatalf("no node %q", id)
	return nil
}

func (m *sim) handle(ev Event) []Action {
	out := m.s.Handle(m.now, ev)
	if m.twin != nil {
		if other := m.twin.Handle(m.now, ev); !reflect.DeepEqual(out, other) {
			m.t.Fatalf("%#v:\n%+v, and its twin\n%+v", ev, out, other)
		}
	}
	for _, a := range out {
		m.accountAction(a)
	}
	m.checkNodes()
	return out
}

func (m *sim) accountAction(a Action) {
	switch a := a.(type) {
	case Grant:
		m.leaseGranted(a.Lease)
	case Cancel:
		m.leaseEnded(a.Lease)
		delete(m.nodeByID(a.Lease.Node).work, a.Lease.Fence)
	case Requeued:
		m.leaseEnded(a.Lease)
		c := m.calls[a.Lease.Call]
		c.waiting = len(c.current) == 0
	case Commit:
		c := m.calls[a.Lease.Call]
		if !c.current[a.Lease.Fence] {
			m.t.Fatalf("call %d committed with old number %d", c.id, a.Lease.Fence)
		}
		m.leaseEnded(a.Lease)
		c.done++
	case FailCall:
		c := m.calls[a.Call]
		c.failed++
		c.waiting = false
		for f := range c.current {
			m.leaseEnded(m.leaseByFence(f))
		}
	}
}

func (m *sim) leaseByFence(f Fence) Lease {
	for _, n := range m.nodes {
		if l, ok := n.leases[f]; ok {
			return l
		}
	}
	m.t.Fatalf("no lease %d", f)
	return Lease{}
}

func (m *sim) leaseGranted(l Lease) {
	n, c := m.nodeByID(l.Node), m.calls[l.Call]
	if l.Fence <= m.fence {
		m.t.Fatalf("number %d after %d", l.Fence, m.fence)
	}
	m.fence = l.Fence
	if !n.up {
		m.t.Fatalf("lease to node %s that is away", n.id)
	}
	if c.done+c.failed > 0 || c.closed {
		m.t.Fatalf("call %d granted after its end", c.id)
	}
	if l.Copy != (len(c.current) > 0) || len(c.current) >= m.s.cfg.Copies {
		m.t.Fatalf("call %d has %d leases, copy %v", c.id, len(c.current), l.Copy)
	}
	if m.same && c.waiting && !l.Ahead {
		m.checkFairness(c)
	}
	c.waiting = false
	c.current[l.Fence] = true
	m.held[c.session]++
	if l.Ahead {
		n.ahead = append(n.ahead, l)
	} else {
		m.runs[c.session]++
	}
	n.leases[l.Fence] = l
	n.work[l.Fence] = l
}

// checkFairness checks that no other waiting session has fewer slots. A difference of one
// is allowed, for a slot that is free for a moment.
func (m *sim) checkFairness(c *simCall) {
	has := m.promisedSlots()
	for _, o := range m.calls {
		if had := has[c.session]; o.waiting && o.session != c.session && has[o.session] < had-1 {
			m.t.Fatalf("session %d with %d slots served before %d with %d", c.session, had, o.session, has[o.session])
		}
	}
}

// promisedSlots returns how many slots each session will have when the leases that wait
// for a running call have their slots.
func (m *sim) promisedSlots() map[SessionID]int {
	has := maps.Clone(m.runs)
	for _, n := range m.nodes {
		for _, l := range n.ahead {
			has[l.Session]++
			has[n.leases[l.After].Session]--
		}
	}
	return has
}

func (m *sim) leaseEnded(l Lease) {
	n := m.nodeByID(l.Node)
	if _, ok := n.leases[l.Fence]; !ok {
		return
	}
	delete(n.leases, l.Fence)
	c := m.calls[l.Call]
	delete(c.current, l.Fence)
	m.held[c.session]--
	if at := slices.IndexFunc(n.ahead, func(o Lease) bool { return o.Fence == l.Fence }); at >= 0 {
		n.ahead = slices.Delete(n.ahead, at, at+1)
		return
	}
	m.runs[c.session]--
	if at := slices.IndexFunc(n.ahead, func(o Lease) bool { return o.After == l.Fence }); at >= 0 {
		m.runs[n.ahead[at].Session]++ // it runs now
		n.ahead = slices.Delete(n.ahead, at, at+1)
	}
}

// checkNodes checks that slots and memory are not exceeded and that at most one lease
// waits per slot.
func (m *sim) checkNodes() {
	if why := m.s.checkIndex(); why != "" {
		m.t.Fatalf("the index of nodes: %s", why)
	}
	for _, n := range m.nodes {
		running, ahead := m.s.sumCounts(n.id)
		if running > n.slots || ahead > running || running+ahead != len(n.leases) {
			m.t.Fatalf("node %s of %d slots: %d running, %d ahead, %d leases", n.id, n.slots, running, ahead, len(n.leases))
		}
		if of := m.s.sumWaiting(n.id); of != ahead || m.s.Waiting(n.id, 0) != ahead {
			m.t.Fatalf("node %s: %d leases wait, those of the sessions are %d, and %d are ahead", n.id, m.s.Waiting(n.id, 0), of, ahead)
		}
		if used := m.s.sumMemory(n.id); used > n.memory {
			m.t.Fatalf("node %s: %d bytes of %d", n.id, used, n.memory)
		}
	}
}

// sumCounts counts a node's leases. sumMemory adds up the memory of its running leases.
func (s *Scheduler) sumCounts(id NodeID) (running, ahead int) {
	if n := s.byNode[id]; n != nil {
		return len(n.running), len(n.ahead)
	}
	return 0, 0
}

// sumWaiting adds up what the sessions wait for on a node. It is -1 if a call seems to wait
// that runs.
func (s *Scheduler) sumWaiting(id NodeID) (sum int) {
	for _, ss := range s.sessions {
		sum += s.Waiting(id, ss.id)
	}
	if n := s.byNode[id]; n != nil {
		for _, l := range n.running {
			if s.Waits(l.call.id) {
				return -1
			}
		}
	}
	return sum
}

func (s *Scheduler) sumMemory(id NodeID) (sum uint64) {
	if n := s.byNode[id]; n != nil {
		for _, l := range n.running {
			sum += l.call.memory
		}
		if sum != n.used {
			return 1 << 60
		}
	}
	return sum
}

func (m *sim) askLeases(n *simNode) {
	m.handle(Ask{Node: n.id, Slots: m.r.IntN(n.slots + 2), Memory: n.memory})
}

// fences lists what a node holds in the order of their numbers, so that a seed repeats a run.
func (n *simNode) fences() []Fence { return slices.Sorted(maps.Keys(n.work)) }

// anyFence chooses one of the leases that a node holds.
func (m *sim) anyFence(n *simNode) (f Fence, ok bool) {
	list := n.fences()
	if len(list) == 0 {
		return 0, false
	}
	return list[m.r.IntN(len(list))], true
}

func (m *sim) sendBeat(n *simNode) {
	m.handle(Beat{Node: n.id, Leases: n.fences()})
}

func (m *sim) nodeJoins(n *simNode) {
	n.up, n.mute = true, false
	if m.away && m.r.IntN(3) > 0 {
		m.handle(NodeUp{Node: n.id, Slots: n.slots, Memory: n.memory, Back: true, Leases: n.fences()})
		for f := range n.leases {
			if _, ok := n.work[f]; !ok {
				m.t.Fatalf("node %s is back without lease %d, which is kept", n.id, f)
			}
		}
		return
	}
	clear(n.work)
	m.handle(NodeUp{Node: n.id, Slots: n.slots, Memory: n.memory})
}

// finish ends one of the leases that the node holds, which may have been revoked.
func (m *sim) finish(n *simNode, fail int) {
	if f, ok := m.anyFence(n); ok {
		l := n.work[f]
		late := !m.calls[l.Call].current[f]
		var out []Action
		if m.r.IntN(100) < fail {
			kind := Returned
			if !m.same && m.r.IntN(3) > 0 {
				kind = WorkerDied
			}
			out = m.handle(CallFailed{
				Node: n.id, Call: l.Call, Fence: f, Kind: kind, Status: m.r.IntN(50), Why: "x",
			})
		} else {
			out = m.handle(CallDone{Node: n.id, Call: l.Call, Fence: f, Duration: time.Second})
		}
		_, refused := out[0].(Refuse)
		if refused != late {
			m.t.Fatalf("lease %d of %s: late %v, refused %v", f, n.id, late, refused)
		}
		delete(n.work, f)
	}
}

func (m *sim) submit() {
	c := &simCall{
		id: CallID(len(m.calls) + 1), session: SessionID(1 + m.r.IntN(3)), current: map[Fence]bool{}, waiting: true,
	}
	if !m.same {
		c.memory = m.r.Uint64N(102)
	}
	m.calls[c.id] = c
	m.handle(CallQueued{
		Call: c.id, Session: c.session, Memory: c.memory,
		Worker: Worker{Module: Digest{byte(m.r.IntN(2))}}, Function: uint32(m.r.IntN(2)),
	})
}

func (m *sim) cancel() {
	c := m.calls[CallID(1+m.r.IntN(len(m.calls)+1))]
	if c == nil || c.closed || c.done+c.failed > 0 {
		return
	}
	c.closed, c.waiting = true, false
	m.handle(CallCancel{c.id})
}

func (m *sim) step() {
	m.now = m.now.Add(time.Duration(m.r.IntN(700)) * time.Millisecond)
	n := m.nodes[m.r.IntN(len(m.nodes))]
	dice := m.r.IntN(100)
	switch {
	case dice < 25 && len(m.calls) < m.most:
		m.submit()
	case dice < 27:
		m.cancel()
	case dice < 30 && m.away:
		m.handle(NodeAway{n.id})
		n.up = false
	case dice < 30:
		m.handle(NodeDown{n.id})
		n.up = false
	case dice < 32 && n.up:
		n.mute = true
	case dice < 36:
		m.nodeJoins(n)
	case dice < 40:
		m.finish(n, 30) // a result can arrive after its connection has ended
	case dice < 45 && n.up:
		m.loseLease(n)
	case n.up && !n.mute:
		m.nodeStep(n)
	}
	m.handle(Tick{})
}

// loseLease drops a lease in transit, as when an agent crashes and restarts at once.
func (m *sim) loseLease(n *simNode) {
	if f, ok := m.anyFence(n); ok {
		delete(n.work, f)
	}
}

func (m *sim) nodeStep(n *simNode) {
	switch m.r.IntN(3) {
	case 0:
		m.askLeases(n)
	case 1:
		m.sendBeat(n)
	default:
		m.finish(n, 20)
	}
}

func (m *sim) open() (n int) {
	for _, c := range m.calls {
		if c.done+c.failed > 1 {
			m.t.Fatalf("call %d ended %d times", c.id, c.done+c.failed)
		}
		if c.done+c.failed == 0 && !c.closed {
			n++
		}
	}
	return n
}

// settleCalls leaves one working node; then every call must end.
func (m *sim) settleCalls() {
	for _, n := range m.nodes[1:] {
		m.handle(NodeDown{n.id})
		n.up = false
	}
	n := m.nodes[0]
	m.nodeJoins(n)
	for i := 0; m.open() > 0; i++ {
		if i > 20000 {
			m.t.Fatalf("%d calls never end", m.open())
		}
		m.now = m.now.Add(time.Second)
		m.handle(Ask{Node: n.id, Slots: n.slots, Memory: n.memory})
		m.sendBeat(n)
		m.finish(n, 0)
		m.handle(Tick{})
	}
	for id, held := range m.held {
		if held != 0 {
			m.t.Fatalf("session %d: %d leases at the end", id, held)
		}
		if m.runs[id] != 0 {
			m.t.Fatalf("session %d: %d calls run at the end", id, m.runs[id])
		}
	}
	if len(m.s.calls) != 0 || m.s.ahead != 0 {
		m.t.Fatalf("the scheduler still knows %d calls", len(m.s.calls))
	}
}

// TestVolatileNodes: nodes connect, disconnect, become silent, answer late and lose
// leases.
func TestVolatileNodes(t *testing.T) {
	seeds := uint64(80)
	if testing.Short() {
		seeds = 40
	}
	for seed := range seeds + 1 {
		if seed == seeds {
			seed = 512 // seats of a node that was lost counted
		}
		m := newSim(t, seed)
		for id := range 3 {
			m.handle(SessionOpen{Session: SessionID(id + 1)})
		}
		for range 1500 {
			m.step()
		}
		m.settleCalls()
	}
}

func TestClosedSessionsLeaveNothing(t *testing.T) {
	for seed := range uint64(50) {
		m := newSim(t, seed)
		for id := range 3 {
			m.handle(SessionOpen{Session: SessionID(id + 1)})
		}
		for range 400 {
			m.step()
		}
		for id := range 3 {
			for _, c := range m.calls {
				if c.session == SessionID(id+1) {
					c.closed, c.waiting = true, false
				}
			}
			m.handle(SessionClose{SessionID(id + 1)})
		}
		if len(m.s.calls)+len(m.s.sessions)+len(m.s.bySess)+m.s.ahead != 0 {
			t.Fatalf("seed %d: %d calls, %d sessions left", seed, len(m.s.calls), len(m.s.sessions))
		}
		for _, n := range m.s.nodes {
			if len(n.all()) != 0 || n.used != 0 {
				t.Fatalf("seed %d: node %s holds leases", seed, n.id)
			}
		}
	}
}

func BenchmarkCall(b *testing.B) {
	s := New(Config{})
	s.Handle(epoch, SessionOpen{Session: 1})
	for i := range 100 {
		id := NodeID(rune('a' + i))
		s.Handle(epoch, NodeUp{Node: id, Slots: 4, Memory: 1 << 30})
		s.Handle(epoch, Ask{Node: id, Slots: 1 << 30, Memory: 1 << 30})
	}
	for i := range b.N {
		id := CallID(i)
		l := s.Handle(epoch, CallQueued{Call: id, Session: 1})[0].(Grant).Lease
		s.Handle(epoch, CallDone{Node: l.Node, Call: id, Fence: l.Fence, Duration: 1})
	}
}
