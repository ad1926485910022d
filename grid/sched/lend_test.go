// SPDX-License-Identifier: MIT

package sched

import "time"

func submitInner(id CallID, s SessionID, back bool) Event {
	return CallQueued{Call: id, Session: s, Worker: modA, Inner: true, Callbacks: back}
}

func lends(node NodeID, f Fence, s SessionID) Event {
	return Lend{Node: node, Fence: f, Session: s, On: true}
}

func lendsNot(node NodeID, f Fence) Event { return Lend{Node: node, Fence: f} }

// oneBackNode grants call 1, which may call its master, to the only slot.
func oneBackNode(steps ...step) []step {
	return append([]step{{0, SessionOpen{Session: 1}, nil}, {0, SessionOpen{Session: 2}, nil},
		{0, backNode("a", 1), nil}, {0, askSlots("a", 1), nil},
		{1, submitBack(1), []string{"grant 1 to a #1"}}}, steps...)
}

// twoUsers lets a call of each of two users, of which the first has a limit, lend its place.
func twoUsers(most int, steps ...step) []step {
	return append([]step{{0, UserSet{Weight: 1, Slots: most}, nil},
		{0, SessionOpen{Session: 1}, nil}, {0, SessionOpen{Session: 2, User: "v"}, nil},
		{0, NodeUp{Node: "a", Slots: 4, Memory: 1 << 40, Apart: true, Callbacks: true}, nil}, {0, askSlots("a", 4), nil},
		{1, submitBack(1), []string{"grant 1 to a #1"}},
		{1, CallQueued{Call: 2, Session: 2, Worker: modA, Callbacks: true}, []string{"grant 2 to a #2"}},
		{2, lends("a", 1, 1), nil}, {2, lends("a", 2, 2), nil}}, steps...)
}

const noRoom = "on each node that may run the call, calls that wait for others hold the memory that it needs"

var lendScripts = []script{
	{"inner calls nest on one slot", Config{}, oneBackNode(
		step{2, submitInner(2, 1, true), nil},
		step{2, lends("a", 1, 1), []string{"grant 2 to a #2 extra"}},
		step{3, submitInner(3, 1, false), nil},
		step{3, lends("a", 2, 1), []string{"grant 3 to a #3 extra"}},
		step{4, callDone("a", 3, 3), []string{"commit 3 #3"}},
		step{4, lendsNot("a", 2), nil},
		step{5, callDone("a", 2, 2), []string{"commit 2 #2"}},
		step{5, lendsNot("a", 1), nil},
		step{6, submitInner(4, 1, false), nil},
		step{7, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{8, askSlots("a", 1), []string{"grant 4 to a #4"}},
	)},
	{"other calls get no lent place", Config{}, oneBackNode(
		step{2, submitBack(2), nil},
		step{2, lends("a", 1, 1), nil},
		step{3, submitInner(3, 1, false), []string{"grant 3 to a #2 extra"}},
		step{4, submitInner(4, 1, false), nil},
		step{5, callDone("a", 3, 2), []string{"commit 3 #2", "grant 4 to a #3 extra", "grant 2 to a #4 ahead"}},
	)},
	{"a session that lends comes before others, who get the place else", Config{}, oneBackNode(
		step{2, submitInner(2, 2, false), nil},
		step{3, submitInner(3, 1, false), nil},
		step{3, lends("a", 1, 1), []string{"grant 3 to a #2 extra"}},
		step{4, callDone("a", 3, 2), []string{"commit 3 #2", "grant 2 to a #3 extra"}},
	)},
	{"a lease that ends lends nothing, nor one that the master waits for no more", Config{}, oneBackNode(
		step{2, lends("a", 1, 1), nil},
		step{2, lends("a", 1, 1), nil},
		step{2, lendsNot("a", 1), nil},
		step{3, submitInner(2, 1, false), nil},
		step{4, lends("a", 1, 1), []string{"grant 2 to a #2 extra"}},
		step{5, CallOnce{1}, nil},
		step{5, workerDied("a", 1, 1, 9), []string{"fail 1: exit status 9" + once}},
		step{6, submitInner(3, 1, false), nil},
		step{7, callDone("a", 2, 2), []string{"commit 2 #2"}},
		step{8, askSlots("a", 1), []string{"grant 3 to a #3"}},
	)},
	{"a place that was lent is not lent again while an inner call has it", Config{}, oneBackNode(
		step{2, lends("a", 1, 1), nil},
		step{2, submitInner(2, 1, false), []string{"grant 2 to a #2 extra"}},
		step{3, lendsNot("a", 1), nil},
		step{4, lends("a", 1, 1), nil},
		step{4, submitInner(3, 1, false), nil},
		step{5, callDone("a", 2, 2), []string{"commit 2 #2", "grant 3 to a #3 extra"}},
	)},
	{"an inner call takes the idle worker of its session", Config{}, []step{
		{0, SessionOpen{Session: 1}, nil}, {0, backNode("a", 2), nil}, {0, backNode("b", 2), nil},
		{0, askSlots("a", 1), nil},
		{1, submitBack(1), []string{"grant 1 to a #1"}},
		{1, Ask{Node: "a", Slots: 1, Memory: 1 << 40, Held: []Digest{modA.Module}, Idle: []Idle{{1, modA}}}, nil},
		{1, Ask{Node: "b", Slots: 1, Memory: 1 << 40, Held: []Digest{modA.Module}}, nil},
		{2, lends("a", 1, 1), nil},
		{2, submitInner(2, 1, false), []string{"grant 2 to a #2 extra"}},
		{3, submitCall(3, 1, modA), []string{"grant 3 to b #3"}},
		{4, submitCall(4, 1, modA), []string{"grant 4 to a #4"}}, // it has a slot
	}},
	{"a drained node lends its places", Config{}, oneBackNode(
		step{2, NodeDrain{Node: "a", On: true}, nil},
		step{3, submitInner(2, 1, false), nil},
		step{3, lends("a", 1, 1), []string{"grant 2 to a #2 extra"}},
	)},
	{"no inner call waits for the end of a call that waits for it", Config{}, oneBackNode(
		step{2, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{2, askSlots("a", 1), nil},
		step{3, submitBack(2), []string{"grant 2 to a #2"}},
		step{4, submitInner(3, 1, false), nil},
		step{5, lends("a", 2, 1), []string{"grant 3 to a #3 extra"}},
	)},
	{"what may not run there gets no lent place", Config{}, oneBackNode(
		step{2, CallQueued{Call: 2, Session: 1, Worker: modA, Inner: true, Node: "b"}, nil},
		step{3, lends("a", 1, 1), nil},
		step{4, backNode("b", 1), nil},
		step{4, askSlots("b", 1), []string{"grant 2 to b #2"}},
	)},
	{"a call in a lent place waits for no slot", Config{}, oneBackNode(
		step{2, submitInner(2, 1, false), nil},
		step{3, lends("a", 1, 1), []string{"grant 2 to a #2 extra"}},
		step{4, backNode("b", 1), nil},
		step{4, askSlots("b", 1), nil},
	)},
	{"a call behind an inner one may wait at a busy slot", Config{}, oneBackNode(
		step{2, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{2, askSlots("a", 1), nil},
		step{3, submitCall(2, 1, modA), []string{"grant 2 to a #2"}},
		step{4, submitInner(3, 1, false), nil},
		step{5, submitCall(4, 1, modA), []string{"grant 4 to a #3 ahead"}},
	)},
	{"an inner call takes a free slot of another node", Config{}, oneBackNode(
		step{2, backNode("b", 1), nil},
		step{2, askSlots("b", 1), nil},
		step{3, submitInner(2, 1, false), []string{"grant 2 to b #2"}},
	)},
	{"a lease of which only the owner knows lends its place until it says so", Config{}, oneBackNode(
		step{2, lends("a", 70, 1), nil},
		step{3, submitInner(2, 1, false), []string{"grant 2 to a #2 extra"}},
	)},
	{"lent places count towards a user's slots", Config{}, twoUsers(1,
		step{3, submitInner(3, 1, false), []string{"grant 3 to a #3 extra"}},
		step{4, submitInner(4, 1, false), nil},
		step{5, submitInner(5, 2, false), []string{"grant 5 to a #4 extra"}},
		step{6, callDone("a", 5, 4), []string{"commit 5 #4"}},
		step{7, callDone("a", 3, 3), []string{"commit 3 #3", "grant 4 to a #5 extra"}},
	)},
	{"a user all of whose calls wait gets a lent place", Config{}, twoUsers(1,
		step{3, submitInner(3, 1, true), []string{"grant 3 to a #3 extra"}},
		step{4, submitInner(4, 1, false), nil},
		step{5, lends("a", 3, 1), []string{"grant 4 to a #4 extra"}},
		step{6, lendsNot("a", 3), nil},
		step{7, submitInner(5, 1, false), nil},
		step{8, callDone("a", 3, 3), []string{"commit 3 #3"}},
		step{9, callDone("a", 4, 4), []string{"commit 4 #4", "grant 5 to a #5 extra"}},
	)},
	{"a call that ends while it lends its place frees none of its user's limit", Config{}, twoUsers(1,
		step{3, submitInner(3, 1, false), []string{"grant 3 to a #3 extra"}},
		step{3, CallQueued{Call: 4, Session: 2, Worker: modA, Callbacks: true}, []string{"grant 4 to a #4"}},
		step{4, lends("a", 4, 2), nil},
		step{5, submitInner(5, 1, false), nil},
		step{6, callDone("a", 1, 1), []string{"commit 1 #1"}},
		step{7, callDone("a", 3, 3), []string{"commit 3 #3", "grant 5 to a #5 extra"}},
	)},
	{"a user with lent places gets no more slots than its limit", Config{}, twoUsers(2,
		step{3, submitInner(3, 1, false), []string{"grant 3 to a #3 extra"}},
		step{4, submitInner(4, 1, false), []string{"grant 4 to a #4 extra"}},
		step{5, submitInner(5, 1, false), nil},
		step{5, submitCall(6, 1, modA), nil},
		step{6, callDone("a", 3, 3), []string{"commit 3 #3", "grant 5 to a #5 extra"}},
		step{8, callDone("a", 4, 4), []string{"commit 4 #4", "grant 6 to a #6"}},
	)},
	{"an inner call for which those that wait have left no memory fails with this reason", Config{NoNode: 5 * time.Second}, []step{
		{0, SessionOpen{Session: 1}, nil}, {0, backNode("a", 1), nil}, {0, askSlots("a", 1), nil},
		{1, CallQueued{Call: 1, Session: 1, Worker: modA, Callbacks: true, Memory: 60}, []string{"grant 1 to a #1"}},
		{2, CallQueued{Call: 2, Session: 1, Worker: modA, Inner: true, Memory: 60}, nil},
		{8, Tick{}, nil}, // what runs may end
		{9, lends("a", 1, 1), nil},
		{10, Tick{}, []string{"fail 2: " + noRoom}},
	}},
}
