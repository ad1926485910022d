// SPDX-License-Identifier: MIT

package hub

import (
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"skep/grid/engine"
	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// A caller is what calls know of the master that owns them.
type caller struct {
	id      sched.SessionID
	key     string // what nodes call it
	limits  proto.Limits
	quota   *quota // of bytes that the hub stores for it
	user    string // id of whose it is; empty for the operator
	whole   *quota // of the user
	out     answers
	began   time.Time
	calls   map[uint64]*call // live calls, by its own numbers; Hub.mu
	counts  Counts           // of calls that ended; Hub.mu
	data    map[[32]byte]*datum
	objects map[uint64]*object // by its numbers; Hub.mu
	nodes   map[*node]bool     // that were granted a call of it; Hub.mu
	leases  map[*node]int      // of its calls; Hub.mu
}

// answers take those for a caller, without waiting. Hub.mu may be held.
type answers interface{ add(outgoing) }

// quotas lists those towards which the bytes of its calls count, after others.
func (c *caller) quotas(h *Hub, others ...*quota) []*quota {
	return append(others, c.quota, c.whole, h.quota)
}

// fail answers one of its numbers with an error.
func (c *caller) fail(client uint64, e *uapi.Error) {
	c.out.add(outgoing{client: client, err: e})
}

// A call lives from its CALL frame to its RESULT or ERROR.
type call struct {
	id     sched.CallID // from openCall on, when others can see it
	client uint64       // its caller's number for it
	caller *caller
	module *module
	init   *initData // what its worker is initialised with, or nil
	number uint32    // of the function
	args   *spool
	most   uint64       // bytes of result that its interface allows
	only   sched.NodeID // that may run it because of its data, or ""; set before it is queued
	began  time.Time

	data    *callData  // that the hub stores, or nil; Hub.mu
	program *execution // it runs a program of skep exec in place of a function; else nil

	// Hub.mu
	state  callState
	code   uapi.ErrorCode // of the program's own error
	mutes  int            // workers that fell silent with it
	leases map[sched.Fence]*lease
	called bool      // it has called its master, perhaps through an earlier hub
	lends  bool      // it waits for inner calls, see nesting.go
	object *object   // whose method it is, or nil
	outer  uint64    // its caller's number of the call that waits for it, or 0
	within *call     // that call, unless it had ended before
	inners int       // calls within this one
	depth  int       // how many calls wait for it; 1 if outer has ended
	back   *callback // the last one through this hub, or nil
}

// A callState is the state of a call.
type callState int

const (
	callArriving callState = iota // its arguments are arriving; the scheduler does not know it yet
	callWaiting                   // for a lease; long arguments may still come
	callRunning                   // it has leases
	callEnded                     // it was answered, or its caller has gone
)

// callMoves has the transitions between states of a call.
//
//	arriving --queueCall--> waiting --grantLease--> running --commitCall--> ended
//	                           ^--requeueCall, cancelLease--'
//
// endCall and forgetCall lead from each state to ended, from where nothing does.
var callMoves = [...][]callState{
	callArriving: {callWaiting, callEnded},
	callWaiting:  {callRunning, callEnded},
	callRunning:  {callRunning, callWaiting, callEnded}, // a copy of a call, a lease that was not granted, the end
	callEnded:    {},
}

func (c *call) setState(to callState) {
	if lockdep.Enabled && !slices.Contains(callMoves[c.state], to) {
		panic(fmt.Sprintf("hub: call %d goes from state %d to %d", c.id, c.state, to))
	}
	c.state = to
}

// A lease is the hub's record of one run of a call.
type lease struct {
	sched.Lease
	node *node

	// Hub.mu
	done   *proto.Done
	result *spool       // from PUT, or inline in done
	split  *splitResult // of the result, if it leaves data in the hub
	sent   uint64       // bytes of arguments that went to the node
	near   uint64       // bytes of arguments and result that needed no connection
}

func (c *call) hasCallbacks() bool { return c.module.manifest.Functions[c.number].HasCallbacks() }

func (c *call) functionName() string { return c.module.manifest.Functions[c.number].Name }

// grantLease sends a lease to its node, or returns the event for one that cannot be sent.
func (h *Hub) grantLease(l sched.Lease) sched.Event {
	c, n := h.calls[l.Call], h.nodes[string(l.Node)]
	if c == nil { // a program that its node gave back; requeueCall has ended it, and the event that cancels the lease follows
		return nil
	}
	c.setState(callRunning)
	c.addLease(&lease{Lease: l, node: n})
	msg := proto.Lease{
		Call: uint64(l.Call), Client: c.client, Fence: uint64(l.Fence), Session: c.caller.key,
		Worker:   proto.Worker{Module: c.module.digest},
		Function: c.number, Length: uint64(c.args.want), Attempt: uint32(l.Attempt),
		Name: c.functionName(), Result: c.most, After: uint64(l.After),
		Limits: c.caller.limits.Or(c.module.limits()), User: c.caller.user, Callbacks: c.hasCallbacks(), Extra: l.Extra,
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
	if c.data != nil {
		msg.Data, msg.Keep = parts(c.data.in), parts(c.data.out)
		if !n.data {
			return sched.CallFailed{Node: l.Node, Call: l.Call, Fence: l.Fence, Kind: sched.Final, Why: "the node cannot keep data between calls: update its agent"}
		}
	}
	if o := c.object; o != nil {
		msg.Worker.Object, msg.First = o.number, !o.begun
		o.begun = true
	}
	if x := c.program; x != nil {
		msg.Exec = x.lease()
		if !n.programs { // since then its agent was replaced by an older one
			return sched.CallFailed{Node: l.Node, Call: l.Call, Fence: l.Fence, Kind: sched.Final, Why: "the node runs no programs of accounts any more: update its agent"}
		}
	}
	if err := h.publish(n.info.ID, proto.VerbLease, msg, raw); err != nil {
		return sched.CallFailed{Node: l.Node, Call: l.Call, Fence: l.Fence, Kind: sched.NodeFailed,
			Why: "the lease could not be sent: " + err.Error()}
	}
	c.caller.nodes[n] = true
	h.callEvent(c, c.leases[l.Fence], CallLeased, "")
	return nil
}

// callEvent notifies watchers and the ledger.
func (h *Hub) callEvent(c *call, l *lease, state, text string) {
	lockdep.AssertHeld(&h.mu)
	e := Event{Time: h.cfg.Now(), Type: "call", State: state, Session: c.caller.key, Call: uint64(c.id), Function: c.functionName(), Text: text}
	entry := engine.Entry{Session: c.caller.key, Call: uint64(c.id), Text: text, User: c.caller.user}
	if l != nil {
		e.Node, e.Name, e.Substrate = l.node.info.ID, l.node.info.Name, l.node.info.Substrate
		e.Attempt, e.Copy, e.Sent = l.Attempt, l.Copy, l.sent
		e.Running = c.caller.leases[l.node] - h.sched.Waiting(sched.NodeID(e.Node), c.caller.id)
		entry.Node, entry.Fence = e.Node, uint64(l.Fence)
	}
	if l != nil && l.done != nil {
		d := l.done
		e.Wall, e.ExecNS, e.Fetched, e.Received = d.Wall, d.ExecNS, d.Fetched, d.Length
		e.Nonce, e.Calls, e.Program, e.Near = d.Nonce, d.Calls, d.Program, l.near
		entry.Fetched, entry.Near = d.Fetched, l.near
	}
	if c.object != nil {
		entry.Object = c.object.number
	}
	if c.data != nil {
		entry.Data = names(c.data.in)
	}
	if l != nil && l.split != nil && state == CallDone {
		entry.Kept = names(l.split.out)
	}
	h.tally.note(&e, &c.caller.counts)
	if c.caller.user != "" {
		var twice Counts // the session has them
		h.tallyOf(c.caller.user).note(&e, &twice)
	}
	h.emit(e)
	switch state {
	case CallQueued, CallLeased, CallRequeued, CallDone, CallFailed:
		entry.State = engine.State(state)
		if text == "" {
			entry.Text = e.Function
		}
		entry.Time = e.Time
		h.ledger.add(entry)
	}
}

// addLease notes a lease, and its node's.
func (c *call) addLease(l *lease) {
	c.leases[l.Fence] = l
	l.node.leases++
	c.caller.leases[l.node]++
}

// isRunning reports whether a node runs the call, and does not only have it for later.
func (h *Hub) isRunning(c *call) bool {
	lockdep.AssertHeld(&h.mu)
	return c.state == callRunning && !h.sched.Waits(c.id)
}

// endLease forgets a lease. A result that was not committed is dropped.
func (h *Hub) endLease(c *call, f sched.Fence) *lease {
	lockdep.AssertHeld(&h.mu)
	l := c.leases[f]
	if l == nil {
		return nil
	}
	delete(c.leases, f)
	if c.lends { // the scheduler does not know an adopted lease
		h.sched.EndLend(sched.NodeID(l.node.info.ID), f)
	}
	if len(c.leases) == 0 && c.state == callRunning {
		c.setState(callWaiting)
	}
	l.node.leases--
	c.caller.leases[l.node]--
	if l.result != nil {
		l.result.put()
		l.result = nil
	}
	h.discardSplit(l.split)
	return l
}

func (h *Hub) cancelLease(l sched.Lease) {
	if c := h.calls[l.Call]; c != nil {
		if l := h.endLease(c, l.Fence); l != nil {
			h.callEvent(c, l, CallCancelled, "")
		}
	}
	n := h.nodes[string(l.Node)]
	if n == nil || !n.ready {
		return
	}
	if err := h.publish(n.info.ID, proto.VerbCancel, proto.Cancel{Call: uint64(l.Call), Fence: uint64(l.Fence)}, nil); err != nil {
		h.log.Warn("a lease was not cancelled", "node", n.info.Name, "error", err)
	}
}

// requeueCall returns the event that follows for a program, which must not begin anew.
func (h *Hub) requeueCall(a sched.Requeued) []sched.Event {
	c := h.calls[a.Lease.Call]
	if l := h.endLease(c, a.Lease.Fence); l != nil {
		if !a.Moved {
			l.node.info.Failed++
		}
		h.callEvent(c, l, CallRequeued, a.Why)
	}
	if c.program == nil || !c.program.begun {
		return nil
	}
	h.endCall(c, uapi.Errorf(uapi.EWorker, "%s", a.Why))
	return []sched.Event{sched.CallCancel{Call: c.id}}
}

// commitCall sends the result to the master. It happens once for a call.
func (h *Hub) commitCall(s sched.Lease) {
	c := h.calls[s.Call]
	l := c.leases[s.Fence]
	r := c.resultFrame(l, l.done)
	l.node.info.Done++
	l.node.info.Received += l.done.Length
	result := l.result
	l.result = nil
	if l.split != nil {
		result.put()
		result, l.split.spool = l.split.spool, nil
		r.Length = uint64(result.want)
		h.commitSplit(c, l)
	}
	h.endLease(c, s.Fence)
	h.callEvent(c, l, CallDone, "")
	h.forgetCall(c)
	c.caller.out.add(outgoing{client: c.client, result: &r, data: result})
}

// resultFrame is what the master is sent about a result, before its bytes.
func (c *call) resultFrame(l *lease, d *proto.Done) uapi.Result {
	r := uapi.Result{
		Length: d.Length, ExecNS: d.ExecNS, Proof: uapi.Proof{Nonce: d.Nonce, Calls: d.Calls},
		Attempt: uint32(l.Attempt), Program: c.module.sum,
	}
	r.Substrate, _ = uapi.ParseSubstrate(l.node.info.Substrate)
	r.SetNode(l.node.info.Name)
	return r
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
	if c.object != nil && a.Reason != sched.Fatal {
		h.loseObject(c.object, a.Why)
		code, a.Why = uapi.EWorker, c.object.lost
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
	h.forgetCall(c)
	c.caller.fail(c.client, e)
}

// forgetCall drops what the hub holds of a call that has no leases any more. Reads of the
// arguments in progress end with an error.
func (h *Hub) forgetCall(c *call) {
	lockdep.AssertHeld(&h.mu)
	c.setState(callEnded)
	delete(h.calls, c.id)
	delete(c.caller.calls, c.client)
	h.endCallback(c)
	c.leaveOuter()
	c.leaveObject()
	h.endData(c)
	c.args.abort(errSpoolGone)
	c.args.put()
}
