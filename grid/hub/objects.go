// SPDX-License-Identifier: MIT

package hub

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"skep/grid/engine"
	"skep/grid/proto"
	"skep/grid/sched"
	"skep/grid/session"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// Objects of a session: docs/design/callbacks.md. Each has a worker of its own on one node. Its
// methods run there one at a time, in the order in which their CALL frames came. What may have
// changed or ended the worker without the master's knowledge loses the object: all later methods
// fail with the reason.

// objectsMax bounds the objects of one program.
const objectsMax = 1024

// onceMethod follows the reason for which a method fails whose node had begun it.
const onceMethod = "; a method is not run again"

// An object is one of a class. Hub.mu guards all but what never changes.
type object struct {
	number uint64 // its caller's, for all nodes too
	caller *caller
	module *module
	class  uint32    // index in the manifest
	init   *initData // what its worker is initialised with, or nil
	node   sched.NodeID
	name   string // of the node
	boot   string // of the node's agent

	begun   bool    // a node was given its first method
	running *call   // the method that the scheduler knows, or nil
	line    []*call // those that wait for it, the oldest first
	ended   bool    // its master needs it no more
	lost    string  // why no method runs any more, or ""
}

// takeObject takes an OBJECT frame.
func (m *master) takeObject(f *session.Frame) error {
	if f.Last() {
		m.hub.endObject(m.caller, f.Call)
		return nil
	}
	v, err := uapi.DecodeExact[uapi.Object](f.Payload)
	if err != nil {
		return protocolError("%v", err)
	}
	if err := m.checkFresh(f.Call); err != nil {
		return err
	}
	if e := m.makeObject(f.Call, v); e != nil {
		m.fail(f.Call, e)
		return nil
	}
	m.out.add(outgoing{client: f.Call, kind: uapi.TypeDone})
	return nil
}

func (m *master) makeObject(number uint64, v uapi.Object) *uapi.Error {
	mod := m.moduleByHandle(v.Module)
	switch {
	case mod == nil:
		return uapi.Errorf(uapi.ENoModule, "no module has the handle %d", v.Module)
	case uint64(v.Class) >= uint64(len(mod.manifest.Functions)) || !mod.manifest.Functions[v.Class].Class:
		return uapi.Errorf(uapi.ENoFunction, "module %s has no class %d", mod.manifest.Name, v.Class)
	}
	o := &object{number: number, caller: m.caller, module: mod, class: v.Class, init: mod.init}
	timeout := time.After(m.hub.cfg.hostIn) // as for findHost
	for {
		e := m.placeObject(o)
		if e == nil || e.Code != uapi.ENoNode {
			return e
		}
		select {
		case <-timeout:
			return e
		case <-m.run.ctx.Done():
			return e
		case <-time.After(hostPoll):
		}
	}
}

// placeObject chooses the node for an object and notes it.
func (m *master) placeObject(o *object) *uapi.Error {
	m.hub.mu.Lock()
	defer m.hub.mu.Unlock()
	if len(m.objects) >= objectsMax {
		return uapi.Errorf(uapi.ERefused, "this program has %d objects, more are not taken: end some first", objectsMax)
	}
	n := m.chooseHome(o.module.node)
	if n == nil {
		return uapi.Errorf(uapi.ENoNode, "no node that is up, not drained and chosen by the program can keep an object: wait for one to join, or update the agents of the nodes")
	}
	o.node, o.name, o.boot = sched.NodeID(n.info.ID), n.info.Name, n.boot
	m.objects[o.number] = o
	m.hub.noteObject(o, engine.Made, o.className())
	return nil
}

// objectsByNode counts the objects that are not lost.
func (h *Hub) objectsByNode() map[sched.NodeID]int {
	lockdep.AssertHeld(&h.mu)
	homes := map[sched.NodeID]int{}
	for _, m := range h.masters {
		for _, o := range m.objects {
			if o.lost == "" {
				homes[o.node]++
			}
		}
	}
	return homes
}

// chooseHome returns the node with the fewest leases and objects for each of its slots, or if
// only one may be, this one.
func (m *master) chooseHome(only sched.NodeID) (best *node) {
	h := m.hub
	lockdep.AssertHeld(&h.mu)
	homes := h.objectsByNode()
	load := func(n *node) float64 {
		return float64(n.leases+homes[sched.NodeID(n.info.ID)]) / float64(max(n.info.Slots, 1))
	}
	for id, n := range h.nodes {
		if !n.ready || !n.objects || n.info.State != NodeUp || n.info.Drained || n.info.Slots == 0 ||
			only != "" && sched.NodeID(id) != only || !m.run.on.Matches(n.info.About()) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(load(n), load(best)), cmp.Compare(id, best.info.ID)) < 0 {
			best = n
		}
	}
	return best
}

func (h *Hub) objectOf(of *caller, number uint64) *object {
	h.mu.Lock()
	defer h.mu.Unlock()
	return of.objects[number]
}

// methodOf returns the object of a call that is a method, or nil.
func (m *master) methodOf(mod *module, function uint32, number uint64) (*object, *uapi.Error) {
	f := &mod.manifest.Functions[function]
	state := mod.manifest.StateOf(int(function))
	switch {
	case f.Class:
		return nil, uapi.Errorf(uapi.ENoFunction, "%s of module %s is a class, which cannot be called", f.Name, mod.manifest.Name)
	case number == 0 && state != nil:
		return nil, uapi.Errorf(uapi.ERefused, "%s is a method of the class %s, which has state: it needs an object", f.Name, state.Name)
	case number == 0:
		return nil, nil
	}
	o := m.hub.objectOf(m.caller, number)
	switch {
	case o == nil:
		return nil, uapi.Errorf(uapi.EWorker, "the object of %s is lost: the hub was started again, or the object was ended", f.Name)
	case o.module != mod || f.Of != o.class+1:
		return nil, uapi.Errorf(uapi.ENoFunction, "%s is no method of the class %s", f.Name, o.className())
	}
	return o, nil
}

func (o *object) className() string { return o.module.manifest.Functions[o.class].Name }

// waitsFor reports whether an outer call, or one that waits for it, is a method of the same object.
func (c *call) waitsFor(outer *call) bool {
	for ; c.object != nil && outer != nil; outer = outer.within {
		if outer.object == c.object {
			return true
		}
	}
	return false
}

// endObject ends an object after the methods that were called before.
func (h *Hub) endObject(of *caller, number uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o := of.objects[number]; o != nil {
		o.ended = true
		h.handleEvent(h.nextMethod(o)...)
	}
}

// loseObject says why no method of an object runs any more, and ends its worker, if it lives.
func (h *Hub) loseObject(o *object, why string) {
	lockdep.AssertHeld(&h.mu)
	if o.lost == "" {
		o.lost = fmt.Sprintf("the object of the class %s on the node %s is lost: %s: make another one", o.className(), o.name, why)
		h.noteObject(o, engine.Lost, o.lost)
		h.forgetObject(o)
	}
}

// noteObject adds what became of an object to the ledger.
func (h *Hub) noteObject(o *object, state engine.State, text string) {
	lockdep.AssertHeld(&h.mu)
	h.ledger.add(engine.Entry{Time: h.cfg.Now(), Session: o.caller.key, Object: o.number, State: state, Node: string(o.node), Text: text, User: o.caller.user})
}

// dropObject forgets an object that has ended.
func (h *Hub) dropObject(o *object) {
	delete(o.caller.objects, o.number)
	h.noteObject(o, engine.Ended, o.className())
}

// forgetObject lets the node end the worker.
func (h *Hub) forgetObject(o *object) {
	n := h.nodes[string(o.node)]
	if !o.begun || n == nil || !n.ready {
		return
	}
	if err := h.publish(n.info.ID, proto.VerbForget, proto.Forget{Session: o.caller.key, User: o.caller.user, Object: o.number}, nil); err != nil {
		h.log.Warn("a node was not told to end an object", "node", n.info.Name, "error", err)
	}
}

// leaveObject takes a call that ends out of the line of its object.
func (c *call) leaveObject() {
	o := c.object
	if o == nil {
		return
	}
	if o.running == c {
		o.running = nil
	}
	o.line = slices.DeleteFunc(o.line, func(other *call) bool { return other == c })
}

// nextMethod returns the event that submits the next method of an object whose turn it is and
// whose arguments are there; o may be nil.
func (h *Hub) nextMethod(o *object) []sched.Event {
	lockdep.AssertHeld(&h.mu)
	for o != nil && o.running == nil && len(o.line) > 0 && o.line[0].state == callWaiting {
		c := o.line[0]
		if n := h.nodes[string(o.node)]; n == nil || n.ready && n.boot != o.boot {
			h.loseObject(o, "the node's agent was started again, or has left")
		}
		if o.lost == "" {
			o.line, o.running = o.line[1:], c
			return []sched.Event{h.queuedEvent(c)}
		}
		h.endCall(c, uapi.Errorf(uapi.EWorker, "%s", o.lost))
	}
	if o != nil && o.ended && o.running == nil && len(o.line) == 0 && o.caller.objects[o.number] == o {
		h.dropObject(o)
		h.forgetObject(o)
	}
	return nil
}
