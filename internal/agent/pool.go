// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"skep/internal/proto"
)

// A pool keeps idle workers for calls to come and bounds how many processes
// there are. mu guards all; freed tells that something in it changed.
type pool struct {
	mu    sync.Mutex
	freed chan struct{} // closed and replaced at each change
	slots int
	taken int       // slots with a call, or a worker that starts
	idle  []*worker // the longest idle first
	all   map[*worker]bool
	live  map[string]bool // sessions that were not released since their first lease
}

func newPool(slots int) *pool {
	return &pool{slots: slots, freed: make(chan struct{}), all: map[*worker]bool{}, live: map[string]bool{}}
}

// open enters the session of a lease.
func (p *pool) open(session string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[session] = true
}

// sessions lists those that may have something here.
func (p *pool) sessions() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.live))
}

func (p *pool) changed() {
	close(p.freed)
	p.freed = make(chan struct{})
}

// take waits for a slot and gives a fitting idle worker or, with nil, the
// right to start one. evicted is an idle worker that has to go first.
func (p *pool) take(ctx context.Context, l *proto.Lease) (w, evicted *worker, err error) {
	for {
		p.mu.Lock()
		if p.taken < p.slots {
			break
		}
		wait := p.freed
		p.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	defer p.mu.Unlock()
	p.taken++
	for i := len(p.idle) - 1; i >= 0; i-- {
		w := p.idle[i]
		if w.session == l.Session && w.id == l.Worker && w.limits == l.Limits {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			return w, nil, nil
		}
	}
	if len(p.idle) > 0 && p.taken+len(p.idle) > p.slots {
		evicted = p.idle[0]
		p.idle = p.idle[1:]
	}
	return nil, evicted, nil
}

// started enters a new worker; false: its session was released meanwhile.
func (p *pool) started(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[w] = true
	return p.live[w.session]
}

// give ends a call: the slot is free and w, if it lives on, is idle.
func (p *pool) give(w *worker) (keep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if keep = w != nil && p.live[w.session]; keep {
		w.used = time.Now()
		p.idle = append(p.idle, w)
	}
	p.changed()
	return keep
}

// forget removes a worker that ended.
func (p *pool) forget(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, w)
	for i, other := range p.idle {
		if other == w {
			p.idle = append(p.idle[:i], p.idle[i+1:]...)
			break
		}
	}
}

// release gives all workers of a session, which gets no more; "": of all.
func (p *pool) release(session string) []*worker {
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

// state is what an ask says.
func (p *pool) state() (free int, idle []proto.Worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.idle) - 1; i >= 0; i-- {
		idle = append(idle, p.idle[i].id)
	}
	return p.slots - p.taken, idle
}
