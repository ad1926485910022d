// SPDX-License-Identifier: MIT

package hub

import (
	"time"

	"skep/grid/proto"
)

// The JSON messages of the control socket. Fields are only added, never changed.

// Node states.
const (
	NodeUp     = "up"
	NodeSilent = "silent"
	NodeAway   = "away" // its connection broke, and its calls are kept for it
	NodeDown   = "down"
	NodeBarred = "barred" // it failed a safety check
)

// NodeInfo is one row of `skep nodes`.
type NodeInfo struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	State     string       `json:"state"`
	Problem   string       `json:"problem,omitempty"` // why it is barred or was refused
	Version   string       `json:"version"`
	OS        string       `json:"os"`
	System    string       `json:"system"`
	Substrate string       `json:"substrate"`
	Confined  string       `json:"confined"` // how its programs are kept from the rest of it
	Open      string       `json:"open,omitempty"`
	Owner     string       `json:"owner,omitempty"` // what its policy does, while it permits less than all slots
	Kernel    proto.Kernel `json:"kernel,omitzero"`
	Labels    []string     `json:"labels,omitempty"`   // KEY=VALUE, as its owner gave them
	Moves     bool         `json:"moves,omitempty"`    // it can take movable programs
	Drained   bool         `json:"drained,omitempty"`  // it gets no more work, and finishes what it has
	Programs  int          `json:"programs,omitempty"` // of skep exec
	Objects   int          `json:"objects,omitempty"`  // of programs, that are not lost
	CPUs      int          `json:"cpus"`
	Memory    uint64       `json:"memory"`
	Slots     int          `json:"slots"`
	Free      int          `json:"free"`
	Running   int          `json:"running"`         // calls, at most one for each slot
	Ahead     int          `json:"ahead,omitempty"` // leases that wait there for a slot
	Done      uint64       `json:"done"`            // calls since the hub started
	Failed    uint64       `json:"failed"`          // leases
	Sent      uint64       `json:"sent"`            // bytes to it: blobs and arguments
	Received  uint64       `json:"received"`
	LastSeen  time.Time    `json:"last_seen"`
}

// Busy returns how many of a node's slots are in use.
func (n *NodeInfo) Busy() int { return max(0, n.Slots-n.Free) }

// Held returns how many calls and programs a node has.
func (n *NodeInfo) Held() int { return n.Running + n.Ahead + n.Programs }

// StateText says whether a node is there, and whether it gets work.
func (n *NodeInfo) StateText() string {
	switch {
	case n.Drained && n.Held() > 0:
		return n.State + ", draining"
	case n.Drained:
		return n.State + ", drained"
	}
	return n.State
}

// Event is one line of an event stream.
type Event struct {
	Time      time.Time `json:"time"`
	Type      string    `json:"type"`  // node, call, session, log, missed
	State     string    `json:"state"` // of that
	Session   string    `json:"session,omitempty"`
	Call      uint64    `json:"call,omitempty"`
	Function  string    `json:"function,omitempty"`
	Node      string    `json:"node,omitempty"` // id
	Name      string    `json:"name,omitempty"` // of the node
	Substrate string    `json:"substrate,omitempty"`
	Attempt   int       `json:"attempt,omitempty"`
	Copy      bool      `json:"copy,omitempty"`
	Running   int       `json:"running,omitempty"`  // calls of the session that run on the node now
	Wall      float64   `json:"wall,omitempty"`     // seconds from lease to result, on the node
	ExecNS    uint64    `json:"exec_ns,omitempty"`  // inside the user's function
	Sent      uint64    `json:"sent,omitempty"`     // bytes of arguments
	Fetched   uint64    `json:"fetched,omitempty"`  // bytes of blobs pulled for it
	Received  uint64    `json:"received,omitempty"` // bytes of result
	Near      uint64    `json:"near,omitempty"`     // bytes of both that the hub's own agent got and gave without a connection
	Nonce     uint64    `json:"nonce,omitempty"`    // bee's proof
	Calls     uint64    `json:"calls,omitempty"`    // system calls it emulated
	Program   string    `json:"program,omitempty"`  // digest of what was loaded
	Text      string    `json:"text,omitempty"`
	Missed    int       `json:"missed,omitempty"` // events that this reader was too slow for
	Socket    string    `json:"socket,omitempty"` // type session, state open
	Keep      int64     `json:"keep,omitempty"`   // with it: milliseconds for which a run is kept without its hub
}

// States of a call in events, besides those of the ledger.
const (
	CallQueued    = "queued"
	CallLeased    = "leased"
	CallRequeued  = "requeued"
	CallCancelled = "cancelled" // one lease: another was faster, or it is not wanted
	CallRefused   = "refused"   // a late result
	CallDone      = "done"
	CallFailed    = "failed"
)

// SessionLate is the state of a session whose node did not report the end of its workers.
const SessionLate = "late"

// Status answers GET /v1/status.
type Status struct {
	Version  string    `json:"version"`
	Address  string    `json:"address"` // of the TLS port, empty without one
	Started  time.Time `json:"started"`
	PID      int       `json:"pid"`
	Nodes    int       `json:"nodes"` // up
	Sessions int       `json:"sessions"`
	Calls    int       `json:"calls"` // not ended

	Stored    uint64 `json:"stored"`     // bytes of arguments and results that the hub stores
	StoredMax uint64 `json:"stored_max"` // its quota
}

// Drain is what becomes of a node's work. It is the end of the path of the request.
type Drain string

// What a node gets no more work and what it runs goes on (DrainKeep), or begins anew on other
// nodes (DrainMove), and that it gets work again.
const (
	DrainKeep Drain = "drain"
	DrainMove Drain = "move"
	DrainEnd  Drain = "reopen"
)

// TokenRequest asks for a join token.
type TokenRequest struct {
	Uses int           `json:"uses"`
	Life time.Duration `json:"life"` // nanoseconds
}

// TokenAnswer has it.
type TokenAnswer struct {
	Token   string `json:"token"`
	Address string `json:"address"` // the hub's, as it knows it
}

// RunRequest opens what `skep run` needs: a socket of its own for masters.
type RunRequest struct {
	Name   string       `json:"name"`         // for people
	Dirs   []string     `json:"dirs"`         // where worker programs are, absolute
	Limits proto.Limits `json:"limits"`       // of each call
	On     string       `json:"on,omitempty"` // the selector of the nodes that run its calls; empty: all

	Deadline time.Duration `json:"deadline,omitempty"` // of each call, from when the hub knows it; 0: none
	Attempts int           `json:"attempts,omitempty"` // of each call whose worker dies; 0: as the hub's
	Priority int           `json:"priority,omitempty"` // among the runs of its user: calls of the greatest come first
}

// PriorityMax bounds the priority of a run, on both sides of 0.
const PriorityMax = 1000

// ExecRequest runs a stored program on one node. The answer switches to exec
// frames (package proto) in both directions.
type ExecRequest struct {
	Node    string       `json:"node"`    // id
	Program string       `json:"program"` // digest
	Name    string       `json:"name"`    // argv[0]
	Args    []string     `json:"args"`
	Env     []string     `json:"env"`
	Limits  proto.Limits `json:"limits"`
	Update  string       `json:"update,omitempty"` // of the kernel, for this program
	Logs    bool         `json:"logs,omitempty"`   // of workers, in place of a program
	Session string       `json:"session,omitempty"`
	// Movable: skep move may move it, among the nodes that On selects. Checkpoint is how many
	// seconds pass between checkpoints; 0: there are none.
	Movable    bool    `json:"movable,omitempty"`
	On         string  `json:"on,omitempty"`
	Checkpoint float64 `json:"checkpoint,omitempty"`

	cpu string // of the node on which it runs
}

// MoveRequest names a target by its name or id; "": the hub chooses one.
type MoveRequest struct {
	Node string `json:"node"`
}

// JobInfo describes a movable program. PauseNS and Bytes are those of its last move or checkpoint.
type JobInfo struct {
	Job     string    `json:"job"`
	Program string    `json:"program"`
	Node    string    `json:"node"`
	State   string    `json:"state"`
	Began   time.Time `json:"began"`
	Moves   int       `json:"moves"` // and starts from a checkpoint
	PauseNS int64     `json:"pause_ns"`
	Bytes   int64     `json:"bytes"` // of its image

	Account proto.ExecAccount `json:"account,omitzero"` // of PauseNS

	nodeID string
}

// BlobAnswer names a stored blob.
type BlobAnswer struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}
