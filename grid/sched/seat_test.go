// SPDX-License-Identifier: MIT

package sched

import "time"

// workerOf returns a worker with its own digest, whose durations no node has shown.
func workerOf(n byte) Worker { return Worker{Module: Digest{9, n}} }

func submitWithMemory(id CallID, s SessionID, memory uint64) Event {
	return CallQueued{Call: id, Session: s, Worker: modA, Memory: memory}
}

func submitLong(id CallID, s SessionID) Event {
	return CallQueued{Call: id, Session: s, Worker: modA, Long: true}
}

// twoSessions returns steps that begin with two sessions and a node with that many slots.
func twoSessions(slots int, steps ...step) []step {
	return append([]step{{0, SessionOpen{Session: 1}, nil}, {0, SessionOpen{Session: 2}, nil}, {0, nodeUp("a", slots), nil}}, steps...)
}

// seatScripts test how slots pass between sessions.
var seatScripts = []script{
	{"a slot is not kept for calls that do not fit there", Config{}, twoSessions(1,
		step{0, submitCall(1, 1, modA), nil}, step{0, submitWithMemory(2, 1, 101), nil}, step{0, submitCall(3, 2, modA), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{0.1, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{0.1, askSlots("a", 1), []string{"grant 3 to a #2"}},
	)},
	{"a session that comes has no claim on the time that others used", Config{}, twoSessions(1,
		step{0, SessionOpen{Session: 3}, nil}, // never calls
		step{0, submitCall(1, 1, workerOf(1)), nil}, step{0, submitCall(2, 1, workerOf(2)), nil}, step{0, submitCall(3, 1, workerOf(3)), nil},
		step{0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		step{20, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{20, askSlots("a", 1), []string{"grant 2 to a #2"}},
		step{20, submitCall(11, 2, workerOf(4)), nil}, step{20, submitCall(12, 2, workerOf(5)), nil},
		step{22, callDone("a", 2, 2), []string{"commit 2 #2"}},
		step{22, askSlots("a", 1), []string{"grant 11 to a #3"}},
		step{25, callDone("a", 11, 3), []string{"commit 11 #3"}},
		step{25, askSlots("a", 1), []string{"grant 3 to a #4"}},
	)},
	{"a session with more slots lets another wait at one of them", Config{}, twoSessions(2,
		step{0, submitCall(1, 1, modA), nil},
		step{0, askSlots("a", 2), []string{"grant 1 to a #1"}},
		step{0.1, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{0.1, askSlots("a", 2), nil},
		step{0.1, submitCall(2, 1, modA), []string{"grant 2 to a #2"}},
		step{0.1, submitCall(3, 1, modA), []string{"grant 3 to a #3"}},
		step{0.1, submitCall(4, 2, modA), []string{"grant 4 to a #4 ahead"}},
	)},
	{"nothing waits for a call of which nobody knows how long it takes", Config{}, twoSessions(2,
		step{0, submitCall(1, 1, modA), nil},
		step{0, askSlots("a", 2), []string{"grant 1 to a #1"}},
		step{0.1, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{0.1, askSlots("a", 2), nil},
		step{0.1, submitLong(2, 1), []string{"grant 2 to a #2"}},
		step{0.1, submitLong(3, 1), []string{"grant 3 to a #3"}},
		step{0.1, submitCall(4, 2, modA), nil},
		step{90, callDone("a", 2, 2), []string{"commit 2 #2"}},
		step{90, askSlots("a", 1), []string{"grant 4 to a #4"}},
	)},
	{"nor does such a call wait for another", Config{}, twoSessions(2,
		step{0, submitCall(1, 1, modA), nil},
		step{0, askSlots("a", 2), []string{"grant 1 to a #1"}},
		step{0.1, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{0.1, askSlots("a", 2), nil},
		step{0.1, submitCall(2, 1, modA), []string{"grant 2 to a #2"}},
		step{0.1, submitCall(3, 1, modA), []string{"grant 3 to a #3"}},
		step{0.1, submitLong(4, 2), nil},
		step{0.2, callDone("a", 2, 2), []string{"commit 2 #2"}},
		step{0.2, askSlots("a", 1), []string{"grant 4 to a #4"}},
	)},
	{"one that thinks for long between its calls lets another wait at its only slot", Config{}, twoSessions(1,
		step{0, askSlots("a", 1), nil},
		step{0, submitCall(1, 1, modA), []string{"grant 1 to a #1"}},
		step{0.1, callDone("a", 1, 1), []string{"commit 1 #1"}}, step{0.1, askSlots("a", 1), nil},
		step{2, submitCall(2, 1, modA), []string{"grant 2 to a #2"}},
		step{2.1, callDone("a", 2, 2), []string{"commit 2 #2"}}, step{2.1, askSlots("a", 1), nil},
		step{4, submitCall(3, 1, modA), []string{"grant 3 to a #3"}},
		step{4.1, submitCall(4, 2, modA), []string{"grant 4 to a #4 ahead"}},
	)},
	{"one that calls again at once does not", Config{}, twoSessions(1,
		step{0, askSlots("a", 1), nil},
		step{0, submitCall(1, 1, modA), []string{"grant 1 to a #1"}},
		step{0.1, callDone("a", 1, 1), []string{"commit 1 #1"}}, step{0.1, askSlots("a", 1), nil},
		step{0.11, submitCall(2, 1, modA), []string{"grant 2 to a #2"}},
		step{0.2, submitCall(3, 2, modA), nil},
		step{1, Tick{}, []string{"grant 3 to a #3 ahead"}}, // its quantum is over
	)},
	{"no wake-up is asked for a call that is there and does not fit", Config{}, twoSessions(3,
		step{0, submitCall(1, 1, modA), nil}, step{0, submitCall(2, 1, modA), nil},
		step{0, askSlots("a", 3), []string{"grant 1 to a #1", "grant 2 to a #2"}},
		step{0, submitWithMemory(3, 1, 101), nil}, step{0, submitWithMemory(4, 2, 101), nil},
		step{0.1, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{0.1, askSlots("a", 2), nil},
	)},
	// Call 6 may run on m once its failure there is long ago. Then its session
	// has more slots, and call 3 may use the seat that it left at n.
	{"what is moved to an idle node may free another for a call before it", Config{Hold: 5 * time.Second, Quantum: time.Minute}, []step{
		{0, SessionOpen{Session: 1}, nil}, {0, SessionOpen{Session: 2}, nil},
		{0, nodeUp("b", 1), nil}, {0, askSlots("b", 1), nil},
		{0, submitWithMemory(1, 1, 0), []string{"grant 1 to b #1"}},
		{1, callDone("b", 1, 1), []string{"commit 1 #1"}}, {1, askSlots("b", 1), nil},
		{1, submitWithMemory(2, 1, 50), []string{"grant 2 to b #2"}},
		{1, submitWithMemory(3, 1, 50), []string{"grant 3 to b #3 ahead"}},
		{1, nodeUp("c", 1), nil}, {1, submitCall(4, 2, modB), nil},
		{1, askSlots("c", 1), []string{"grant 4 to c #4"}},
		{2, callDone("c", 4, 4), []string{"commit 4 #4"}}, {2, askSlots("c", 1), nil},
		{2, submitCall(5, 2, modB), []string{"grant 5 to c #5"}},
		{3, NodeUp{Node: "m", Slots: 1, Memory: 10}, nil}, {3, askSlots("m", 1), nil},
		{3, submitCall(6, 2, modB), []string{"grant 6 to m #6"}},
		{3, CallFailed{Node: "m", Call: 6, Fence: 6, Kind: NodeFailed}, []string{"requeue 6", "grant 6 to c #7 ahead"}},
		{3, nodeUp("n", 1), nil}, {3, submitCall(7, 2, workerOf(1)), nil},
		{3, askSlots("n", 1), []string{"grant 7 to n #8"}},
		{4, askSlots("m", 1), nil},
		{12, callDone("n", 7, 8), []string{"commit 7 #8"}},
		{13, askSlots("n", 1), []string{"cancel #7 at c", "grant 6 to m #9", "cancel #3 at b", "grant 3 to n #10"}},
	}},
}
