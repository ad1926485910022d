// SPDX-License-Identifier: MIT

package agent

import (
	"slices"

	"skep/grid/proto"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// An object of a session lives in a worker of its own: docs/design/callbacks.md. Between two
// methods the worker has no slot and is not among the idle ones, which are ended when others need
// their room. Only the lease of the first method starts it.

// objectsMax bounds the workers of objects on a node.
const objectsMax = 256

// listOf returns the list that a worker without a call is in. The lock is held.
func (p *pool) listOf(w *worker) *[]*worker {
	lockdep.AssertHeld(&p.mu)
	if w.id.Object != 0 {
		return &p.homes
	}
	return &p.idle
}

// takeHome takes the worker of an object, or returns nil. The lock is held.
func (p *pool) takeHome(session string, object uint64) *worker {
	lockdep.AssertHeld(&p.mu)
	i := slices.IndexFunc(p.homes, func(w *worker) bool { return w.session == session && w.id.Object == object })
	if i < 0 {
		return nil
	}
	w := p.homes[i]
	p.homes = slices.Delete(p.homes, i, i+1)
	return w
}

// forgetHome takes the worker of an object that runs no method.
func (p *pool) forgetHome(session string, object uint64) *worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeHome(session, object)
}

// countHomes returns how many workers of objects there are.
func (p *pool) countHomes() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.all {
		if w.id.Object != 0 {
			n++
		}
	}
	return n
}

// mayStart returns why no worker may start for a lease, or nil.
func (a *Agent) mayStart(l *proto.Lease) error {
	switch {
	case l.Worker.Object == 0:
		return nil
	case !l.First:
		return failf(proto.ReasonNode, uapi.EWorker, "the object's worker has ended, and its state with it")
	case a.pool.countHomes() >= objectsMax:
		return failf(proto.ReasonNode, uapi.ERefused, "the node has %d objects, which is the most", objectsMax)
	}
	return nil
}

// forgetObject ends the worker of an object. The hub sends this when no method of it runs.
func (a *Agent) forgetObject(f proto.Forget) {
	if w := a.pool.forgetHome(f.Session, f.Object); w != nil {
		a.running.Go(func() { a.endWorkers([]*worker{w}) })
	}
}
