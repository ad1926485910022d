// SPDX-License-Identifier: MIT

package hub

import (
	"fmt"
	"path/filepath"
	"time"

	"skep/grid/ident"
	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/lockdep"
	"skep/internal/patience"
)

// Leases that an earlier hub granted, and calls that were sent to it: docs/design/reattach.md.

// returnTime is how long a hub waits after its start for the nodes that it knew: then it has calls
// that no node brought run again.
const returnTime = 5 * time.Second

// holdTime is how long it keeps runs and sessions, which would be lost for good. It is longer than
// masters look for a hub, and is Config.Hold.
const holdTime = 2 * time.Minute

// A carryKey is the same for one call in each life of the hub.
type carryKey struct {
	session string // as nodes call it
	client  uint64
}

// A carried lease is on a node, and no master has claimed it yet.
type carried struct {
	node  *node
	call  sched.CallID
	fence sched.Fence
}

// returning is what a hub that was started again still waits for. Hub.mu guards it.
type returning struct {
	open    bool
	late    bool            // all nodes are back, or calls that may run again wait for them no more
	keys    map[string]bool // sessions that did not come back yet
	leases  map[carryKey]carried
	calls   map[sched.CallID]bool // numbers of leases; a node may claim any
	fences  map[sched.Fence]bool
	waiting map[carryKey]*call // sent again, and no node has it yet
}

// An adopted lease was not granted by this hub's scheduler, which does not know its call.
type adopted struct {
	call *call
	node *node
	seen time.Time // when its node last listed it
}

// adoptedMissing is how long a beat may lack an adopted lease, as sched.Config.Missing.
const adoptedMissing = 8 * time.Second

// offerCarried notes the leases that a node brought. Those that nobody can claim are cancelled.
func (h *Hub) offerCarried(n *node, list []proto.Carried) {
	lockdep.AssertHeld(&h.mu)
	for _, v := range list[:min(len(list), proto.CarriedMax)] {
		k := carryKey{v.Session, v.Client}
		l := carried{n, sched.CallID(v.Call), sched.Fence(v.Fence)}
		_, known := h.byKey[v.Session]
		switch {
		case h.isCurrent(sched.NodeID(n.info.ID), l.call, l.fence):
			h.resume(l)
		case len(v.Session) > keyMax || !h.back.open || !h.back.keys[v.Session] && !known:
			h.dropCarried(l)
		case !h.isEarlier(l):
			h.log.Warn("a node claims a lease that no earlier hub can have granted", "node", n.info.Name)
			h.dropCarried(l)
		case h.back.waiting[k] != nil:
			c := h.back.waiting[k]
			delete(h.back.waiting, k)
			h.adopt(c, l)
		case h.back.leases[k].node != nil || h.isTaken(k):
			h.dropCarried(l) // a copy of a call, or it comes too late
		default:
			h.back.leases[k] = l
			h.back.calls[l.call], h.back.fences[l.fence] = true, true
		}
	}
}

// isEarlier reports whether a lease has the numbers of an earlier hub, and no other call or
// lease has them: a node could else take the place of a call that is not its own.
func (h *Hub) isEarlier(l carried) bool {
	last := h.firstNumber
	return l.call > 0 && uint64(l.call) <= last && l.fence > 0 && uint64(l.fence) <= last &&
		h.calls[l.call] == nil && h.adopted[l.fence] == nil && !h.back.calls[l.call] && !h.back.fences[l.fence]
}

// forgetCarried forgets a lease that is claimed now, or whose node is gone.
func (h *Hub) forgetCarried(k carryKey) {
	lockdep.AssertHeld(&h.mu)
	l := h.back.leases[k]
	delete(h.back.leases, k)
	delete(h.back.calls, l.call)
	delete(h.back.fences, l.fence)
}

// isTaken reports whether a call that was sent again waits for no node: one runs it, or will.
func (h *Hub) isTaken(k carryKey) bool {
	m := h.masters[h.byKey[k.session]]
	return m != nil && m.calls[k.client] != nil && m.calls[k.client].state != callArriving
}

func (h *Hub) dropCarried(l carried) {
	lockdep.AssertHeld(&h.mu)
	if l.node.conn == nil {
		return
	}
	if err := h.publish(l.node.info.ID, proto.VerbCancel, proto.Cancel{Call: uint64(l.call), Fence: uint64(l.fence)}, nil); err != nil {
		h.log.Warn("a lease was not cancelled", "node", l.node.info.Name, "error", err)
	}
}

// claimCarried takes a call that was sent again. It returns false if the call is to be queued.
func (h *Hub) claimCarried(c *call) bool {
	lockdep.AssertHeld(&h.mu)
	if !h.back.open {
		return false
	}
	k := carryKey{c.caller.key, c.client}
	l, ok := h.back.leases[k]
	if !ok {
		if h.back.late && !c.called {
			return false
		}
		h.back.waiting[k] = c
		return true
	}
	h.forgetCarried(k)
	h.adopt(c, l)
	return true
}

// adopt lets a call go on under the lease that a node has. The call takes the number that
// the node knows it by.
func (h *Hub) adopt(c *call, l carried) {
	lockdep.AssertHeld(&h.mu)
	delete(h.calls, c.id)
	c.id = l.call
	h.calls[c.id] = c
	c.setState(callRunning)
	c.addLease(&lease{node: l.node, Lease: sched.Lease{Call: c.id, Fence: l.fence,
		Node: sched.NodeID(l.node.info.ID), Session: c.caller.id, Attempt: 1}})
	c.caller.nodes[l.node] = true
	h.setAdopted(l.fence, &adopted{c, l.node, h.cfg.Now()})
	h.callEvent(c, c.leases[l.fence], CallLeased, "it continues after the hub was started again")
	h.resume(l)
	if c.lends {
		h.handleEvent(c.lending(c.leases[l.fence], true))
	}
}

// resume has a node send the end of a lease again, which may have been lost.
func (h *Hub) resume(l carried) {
	lockdep.AssertHeld(&h.mu)
	if err := h.publish(l.node.info.ID, proto.VerbResume, proto.Resume{Fence: uint64(l.fence)}, nil); err != nil {
		h.log.Warn("a lease was not resumed", "node", l.node.info.Name, "error", err)
	}
}

// fencesOf lists the numbers of leases that a node brought.
func fencesOf(list []proto.Carried) (fences []sched.Fence) {
	for _, v := range list[:min(len(list), proto.CarriedMax)] {
		fences = append(fences, sched.Fence(v.Fence))
	}
	return fences
}

// setAdopted notes an adopted lease.
func (h *Hub) setAdopted(f sched.Fence, a *adopted) {
	lockdep.AssertHeld(&h.mu)
	if a.node.adopted == nil {
		a.node.adopted = map[sched.Fence]*adopted{}
	}
	h.adopted[f], a.node.adopted[f] = a, a
}

// dropAdopted forgets an adopted lease.
func (h *Hub) dropAdopted(f sched.Fence) {
	lockdep.AssertHeld(&h.mu)
	delete(h.adopted[f].node.adopted, f)
	delete(h.adopted, f)
}

// adoptedCall returns the call of an adopted lease that a node's message names, or nil.
func (h *Hub) adoptedCall(node sched.NodeID, id sched.CallID, f sched.Fence) *call {
	lockdep.AssertHeld(&h.mu)
	a := h.adopted[f]
	if a == nil || a.call.id != id || a.call.leases[f] == nil || a.call.leases[f].Node != node {
		return nil
	}
	return a.call
}

// isCurrent reports whether a node has this lease of a call.
func (h *Hub) isCurrent(node sched.NodeID, id sched.CallID, f sched.Fence) bool {
	return h.adoptedCall(node, id, f) != nil || h.sched.Current(node, id, f)
}

// endAdopted handles the end of an adopted lease as the scheduler would, but that it does not
// count attempts. It returns false for other events.
func (h *Hub) endAdopted(ev sched.Event) bool {
	lockdep.AssertHeld(&h.mu)
	switch v := ev.(type) {
	case sched.CallDone:
		c := h.adoptedCall(v.Node, v.Call, v.Fence)
		if c == nil {
			return false
		}
		h.dropAdopted(v.Fence)
		h.commitCall(c.leases[v.Fence].Lease)
	case sched.CallFailed:
		c := h.adoptedCall(v.Node, v.Call, v.Fence)
		if c == nil {
			return false
		}
		if v.Kind == sched.Final {
			h.dropAdopted(v.Fence)
			h.failCall(sched.FailCall{Call: c.id, Session: c.caller.id, Reason: sched.Fatal, Why: v.Why})
			return true
		}
		h.handleEvent(h.requeueAdopted(v.Fence, v.Why)...)
		if v.Kind == sched.Unsafe {
			h.handleEvent(sched.NodeBar{Node: v.Node})
		}
	default:
		return false
	}
	return true
}

// requeueAdopted returns the event that gives the call of an adopted lease to the scheduler, or
// none for a call that must not begin anew and has ended.
func (h *Hub) requeueAdopted(f sched.Fence, why string) []sched.Event {
	lockdep.AssertHeld(&h.mu)
	c := h.adopted[f].call
	h.dropAdopted(f)
	if h.endCalled(c, why+sched.OnceWhy) {
		return nil
	}
	if l := h.endLease(c, f); l != nil {
		l.node.info.Failed++
		h.callEvent(c, l, CallRequeued, why)
	}
	return []sched.Event{h.queuedEvent(c)}
}

// loseAdopted returns the events that queue the calls that a lost node had, but for those
// that are kept.
func (h *Hub) loseAdopted(n *node, why string, kept func(sched.Fence, *adopted) bool) (events []sched.Event) {
	lockdep.AssertHeld(&h.mu)
	for f, a := range n.adopted {
		if kept(f, a) {
			a.seen = h.cfg.Now()
			continue
		}
		events = append(events, h.requeueAdopted(f, why)...)
	}
	for k, l := range h.back.leases {
		if l.node == n {
			h.forgetCarried(k)
		}
	}
	return events
}

// noneKept and calledKept are for loseAdopted. The second is for a node that may come back: the
// scheduler cannot let adopted calls begin elsewhere too, so only those wait that may not.
func noneKept(sched.Fence, *adopted) bool       { return false }
func calledKept(_ sched.Fence, a *adopted) bool { return a.call.called }

// hearAdopted takes the adopted and carried leases out of those that a beat lists, because
// the scheduler does not know them, and queues the calls of those that it lacks.
func (h *Hub) hearAdopted(n *node, running []uint64) (others []sched.Fence) {
	lockdep.AssertHeld(&h.mu)
	now := h.cfg.Now()
	for _, v := range running {
		f := sched.Fence(v)
		if a := h.adopted[f]; a != nil {
			a.seen = now
		} else if !h.back.fences[f] {
			others = append(others, f)
		}
	}
	for f, a := range n.adopted {
		if now.Sub(a.seen) >= adoptedMissing {
			h.handleEvent(h.requeueAdopted(f, "its node does not know of it")...)
		}
	}
	return others
}

// forgetAdopted ends the adopted leases of a call, on their nodes too.
func (h *Hub) forgetAdopted(c *call) {
	lockdep.AssertHeld(&h.mu)
	for f, l := range c.leases {
		if h.adopted[f] != nil {
			h.dropAdopted(f)
			h.dropCarried(carried{l.node, c.id, f})
			h.endLease(c, f)
		}
	}
	delete(h.back.waiting, carryKey{c.caller.key, c.client})
}

// awaitReturn waits for what a killed hub had.
func (h *Hub) awaitReturn() {
	if h.pass(min(h.cfg.returnIn, h.cfg.Hold)) {
		h.mu.Lock()
		h.queueWaiting()
		h.mu.Unlock()
	}
	if h.pass(h.cfg.Hold - h.cfg.returnIn) {
		h.endReturn()
	}
}

// pass waits until so much time has passed while this process ran. It returns false if the hub
// closes.
func (h *Hub) pass(d time.Duration) bool {
	for left := patience.Ticks(d); left.Wait(h.stop); {
	}
	select {
	case <-h.stop:
		return false
	default:
		return true
	}
}

// allBack reports whether each node that has joined has said what leases it has.
func (h *Hub) allBack() bool {
	lockdep.AssertHeld(&h.mu)
	return h.roster.all(func(id string) bool { n := h.nodes[id]; return n != nil && n.ready })
}

// queueWaiting has the calls run again that no node has brought. One that has called its master
// could only fail, so it waits for its node as long as runs are kept.
func (h *Hub) queueWaiting() {
	lockdep.AssertHeld(&h.mu)
	h.back.late = true
	for k, c := range h.back.waiting {
		if !c.called {
			delete(h.back.waiting, k)
			h.handleEvent(h.queuedEvent(c))
		}
	}
}

// endReturn ends the time in which masters and nodes may come back to what they had.
func (h *Hub) endReturn() {
	h.mu.Lock()
	if h.closed || !h.back.open {
		h.mu.Unlock()
		return
	}
	h.back.open = false
	for _, l := range h.back.leases {
		h.dropCarried(l)
	}
	for _, c := range h.back.waiting {
		if !h.endCalled(c, calledWhy) {
			h.handleEvent(h.queuedEvent(c))
		}
	}
	keys := h.back.keys
	for key := range keys {
		h.dropStored(key)
		h.tellAll(proto.VerbRelease, proto.Release{Session: key})
	}
	lost := map[*run][]sessionRecord{}
	var ended []*run
	for _, r := range h.runs {
		if r.claimed {
			for _, s := range r.keep.sessions() {
				if keys[s.Key] {
					lost[r] = append(lost[r], s)
				}
			}
		} else {
			ended = append(ended, r)
		}
	}
	h.back = returning{}
	h.mu.Unlock()
	for key := range keys {
		h.blobs.Unpin(key)
	}
	for r, list := range lost {
		r.keep.change(func(v *runRecord) {
			for _, s := range list {
				dropSession(v, s.ID)
			}
		})
	}
	for _, r := range ended {
		why := h.lateError("its 'skep run'")
		h.log.Info("a run ended", "run", r.name, "why", why)
		r.close(why)
	}
}

// lateError is why something that did not come back to this hub is over.
func (h *Hub) lateError(what string) error {
	return fmt.Errorf("%s did not reconnect within %v after the hub was started again: 'skep up --keep-runs' sets that time", what, h.cfg.Hold)
}

// openRecords opens the runs that a killed hub had, if this one stores runs.
func (h *Hub) openRecords() error {
	dir := filepath.Join(h.cfg.State, "runs")
	defer h.restoreResults()
	if !h.cfg.Keep {
		return nil
	}
	if err := ident.StateDir(dir); err != nil {
		return err
	}
	h.records = runRecords{dir, h.copyRecord, func(key string) { h.mirror.remove(runFolder + key + ".json") }}
	h.restoreRuns()
	if h.back.open {
		h.served.Add(1)
		go func() { defer h.served.Done(); h.awaitReturn() }()
	}
	return nil
}

func (h *Hub) restoreRuns() {
	list, bad := h.records.readAll()
	for _, err := range bad {
		h.log.Error("a run is lost", "error", err)
	}
	for _, v := range list {
		for _, s := range v.Sessions {
			h.back.keys[s.Key] = true
			for _, m := range s.Modules {
				h.blobs.Pin(m.Digest, s.Key)
				if m.Init != nil {
					h.blobs.Pin(m.Init.Blob, s.Key)
				}
			}
		}
		if _, err := h.openRunAs(v, false); err != nil {
			h.log.Error("a run is lost", "run", v.Name, "error", err)
			h.records.remove(v.Key)
		}
	}
	h.back.open = len(list) > 0
}
