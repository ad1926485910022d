// SPDX-License-Identifier: MIT

package sched

import (
	"slices"
)

// Near the end of a session some nodes are idle while calls wait at busy nodes or
// run for long. An idlePass visits each idle node and each such lease once, instead
// of each pair of a node and a lease.
type idlePass struct {
	s      *Scheduler
	tick   bool
	nodes  []*node  // idle nodes, in order; nil: has received a lease in this pass
	first  int      // index of the first element of nodes that is not nil
	leases []*lease // leases that may move to idle nodes, the best first; nil: no longer movable
	most   uint64   // the largest free memory of an idle node
}

// takeIdle moves leases that wait at busy nodes to idle nodes, and grants idle nodes
// copies of the calls that have run longest, until nothing fits. It has work only at
// the end of a session: while calls are queued, grantOne fills every slot that fits.
func (s *Scheduler) takeIdle(tick bool) {
	p := &idlePass{s: s, tick: tick}
	p.findNodes()
	if len(p.nodes) == 0 {
		return
	}
	p.findLeases()
	blocked := len(p.leases) // the first lease that only a reserved seat prevents from moving
	for at := 0; at < len(p.leases); {
		end := p.equalEnd(at)
		i, n, kept := p.match(at, end)
		if kept {
			blocked = min(blocked, at)
		}
		if n < 0 {
			at = end
			continue
		}
		p.moveCalls(i, n)
		// The sessions' numbers of slots have changed, and with them the reserved
		// seats: try the blocked leases again.
		at, blocked = min(at, blocked), len(p.leases)
	}
}

func (p *idlePass) findNodes() {
	for _, n := range p.s.open.free {
		p.s.steps++
		if len(n.running) == 0 {
			p.nodes = append(p.nodes, n)
			p.most = max(p.most, min(n.spare, n.memory-min(n.used, n.memory)))
		}
	}
}

func (p *idlePass) findLeases() {
	for _, o := range p.s.nodes {
		for _, list := range [][]*lease{o.running, o.ahead} {
			for _, l := range list {
				p.s.steps++
				if p.isMovable(l) && l.call.memory <= p.most {
					p.leases = append(p.leases, l)
				}
			}
		}
	}
	slices.SortStableFunc(p.leases, func(a, b *lease) int {
		switch {
		case isBetter(a, b):
			return -1
		case isBetter(b, a):
			return 1
		}
		return 0
	})
}

// isMovable reports whether a lease may move or be copied. A lease that is not
// movable stays so for the rest of the pass.
func (p *idlePass) isMovable(l *lease) bool {
	ss := l.call.session
	counted := l.Ahead && l.from != nil && l.from.user != ss.user // among its user's slots
	return ss.queue.len() == 0 && (counted || !ss.user.isFull()) && (l.Ahead || p.tick && p.s.isSlow(l))
}

// equalEnd returns the end of the run of leases that rank equal to the one at index
// at. The order of the nodes decides between them.
func (p *idlePass) equalEnd(at int) int {
	if p.leases[at] == nil {
		return at + 1
	}
	end := at + 1
	for end < len(p.leases) && (p.leases[end] == nil || !isBetter(p.leases[at], p.leases[end])) {
		end++
	}
	return end
}

// match finds the first node n to which one of the leases from at to end can move,
// and the first such lease i. n is -1 if there is none. kept reports that a lease
// could not move because a seat is reserved for another session.
func (p *idlePass) match(at, end int) (i, n int, kept bool) {
	for p.first < len(p.nodes) && p.nodes[p.first] == nil {
		p.first++
	}
	for n = p.first; n < len(p.nodes); n++ {
		for i = at; p.nodes[n] != nil && i < end; i++ {
			l := p.leases[i]
			if l != nil && !p.isMovable(l) { // its call was copied meanwhile
				p.leases[i] = nil
			}
			if p.leases[i] == nil || !p.canTake(p.nodes[n], l.call) {
				continue
			}
			if p.s.seatFor(p.nodes[n], l.call.session) != nil {
				return i, n, kept
			}
			kept = true
		}
	}
	return 0, -1, kept
}

func (p *idlePass) canTake(n *node, c *call) bool {
	p.s.steps++
	return n.hasMemory(c) && !c.runsOn(n) && !p.s.isAvoided(n, c)
}

// moveCalls grants the call of a lease to a node of the pass.
func (p *idlePass) moveCalls(i, n int) {
	l, target := p.leases[i], p.nodes[n]
	if l.Ahead {
		p.s.emit(Cancel{l.Lease})
		p.s.removeLease(l)
		p.leases[i] = nil
	}
	p.s.grantCall(target, l.call, false, true)
	p.nodes[n] = nil
}

// isBetter orders leases for moving: those that wait first, then those that have run
// longest.
func isBetter(a, b *lease) bool {
	if a.Ahead != b.Ahead {
		return a.Ahead
	}
	return a.started.Before(b.started)
}

// isSlow reports whether a running call may be copied: it has run for at least twice
// its function's usual duration. That is unknown before the first result.
func (s *Scheduler) isSlow(l *lease) bool {
	usual, known := l.call.session.times[l.call.work]
	ran := s.now.Sub(l.started)
	return known && !l.call.backs && len(l.call.leases) < s.cfg.Copies &&
		ran >= max(2*usual, s.cfg.CopyFrom)
}
