// SPDX-License-Identifier: MIT

package sched

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"skep/grid/label"
)

func parseSelector(text string) label.Selector {
	s, err := label.Parse(text)
	if err != nil {
		panic(err)
	}
	return s
}

// openOn opens a session that chooses nodes.
func openOn(id SessionID, selector string) Event {
	return SessionOpen{Session: id, On: parseSelector(selector)}
}

// upWith is a node with labels.
func upWith(id NodeID, slots int, labels ...string) Event {
	return NodeUp{Node: id, Slots: slots, Memory: 100, About: label.Node{Name: string(id), OS: "linux", Labels: labels}}
}

var labelScripts = []script{
	{"calls run only where their session wants", Config{}, []step{
		{0, openOn(1, "gpu=a30"), nil}, {0, SessionOpen{Session: 2}, nil},
		{0, upWith("a", 1), nil}, {0, upWith("b", 1, "gpu=a30"), nil},
		{0, submitCall(1, 1, modA), nil}, {0, submitCall(2, 1, modA), nil},
		{0, askSlots("a", 1), nil},
		{0, submitCall(3, 2, modA), []string{"grant 3 to a #1"}},
		{1, askSlots("b", 1), []string{"grant 1 to b #2"}},
		{2, callDone("b", 1, 2), []string{"commit 1 #2"}}, {2, askSlots("b", 1), []string{"grant 2 to b #3"}},
		{3, callDone("a", 3, 1), []string{"commit 3 #1"}}, {3, askSlots("a", 1), nil},
	}},
	{"a lost node does not send them elsewhere", Config{}, []step{
		{0, openOn(1, "node=b"), nil}, {0, upWith("a", 1), nil}, {0, upWith("b", 1), nil}, {0, askSlots("a", 1), nil},
		{0, submitCall(1, 1, modA), nil}, {0, askSlots("b", 1), []string{"grant 1 to b #1"}},
		{1, NodeDown{"b"}, []string{"requeue 1"}}, {2, Tick{}, nil},
		{3, upWith("b", 1), nil}, {3, askSlots("b", 1), []string{"grant 1 to b #2"}},
	}},
	{"labels are those of the node's last start", Config{}, []step{
		{0, openOn(1, "gpu=a30"), nil}, {0, upWith("a", 1), nil}, {0, askSlots("a", 1), nil}, {0, submitCall(1, 1, modA), nil},
		{1, upWith("a", 1, "gpu=a30"), nil}, {1, askSlots("a", 1), []string{"grant 1 to a #1"}},
		{2, upWith("a", 1), []string{"requeue 1"}}, {2, askSlots("a", 1), nil},
	}},
	{"what no node can run fails after a minute", Config{}, []step{
		{0, openOn(1, "gpu=a30"), nil}, {0, openOn(2, "os=linux"), nil}, {0, submitCall(1, 1, modA), nil},
		{70, Tick{}, nil}, // no node is there at all
		{71, upWith("a", 1), nil}, {71, Tick{}, []string{"fail 1: no node that is up matches gpu=a30"}},
		{72, CallQueued{Call: 2, Session: 1, Worker: modA, Node: "a"}, nil}, {80, Beat{Node: "a"}, nil}, {80, submitCall(3, 1, modA), nil},
		{88, Beat{Node: "a"}, nil}, {96, Beat{Node: "a"}, nil}, {104, Beat{Node: "a"}, nil}, {112, Beat{Node: "a"}, nil}, {120, Beat{Node: "a"}, nil}, {128, Beat{Node: "a"}, nil},
		{131, Tick{}, nil},
		{132, Tick{}, []string{"fail 2: the call is bound to a node that does not match gpu=a30"}},
		{133, upWith("b", 1, "gpu=a30"), nil}, {141, Tick{}, []string{"silent a"}},
		{142, askSlots("b", 1), []string{"grant 3 to b #1"}},
	}},
	{"the largest node is that of those which match", Config{}, []step{
		{0, openOn(1, "node=a"), nil}, {0, upWith("a", 1), nil}, {0, NodeUp{Node: "b", Slots: 1, Memory: 1000, About: label.Node{Name: "b"}}, nil},
		{0, CallQueued{Call: 1, Session: 1, Memory: 500}, nil}, {61, upWith("a", 1), nil},
		{61, Tick{}, []string{"silent b", "fail 1: the call needs 500 bytes of memory and the largest node gives 100"}},
	}},
	{"a failed call runs again soon where it may only run there", Config{}, []step{
		{0, openOn(1, "node=a"), nil}, {0, upWith("a", 1), nil}, {0, upWith("b", 1), nil}, {0, submitCall(1, 1, modA), nil},
		{0, askSlots("a", 1), []string{"grant 1 to a #1"}}, {0, askSlots("b", 1), nil},
		{1, workerDied("a", 1, 1, 9), []string{"requeue 1"}}, {1.5, askSlots("a", 1), nil},
		{2.1, Tick{}, []string{"grant 1 to a #2"}},
	}},
	{"a drained node keeps the calls that may run nowhere else", Config{}, []step{
		{0, openOn(1, "node!=b"), nil}, {0, upWith("a", 1), nil}, {0, upWith("b", 1), nil}, {0, submitCall(1, 1, modA), nil},
		{0, askSlots("b", 1), nil}, {0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		{1, NodeDrain{Node: "a", On: true, Move: true}, nil},
		{2, upWith("c", 1), nil}, {2, NodeDrain{Node: "a", On: true, Move: true}, []string{"requeue 1", "cancel #1 at a"}},
		{3, askSlots("c", 1), []string{"grant 1 to c #2"}},
	}},
	{"a session says how often its calls are tried", Config{}, []step{
		{0, SessionOpen{Session: 1, Attempts: 1}, nil}, {0, SessionOpen{Session: 2, Attempts: 2}, nil}, {0, upWith("a", 1), nil}, {0, upWith("b", 1), nil},
		{0, submitCall(1, 1, modA), nil}, {0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		{1, workerDied("a", 1, 1, 9), []string{"fail 1: exit status 9; attempt 1 was the last"}},
		{2, submitCall(2, 2, modA), nil}, {2, askSlots("a", 1), []string{"grant 2 to a #2"}},
		{3, workerDied("a", 2, 2, 9), []string{"requeue 2"}}, {3, askSlots("b", 1), []string{"grant 2 to b #3"}},
		{4, workerDied("b", 2, 3, 8), []string{"fail 2: exit status 8; attempt 2 was the last"}},
	}},
	{"no copy goes to a node that does not match", Config{}, []step{
		{0, openOn(1, "node!=b"), nil}, {0, upWith("a", 1), nil}, {0, upWith("b", 1), nil}, {0, askSlots("b", 1), nil},
		{0, submitCall(1, 1, modA), nil}, {0, askSlots("a", 1), []string{"grant 1 to a #1"}},
		{1, callDone("a", 1, 1), []string{"commit 1 #1"}}, {1, submitCall(2, 1, modA), nil}, {1, askSlots("a", 1), []string{"grant 2 to a #2"}},
		{8, Beat{Node: "b", Free: 1}, nil}, {8, Beat{Node: "a", Leases: []Fence{2}}, nil}, {11, Tick{}, nil},
	}},
}

// Whatever happens, no lease is granted to a node that its session has not chosen.
func TestGrantsObeySelectors(t *testing.T) {
	texts := []string{"all", "os=linux", "os!=linux", "room=x", "room!=x", "room=x,os=linux", "cpus>=3", "node=n2"}
	nodes := []NodeID{"n0", "n1", "n2", "n3", "n4"}
	granted := map[string]int{}
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s, now, about, live := New(Config{}), epoch, map[NodeID]label.Node{}, map[Fence]Lease{}
		handle := func(ev Event) {
			for _, a := range s.Handle(now, ev) {
				if g, ok := a.(Grant); ok {
					text := texts[g.Lease.Session-1]
					n, on := about[g.Lease.Node], parseSelector(text)
					if live[g.Lease.Fence] = g.Lease; !on.Matches(&n) {
						t.Fatalf("seed %d: a call of %s was granted to %+v", seed, text, n)
					}
					granted[text]++
				}
			}
		}
		for i, text := range texts {
			handle(openOn(SessionID(i+1), text))
		}
		for call := CallID(1); call < 300; {
			now = now.Add(time.Duration(rng.IntN(3000)) * time.Millisecond)
			id := nodes[rng.IntN(len(nodes))]
			switch rng.IntN(8) {
			case 0:
				n := label.Node{Name: string(id), OS: []string{"linux", "windows"}[rng.IntN(2)], CPUs: 1 + rng.IntN(4)}
				if rng.IntN(2) == 0 {
					n.Labels = []string{"room=x"}
				}
				about[id] = n
				handle(NodeUp{Node: id, Slots: 1 + rng.IntN(3), Memory: 100, About: n})
			case 1, 2:
				handle(askSlots(id, 1+rng.IntN(3)))
			case 3, 4:
				handle(submitCall(call, SessionID(1+rng.IntN(len(texts))), modA))
				call++
			case 5:
				if len(live) == 0 {
					continue
				}
				fences := slices.Sorted(maps.Keys(live))
				l := live[fences[rng.IntN(len(fences))]]
				delete(live, l.Fence)
				if rng.IntN(3) == 0 {
					handle(workerDied(l.Node, l.Call, l.Fence, rng.IntN(100)))
				} else {
					handle(callDone(l.Node, l.Call, l.Fence))
				}
			case 6:
				handle(NodeDrain{Node: id, On: rng.IntN(3) == 0, Move: rng.IntN(2) == 0})
			case 7:
				handle(Tick{})
			}
		}
	}
	for _, text := range texts {
		if granted[text] == 0 {
			t.Errorf("no call of %s was granted", text)
		}
	}
	if !slices.Contains(texts, "all") || granted["all"] < granted["node=n2"] {
		t.Errorf("the grants are %v", granted)
	}
}
