// SPDX-License-Identifier: MIT

package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// step is one event, its time in seconds, and the actions that it must cause.
type step struct {
	at   float64
	ev   Event
	want []string
}

func formatAction(a Action) string {
	switch a := a.(type) {
	case Grant:
		s := fmt.Sprintf("grant %d to %s #%d", a.Lease.Call, a.Lease.Node, a.Lease.Fence)
		if a.Lease.Ahead {
			s += " ahead"
		}
		if a.Lease.Copy {
			s += " copy"
		}
		if a.Lease.Extra {
			s += " extra"
		}
		return s
	case Cancel:
		return fmt.Sprintf("cancel #%d at %s", a.Lease.Fence, a.Lease.Node)
	case Commit:
		return fmt.Sprintf("commit %d #%d", a.Lease.Call, a.Lease.Fence)
	case Refuse:
		return fmt.Sprintf("refuse #%d from %s", a.Fence, a.Node)
	case Requeued:
		return fmt.Sprintf("requeue %d", a.Lease.Call)
	case FailCall:
		return fmt.Sprintf("fail %d: %s", a.Call, a.Why)
	case Wake:
		return fmt.Sprintf("wake at %v", a.At.Sub(epoch))
	case MarkSilent:
		return "silent " + string(a.Node)
	case MarkLost:
		return "lost " + string(a.Node)
	case Offered:
		return fmt.Sprintf("offer %d", a.Lease.Call)
	}
	return "?"
}

var (
	modA = Worker{Module: Digest{1}}
	modB = Worker{Module: Digest{2}, Init: Digest{3}}
)

func nodeUp(id NodeID, slots int) Event   { return NodeUp{Node: id, Slots: slots, Memory: 100} }
func askSlots(id NodeID, slots int) Event { return Ask{Node: id, Slots: slots, Memory: 100} }
func submitCall(id CallID, s SessionID, w Worker) Event {
	return CallQueued{Call: id, Session: s, Worker: w}
}
func workerDied(n NodeID, c CallID, f Fence, status int) Event {
	return CallFailed{Node: n, Call: c, Fence: f, Status: status, Why: fmt.Sprintf("exit status %d", status)}
}
func callDone(n NodeID, c CallID, f Fence) Event {
	return CallDone{Node: n, Call: c, Fence: f, Duration: time.Second}
}

func stepsFirst(steps ...step) []step {
	return append([]step{{0, SessionOpen{Session: 1}, nil}, {0, nodeUp("a", 1), nil}}, steps...)
}

type script struct {
	name  string
	cfg   Config
	steps []step
}

func submitBack(id CallID) Event {
	return CallQueued{Call: id, Session: 1, Worker: modA, Callbacks: true}
}
func backNode(id NodeID, slots int) Event {
	return NodeUp{Node: id, Slots: slots, Memory: 100, Callbacks: true}
}

// twoBackNodes grants call 1, which may call its master, to node a of two nodes.
func twoBackNodes(steps ...step) []step {
	return append([]step{{0, SessionOpen{Session: 1}, nil}, {0, backNode("a", 1), nil}, {0, askSlots("a", 1), nil},
		{1, submitBack(1), []string{"grant 1 to a #1"}}, {1, backNode("b", 1), nil}, {1, askSlots("b", 1), nil}}, steps...)
}

const once = "; the call had called its master before, so it is not run again"

var scripts = []script{
	{"a call that may call its master waits for a node that passes this on", Config{}, stepsFirst(
		step{1, submitBack(1), nil},
		step{2, askSlots("a", 1), nil},
		step{3, submitCall(2, 1, modA), []string{"grant 2 to a #1"}},
		step{4, backNode("b", 1), nil},
		step{5, askSlots("b", 1), []string{"grant 1 to b #2"}},
	)},
	{"a call for which no node passes on what it calls fails with this reason", Config{NoNode: 5 * time.Second}, stepsFirst(
		step{1, submitBack(1), nil},
		step{5, Tick{}, nil},
		step{6, Tick{}, []string{"fail 1: no node that is up and may run the call passes on what it calls in its master: update the agents of the nodes"}},
	)},
	{"before it has called its master a call runs again elsewhere", Config{}, twoBackNodes(
		step{2, workerDied("a", 1, 1, 9), []string{"requeue 1", "grant 1 to b #2"}},
		step{3, callDone("b", 1, 2), []string{"commit 1 #2"}},
	)},
	{"a call that has called its master is not run again after a death", Config{}, twoBackNodes(
		step{2, CallOnce{1}, nil},
		step{3, workerDied("a", 1, 1, 9), []string{"fail 1: exit status 9" + once}},
	)},
	{"nor after the loss of its node", Config{}, twoBackNodes(
		step{2, CallOnce{1}, nil},
		step{3, NodeDown{"a"}, []string{"fail 1: the connection to its node broke" + once}},
	)},
	{"nor when its node gives it back", Config{}, twoBackNodes(
		step{2, CallOnce{1}, nil},
		step{3, CallFailed{Node: "a", Call: 1, Fence: 1, Kind: Returned, Why: "the owner is back"}, []string{"fail 1: the owner is back" + once}},
	)},
	{"nor when its node is barred", Config{}, twoBackNodes(
		step{2, CallOnce{1}, nil},
		step{3, CallFailed{Node: "a", Call: 1, Fence: 1, Kind: Unsafe, Why: "another program"}, []string{"fail 1: another program" + once}},
	)},
	{"a call that must not begin anew fails with its only lease", Config{}, stepsFirst(
		step{1, askSlots("a", 1), nil},
		step{1, CallQueued{Call: 1, Session: 1, Worker: modA, Once: ", alas"}, []string{"grant 1 to a #1"}},
		step{1, nodeUp("b", 1), nil}, step{1, askSlots("b", 1), nil},
		step{2, NodeDrain{Node: "a", On: true, Move: true, Why: "drained"}, nil},
		step{3, NodeDown{"a"}, []string{"fail 1: the connection to its node broke, alas"}},
	)},
	{"a drained node keeps a call that has called its master", Config{}, twoBackNodes(
		step{2, CallOnce{1}, nil},
		step{3, NodeDrain{Node: "a", On: true, Move: true, Why: "drained"}, nil},
		step{4, callDone("a", 1, 1), []string{"commit 1 #1"}},
	)},
	{"a slow call that may call its master gets no copy", Config{}, twoBackNodes(
		step{2, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{2, askSlots("a", 1), nil},
		step{3, submitBack(2), []string{"grant 2 to b #2"}},
		step{9, Tick{}, nil},
	)},
	{"a call waits for a node that asks", Config{}, stepsFirst(
		step{1, submitCall(1, 1, modA), nil},
		step{2, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{3, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{3, callDone("a", 1, 1), []string{"refuse #1 from a"}},
	)},
	{"a broken connection gives its calls to others at once", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, nodeUp("b", 1), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, askSlots("b", 1), nil},
		step{2, NodeDown{"a"}, []string{"requeue 1", "grant 1 to b #2"}},
		step{3, callDone("a", 1, 1), []string{"refuse #1 from a"}},
		step{3, callDone("b", 1, 1), []string{"refuse #1 from b"}},
		step{4, callDone("b", 1, 2), []string{"commit 1 #2"}},
	)},
	{"twelve silent seconds do the same and leave the node known", Config{Keep: -1}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{11.9, Tick{}, nil},
		step{12, Tick{}, []string{"silent a", "lost a", "requeue 1"}},
		step{13, Beat{Node: "a", Leases: []Fence{1}}, []string{"cancel #1 at a"}},
		step{14, callDone("a", 1, 1), []string{"refuse #1 from a"}},
		step{15, askSlots("a", 1), []string{"grant 1 to a #2"}},
	)},
	{"a node that started again lost what it ran", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, nodeUp("a", 1), []string{"requeue 1"}},
		step{1, askSlots("a", 1), []string{"grant 1 to a #2"}},
	)},
	{"a lease that beats do not name is lost", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{3, Beat{Node: "a"}, nil},
		step{6, Beat{Node: "a", Leases: []Fence{1}}, nil},
		step{13, Beat{Node: "a"}, nil},
		step{14, Beat{Node: "a"}, []string{"requeue 1"}},
	)},
	{"a node whose leases or whose Ask were lost gets others after its next beat", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{9, Beat{Node: "a"}, []string{"requeue 1"}},
		step{15, Beat{Node: "a", Leases: []Fence{7}, Free: 1}, []string{"cancel #7 at a"}},
		step{20, Beat{Node: "a"}, nil},
		step{21, Beat{Node: "a", Free: 2}, []string{"grant 1 to a #2"}},
		step{22, submitCall(2, 1, modA), nil},
		step{24, Beat{Node: "a", Free: 1}, nil},
	)},
	{"the same exit status on two nodes fails the call", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, nodeUp("b", 1), nil},
		step{0, askSlots("b", 1), []string{"grant 1 to b #1"}},
		step{0, askSlots("a", 1), nil},
		step{1, workerDied("b", 1, 1, 3), []string{"requeue 1", "grant 1 to a #2"}},
		step{2, workerDied("a", 1, 2, 3), []string{"fail 1: exit status 3; the same on 2 nodes"}},
	)},
	{"the fourth death fails the call, each after a pause on one node", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, workerDied("a", 1, 1, 3), []string{"requeue 1"}},
		step{1, askSlots("a", 1), nil},
		step{2, Tick{}, []string{"grant 1 to a #2"}},
		step{3, workerDied("a", 1, 2, 3), []string{"requeue 1"}},
		step{3, askSlots("a", 1), nil},
		step{4, Tick{}, []string{"grant 1 to a #3"}},
		step{5, workerDied("a", 1, 3, 3), []string{"requeue 1"}},
		step{6, askSlots("a", 1), []string{"grant 1 to a #4"}},
		step{7, workerDied("a", 1, 4, 3), []string{"fail 1: exit status 3; attempt 4 was the last"}},
	)},
	{"the program's own answer fails the call at once", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, CallFailed{Node: "a", Call: 1, Fence: 1, Kind: Final, Why: "no function 9"}, []string{"fail 1: no function 9"}},
	)},
	{"a node that fails a safety check gets nothing more, ever", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, CallFailed{Node: "a", Call: 1, Fence: 1, Kind: Unsafe}, []string{"requeue 1"}},
		step{2, askSlots("a", 1), nil},
		step{3, NodeDown{"a"}, nil},
		step{3, nodeUp("a", 1), nil},
		step{3, askSlots("a", 1), nil},
		step{4, nodeUp("b", 1), nil},
		step{4, askSlots("b", 1), []string{"grant 1 to b #2"}},
	)},
	{"a returned call goes elsewhere and counts nothing", Config{Attempts: 1}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, CallFailed{Node: "a", Call: 1, Fence: 1, Kind: Returned}, []string{"requeue 1"}},
		step{2, askSlots("a", 1), []string{"grant 1 to a #2"}},
	)},
	{"an idle worker comes before a held blob, and that before rest", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil},
		{0, nodeUp("a", 1), nil}, {0, nodeUp("b", 1), nil}, {0, nodeUp("c", 1), nil},
		{0, askSlots("a", 1), nil},
		{0, Ask{Node: "b", Slots: 1, Memory: 9, Held: []Digest{{2}, {3}}}, nil},
		{0, Ask{Node: "c", Slots: 1, Memory: 9, Idle: []Idle{{1, modB}}}, nil},
		{1, submitCall(1, 1, modB), []string{"grant 1 to c #1"}},
		{1, submitCall(2, 1, modB), []string{"grant 2 to b #2"}},
		{1, submitCall(3, 1, modB), []string{"grant 3 to a #3"}},
	}},
	{"without other reasons the node used longest ago is next", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil},
		{0, nodeUp("a", 2), nil}, {0, nodeUp("b", 2), nil},
		{0, askSlots("b", 2), nil},
		{0, submitCall(1, 1, modA), []string{"grant 1 to b #1"}},
		{0, askSlots("a", 2), nil},
		{0, submitCall(2, 1, modB), []string{"grant 2 to a #2"}},
		{0, submitCall(3, 1, Worker{Module: Digest{9}}), []string{"grant 3 to b #3"}},
	}},
	{"a slot is shared between sessions", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil}, {0, SessionOpen{Session: 2}, nil}, {0, nodeUp("a", 3), nil},
		{0, submitCall(1, 1, modA), nil}, {0, submitCall(2, 1, modA), nil}, {0, submitCall(3, 1, modA), nil},
		{0, submitCall(4, 2, modA), nil}, {0, submitCall(5, 2, modA), nil},
		{1, askSlots("a", 3), []string{"grant 1 to a #1", "grant 4 to a #2", "grant 2 to a #3"}},
		{2, callDone("a", 1, 1), []string{"commit 1 #1"}},
		{2, askSlots("a", 1), []string{"grant 5 to a #4", "grant 3 to a #5 ahead"}},
	}},
	{"a bound call waits for its node, and fails when that stays away", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil}, {0, nodeUp("a", 2), nil}, {0, nodeUp("b", 1), nil},
		{0, askSlots("a", 2), nil},
		{0, CallQueued{Call: 1, Session: 1, Node: "b"}, nil},
		{1, askSlots("b", 1), []string{"grant 1 to b #1"}},
		{2, callDone("b", 1, 1), []string{"commit 1 #1"}},
		{3, NodeDown{"b"}, nil},
		{3, CallQueued{Call: 2, Session: 1, Node: "b"}, nil},
		{40, Beat{Node: "a"}, nil},
		{50, Beat{Node: "a"}, nil},
		{60, Beat{Node: "a"}, nil},
		{62, Tick{}, nil},
		{63, Tick{}, []string{"fail 2: the call is bound to a node that is not up"}},
	}},
	{"memory is never promised twice", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil}, {0, nodeUp("a", 4), nil},
		{0, askSlots("a", 4), nil},
		{0, CallQueued{Call: 1, Session: 1, Memory: 60}, []string{"grant 1 to a #1"}},
		{0, CallQueued{Call: 2, Session: 1, Memory: 60}, nil},
		{0, CallQueued{Call: 3, Session: 1, Memory: 40}, []string{"grant 3 to a #2"}},
		{0, askSlots("a", 2), nil},
		{1, callDone("a", 1, 1), []string{"commit 1 #1", "grant 2 to a #3"}},
	}},
	{"a call too large for every node fails after a minute", Config{}, stepsFirst(
		step{0, CallQueued{Call: 1, Session: 1, Memory: 101}, nil},
		step{1, askSlots("a", 1), nil},
		step{10, Tick{}, nil},
		step{59, Beat{Node: "a"}, nil},
		step{60, Tick{}, []string{"fail 1: the call needs 101 bytes of memory and the largest node gives 100"}},
	)},
	{"a node that has shown a duration may fetch ahead, one per slot", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, submitCall(2, 1, modA), nil}, step{0, submitCall(3, 1, modA), nil}, step{0, submitCall(4, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{1, askSlots("a", 1), []string{"grant 2 to a #2", "grant 3 to a #3 ahead"}},
		step{2, callDone("a", 2, 2), []string{"commit 2 #2", "grant 4 to a #4 ahead"}},
	)},
	{"an idle node takes what waits at a busy one", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil}, step{0, submitCall(2, 1, modA), nil}, step{0, submitCall(3, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{1, askSlots("a", 1), []string{"grant 2 to a #2", "grant 3 to a #3 ahead"}},
		step{2, nodeUp("b", 1), nil},
		step{2, askSlots("b", 1), []string{"cancel #3 at a", "grant 3 to b #4"}},
	)},
	{"near the end the slowest call is copied once, the first result wins", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil}, step{0, submitCall(2, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{1, askSlots("a", 1), []string{"grant 2 to a #2"}},
		step{1, nodeUp("b", 1), nil}, step{1, nodeUp("c", 1), nil},
		step{1, askSlots("b", 1), nil}, step{1, askSlots("c", 1), nil},
		step{2, Tick{}, nil},
		step{3.1, Tick{}, []string{"grant 2 to b #3 copy"}},
		step{9, Tick{}, nil},
		step{10, callDone("b", 2, 3), []string{"cancel #2 at a", "commit 2 #3"}},
		step{10, callDone("a", 2, 2), []string{"refuse #2 from a"}},
	)},
	{"losing one of two copies changes nothing for the other", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil}, step{0, submitCall(2, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{1, askSlots("a", 1), []string{"grant 2 to a #2"}},
		step{1, nodeUp("b", 1), nil}, step{1, askSlots("b", 1), nil},
		step{4, Tick{}, []string{"grant 2 to b #3 copy"}},
		step{5, NodeDown{"a"}, []string{"requeue 2"}},
		step{6, callDone("b", 2, 3), []string{"commit 2 #3"}},
	)},
	{"a closed session leaves nothing", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil}, step{0, submitCall(2, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, SessionClose{1}, []string{"cancel #1 at a"}},
		step{2, callDone("a", 1, 1), []string{"refuse #1 from a"}},
		step{2, askSlots("a", 1), nil},
		step{2, submitCall(3, 1, modA), nil},
	)},
	{"a cancelled call frees its slot", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil}, step{0, submitCall(2, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, CallCancel{1}, []string{"cancel #1 at a"}},
		step{1, askSlots("a", 1), []string{"grant 2 to a #2"}},
		step{1, CallCancel{1}, nil},
	)},
	{"a call that loses every node it runs on ends", Config{Losses: 2}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, NodeDown{"a"}, []string{"requeue 1"}},
		step{1, nodeUp("a", 1), nil},
		step{1, askSlots("a", 1), []string{"grant 1 to a #2"}},
		step{2, NodeDown{"a"}, []string{"fail 1: the connection to its node broke; 2 nodes were lost while they ran it"}},
	)},
	{"a node that its owner bars loses what it runs and gets nothing more", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, NodeBar{"a"}, []string{"requeue 1", "cancel #1 at a"}},
		step{1, NodeBar{"a"}, nil},
		step{2, askSlots("a", 1), nil},
	)},
	{"a drained node keeps what it runs, and fetches nothing ahead", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil}, step{0, submitCall(2, 1, modA), nil}, step{0, submitCall(3, 1, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{1, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{1, askSlots("a", 1), []string{"grant 2 to a #2", "grant 3 to a #3 ahead"}},
		step{2, NodeDrain{Node: "a", On: true}, []string{"requeue 3", "cancel #3 at a"}},
		step{2, submitCall(4, 1, modA), nil},
		step{2, nodeUp("b", 1), nil}, step{2, askSlots("b", 1), []string{"grant 3 to b #4"}},
		step{3, callDone("a", 2, 2), []string{"commit 2 #2"}},
		step{3, askSlots("a", 1), nil},
		step{6, Beat{Node: "a", Free: 1}, nil},
		step{7, NodeDrain{Node: "a"}, []string{"grant 4 to a #5"}},
	)},
	{"what a drained node runs moves if that is asked for, but what is bound to it", Config{Losses: 1}, stepsFirst(
		step{0, nodeUp("a", 2), nil}, step{0, nodeUp("b", 2), nil},
		step{0, submitCall(1, 1, modA), nil},
		step{0, CallQueued{Call: 2, Session: 1, Worker: modA, Node: "a"}, nil},
		step{0, askSlots("a", 2), []string{"grant 1 to a #1", "grant 2 to a #2"}},
		step{1, askSlots("b", 2), nil},
		step{2, NodeDrain{Node: "a", On: true}, nil},
		step{2, NodeDrain{Node: "a", On: true, Move: true}, []string{"requeue 1", "cancel #1 at a", "grant 1 to b #3"}},
		step{3, callDone("a", 1, 1), []string{"refuse #1 from a"}},
		step{3, callDone("a", 2, 2), []string{"commit 2 #2"}},
		step{4, nodeUp("a", 2), nil}, step{4, submitCall(3, 1, modA), []string{"grant 3 to b #4"}},
		step{5, NodeDrain{Node: "x", On: true}, nil},
	)},
	{"other exit statuses are not alike, nor is what the node did", Config{}, stepsFirst(
		step{0, submitCall(1, 1, modA), nil},
		step{0, nodeUp("b", 1), nil}, step{0, nodeUp("c", 1), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{0, askSlots("b", 1), nil}, step{0, askSlots("c", 1), nil},
		step{1, CallFailed{Node: "a", Call: 1, Fence: 1, Kind: NodeFailed, Status: 3}, []string{"requeue 1", "grant 1 to b #2"}},
		step{2, workerDied("b", 1, 2, 4), []string{"requeue 1", "grant 1 to c #3"}},
		step{3, workerDied("c", 1, 3, 3), []string{"requeue 1"}},
	)},
	{"a node that was silent, or started again, gets nothing before it asks", Config{}, stepsFirst(
		step{0, askSlots("a", 1), nil},
		step{12, Tick{}, []string{"silent a"}},
		step{13, Beat{Node: "a"}, nil},
		step{14, submitCall(1, 1, modA), nil},
		step{14, CallCancel{1}, nil},
		step{15, askSlots("a", 1), nil},
		step{15, nodeUp("a", 1), nil},
		step{16, submitCall(2, 1, modA), nil},
		step{17, askSlots("a", 1), []string{"grant 2 to a #1"}},
	)},
	{"without a node no call is too large", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil},
		{0, CallQueued{Call: 1, Session: 1, Memory: 50}, nil},
		{61, Tick{}, nil},
		{62, nodeUp("a", 1), nil},
		{62, askSlots("a", 1), []string{"grant 1 to a #1"}},
	}},
	{"what a node was sent counts as held before it asks again", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil},
		{0, nodeUp("a", 2), nil}, {0, nodeUp("b", 2), nil},
		{0, askSlots("a", 2), nil},
		{0, submitCall(1, 1, modB), []string{"grant 1 to a #1"}},
		{0, askSlots("b", 2), nil},
		{0, submitCall(2, 1, modB), []string{"grant 2 to a #2"}},
	}},
	{"an idle worker is given once", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil},
		{0, nodeUp("a", 2), nil}, {0, nodeUp("b", 2), nil},
		{0, Ask{Node: "a", Slots: 2, Memory: 9, Idle: []Idle{{1, modA}}}, nil},
		{0, Ask{Node: "b", Slots: 2, Memory: 9, Held: []Digest{modA.Module}}, nil},
		{1, submitCall(1, 1, modA), []string{"grant 1 to a #1"}},
		{1, submitCall(2, 1, modA), []string{"grant 2 to b #2"}},
	}},
	{"what was never introduced is refused", Config{}, []step{
		{0, askSlots("x", 1), nil}, {0, Beat{Node: "x", Leases: []Fence{1}}, nil}, {0, NodeDown{"x"}, nil}, {0, NodeBar{"x"}, nil},
		{0, submitCall(1, 7, modA), nil}, {0, SessionClose{7}, nil}, {0, CallCancel{7}, nil},
		{0, callDone("x", 1, 1), []string{"refuse #1 from x"}},
		{0, workerDied("x", 1, 1, 1), []string{"refuse #1 from x"}},
	}},
}

func TestScripts(t *testing.T) {
	for _, sc := range slices.Concat(scripts, seatScripts, labelScripts, userScripts, lendScripts, awayScripts) {
		t.Run(sc.name, func(t *testing.T) {
			s := New(sc.cfg)
			for i, st := range sc.steps {
				at := epoch.Add(time.Duration(st.at * float64(time.Second)))
				var got []string
				for _, a := range s.Handle(at, st.ev) {
					got = append(got, formatAction(a))
				}
				if !slices.Equal(got, st.want) {
					t.Fatalf("step %d at %v, %#v:\n got %q\nwant %q", i, st.at, st.ev, got, st.want)
				}
			}
		})
	}
}

func TestFencesGoOnAfterARestart(t *testing.T) {
	s := New(Config{})
	s.StartFences(41)
	for _, st := range stepsFirst(step{0, submitCall(1, 1, modA), nil}) {
		s.Handle(epoch, st.ev)
	}
	got := s.Handle(epoch, askSlots("a", 1))
	if len(got) != 1 || got[0].(Grant).Lease.Fence != 42 || got[0].(Grant).Lease.Attempt != 1 {
		t.Fatalf("got %v", got)
	}
	if !s.Current("a", 1, 42) || s.Current("b", 1, 42) || s.Current("a", 1, 41) || s.Current("a", 2, 42) {
		t.Fatal("Current must know exactly node, call and number")
	}
}

func TestAttemptsAreCounted(t *testing.T) {
	s := New(Config{})
	for _, st := range stepsFirst(step{0, submitCall(1, 1, modA), nil}) {
		s.Handle(epoch, st.ev)
	}
	for n := 1; n <= 3; n++ {
		l := s.Handle(epoch, askSlots("a", 1))[0].(Grant).Lease
		if l.Attempt != n {
			t.Errorf("lease %d is attempt %d", n, l.Attempt)
		}
		s.Handle(epoch, CallFailed{Node: "a", Call: 1, Fence: l.Fence, Kind: Returned})
	}
}
