// SPDX-License-Identifier: MIT

package sched

import "time"

// of is a worker like no other, so that no node has shown its duration.
func of(n byte) Worker { return Worker{Module: Digest{9, n}} }

func needs(id CallID, s SessionID, memory uint64) Event {
	return CallQueued{Call: id, Session: s, Worker: modA, Memory: memory}
}

// pair has two sessions and a node of so many slots.
func pair(slots int, steps ...step) []step {
	return append([]step{{0, SessionOpen{1}, nil}, {0, SessionOpen{2}, nil}, {0, up("a", slots), nil}}, steps...)
}

// How slots pass between sessions.
var seatScripts = []script{
	{"a slot is not kept for calls that do not fit there", Config{}, pair(1,
		step{0, want(1, 1, modA), nil}, step{0, needs(2, 1, 101), nil}, step{0, want(3, 2, modA), nil},
		step{0, ask("a", 1), []string{"grant 1 to a #1"}},
		step{0.1, done("a", 1, 1), []string{"commit 1 #1"}},
		step{0.1, ask("a", 1), []string{"grant 3 to a #2"}},
	)},
	{"a session that comes has no claim on the time that others used", Config{}, pair(1,
		step{0, SessionOpen{3}, nil}, // never calls
		step{0, want(1, 1, of(1)), nil}, step{0, want(2, 1, of(2)), nil}, step{0, want(3, 1, of(3)), nil},
		step{0, ask("a", 1), []string{"grant 1 to a #1"}},
		step{20, done("a", 1, 1), []string{"commit 1 #1"}},
		step{20, ask("a", 1), []string{"grant 2 to a #2"}},
		step{20, want(11, 2, of(4)), nil}, step{20, want(12, 2, of(5)), nil},
		step{22, done("a", 2, 2), []string{"commit 2 #2"}},
		step{22, ask("a", 1), []string{"grant 11 to a #3"}},
		step{25, done("a", 11, 3), []string{"commit 11 #3"}},
		step{25, ask("a", 1), []string{"grant 3 to a #4"}},
	)},
	{"a session with more slots lets another wait at one of them", Config{}, pair(2,
		step{0, want(1, 1, modA), nil},
		step{0, ask("a", 2), []string{"grant 1 to a #1"}},
		step{0.1, done("a", 1, 1), []string{"commit 1 #1"}},
		step{0.1, ask("a", 2), nil},
		step{0.1, want(2, 1, modA), []string{"grant 2 to a #2"}},
		step{0.1, want(3, 1, modA), []string{"grant 3 to a #3"}},
		step{0.1, want(4, 2, modA), []string{"grant 4 to a #4 ahead"}},
	)},
	{"one that thinks for long between its calls lets another wait at its only slot", Config{}, pair(1,
		step{0, ask("a", 1), nil},
		step{0, want(1, 1, modA), []string{"grant 1 to a #1"}},
		step{0.1, done("a", 1, 1), []string{"commit 1 #1"}}, step{0.1, ask("a", 1), nil},
		step{2, want(2, 1, modA), []string{"grant 2 to a #2"}},
		step{2.1, done("a", 2, 2), []string{"commit 2 #2"}}, step{2.1, ask("a", 1), nil},
		step{4, want(3, 1, modA), []string{"grant 3 to a #3"}},
		step{4.1, want(4, 2, modA), []string{"grant 4 to a #4 ahead"}},
	)},
	{"one that calls again at once does not", Config{}, pair(1,
		step{0, ask("a", 1), nil},
		step{0, want(1, 1, modA), []string{"grant 1 to a #1"}},
		step{0.1, done("a", 1, 1), []string{"commit 1 #1"}}, step{0.1, ask("a", 1), nil},
		step{0.11, want(2, 1, modA), []string{"grant 2 to a #2"}},
		step{0.2, want(3, 2, modA), nil},
		step{1, Tick{}, []string{"grant 3 to a #3 ahead"}}, // its quantum is over
	)},
	{"no wake-up is asked for a call that is there and does not fit", Config{}, pair(3,
		step{0, want(1, 1, modA), nil}, step{0, want(2, 1, modA), nil},
		step{0, ask("a", 3), []string{"grant 1 to a #1", "grant 2 to a #2"}},
		step{0, needs(3, 1, 101), nil}, step{0, needs(4, 2, 101), nil},
		step{0.1, done("a", 1, 1), []string{"commit 1 #1"}},
		step{0.1, ask("a", 2), nil},
	)},
	// Call 6 may go to m when its failure there is long ago. With that its
	// session has more slots, and the one that it left at n is free to call 3.
	{"what is moved to an idle node may free another for a call before it", Config{Hold: 5 * time.Second, Quantum: time.Minute}, []step{
		{0, SessionOpen{1}, nil}, {0, SessionOpen{2}, nil},
		{0, up("b", 1), nil}, {0, ask("b", 1), nil},
		{0, needs(1, 1, 0), []string{"grant 1 to b #1"}},
		{1, done("b", 1, 1), []string{"commit 1 #1"}}, {1, ask("b", 1), nil},
		{1, needs(2, 1, 50), []string{"grant 2 to b #2"}},
		{1, needs(3, 1, 50), []string{"grant 3 to b #3 ahead"}},
		{1, up("c", 1), nil}, {1, want(4, 2, modB), nil},
		{1, ask("c", 1), []string{"grant 4 to c #4"}},
		{2, done("c", 4, 4), []string{"commit 4 #4"}}, {2, ask("c", 1), nil},
		{2, want(5, 2, modB), []string{"grant 5 to c #5"}},
		{3, NodeUp{"m", 1, 10}, nil}, {3, ask("m", 1), nil},
		{3, want(6, 2, modB), []string{"grant 6 to m #6"}},
		{3, CallFailed{Node: "m", Call: 6, Fence: 6, Kind: NodeFailed}, []string{"requeue 6", "grant 6 to c #7 ahead"}},
		{3, up("n", 1), nil}, {3, want(7, 2, of(1)), nil},
		{3, ask("n", 1), []string{"grant 7 to n #8"}},
		{4, ask("m", 1), nil},
		{12, done("n", 7, 8), []string{"commit 7 #8"}},
		{13, ask("n", 1), []string{"cancel #7 at c", "grant 6 to m #9", "cancel #3 at b", "grant 3 to n #10"}},
	}},
}
