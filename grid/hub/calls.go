// SPDX-License-Identifier: MIT

package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"skep/grid/engine"
	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/uapi"
)

// A call lives from its CALL frame to its RESULT or ERROR. Hub.mu guards it;
// the spools have locks of their own.
type call struct {
	id      sched.CallID
	client  uint64 // the master's number for it
	session *master
	module  *module
	init    *initData // what its worker is initialised with, or nil
	number  uint32    // of the function
	args    *spool
	most    uint64         // bytes of result that its interface allows
	code    uapi.ErrorCode // of the program's own error
	mutes   int            // workers that fell silent with it
	leases  map[sched.Fence]*lease
}

const mutesMost = 2

// A lease is what the hub keeps of one run of a call.
type lease struct {
	sched.Lease
	node   *node
	done   *proto.Done
	result *spool // from PUT, or inline in done
	sent   uint64 // bytes of arguments that went to the node
}

func (c *call) function() string { return c.module.manifest.Functions[c.number].Name }

// handle gives an event to the scheduler and does what follows. The lock is
// held: what may block (a master's socket, the ledger) has a queue of its own.
func (h *Hub) handle(ev sched.Event) {
	events := []sched.Event{ev}
	for len(events) > 0 {
		var more []sched.Event
		for _, a := range h.sched.Handle(h.cfg.Now(), events[0]) {
			if e := h.act(a); e != nil {
				more = append(more, e)
			}
		}
		events = append(events[1:], more...)
	}
}

// act gives an event when the action itself failed.
func (h *Hub) act(a sched.Action) sched.Event {
	switch a := a.(type) {
	case sched.Grant:
		return h.grant(a.Lease)
	case sched.Cancel:
		h.cancel(a.Lease)
	case sched.Commit:
		h.commit(a.Lease)
	case sched.Requeued:
		h.requeued(a)
	case sched.FailCall:
		h.failCall(a)
	case sched.MarkSilent:
		if n := h.nodes[string(a.Node)]; n != nil { // or it was removed
			h.setState(n, NodeSilent, "")
		}
	case sched.Wake:
		time.AfterFunc(a.At.Sub(h.cfg.Now()), h.woken)
	case sched.Refuse:
		n := h.nodes[string(a.Node)]
		h.emit(Event{Type: "call", State: CallRefused, Call: uint64(a.Call), Node: string(a.Node), Name: n.info.Name})
	}
	return nil
}

func (h *Hub) grant(l sched.Lease) sched.Event {
	c, n := h.calls[l.Call], h.nodes[string(l.Node)]
	c.leases[l.Fence] = &lease{Lease: l, node: n}
	n.info.Running++
	msg := proto.Lease{
		Call: uint64(l.Call), Fence: uint64(l.Fence), Session: c.session.key,
		Worker:   proto.Worker{Module: c.module.digest},
		Function: c.number, Length: uint64(c.args.want), Attempt: uint32(l.Attempt),
		Name: c.function(), Result: c.most, After: uint64(l.After),
		Limits: c.session.run.limits,
	}
	if c.init != nil {
		msg.Worker.Init = hex.EncodeToString(c.init.generation[:])
		msg.Init = &proto.Init{Function: c.init.function, Blob: c.init.digest, Length: c.init.length}
	}
	var raw []byte
	if msg.Length <= proto.InlineMax {
		if b, ok := c.args.bytes(); ok {
			digest, _ := c.args.complete()
			raw, msg.Inline, msg.Digest = b, true, hex.EncodeToString(digest[:])
			c.leases[l.Fence].sent = msg.Length
			n.info.Sent += msg.Length
		}
	}
	if err := h.tell(n.info.ID, proto.VerbLease, msg, raw); err != nil {
		return sched.CallFailed{Node: l.Node, Call: l.Call, Fence: l.Fence, Kind: sched.NodeFailed,
			Why: "the lease could not be sent: " + err.Error()}
	}
	h.callEvent(c, c.leases[l.Fence], CallLeased, "")
	return nil
}

// woken lets the scheduler see a time that it asked for.
func (h *Hub) woken() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.handle(sched.Woken{})
	}
}

// callEvent tells watchers and the ledger.
func (h *Hub) callEvent(c *call, l *lease, state, text string) {
	e := Event{Type: "call", State: state, Session: c.session.key, Call: uint64(c.id), Function: c.function(), Text: text}
	entry := engine.Entry{Session: c.session.key, Call: uint64(c.id), Text: text}
	if l != nil {
		e.Node, e.Name, e.Substrate = l.node.info.ID, l.node.info.Name, l.node.info.Substrate
		e.Attempt, e.Copy, e.Sent = l.Attempt, l.Copy, l.sent
		entry.Node, entry.Fence = e.Node, uint64(l.Fence)
	}
	if l != nil && l.done != nil {
		d := l.done
		e.Wall, e.ExecNS, e.Fetched, e.Received = d.Wall, d.ExecNS, d.Fetched, d.Length
		e.Nonce, e.Calls, e.Program = d.Nonce, d.Calls, d.Program
	}
	h.emit(e)
	switch state {
	case CallQueued, CallLeased, CallDone, CallFailed:
		entry.State = engine.State(state)
		if text == "" {
			entry.Text = e.Function
		}
		entry.Time = h.cfg.Now()
		h.ledger.add(entry)
	}
}

// endLease forgets a lease. A result that nobody committed is dropped.
func (h *Hub) endLease(c *call, f sched.Fence) *lease {
	l := c.leases[f]
	if l == nil {
		return nil
	}
	delete(c.leases, f)
	l.node.info.Running--
	if l.result != nil {
		l.result.drop()
		l.result = nil
	}
	return l
}

func (h *Hub) cancel(l sched.Lease) {
	if c := h.calls[l.Call]; c != nil {
		if l := h.endLease(c, l.Fence); l != nil {
			h.callEvent(c, l, CallCancelled, "")
		}
	}
	n := h.nodes[string(l.Node)]
	if n == nil || !n.ready {
		return
	}
	if err := h.tell(n.info.ID, proto.VerbCancel, proto.Cancel{Call: uint64(l.Call), Fence: uint64(l.Fence)}, nil); err != nil {
		h.log.Warn("a lease was not cancelled", "node", n.info.Name, "error", err)
	}
}

func (h *Hub) requeued(a sched.Requeued) {
	c := h.calls[a.Lease.Call]
	if l := h.endLease(c, a.Lease.Fence); l != nil {
		l.node.info.Failed++
		h.callEvent(c, l, CallRequeued, a.Why)
	}
}

// commit hands the result to the master. It happens once for a call.
func (h *Hub) commit(s sched.Lease) {
	c := h.calls[s.Call]
	l := c.leases[s.Fence]
	d := l.done
	r := uapi.Result{
		Length: d.Length, ExecNS: d.ExecNS, Proof: uapi.Proof{Nonce: d.Nonce, Calls: d.Calls},
		Attempt: uint32(l.Attempt), Program: c.module.sum,
	}
	r.Substrate, _ = uapi.ParseSubstrate(l.node.info.Substrate)
	r.SetNode(l.node.info.Name)
	l.node.info.Done++
	l.node.info.Received += d.Length
	h.callEvent(c, l, CallDone, "")
	result := l.result
	l.result = nil
	h.endLease(c, s.Fence)
	h.forget(c)
	c.session.out.add(outgoing{client: c.client, result: &r, data: result})
}

func (h *Hub) failCall(a sched.FailCall) {
	c := h.calls[a.Call]
	code := uapi.EWorker
	switch {
	case a.Reason == sched.NoFit:
		code = uapi.ENoNode
	case a.Reason == sched.Fatal && c.code != 0:
		code = c.code
	case a.Reason == sched.Fatal:
		code = uapi.EInternal
	}
	h.endCall(c, uapi.Errorf(code, "%s", a.Why))
}

// endCall ends a call with an error for the master.
func (h *Hub) endCall(c *call, e *uapi.Error) {
	var last *lease
	for f := range c.leases { // one: copies were cancelled before
		last = h.endLease(c, f)
		last.node.info.Failed++
	}
	h.callEvent(c, last, CallFailed, e.Text)
	h.forget(c)
	c.session.out.add(outgoing{client: c.client, err: e})
}

// forget drops what the hub holds of a call. Readers of the arguments that are
// under way end with an error.
func (h *Hub) forget(c *call) {
	if h.calls[c.id] != c {
		return
	}
	delete(h.calls, c.id)
	delete(c.session.calls, c.client)
	for f := range c.leases {
		h.endLease(c, f)
	}
	c.args.abort(errSpoolGone)
	c.args.drop()
}

// done takes a node's result. All of it is checked before the scheduler hears.
func (h *Hub) done(n *node, v *proto.Done, raw []byte) error {
	h.spoke(n)
	c := h.calls[sched.CallID(v.Call)]
	id, f := sched.NodeID(n.info.ID), sched.Fence(v.Fence)
	ev := sched.Event(sched.CallDone{Node: id, Call: sched.CallID(v.Call), Fence: f,
		Duration: seconds(v.Wall)})
	if c != nil && h.sched.Current(id, c.id, f) {
		kind, why := h.checkDone(c, c.leases[f], v, raw)
		if why != "" {
			ev = sched.CallFailed{Node: id, Call: c.id, Fence: f, Kind: kind, Why: why}
			if kind == sched.Unsafe {
				h.setState(n, NodeBarred, why)
			}
		}
	}
	h.handle(ev)
	return nil
}

func (h *Hub) checkDone(c *call, l *lease, v *proto.Done, raw []byte) (sched.Failure, string) {
	bee := l.node.info.Substrate == "bee-windows" || l.node.info.Substrate == "bee-linux"
	switch {
	case v.Program != c.module.digest:
		return sched.Unsafe, "refused by a safety check: the node ran another program than it was given"
	case v.Substrate != l.node.info.Substrate:
		return sched.Unsafe, "refused by a safety check: the node ran the program on another substrate than it has"
	case bee && (v.Calls == 0 || v.Nonce == 0):
		return sched.Unsafe, "refused by a safety check: the program did not run inside bee"
	}
	if err := c.fits(v.Length); err != nil {
		return sched.NodeFailed, err.Error()
	}
	if err := h.takeResult(c, l, v, raw); err != nil {
		return sched.NodeFailed, "the result did not arrive whole: " + err.Error()
	}
	l.done = v
	return 0, ""
}

// fits says whether the call's result may have n bytes.
func (c *call) fits(n uint64) error {
	if n > c.most {
		return fmt.Errorf("the result of %s has %d bytes where its interface and its arguments allow %d", c.function(), n, c.most)
	}
	return nil
}

// quotas are those that a result counts to.
func (h *Hub) quotas(c *call, l *lease) []*quota {
	return []*quota{l.node.quota, c.session.quota, h.quota}
}

func (h *Hub) takeResult(c *call, l *lease, v *proto.Done, raw []byte) error {
	if v.Inline {
		if l.result != nil {
			l.result.drop()
			l.result = nil
		}
		s, err := h.spools.spool(uint64(len(raw)), h.quotas(c, l)...)
		if err != nil {
			return err
		}
		l.result = s
		if _, err = s.Write(raw); err == nil {
			err = s.finish()
		}
		if err != nil {
			return err
		}
	}
	if l.result == nil {
		return fmt.Errorf("it was announced but not sent")
	}
	digest, whole := l.result.complete()
	if !whole || uint64(l.result.want) != v.Length || hex.EncodeToString(digest[:]) != v.Digest {
		return fmt.Errorf("it is not what the node announced")
	}
	return nil
}

func (h *Hub) failed(n *node, v *proto.Failed) error {
	h.spoke(n)
	ev := sched.CallFailed{Node: sched.NodeID(n.info.ID), Call: sched.CallID(v.Call),
		Fence: sched.Fence(v.Fence), Status: v.Status,
		Why: fmt.Sprintf("%s: %s", n.info.Name, shorten(v.Text))}
	current := h.sched.Current(ev.Node, ev.Call, ev.Fence)
	switch v.Reason {
	case proto.ReasonDied:
		ev.Kind = sched.WorkerDied
	case proto.ReasonMute:
		// Each silence takes as long as a worker may be silent: two say enough.
		ev.Kind = sched.WorkerDied
		if c := h.calls[ev.Call]; c != nil && current {
			if c.mutes++; c.mutes == mutesMost {
				ev.Kind, c.code, ev.Why = sched.Final, uapi.EWorker, ev.Why+"; so was another worker with this call before"
			}
		}
	case proto.ReasonError, proto.ReasonLimit:
		ev.Kind = sched.Final
		if c := h.calls[ev.Call]; c != nil && current {
			c.code = v.Code
		}
	case proto.ReasonRefused:
		ev.Kind = sched.Unsafe
		if current {
			h.setState(n, NodeBarred, shorten(v.Text))
		}
	case proto.ReasonCancelled:
		ev.Kind = sched.Returned
	default:
		ev.Kind = sched.NodeFailed
	}
	if c := h.calls[ev.Call]; current && ev.Kind == sched.NodeFailed && c.args.failed() != nil {
		// The node is not to blame for arguments that never came.
		ev.Kind, c.code, ev.Why = sched.Final, uapi.EInternal, c.args.failed().Error()
	}
	h.handle(ev)
	return nil
}

// generation names what Initialize was given: a worker with the same one can
// take the place of another.
func generation(function uint32, blob [32]byte) [32]byte {
	b := append([]byte("skep init"), byte(function), byte(function>>8), byte(function>>16), byte(function>>24))
	return sha256.Sum256(append(b, blob[:]...))
}

// seconds reads a duration that a node says; nonsense counts as unknown.
func seconds(v float64) time.Duration {
	if !(v > 0 && v < 1e9) {
		return 0
	}
	return time.Duration(v * float64(time.Second))
}
