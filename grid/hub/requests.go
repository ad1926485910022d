// SPDX-License-Identifier: MIT

package hub

import (
	"cmp"
	"errors"
	"fmt"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/grid/session"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// call takes a CALL frame: its arguments follow.
func (m *master) call(f *session.Frame) error {
	v, d, tail, err := parseCall(f)
	if err != nil {
		return protocolError("%v", err)
	}
	if err := m.checkFresh(f.Call); err != nil {
		return err
	}
	in := &incoming{left: v.Length}
	m.incoming[f.Call] = in
	c, e := m.newCall(f.Call, v, tail.object)
	if e == nil && d != nil {
		if e = m.useData(c, d); e != nil {
			c.args.put()
		}
	}
	if e == nil && tail.outer != 0 {
		if e = m.hub.nestCall(c, tail.outer); e != nil {
			c.args.put()
		}
	}
	if e != nil {
		m.fail(f.Call, e)
		return nil
	}
	in.to = c.args
	in.fail = func(err error) { m.hub.abandonCall(c, uapi.Errorf(uapi.EInternal, "%v", err)) }
	c.args.get() // for in; the call may end before its data
	m.hub.openCall(c)
	again := f.Flags&uapi.FlagAgain != 0
	c.called = again && f.Flags&uapi.FlagCalled != 0 && c.hasCallbacks()
	if c.called {
		m.hub.findInner(c)
	}
	in.done = func() { m.hub.queueCall(c, again) }
	if v.Length > proto.InlineMax && !(again && m.hub.hasStored(c)) {
		in.done() // a node may begin to pull while bytes still come
		in.done = func() {}
	}
	return nil
}

// A tail is what may follow the payload of a call: the call that waits for it, and the object
// whose method it is.
type tail struct{ outer, object uint64 }

// parseCall splits the payload of CALL or CALL_KEPT. d is nil if all data comes with the call.
func parseCall(f *session.Frame) (v uapi.Call, d *callData, t tail, err error) {
	payload := f.Payload
	if f.Flags&uapi.FlagMethod != 0 {
		if payload, t.object, err = splitNumber(payload, "a method names no object"); err != nil {
			return v, nil, t, err
		}
	}
	if f.Flags&uapi.FlagInner != 0 {
		if payload, t.outer, err = splitNumber(payload, "an inner call names no outer one"); err != nil {
			return v, nil, t, err
		}
	}
	if f.Type == uapi.TypeCallKept {
		v, d, err = parseCallKept(payload)
	} else {
		v, err = uapi.DecodeExact[uapi.Call](payload)
	}
	return v, d, t, err
}

func (m *master) newCall(id uint64, v uapi.Call, object uint64) (*call, *uapi.Error) {
	mod := m.moduleByHandle(v.Module)
	switch {
	case mod == nil:
		return nil, uapi.Errorf(uapi.ENoModule, "no module has the handle %d", v.Module)
	case uint64(v.Function) >= uint64(len(mod.manifest.Functions)):
		return nil, uapi.Errorf(uapi.ENoFunction, "module %s has no function %d", mod.manifest.Name, v.Function)
	case mod.manifest.Functions[v.Function].Callback:
		return nil, uapi.Errorf(uapi.ENoFunction, "function %s of module %s is a master's, which no node runs", mod.manifest.Functions[v.Function].Name, mod.manifest.Name)
	case mod.manifest.Functions[v.Function].Init:
		return nil, uapi.Errorf(uapi.ENoFunction, "function %s of module %s is its Initialize, which is not called like others", mod.manifest.Functions[v.Function].Name, mod.manifest.Name)
	}
	o, e := m.methodOf(mod, v.Function, object)
	if e != nil {
		return nil, e
	}
	if err := m.roomFor(v.Result); err != nil {
		return nil, spoolError("the result of the call", err)
	}
	if live := m.hub.liveCalls(m.caller); live >= callsMax {
		return nil, uapi.Errorf(uapi.ERefused, "%d calls of this program wait already: wait for some of them first", live)
	}
	args, err := m.hub.spools.newArguments(v.Length, m.quotas(m.hub)...)
	if err != nil {
		return nil, spoolError("the call", err)
	}
	c := &call{
		client: id, caller: m.caller, module: mod, init: mod.init,
		number: v.Function, args: args, most: v.Result, leases: map[sched.Fence]*lease{},
	}
	if o != nil {
		c.object, c.init, c.only = o, o.init, o.node
	}
	return c, nil
}

// roomFor refuses a result that no quota could ever hold, before it is computed.
func (m *master) roomFor(result uint64) error {
	for _, q := range m.quotas(m.hub, m.hub.cfg.Quotas.ofNode("any")) {
		if result > uint64(q.limit()) {
			return &quotaError{q, result, true}
		}
	}
	return nil
}

// spoolError is the error for the master; err contains the remedy.
func spoolError(what string, err error) *uapi.Error {
	code := uapi.EInternal
	if q := (*quotaError)(nil); errors.As(err, &q) {
		code = uapi.ERefused
	}
	return uapi.Errorf(code, "%s cannot be taken: %v", what, err)
}

// openCall gives a call its number; its arguments are yet to come.
func (h *Hub) openCall(c *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastCall++
	c.id, c.began = h.lastCall, h.cfg.Now()
	c.caller.calls[c.client], h.calls[c.id] = c, c
	if o := c.object; o != nil {
		o.line = append(o.line, c)
	}
}

// callOf returns the live call that has this number of its caller, or nil.
func (h *Hub) callOf(of *caller, client uint64) *call {
	h.mu.Lock()
	defer h.mu.Unlock()
	return of.calls[client]
}

func (h *Hub) liveCalls(of *caller) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(of.calls)
}

// queueCall submits a call to the scheduler, unless it ended meanwhile, or a node has it
// since before the hub was started again.
func (h *Hub) queueCall(c *call, again bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.state == callEnded {
		return
	}
	c.setState(callWaiting)
	if c.object != nil {
		h.handleEvent(h.nextMethod(c.object)...)
		return
	}
	if again && h.commitStored(c) {
		return
	}
	if (!again || !h.claimCarried(c)) && !h.endCalled(c, calledWhy) {
		h.handleEvent(h.queuedEvent(c))
	}
}

// queuedEvent returns the event that submits a call to the scheduler.
func (h *Hub) queuedEvent(c *call) sched.Event {
	lockdep.AssertHeld(&h.mu)
	w := sched.Worker{Module: c.module.sum}
	once := ""
	if c.object != nil {
		w.Object, once = c.object.number, onceMethod
	}
	memory := uint64(c.args.want)
	if c.init != nil {
		w.Init = c.init.generation
		memory += c.init.length
	}
	size := uint64(c.args.want)
	var data []sched.Digest
	if c.data != nil {
		data = c.data.digests()
		memory += c.data.bytes()
		size += c.data.bytes()
	}
	h.callEvent(c, nil, CallQueued, "")
	return sched.CallQueued{Call: c.id, Session: c.caller.id, Worker: w,
		Function: c.number, Memory: memory, Size: size, Data: data, Node: cmp.Or(c.only, c.module.node), Long: c.program != nil, Callbacks: c.hasCallbacks(), Inner: c.outer != 0, Once: once}
}

// cancelCall answers CANCEL: the call ends with ERROR, if it has not yet.
func (h *Hub) cancelCall(of *caller, client uint64) {
	if c := h.callOf(of, client); c != nil {
		h.abandonCall(c, uapi.Errorf(uapi.ECancelled, "the call was cancelled"))
	}
}

// abandonCall ends a call, whatever its state. It returns false for one that has ended.
func (h *Hub) abandonCall(c *call, e *uapi.Error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.state == callEnded {
		return false
	}
	h.forgetAdopted(c)
	if c.object != nil && c.state == callRunning {
		h.loseObject(c.object, fmt.Sprintf("its method %s ended while a node had it: %s", c.functionName(), e.Text))
	}
	h.handleEvent(sched.CallCancel{Call: c.id})
	h.endCall(c, e)
	h.handleEvent(h.nextMethod(c.object)...)
	return true
}

// closeSession drops the calls of a caller that has gone.
func (h *Hub) closeSession(of *caller) {
	lockdep.AssertHeld(&h.mu)
	h.handleEvent(sched.SessionClose{Session: of.id})
	h.dropStored(of.key)
	for _, c := range of.calls {
		h.forgetAdopted(c)
		h.forgetCall(c)
	}
	for _, o := range of.objects {
		h.dropObject(o)
	}
	h.dropAllData(of)
}
