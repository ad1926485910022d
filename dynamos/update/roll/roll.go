// SPDX-License-Identifier: MIT

// Package roll brings a kernel update to the nodes of a cluster in waves, and takes it back
// at the first sign of harm. Hub and Node are pure state machines with an injected clock:
// they exchange reports and orders, which may be lost, delayed and reordered.
//
// A node runs the update on trial only while it has a lease. The hub grants leases only
// while it has heard from every node that runs the update. So whatever is lost, no new
// call enters the update anywhere later than Fresh+Lease after its first bad sign.
package roll

import "time"

// Phases of a node, in order. What a node has is in Report.Phase; what it shall have is in
// Order.Goal.
const (
	None      Phase = iota // nothing is known of the package
	Staged                 // it was verified and stored
	Loaded                 // its module is loaded, and no call enters it
	Canary                 // calls enter it by the first policy
	Full                   // calls enter it by the whole policy
	Committed              // it stays without a lease, also after a boot
	Leaving                // it was reverted, and tasks are still inside
	Reverted               // it was reverted, and no task is inside
)

// A Phase is how far an update is on a node.
type Phase uint8

var phaseNames = [...]string{"none", "staged", "loaded", "canary", "node", "committed", "leaving", "reverted"}

func (p Phase) String() string {
	if int(p) < len(phaseNames) {
		return phaseNames[p]
	}
	return "invalid"
}

// exposed reports whether new calls enter an update that is on trial in this phase.
func (p Phase) exposed() bool { return p == Canary || p == Full }

// States of a roll.
const (
	Running    State = iota
	Paused           // no node is added; those that run the update continue
	Confirming       // all nodes had their time; each must report once more
	Committing
	Done
	Stopped // every node reverts it
)

// A State is that of a roll.
type State uint8

var stateNames = [...]string{"running", "paused", "confirming", "committing", "done", "stopped"}

func (s State) String() string { return stateNames[s] }

// Times bound what can happen without contact.
type Times struct {
	Lease  time.Duration // of a node, from its report on
	Fresh  time.Duration // the hub must have been heard by every node within this time
	Dead   time.Duration // a silent node that runs the update counts as harmed
	Canary time.Duration // in the first policy
	Settle time.Duration // of each wave in the whole policy
	Slow   time.Duration // more than that: a node that does not follow is left out
}

// DefaultTimes keep the sum of Lease and Fresh below five seconds.
var DefaultTimes = Times{Lease: 3 * time.Second, Fresh: 1500 * time.Millisecond, Dead: 30 * time.Second,
	Canary: time.Minute, Settle: 5 * time.Minute, Slow: 5 * time.Minute}

// A Report is what a node says. Stamp is its clock since boot, and Heard the latest time of
// the hub's clock that it has received: so the hub knows a time at which it was well.
type Report struct {
	Node, Boot string
	Stamp      time.Duration
	Heard      time.Duration
	Fits       bool // the package has a module for its kernel
	Phase      Phase
	For        time.Duration // in this phase, without a break
	Bad        string        // the first sign of harm on this node; it stays
	Refused    string        // why it does not take the package
	Package    string        `json:",omitempty"` // the digest of the one for its kernel
	Superseded string        `json:",omitempty"` // by which newer update it was replaced
	Waits      string        `json:",omitempty"` // why its next step is not done yet
	Inside     []string      // tasks that are still inside, by name
	Health     Health
}

// An Order is the hub's answer to a report: what the node shall have. Boot and Stamp are
// those of the report, so a node recognizes a late answer.
type Order struct {
	Boot  string
	Stamp time.Duration
	Now   time.Duration // the hub's clock
	Goal  Phase         // Staged to Committed, or Reverted
	Grant bool          // a lease: calls may enter until Stamp+Lease
}

// Health compares the versions that run beside each other on one node.
type Health struct {
	OldCalls, OldErrors, NewCalls, NewErrors uint64
}

// Rules say when the sums over all nodes are a sign of harm. The kernel of each node
// applies its own rules too, and reports WARN, oops and calls that do not return.
type Rules struct {
	Least  uint64 // calls of each version
	Errors uint64 // more per 1000 calls; 0: not compared
}

// Judge returns a sentence if the newer version fails more often.
func (r Rules) Judge(h Health) string {
	if r.Errors == 0 || h.OldCalls < r.Least || h.NewCalls < r.Least || h.OldCalls == 0 || h.NewCalls == 0 {
		return ""
	}
	if 1000*float64(h.NewErrors)/float64(h.NewCalls) > 1000*float64(h.OldErrors)/float64(h.OldCalls)+float64(r.Errors) {
		return "over all nodes its calls fail more often than those of the older version"
	}
	return ""
}
