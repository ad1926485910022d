// SPDX-License-Identifier: MIT

package hub

import (
	"time"

	"skep/grid/sched"
	"skep/internal/lockdep"
)

// handleEvent passes an event to the scheduler and performs the actions. The lock is
// held. Every source of events calls it: requests of masters, reports of nodes, the
// clock. The functions that grant, revoke and end leases do not call it. It is their only
// caller but for leases that its scheduler does not know (endAdopted) and for calls that
// are cancelled or lose their caller (abandonCall, closeSession).
func (h *Hub) handleEvent(events ...sched.Event) {
	lockdep.AssertHeld(&h.mu)
	for len(events) > 0 {
		var more []sched.Event
		for _, a := range h.sched.Handle(h.cfg.Now(), events[0]) {
			more = append(more, h.perform(a)...)
		}
		events = append(events[1:], more...)
	}
}

// perform returns the events that follow from the action itself: it failed, or calls that the
// scheduler did not know are queued.
func (h *Hub) perform(a sched.Action) []sched.Event {
	switch a := a.(type) {
	case sched.Grant:
		if e := h.grantLease(a.Lease); e != nil {
			return []sched.Event{e}
		}
	case sched.Cancel:
		h.cancelLease(a.Lease)
	case sched.Commit:
		c := h.calls[a.Lease.Call]
		h.commitCall(a.Lease)
		return h.nextMethod(c.object)
	case sched.Requeued:
		return h.requeueCall(a)
	case sched.FailCall:
		c := h.calls[a.Call]
		h.failCall(a)
		return h.nextMethod(c.object)
	case sched.MarkSilent:
		if n := h.nodes[string(a.Node)]; n != nil { // or it was removed
			h.setState(n, NodeSilent, "")
			h.dropReleases(n)
			return h.loseAdopted(n, "its node is silent", calledKept)
		}
	case sched.MarkLost:
		if n := h.nodes[string(a.Node)]; n != nil { // or it was removed
			if n.info.State == NodeAway {
				h.setState(n, NodeDown, "")
			}
			h.endExecs(n, leasedExecs, "the node did not come back")
			return h.loseAdopted(n, "its node did not come back", noneKept)
		}
	case sched.Offered:
		if c := h.calls[a.Lease.Call]; c != nil {
			h.callEvent(c, c.leases[a.Lease.Fence], CallRequeued, a.Why)
		}
	case sched.Wake:
		time.AfterFunc(a.At.Sub(h.cfg.Now()), h.handleWake)
	case sched.Refuse:
		n := h.nodes[string(a.Node)]
		h.emit(Event{Type: "call", State: CallRefused, Call: uint64(a.Call), Node: string(a.Node), Name: n.info.Name})
	}
	return nil
}

// handleWake notifies the scheduler at a time that it requested.
func (h *Hub) handleWake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.handleEvent(sched.Woken{})
	}
}
