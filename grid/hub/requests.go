// SPDX-License-Identifier: MIT

package hub

import (
	"errors"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/grid/session"
	"skep/internal/uapi"
)

func (m *master) call(f *session.Frame) error {
	v, err := uapi.Exact[uapi.Call](f.Payload)
	if err != nil {
		return protocolError("%v", err)
	}
	if err := m.fresh(f.Call); err != nil {
		return err
	}
	in := &incoming{left: v.Length}
	m.incoming[f.Call] = in
	c, e := m.newCall(f.Call, v)
	if e != nil {
		m.fail(f.Call, e)
		return nil
	}
	in.to = c.args
	in.fail = func(err error) { m.hub.abandon(c, uapi.Errorf(uapi.EInternal, "%v", err)) }
	c.args.hold() // for in; the call may end before its data
	m.hub.mu.Lock()
	m.calls[f.Call], m.hub.calls[c.id] = c, c
	m.hub.mu.Unlock()
	in.done = func() { m.hub.queue(c) }
	if v.Length > proto.InlineMax {
		in.done() // a node may begin to pull while bytes still come
		in.done = func() {}
	}
	return nil
}

func (m *master) newCall(id uint64, v uapi.Call) (*call, *uapi.Error) {
	mod := m.module(v.Module)
	switch {
	case mod == nil:
		return nil, uapi.Errorf(uapi.ENoModule, "no module has the handle %d", v.Module)
	case uint64(v.Function) >= uint64(len(mod.manifest.Functions)):
		return nil, uapi.Errorf(uapi.ENoFunction, "module %s has no function %d", mod.manifest.Name, v.Function)
	case mod.manifest.Functions[v.Function].Init:
		return nil, uapi.Errorf(uapi.ENoFunction, "function %s of module %s is its Initialize, which is not called like others", mod.manifest.Functions[v.Function].Name, mod.manifest.Name)
	}
	if err := m.roomFor(v.Result); err != nil {
		return nil, spoolError("the result of the call", err)
	}
	m.hub.mu.Lock()
	live := len(m.calls)
	m.hub.mu.Unlock()
	if live >= callsMax {
		return nil, uapi.Errorf(uapi.ERefused, "%d calls of this program wait already: wait for some of them first", live)
	}
	args, err := m.hub.spools.spool(v.Length, m.quota, m.hub.quota)
	if err != nil {
		return nil, spoolError("the call", err)
	}
	return &call{
		id: m.hub.nextCall(), client: id, session: m, module: mod, init: mod.init,
		number: v.Function, args: args, most: v.Result, leases: map[sched.Fence]*lease{},
	}, nil
}

// roomFor refuses a result that no quota could ever hold, before it is computed.
func (m *master) roomFor(result uint64) error {
	for _, q := range []*quota{m.quota, m.hub.quota, m.hub.cfg.Quotas.ofNode("any")} {
		if result > uint64(q.most) {
			return &quotaError{q, result, true}
		}
	}
	return nil
}

// spoolError is for the master: what it may do about it is in err.
func spoolError(what string, err error) *uapi.Error {
	code := uapi.EInternal
	if q := (*quotaError)(nil); errors.As(err, &q) {
		code = uapi.ERefused
	}
	return uapi.Errorf(code, "%s cannot be taken: %v", what, err)
}

// queue gives a call to the scheduler, unless it ended meanwhile.
func (h *Hub) queue(c *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls[c.id] != c {
		return
	}
	w := sched.Worker{Module: c.module.sum}
	memory := uint64(c.args.want)
	if c.init != nil {
		w.Init = c.init.generation
		memory += c.init.length
	}
	h.callEvent(c, nil, CallQueued, "")
	h.handle(sched.CallQueued{Call: c.id, Session: c.session.id, Worker: w,
		Function: c.number, Memory: memory, Size: uint64(c.args.want)})
}

// cancelCall answers CANCEL: the call ends with ERROR, if it has not yet.
func (h *Hub) cancelCall(m *master, id uint64) {
	h.mu.Lock()
	c := m.calls[id]
	h.mu.Unlock()
	if c != nil {
		h.abandon(c, uapi.Errorf(uapi.ECancelled, "the call was cancelled"))
	}
}

// abandon ends a call that runs or waits.
func (h *Hub) abandon(c *call, e *uapi.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls[c.id] == c {
		h.handle(sched.CallCancel{Call: c.id})
		h.endCall(c, e)
	}
}
