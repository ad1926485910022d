// SPDX-License-Identifier: MIT

// Package sched decides which node runs which call.
//
// It is a pure state machine: events go in with the time they happened, actions
// come out, and equal events give equal actions. It starts nothing, reads no
// clock and holds no lock; its owner calls it from one goroutine at a time.
//
// A lease is the right to run one call on one node. Its fencing number grows
// over all calls for ever, so a result that carries an old number is known to
// come from a revoked lease.
package sched

import "time"

// Digest is the SHA-256 of a blob; the zero value means that there is none.
type Digest [32]byte

// NodeID names a node, SessionID a master, CallID a call over all sessions.
type (
	NodeID    string
	SessionID uint64
	CallID    uint64
	Fence     uint64
)

// Worker says what a worker process can run: a module after one initialisation.
type Worker struct {
	Module Digest
	Init   Digest
}

// Idle names worker processes that wait on a node. They hold what calls of their
// session left in them, so no other session gets them.
type Idle struct {
	Session SessionID
	Worker  Worker
}

// Lease is one run of a call on a node.
type Lease struct {
	Call    CallID
	Fence   Fence
	Node    NodeID
	Session SessionID
	Attempt int  // 1 for the first lease of this call
	Ahead   bool // prefetched: the node fetches now, and runs it when After has ended
	After   Fence
	Copy    bool // another lease of the same call runs elsewhere
}

// Config holds the limits; New puts the default where a field is zero.
type Config struct {
	Silence  time.Duration // a node that says nothing for so long is silent (12 s)
	Missing  time.Duration // a lease not in the node's beats for so long is lost (8 s)
	Avoid    time.Duration // how long a node that failed a call does not get it again (10 s)
	Again    time.Duration // the same where every other node failed it too (1 s)
	NoNode   time.Duration // how long a call waits that is too large for every node (60 s)
	CopyFrom time.Duration // a call that ran for less is never copied (2 s)
	Quantum  time.Duration // how long a slot stays with a session while others wait (1 s)
	Hold     time.Duration // how long within it a slot waits for its session's next call (100 ms)
	Attempts int           // worker deaths until the call fails (4)
	Alike    int           // nodes with the same exit status until it fails (2)
	Losses   int           // leases lost with their nodes until it fails (32)
	Copies   int           // leases of one call at the same time (2)
}

// Event is what happened: one of the types below.
type Event interface{ event() }

// NodeUp: a node said hello. A node that was up already has restarted.
type NodeUp struct {
	Node   NodeID
	Slots  int
	Memory uint64 // bytes it gives to calls
}

// NodeDown: the connection of a node ended.
type NodeDown struct{ Node NodeID }

// NodeBar: a node gets no more work, for it failed a safety check.
type NodeBar struct{ Node NodeID }

// Ask: a node has free slots. It replaces the node's former Ask.
type Ask struct {
	Node   NodeID
	Slots  int
	Memory uint64
	Held   []Digest // blobs in its cache
	Idle   []Idle
}

// Beat: a node lives and holds these leases.
type Beat struct {
	Node   NodeID
	Leases []Fence
}

// SessionOpen: a master connected.
type SessionOpen struct{ Session SessionID }

// SessionClose: it is gone; its calls are dropped.
type SessionClose struct{ Session SessionID }

// CallQueued: a master wants a call.
type CallQueued struct {
	Call     CallID
	Session  SessionID
	Worker   Worker
	Function uint32
	Memory   uint64 // that the call needs; 0 if unknown
	Size     uint64 // bytes of arguments
	Node     NodeID // that alone may run it; "" for any
}

// CallCancel: the master no longer wants it.
type CallCancel struct{ Call CallID }

// CallDone: a node has a complete result. Commit or Refuse answers.
type CallDone struct {
	Node     NodeID
	Call     CallID
	Fence    Fence
	Duration time.Duration // on the node, without transfers; 0 when unknown
}

// Failure says whose fault a failed lease is.
type Failure int

const (
	// WorkerDied counts as an attempt of the call.
	WorkerDied Failure = iota
	// NodeFailed is the node's fault (no space, no blob): an attempt too, for
	// it could be the call's after all, but never alike.
	NodeFailed
	// Unsafe bars the node; the call does not suffer.
	Unsafe
	// Final is the answer of the user's program: no other node helps.
	Final
	// Returned returns the call unstarted, as when the owner needs the computer.
	Returned
)

// CallFailed: a node could not finish a lease.
type CallFailed struct {
	Node   NodeID
	Call   CallID
	Fence  Fence
	Kind   Failure
	Status int    // exit status or signal of the worker, for WorkerDied
	Why    string // one sentence
}

// Tick: time went by. Silence and speculation are looked at only here.
type Tick struct{}

// Woken answers Wake when its time has come.
type Woken struct{}

func (NodeUp) event()       {}
func (NodeDown) event()     {}
func (NodeBar) event()      {}
func (Ask) event()          {}
func (Beat) event()         {}
func (SessionOpen) event()  {}
func (SessionClose) event() {}
func (CallQueued) event()   {}
func (CallCancel) event()   {}
func (CallDone) event()     {}
func (CallFailed) event()   {}
func (Tick) event()         {}
func (Woken) event()        {}

// Action is what the owner has to do: one of the types below.
type Action interface{ action() }

// Grant: send this lease to its node.
type Grant struct{ Lease Lease }

// Cancel: tell the node to stop. It is sent for numbers that the scheduler does
// not know, too: then Call and Session are 0.
type Cancel struct{ Lease Lease }

// Commit: the result of this lease is the result of the call.
type Commit struct{ Lease Lease }

// Refuse: the result or failure is from a lease that is not current.
type Refuse struct {
	Node  NodeID
	Call  CallID
	Fence Fence
}

// Requeued: the call lost a lease and waits for another.
type Requeued struct {
	Lease Lease
	Why   string
}

// Reason says why a call failed.
type Reason int

const (
	// Exhausted means that its worker ended too often.
	Exhausted Reason = iota
	// Fatal is the answer of the user's program.
	Fatal
	// NoFit means that it needs more memory than every node has.
	NoFit
)

// FailCall: the call ends without a result.
type FailCall struct {
	Call    CallID
	Session SessionID
	Reason  Reason
	Why     string
}

// Wake: send Woken at this time. A slot is kept for a session until then, and
// others wait.
type Wake struct{ At time.Time }

// MarkSilent: the node did not speak; it stays known.
type MarkSilent struct{ Node NodeID }

func (Grant) action()      {}
func (Cancel) action()     {}
func (Commit) action()     {}
func (Refuse) action()     {}
func (Requeued) action()   {}
func (FailCall) action()   {}
func (MarkSilent) action() {}
func (Wake) action()       {}
