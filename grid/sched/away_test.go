// SPDX-License-Identifier: MIT

package sched

import (
	"testing"
	"time"
)

func nodeBack(id NodeID, slots int, leases ...Fence) Event {
	return NodeUp{Node: id, Slots: slots, Memory: 100, Callbacks: true, Back: true, Leases: leases}
}

// runsOnA grants call 1 to node a.
func runsOnA(steps ...step) []step {
	return append([]step{{0, SessionOpen{Session: 1}, nil}, {0, nodeUp("a", 1), nil}, {0, askSlots("a", 1), nil},
		{0, submitCall(1, 1, modA), []string{"grant 1 to a #1"}}}, steps...)
}

// withB has a node b, too, that asked for a call after a second.
func withB(steps ...step) []step {
	return runsOnA(append([]step{{1, nodeUp("b", 1), nil}, {1, askSlots("b", 1), nil}}, steps...)...)
}

var awayScripts = []script{
	{"a node that was away comes back to its lease, and its result counts once", Config{}, runsOnA(
		step{1, NodeAway{"a"}, nil},
		step{100, Tick{}, []string{"offer 1"}},
		step{120, nodeBack("a", 1, 1), nil},
		step{127, Beat{Node: "a", Leases: []Fence{1}}, nil},
		step{128, askSlots("a", 1), nil},
		step{129, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{130, callDone("a", 1, 1), []string{"refuse #1 from a"}},
	)},
	{"a lease that it does not bring is lost", Config{}, runsOnA(
		step{1, NodeAway{"a"}, nil},
		step{2, nodeBack("a", 1), []string{"requeue 1"}},
		step{3, callDone("a", 1, 1), []string{"refuse #1 from a"}},
		step{3, askSlots("a", 1), []string{"grant 1 to a #2"}},
	)},
	{"what is ahead is kept too", Config{}, runsOnA(
		step{1, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{1, askSlots("a", 1), nil},
		step{2, submitCall(2, 1, modA), []string{"grant 2 to a #2"}},
		step{2, submitCall(3, 1, modA), []string{"grant 3 to a #3 ahead"}},
		step{3, NodeAway{"a"}, nil},
		step{4, nodeBack("a", 1, 2, 3), nil},
		step{5, callDone("a", 2, 2), []string{"commit 2 #2"}},
		step{6, callDone("a", 3, 3), []string{"commit 3 #3"}},
	)},
	{"a node that started again does not come back", Config{}, runsOnA(
		step{1, NodeAway{"a"}, nil},
		step{2, nodeUp("a", 1), []string{"requeue 1"}},
	)},
	{"nor does one with other slots", Config{}, runsOnA(
		step{1, NodeAway{"a"}, nil},
		step{2, nodeBack("a", 2, 1), []string{"requeue 1"}},
	)},
	{"after its time a node is lost, and comes back as another", Config{Keep: 20 * time.Second}, runsOnA(
		step{1, NodeAway{"a"}, nil},
		step{20.9, Tick{}, []string{"offer 1"}},
		step{21, Tick{}, []string{"lost a", "requeue 1"}},
		step{22, nodeBack("a", 1, 1), nil},
		step{23, callDone("a", 1, 1), []string{"refuse #1 from a"}},
		step{24, askSlots("a", 1), []string{"grant 1 to a #2"}},
	)},
	{"its silence counts towards that time", Config{Keep: 20 * time.Second}, runsOnA(
		step{12, Tick{}, []string{"silent a", "offer 1"}},
		step{20, NodeAway{"a"}, nil},
		step{31.9, Tick{}, nil},
		step{32, Tick{}, []string{"lost a", "requeue 1"}},
	)},
	{"a silent node is lost once", Config{Keep: 20 * time.Second}, runsOnA(
		step{12, Tick{}, []string{"silent a", "offer 1"}},
		step{32, Tick{}, []string{"lost a", "requeue 1"}},
		step{60, Tick{}, nil},
		step{61, Beat{Node: "a", Leases: []Fence{1}}, []string{"cancel #1 at a"}},
	)},
	{"a beat from before it was back does not lose its lease", Config{}, runsOnA(
		step{1, NodeAway{"a"}, nil},
		step{20, nodeBack("a", 1, 1), nil},
		step{21, Beat{Node: "a"}, nil},
		step{22, callDone("a", 1, 1), []string{"commit 1 #1"}},
	)},
	{"a node that is back gets nothing before it asks", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil}, {0, nodeUp("a", 2), nil}, {0, askSlots("a", 2), nil},
		{0, submitCall(1, 1, modA), []string{"grant 1 to a #1"}},
		{1, NodeAway{"a"}, nil},
		{1.1, nodeBack("a", 2, 1), nil},
		{2, submitCall(2, 1, modA), nil},
		{3, askSlots("a", 1), []string{"grant 2 to a #2"}},
	}},
	{"a program does not begin elsewhere", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil}, {0, nodeUp("a", 1), nil}, {0, askSlots("a", 1), nil},
		{0, CallQueued{Call: 1, Session: 1, Worker: modA, Long: true}, []string{"grant 1 to a #1"}},
		{1, NodeAway{"a"}, nil},
		{3, Tick{}, nil},
	}},
	{"time in which the caller did not run does not", Config{Keep: 20 * time.Second}, runsOnA(
		step{1, NodeAway{"a"}, nil},
		step{3, Tick{}, []string{"offer 1"}},
		step{100, Slept{97 * time.Second}, nil},
		step{117.9, Tick{}, nil},
		step{118, Tick{}, []string{"lost a", "requeue 1"}},
	)},
	{"a node that is away gets nothing", Config{}, runsOnA(
		step{1, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{1, askSlots("a", 1), nil},
		step{1, NodeAway{"a"}, nil},
		step{1, submitCall(2, 1, modA), nil},
		step{2, nodeBack("a", 1), nil},
		step{3, askSlots("a", 1), []string{"grant 2 to a #2"}},
	)},
	{"soon its calls may begin elsewhere, and the first result counts", Config{}, withB(
		step{2, NodeAway{"a"}, nil},
		step{3.4, Tick{}, nil},
		step{3.5, Tick{}, []string{"offer 1", "grant 1 to b #2 copy"}},
		step{4, nodeBack("a", 1, 1), nil},
		step{5, callDone("a", 1, 1), []string{"cancel #2 at b", "commit 1 #1"}},
	)},
	{"also that of the other node", Config{}, withB(
		step{2, NodeAway{"a"}, nil},
		step{3.5, Tick{}, []string{"offer 1", "grant 1 to b #2 copy"}},
		step{4, callDone("b", 1, 2), []string{"cancel #1 at a", "commit 1 #2"}},
	)},
	{"what has not begun elsewhere does not when the node is back", Config{}, runsOnA(
		step{2, NodeAway{"a"}, nil},
		step{4, Tick{}, []string{"offer 1"}},
		step{5, nodeBack("a", 1, 1), nil},
		step{6, nodeUp("b", 1), nil},
		step{6, askSlots("b", 1), nil},
		step{7, callDone("a", 1, 1), []string{"commit 1 #1"}},
	)},
	{"nor when it is heard again", Config{}, runsOnA(
		step{12, Tick{}, []string{"silent a", "offer 1"}},
		step{13, Beat{Node: "a", Leases: []Fence{1}}, nil},
		step{14, nodeUp("b", 1), nil},
		step{14, askSlots("b", 1), nil},
		step{15, callDone("a", 1, 1), []string{"commit 1 #1"}},
	)},
	{"an offered call that fails waits once", Config{}, runsOnA(
		step{12, Tick{}, []string{"silent a", "offer 1"}},
		step{13, workerDied("a", 1, 1, 9), []string{"requeue 1"}},
		step{14, nodeUp("b", 2), nil},
		step{14, askSlots("b", 2), []string{"grant 1 to b #2"}},
		step{15, callDone("b", 1, 2), []string{"commit 1 #2"}},
	)},
	{"a call that called its master waits for its node", Config{}, twoBackNodes(
		step{2, CallOnce{1}, nil},
		step{3, NodeAway{"a"}, nil},
		step{9, Beat{Node: "b"}, nil},
		step{9, Tick{}, nil},
		step{10, nodeBack("a", 1, 1), nil},
		step{11, callDone("a", 1, 1), []string{"commit 1 #1"}},
	)},
	{"and fails when that does not come back", Config{Keep: 5 * time.Second}, twoBackNodes(
		step{2, CallOnce{1}, nil},
		step{3, NodeAway{"a"}, nil},
		step{8, Tick{}, []string{"lost a", "fail 1: the connection to its node broke" + once}},
	)},
	{"one that did not begins elsewhere and has one lease", Config{}, twoBackNodes(
		step{3, NodeAway{"a"}, nil},
		step{5, Tick{}, []string{"requeue 1", "grant 1 to b #2"}},
		step{6, nodeBack("a", 1, 1), nil},
		step{7, callDone("a", 1, 1), []string{"refuse #1 from a"}},
	)},
	{"a call that is bound to a node waits for it as long as its lease is kept", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil}, {0, nodeUp("a", 1), nil}, {0, nodeUp("b", 1), nil}, {0, askSlots("a", 1), nil},
		{1, CallQueued{Call: 1, Session: 1, Worker: modA, Node: "a"}, []string{"grant 1 to a #1"}},
		{2, NodeAway{"a"}, nil},
		{11, Beat{Node: "b"}, nil}, {12, Tick{}, nil},
		{100, Beat{Node: "b"}, nil}, {100, Tick{}, nil},
		{101, nodeBack("a", 1, 1), nil},
		{102, callDone("a", 1, 1), []string{"commit 1 #1"}},
	}},
	{"an offered call fits nowhere for long, and its node comes back", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil}, {0, nodeUp("a", 1), nil}, {0, NodeUp{Node: "b", Slots: 1, Memory: 10}, nil}, {0, askSlots("a", 1), nil},
		{1, CallQueued{Call: 1, Session: 1, Worker: modA, Memory: 50}, []string{"grant 1 to a #1"}},
		{2, NodeAway{"a"}, nil},
		{11, Beat{Node: "b"}, nil}, {12, Tick{}, []string{"offer 1"}},
		{100, Beat{Node: "b"}, nil}, {100, Tick{}, nil},
		{101, nodeBack("a", 1, 1), nil},
		{102, callDone("a", 1, 1), []string{"commit 1 #1"}},
	}},
}

// Nodes go away and come back, with or without what they ran. Each call ends once, and no lease is
// granted to a node that is away.
func TestVolatileNodesComeBack(t *testing.T) {
	for seed := range uint64(20) {
		m := newSim(t, seed)
		m.away, m.s.cfg.Keep = true, 20*time.Second
		for id := range 3 {
			m.handle(SessionOpen{Session: SessionID(id + 1)})
		}
		for range 1500 {
			m.step()
		}
		m.settleCalls()
	}
}
