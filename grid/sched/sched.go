// SPDX-License-Identifier: MIT

// Package sched decides which node runs which call.
//
// It is a pure state machine. Its input is events with their times, its output is
// actions; equal events give equal actions. It starts no goroutine, reads no clock
// and holds no lock. Its owner calls it from one goroutine at a time.
//
// A lease is the right to run one call on one node. Each lease has a fencing number
// greater than all before it, over all calls. So a result with an old number is
// recognized as one of a revoked lease.
package sched

import (
	"time"

	"skep/grid/label"
)

// Digest is the SHA-256 of a blob; the zero value means that there is none.
type Digest [32]byte

// NodeID identifies a node, SessionID a master, CallID a call among all sessions. UserID
// identifies who submits; it is empty for the hub's own user.
type (
	NodeID    string
	UserID    string
	SessionID uint64
	CallID    uint64
	Fence     uint64
)

// Worker says what a worker process can run: a module after one initialisation.
type Worker struct {
	Module Digest
	Init   Digest
	Object uint64 // the object of a session that alone it runs methods of, or 0
}

// Idle identifies worker processes that wait on a node. They may hold data of their
// session's calls, so no other session gets them.
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
	Ahead   bool // the node fetches its data now and runs it when lease After has ended
	After   Fence
	Copy    bool // another lease of the same call runs elsewhere
	Extra   bool // it has the place of a call that waits, not a slot: see Lend
}

// Config holds the limits; New puts the default where a field is zero.
type Config struct {
	Silence  time.Duration // a node that sends nothing for this long counts as silent (12 s)
	Missing  time.Duration // a lease absent from its node's beats for this long is lost (8 s)
	Keep     time.Duration // leases of a node that is away or silent are kept for this long (KeepDefault); < 0: not at all
	Offer    time.Duration // after this time away its calls may begin on other nodes too (1.5 s)
	Avoid    time.Duration // a node that failed a call does not get it again for this long (10 s)
	Again    time.Duration // the same if every other node failed the call too (1 s)
	NoNode   time.Duration // a call that fits no node fails after this time (60 s)
	CopyFrom time.Duration // a call that has run for less is never copied (2 s)
	Quantum  time.Duration // a slot stays with a session for this long while others wait (1 s)
	Turn     time.Duration // the same if it found a worker, so that none was started for it (a tenth of Quantum)
	Hold     time.Duration // within the quantum, a free slot is reserved for its session's next call for this long (100 ms)
	Attempts int           // failures on nodes after which the call fails (4)
	Alike    int           // nodes with the same exit status after which the call fails (2)
	Losses   int           // lost leases after which the call fails (32)
	Copies   int           // largest number of leases of one call at the same time (2)
}

// KeepDefault is the value of Config.Keep for 0.
const KeepDefault = 2 * time.Minute

// Event is one of the types below.
type Event interface{ event() }

// NodeUp: a node sent its hello. A node that was up already has restarted.
type NodeUp struct {
	Node   NodeID
	Slots  int
	Memory uint64 // bytes that the node offers to calls
	About  label.Node
	Apart  bool // it keeps users apart; only then it gets calls of a user who has an id
	// It passes callbacks on; only then it gets calls that may call their master.
	Callbacks bool
	// It did not start again, and has these leases.
	Back   bool
	Leases []Fence
}

// NodeAway: the connection of a node ended without a word, so the node may come back.
type NodeAway struct{ Node NodeID }

// NodeDown: a node ended, or was removed.
type NodeDown struct{ Node NodeID }

// NodeBar: a node failed a safety check and gets no more work.
type NodeBar struct{ Node NodeID }

// NodeDrain: a node gets no more work, or gets work again. What waits for a seat there begins on
// other nodes, and with Move what runs there begins anew, but calls that only this node may run.
type NodeDrain struct {
	Node     NodeID
	On, Move bool
	Why      string // is told of each call that goes to others
}

// Ask: a node has free slots. It replaces the node's former Ask.
type Ask struct {
	Node   NodeID
	Slots  int
	Memory uint64
	Held   []Digest // blobs in its cache
	Idle   []Idle
}

// Beat: a node is alive and holds these leases.
type Beat struct {
	Node   NodeID
	Leases []Fence
	Free   int // slots without a call
}

// SessionOpen: a master connected. Its calls run on the nodes that the selector chooses.
type SessionOpen struct {
	Session  SessionID
	On       label.Selector
	Attempts int    // as in Config, which holds if it is 0
	User     UserID // whose share its calls use
	Priority int    // among the sessions of its user: calls of the greatest come first
}

// UserSet: what a user may have. A user of whom nothing is set has a weight of 1 and no limit.
type UserSet struct {
	User   UserID
	Weight int // of its share, from 1
	Slots  int // the most that it may use at a time; 0: no limit
}

// SessionClose: a master disconnected; its calls are dropped.
type SessionClose struct{ Session SessionID }

// CallQueued: a master submitted a call.
type CallQueued struct {
	Call     CallID
	Session  SessionID
	Worker   Worker
	Function uint32
	Memory   uint64   // that the call needs; 0 if unknown
	Size     uint64   // bytes of arguments
	Data     []Digest // blobs that are among them
	Node     NodeID   // the only node that may run it; "" for any
	// Nobody knows how long it takes: no lease waits for its end, nor does it wait for another's.
	Long bool
	// It may call its master. It never has a second lease at the same time.
	Callbacks bool
	// A function of the master makes it, for which another call waits: it may take lent places.
	Inner bool
	// Why it must not begin anew, after the reason for which it fails then; "": it may.
	Once string
}

// Lend: the call of a lease waits for others that its master's function makes, or no longer does.
// Meanwhile its node may run one more of such calls. Leases that the scheduler does not know lend
// as well.
type Lend struct {
	Node    NodeID
	Fence   Fence
	Session SessionID
	On      bool
}

// CallOnce: a call has called its master, so it must not begin anew. Without a lease it fails.
type CallOnce struct{ Call CallID }

// CallCancel: the master cancelled the call.
type CallCancel struct{ Call CallID }

// CallDone: a node has a complete result. The answer is Commit or Refuse.
type CallDone struct {
	Node     NodeID
	Call     CallID
	Fence    Fence
	Duration time.Duration // on the node, without transfers; 0 if unknown
}

// Failure is the cause of a failed lease.
type Failure int

const (
	// WorkerDied: the worker ended. It counts as an attempt of the call.
	WorkerDied Failure = iota
	// NodeFailed: the node has no space or no blob, for example. It counts as an
	// attempt, since the call may be the cause, but not for Config.Alike.
	NodeFailed
	// Unsafe: the node failed a safety check and is barred. It does not count
	// against the call.
	Unsafe
	// Final: the user's program answered with an error. The call is not retried.
	Final
	// Returned: the node gives the call back unstarted, for example because its
	// owner needs the computer.
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

// Tick: time has passed. Silent nodes are detected, and running calls copied, only
// on a Tick.
type Tick struct{}

// Slept: the caller did not run for so long until now, so it heard nobody. That is no silence of
// nodes.
type Slept struct{ For time.Duration }

// Woken: the time of a Wake has come.
type Woken struct{}

func (NodeUp) event()       {}
func (NodeAway) event()     {}
func (NodeDown) event()     {}
func (NodeBar) event()      {}
func (NodeDrain) event()    {}
func (Ask) event()          {}
func (Beat) event()         {}
func (SessionOpen) event()  {}
func (SessionClose) event() {}
func (UserSet) event()      {}
func (CallQueued) event()   {}
func (CallCancel) event()   {}
func (CallOnce) event()     {}
func (Lend) event()         {}
func (CallDone) event()     {}
func (CallFailed) event()   {}
func (Tick) event()         {}
func (Slept) event()        {}
func (Woken) event()        {}

// Action is what the owner must do: one of the types below.
type Action interface{ action() }

// Grant: send this lease to its node.
type Grant struct{ Lease Lease }

// Cancel: tell the node to stop this lease. For a fencing number that the scheduler
// does not know, Call and Session are 0.
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
	Moved bool // nobody lost it: its node is drained
}

// Offered: the call may get another lease beside this one, whose node is away.
type Offered struct {
	Lease Lease
	Why   string
}

// Reason says why a call failed.
type Reason int

const (
	// Exhausted means that it failed on too many nodes, or lost too many leases.
	Exhausted Reason = iota
	// Fatal means that the user's program answered with an error.
	Fatal
	// NoFit means that no node can run it: it needs more memory than each node
	// has, or the node that it is bound to is not up.
	NoFit
)

// FailCall: the call ends without a result.
type FailCall struct {
	Call    CallID
	Session SessionID
	Reason  Reason
	Why     string
}

// Wake: send Woken at this time. Until then a slot is reserved for a session while
// others wait.
type Wake struct{ At time.Time }

// MarkSilent: the node sent nothing for Config.Silence. The scheduler keeps it.
type MarkSilent struct{ Node NodeID }

// MarkLost: the node was away or silent for Config.Keep, so its leases are lost. One that is away
// is forgotten.
type MarkLost struct{ Node NodeID }

func (Grant) action()      {}
func (Cancel) action()     {}
func (Commit) action()     {}
func (Refuse) action()     {}
func (Requeued) action()   {}
func (Offered) action()    {}
func (FailCall) action()   {}
func (MarkSilent) action() {}
func (MarkLost) action()   {}
func (Wake) action()       {}
