// SPDX-License-Identifier: MIT

package agent

import (
	"cmp"
	"slices"

	"skep/grid/proto"
)

// Leases outlive their connection, because the hub may come back: docs/design/reattach.md.
// The ends of leases are kept after they were sent, until their session is released, since
// the hub may be killed before its master has them.

const endBytesMax = 64 << 20 // of the results that are kept

// An end is the message that ended a lease.
type end struct {
	lease proto.Carried
	verb  proto.Verb
	text  any
	raw   []byte
}

// ends are those of leases, the oldest first. Agent.mu guards them.
type ends struct {
	list  []*end
	bytes int
}

func (e *ends) add(v *end) {
	e.list = append(e.list, v)
	e.bytes += len(v.raw)
	for len(e.list) > proto.CarriedMax/2 || e.bytes > endBytesMax {
		e.bytes -= len(e.list[0].raw)
		e.list[0] = nil
		e.list = e.list[1:]
	}
}

// drop forgets those that f names.
func (e *ends) drop(f func(proto.Carried) bool) {
	e.list = slices.DeleteFunc(e.list, func(v *end) bool {
		if f(v.lease) {
			e.bytes -= len(v.raw)
			return true
		}
		return false
	})
}

func carriedOf(l *proto.Lease) proto.Carried {
	return proto.Carried{Session: l.Session, Client: l.Client, Call: l.Call, Fence: l.Fence}
}

// reportEnd ends a lease and sends its end to the hub. keep is false for one that has the call
// begin anew, as it does if no end is listed. A result that the hub has in a file is kept for the
// same hub: another one has it run again.
func (a *Agent) reportEnd(l *lease, verb proto.Verb, text any, raw []byte, keep bool) {
	a.mu.Lock()
	delete(a.leases, l.Fence)
	if keep && l.Client != 0 {
		a.ends.add(&end{carriedOf(&l.Lease), verb, text, raw})
	}
	a.mu.Unlock()
	a.toHub().publish(verb, text, raw)
}

// listCarried lists the leases that run or whose ends are kept, the newest last. Of more than
// CarriedMax it lists the newest.
func (a *Agent) listCarried() (list []proto.Carried) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range a.ends.list {
		list = append(list, v.lease)
	}
	for _, l := range a.leases {
		if l.Client != 0 {
			list = append(list, carriedOf(&l.Lease))
		}
	}
	slices.SortFunc(list, func(x, y proto.Carried) int { return cmp.Compare(x.Fence, y.Fence) })
	return list[max(0, len(list)-proto.CarriedMax):]
}

// resumeLease sends the end of a lease again, if it has ended.
func (a *Agent) resumeLease(fence uint64) {
	a.mu.Lock()
	at := slices.IndexFunc(a.ends.list, func(v *end) bool { return v.lease.Fence == fence })
	var v *end
	if at >= 0 {
		v = a.ends.list[at]
	}
	a.mu.Unlock()
	if v != nil {
		a.toHub().publish(v.verb, v.text, v.raw)
	}
}

// setLinked notes whether there is a connection to the hub.
func (a *Agent) setLinked(is bool) {
	a.hubMu.Lock()
	defer a.hubMu.Unlock()
	switch {
	case is && a.unlinked != nil:
		close(a.unlinked)
		a.unlinked = nil
	case !is && a.unlinked == nil:
		a.unlinked = make(chan struct{})
	}
}

// awaitHub waits while there is no connection to the hub, so that a result which cannot be sent
// twice is not lost. The worker waits too: neither its silence nor this time counts.
func (w *worker) awaitHub() {
	w.agent.hubMu.RLock()
	linked := w.agent.unlinked
	w.agent.hubMu.RUnlock()
	if linked == nil {
		return
	}
	w.called.start()
	w.wire.pauseSilence(func() {
		select {
		case <-linked:
		case <-w.process.done: // as when the call is cancelled
		}
	})
	w.called.stop()
}
