// SPDX-License-Identifier: MIT

package sched

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A crowd is a grid in which all slots are busy and many calls wait.
type crowd struct {
	s     *Scheduler
	now   time.Time
	calls CallID
	runs  []Lease
}

func newCrowd(nodes, slots, sessions, calls int) *crowd {
	c := &crowd{s: New(Config{}), now: time.Unix(1000, 0)}
	for i := range sessions {
		c.handle(SessionOpen{Session: SessionID(i + 1)})
	}
	for range calls {
		c.queue(SessionID(int(c.calls)%sessions + 1))
	}
	for i := range nodes {
		id := NodeID(fmt.Sprintf("n%05d", i))
		c.handle(NodeUp{Node: id, Slots: slots, Memory: 1 << 40})
		c.handle(Ask{Node: id, Slots: slots, Memory: 1 << 40})
	}
	return c
}

func (c *crowd) queue(session SessionID) {
	c.calls++
	c.handle(CallQueued{Call: c.calls, Session: session, Worker: Worker{Module: Digest{1}}, Memory: 1 << 20})
}

func (c *crowd) handle(ev Event) {
	for _, a := range c.s.Handle(c.now, ev) {
		if g, ok := a.(Grant); ok {
			c.runs = append(c.runs, g.Lease)
		}
	}
}

// turn ends one call, and its master submits another.
func (c *crowd) turn(i int) {
	c.now = c.now.Add(time.Millisecond)
	at := i * 7919 % len(c.runs)
	l := c.runs[at]
	c.runs[at] = c.runs[len(c.runs)-1]
	c.runs = c.runs[:len(c.runs)-1]
	c.handle(CallDone{l.Node, l.Call, l.Fence, time.Second})
	c.handle(Ask{Node: l.Node, Slots: 1, Memory: 1 << 40})
	c.queue(l.Session)
}

// checkIndex compares the index with a look at every node.
func (s *Scheduler) checkIndex() string {
	var free []*node
	ready := map[work][]*node{}
	for _, n := range s.nodes {
		extra := 0
		for _, l := range n.running {
			if l.Extra {
				extra++
			}
		}
		if extra != n.extra {
			return fmt.Sprintf("%s runs %d extra leases, it has %d", n.id, extra, n.extra)
		}
		if n.open(false) {
			free = append(free, n)
		}
		for w := range n.shown {
			if n.open(true) {
				ready[w] = append(ready[w], n)
			}
		}
	}
	if !slices.Equal(free, s.open.free) {
		return fmt.Sprintf("%d nodes are free, it has %d", len(free), len(s.open.free))
	}
	if !maps.EqualFunc(ready, s.open.ready, slices.Equal) {
		return fmt.Sprintf("%d functions have ready nodes, it has %d, or other nodes", len(ready), len(s.open.ready))
	}
	return ""
}

// The index is right after each event, also of nodes that vanish, return, are barred and
// drained.
func TestIndexIsRight(t *testing.T) {
	extras := 0
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 5))
		c := newCrowd(6, 2, 3, 40)
		for range 400 {
			id := NodeID(fmt.Sprintf("n%05d", rng.IntN(7)))
			switch r := rng.IntN(100); {
			case r < 50 && len(c.runs) > 0:
				c.turn(rng.IntN(1000))
			case r < 60:
				c.handle(Ask{Node: id, Slots: rng.IntN(3), Memory: 1 << 40})
			case r < 65:
				c.handle(NodeUp{Node: id, Slots: rng.IntN(4), Memory: 1 << 40})
			case r < 70:
				c.handle(NodeDown{id})
			case r < 72:
				c.handle(NodeBar{id})
			case r < 74:
				c.handle(NodeDrain{id, rng.IntN(3) > 0, rng.IntN(2) > 0, "drained"})
			case r < 80:
				c.now = c.now.Add(time.Duration(rng.IntN(8)) * time.Second)
				c.handle(Tick{})
			case r < 84:
				c.handle(Beat{Node: id})
			case r < 90 && len(c.runs) > 0:
				l := c.runs[rng.IntN(len(c.runs))]
				c.handle(Lend{Node: l.Node, Fence: l.Fence, Session: l.Session, On: rng.IntN(3) > 0})
			case r < 95:
				c.calls++
				c.handle(CallQueued{Call: c.calls, Session: SessionID(rng.IntN(3) + 1), Worker: Worker{Module: Digest{1}}, Memory: 1 << 20, Inner: true})
			default:
				c.queue(SessionID(rng.IntN(3) + 1))
			}
			if why := c.s.checkIndex(); why != "" {
				t.Fatalf("seed %d: %s", seed, why)
			}
			for _, n := range c.s.nodes {
				extras += n.extra
			}
		}
	}
	if extras < 1000 {
		t.Errorf("%d extra leases were seen", extras)
	}
}

// An event looks at the nodes that can take a lease, however many are busy.
func TestBusyNodesCostNothing(t *testing.T) {
	for _, nodes := range []int{50, 800} {
		c := newCrowd(nodes, 1, 4, 3*nodes)
		const turns = 400
		for i := range turns {
			c.turn(i)
		}
		c.s.looks = 0
		for i := range turns {
			c.turn(i)
		}
		if per := float64(c.s.looks) / turns; per > 40 {
			t.Errorf("%d nodes: %.0f looked at for each call that ends", nodes, per)
		} else {
			t.Logf("%d nodes: %.1f", nodes, per)
		}
	}
}

// BenchmarkTurn measures three events: the end of a call, the node's request and another
// call, where 10,000 slots are busy and 100,000 calls wait.
func BenchmarkTurn(b *testing.B) {
	for _, slots := range []int{1, 50} {
		for _, sessions := range []int{1, 16} {
			b.Run(fmt.Sprintf("slots=%d/sessions=%d", slots, sessions), func(b *testing.B) {
				c := newCrowd(10000/slots, slots, sessions, 110000)
				for i := 0; b.Loop(); i++ {
					c.turn(i)
				}
			})
		}
	}
}
