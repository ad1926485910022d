// SPDX-License-Identifier: MIT

package roll

import (
	"errors"
	"time"
)

// An Engine carries out what a Node decides. Each method returns when it is done.
type Engine interface {
	Stage() error // verify signatures and policy, record the sequence, store
	Load() error  // and apply for nobody
	// Select gives calls the policy of phase p. That of Canary and Full ends at until, on
	// the node's clock, whatever becomes of the caller: each lease calls it again.
	Select(p Phase, until time.Duration) error
	Commit() error // and without an end
	Revert() error
}

// A Node is the half of a roll on a node. It lives as long as a boot; Bad is what the node
// remembers of earlier ones.
type Node struct {
	Name, Boot string
	Engine     Engine
	Lease      time.Duration
	Fits       bool
	Phase      Phase
	Bad        string
	Refused    string
	Superseded string // by what; it is not taken up again
	Waits      string // why a step cannot be done yet
	Inside     []string
	Health     Health

	heard, stamp time.Duration // of the latest order
	until        time.Duration // end of the lease
	clock, since time.Duration // now, and when the phase began
}

// Report returns what the node says at this time since boot.
func (n *Node) Report(now time.Duration) Report {
	return Report{Node: n.Name, Boot: n.Boot, Stamp: now, Heard: n.heard, Fits: n.Fits, Phase: n.Phase, For: now - n.since,
		Bad: n.Bad, Refused: n.Refused, Superseded: n.Superseded, Waits: n.Waits, Inside: n.Inside, Health: n.Health}
}

// Tick ends the lease in time: no new call enters the update afterwards.
func (n *Node) Tick(now time.Duration) {
	n.clock = now
	if n.Phase.exposed() && now >= n.until {
		n.close()
	}
}

// close ends a lease.
func (n *Node) close() { n.change(n.Engine.Select(Loaded, 0), Loaded) }

// Harm records a sign of harm. The kernel has reverted the update already.
func (n *Node) Harm(why string) {
	if n.Bad == "" {
		n.Bad = why
	}
	if n.Phase >= Loaded && n.Phase != Reverted {
		n.Phase = Leaving
	}
}

// Supersede records that a newer update has replaced this one, which leaves. Nobody was
// harmed.
func (n *Node) Supersede(why string) { n.Superseded, n.Phase = why, Leaving }

// Drained records that no task is inside the reverted update any more.
func (n *Node) Drained() {
	if n.Phase == Leaving {
		n.Phase, n.Inside = Reverted, nil
	}
}

// ErrLater is an engine's error if the step may succeed later: the next order repeats it.
var ErrLater = errors.New("not now")

// change records a phase, or that the engine refused it.
func (n *Node) change(err error, to Phase) bool {
	n.Waits = ""
	if errors.Is(err, ErrLater) {
		n.Waits = err.Error()
		return false
	}
	if err != nil {
		n.Refused = err.Error()
		return false
	}
	n.Phase, n.since = to, n.clock
	return true
}

// Obey carries out an order that answers a report of this boot. Later reports' answers
// overtake earlier ones.
func (n *Node) Obey(now time.Duration, o Order) {
	n.clock = now
	if o.Boot != n.Boot || o.Stamp <= n.stamp || o.Stamp > now {
		return
	}
	n.stamp, n.heard = o.Stamp, max(n.heard, o.Now)
	granted := o.Grant && now < o.Stamp+n.Lease
	switch {
	case o.Goal == Reverted:
		n.revert()
	case n.Bad != "" || n.Refused != "" || n.Phase >= Committed:
	default:
		n.advance(o, granted)
	}
}

// advance brings the node nearer to the goal, step by step.
func (n *Node) advance(o Order, granted bool) {
	if n.Phase == None && o.Goal >= Staged && !n.change(n.Engine.Stage(), Staged) {
		return
	}
	if n.Phase == Staged && o.Goal >= Loaded && !n.change(n.Engine.Load(), Loaded) {
		return
	}
	if n.Phase < Loaded || o.Goal < Canary {
		return
	}
	if !granted {
		if n.Phase.exposed() {
			n.close()
		}
		return
	}
	n.until = o.Stamp + n.Lease
	goal, was, since := min(o.Goal, Full), n.Phase, n.since
	if !n.change(n.Engine.Select(goal, n.until), goal) {
		return
	}
	if was == goal {
		n.since = since
	}
	if o.Goal == Committed {
		n.change(n.Engine.Commit(), Committed)
	}
}

// revert takes the update back, unless it is committed: that needs a signed order.
func (n *Node) revert() {
	switch n.Phase {
	case Loaded, Canary, Full:
		n.change(n.Engine.Revert(), Leaving)
	case None, Staged:
		n.Phase = Reverted
	}
}
