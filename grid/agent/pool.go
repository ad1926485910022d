// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"skep/grid/proto"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// A pool keeps idle workers for calls to come and bounds how many processes
// there are. mu guards all.
type pool struct {
	mu      sync.Mutex
	slots   int
	taken   int       // slots with a call, a worker that starts, or a program; they may be more than slots
	begun   int       // of them, the operator's programs, which wait for no slot
	waiting []*turn   // leases without a slot, the oldest first
	idle    []*worker // the longest idle first
	homes   []*worker // of objects, between two methods; they are not among the idle
	all     map[*worker]bool
	live    map[string]bool // sessions that were not released since their first lease
	leases  map[uint64]bool // fences that have not ended
	spare   func() int      // how many idle workers may be kept beyond the slots; nil: none
}

// Sessions that take turns at a slot find their workers again at their next turn: a start costs
// as much processor time as many small calls. A worker that is kept for that holds memory.
const (
	spareMax = 32
	spareFor = 30 * time.Second // longer than the turns of spareMax sessions on two slots
)

// A turn is a lease that waits for a slot; ready is closed when it has one.
type turn struct {
	lease           *proto.Lease
	ready           chan struct{}
	worker, evicted *worker
	refused         bool
}

// errTaken says why a lease was given back. It does not count as an attempt.
var errTaken = failf(proto.ReasonCancelled, uapi.ECancelled, "the operator's program took the slot")

func newPool(slots int) *pool {
	return &pool{slots: slots, all: map[*worker]bool{}, live: map[string]bool{}, leases: map[uint64]bool{}}
}

// open records a lease and its session.
func (p *pool) open(l *proto.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[l.Session] = true
	p.leases[l.Fence] = true
}

// close ends a lease that finishLease has not ended.
func (p *pool) close(l *proto.Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.leases, l.Fence)
	p.handOut()
}

// sessionNames lists the sessions that may have workers or data here.
func (p *pool) sessionNames() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.live))
}

// acquire waits for a slot and returns a fitting idle worker, or nil if the caller
// is to start one. evicted is an idle worker that has to end first. An error means that ctx
// ended and that the caller has no slot. An extra lease needs none.
func (p *pool) acquire(ctx context.Context, l *proto.Lease) (w, evicted *worker, err error) {
	p.mu.Lock()
	if l.Extra {
		defer p.mu.Unlock()
		return p.takeIdleFor(l), nil, nil
	}
	t := &turn{lease: l, ready: make(chan struct{})}
	p.waiting = append(p.waiting, t)
	p.handOut()
	p.mu.Unlock()
	select {
	case <-t.ready:
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		if at := slices.Index(p.waiting, t); at >= 0 {
			p.waiting = slices.Delete(p.waiting, at, at+1)
			return nil, nil, ctx.Err()
		}
	}
	if t.refused {
		return nil, nil, errTaken
	}
	return t.worker, t.evicted, nil
}

// countPrograms says that programs begin that wait for no slot, or that they have ended.
func (p *pool) countPrograms(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken += n
	p.begun += n
	p.handOut()
}

// handOut assigns free slots to the oldest waiting leases. A lease that the hub granted for
// the slot of another one waits until that has ended, because then a worker of its session
// is idle. A lease whose slot a program took is given back, because the hub takes it for running,
// and nobody knows when the program ends. The lock is held.
func (p *pool) handOut() {
	lockdep.AssertHeld(&p.mu)
	for p.taken < p.slots || p.begun > 0 {
		at := slices.IndexFunc(p.waiting, func(t *turn) bool { return !p.leases[t.lease.After] })
		if at < 0 {
			return
		}
		t := p.waiting[at]
		p.waiting = slices.Delete(p.waiting, at, at+1)
		if p.taken >= p.slots {
			t.refused = true
			close(t.ready)
			continue
		}
		p.taken++
		if t.worker = p.takeIdleFor(t.lease); t.worker == nil {
			t.evicted = p.takeIdleAt(p.findLeast(t.lease))
		}
		close(t.ready)
	}
}

// kept returns how many workers there may be. The lock is held.
func (p *pool) kept() int {
	lockdep.AssertHeld(&p.mu)
	if p.spare == nil {
		return p.slots
	}
	return p.slots + p.spare()
}

// findLeast finds the idle worker that has to end before one starts for a lease, or -1. It is one
// that the lease's session initialized before it initialized the lease's, else the longest idle.
func (p *pool) findLeast(l *proto.Lease) int {
	all := p.taken + len(p.idle)
	if len(p.idle) == 0 || all <= p.slots {
		return -1
	}
	former := slices.IndexFunc(p.idle, func(w *worker) bool {
		return w.session == l.Session && w.id.Module == l.Worker.Module && w.id.Init != l.Worker.Init
	})
	if former < 0 && all > p.kept() {
		return 0
	}
	return former
}

// takeSpare removes idle workers beyond the slots: those that nobody used since before, and
// those for which there is no room any more. The caller ends them.
func (p *pool) takeSpare(before time.Time) (list []*worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for kept := p.kept(); len(p.idle) > 0; p.idle = slices.Delete(p.idle, 0, 1) {
		all := p.taken + len(p.idle)
		if all <= p.slots || all <= kept && !p.idle[0].since.Before(before) {
			break
		}
		list = append(list, p.idle[0])
	}
	return list
}

// takeIdleFor takes the worker that a lease finds idle, or returns nil. The lock is held.
func (p *pool) takeIdleFor(l *proto.Lease) *worker {
	if l.Worker.Object != 0 {
		return p.takeHome(l.Session, l.Worker.Object)
	}
	return p.takeIdleAt(p.findIdle(l))
}

// takeIdleAt takes an idle worker by its number; -1 is none. The lock is held.
func (p *pool) takeIdleAt(i int) *worker {
	lockdep.AssertHeld(&p.mu)
	if i < 0 {
		return nil
	}
	w := p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	return w
}

// findIdle finds the worker that was idle last and can take a lease, or -1.
func (p *pool) findIdle(l *proto.Lease) int {
	for i := len(p.idle) - 1; i >= 0; i-- {
		if w := p.idle[i]; w.session == l.Session && w.id == l.Worker && w.limits == l.Limits {
			return i
		}
	}
	return -1
}

// addWorker records a new worker. It returns false if its session was released meanwhile.
func (p *pool) addWorker(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[w] = true
	return p.live[w.session]
}

// finishLease ends a lease that had a slot or needed none, and frees the slot. w becomes idle, unless it is
// nil or its session was released; then keep is false.
func (p *pool) finishLease(l *proto.Lease, w *worker) (keep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.leases, l.Fence)
	if !l.Extra {
		p.taken--
	}
	if keep = w != nil && p.live[w.session]; keep {
		w.since = time.Now()
		list := p.listOf(w)
		*list = append(*list, w)
	}
	p.handOut()
	return keep
}

// removeWorker removes a worker that ended.
func (p *pool) removeWorker(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, w)
	list := p.listOf(w)
	*list = slices.DeleteFunc(*list, func(o *worker) bool { return o == w })
}

// releaseSession ends a session and returns its workers; "" returns the workers of all sessions.
func (p *pool) releaseSession(session string) []*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, session)
	var list []*worker
	for w := range p.all {
		if session == "" || w.session == session {
			list = append(list, w)
		}
	}
	return list
}

// setSlots sets how many calls may run. More that run already go on.
func (p *pool) setSlots(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots = n
	p.handOut()
}

// stuck lists, by fence, the leases that wait for a slot and for no other lease.
func (p *pool) stuck() (fences []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.waiting {
		if !p.leases[t.lease.After] {
			fences = append(fences, t.lease.Fence)
		}
	}
	return fences
}

// takeIdle removes the idle workers and those of objects; the caller ends them.
func (p *pool) takeIdle() []*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := slices.Concat(p.idle, p.homes)
	p.idle, p.homes = nil, nil
	return idle
}

// snapshot returns the state for an ask message.
func (p *pool) snapshot() (free int, idle []proto.Idle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0 && len(idle) < proto.IdleMax; i-- {
		idle = append(idle, proto.Idle{Session: p.idle[i].session, Worker: p.idle[i].id})
	}
	return max(p.slots-p.taken, 0), idle
}
