// SPDX-License-Identifier: MIT

package sched

import (
	"slices"
)

// Near the end of a session nodes have nothing to do while calls wait at busy
// ones or run for long. An idlePass looks at each such node and each such lease
// once, not at each pair of them.
type idlePass struct {
	s      *Scheduler
	tick   bool
	nodes  []*node  // that have nothing to do, in order; nil: has got something
	first  int      // of nodes that is not nil
	leases []*lease // that might move there, the best first; nil: it cannot any more
	most   uint64   // memory that the largest of nodes has free
}

// takeIdle returns nodes that have nothing to do what waits at busy ones, or copies
// of the calls that run longest, until nothing fits. Only the tail of a session
// gets here: while calls wait, grantOne has filled every slot that fits.
func (s *Scheduler) takeIdle(tick bool) {
	p := &idlePass{s: s, tick: tick}
	p.findNodes()
	if len(p.nodes) == 0 {
		return
	}
	p.findLeases()
	blocked := len(p.leases) // the first that only a seat that is kept holds up
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
		// Who holds how many slots has changed, and so what is kept.
		at, blocked = min(at, blocked), len(p.leases)
	}
}

func (p *idlePass) findNodes() {
	for _, n := range p.s.nodes {
		p.s.steps++
		if len(n.running) == 0 && n.open(false) {
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

// movable: once it is not, it is not for the rest of the pass.
func (p *idlePass) isMovable(l *lease) bool {
	return l.call.session.queue.len() == 0 && (l.Ahead || p.tick && p.s.isSlow(l))
}

// equalEnd returns the end of the leases that are as good as that at at: the node
// decides between them.
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

// match finds the first node that one of the leases from at to end can move to,
// and the first lease that can; n is -1 without one. kept: a seat that is kept
// for another session was in the way.
func (p *idlePass) match(at, end int) (i, n int, kept bool) {
	for p.first < len(p.nodes) && p.nodes[p.first] == nil {
		p.first++
	}
	for n = p.first; n < len(p.nodes); n++ {
		for i = at; p.nodes[n] != nil && i < end; i++ {
			l := p.leases[i]
			if l != nil && !p.isMovable(l) { // another lease of its call was copied
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

// isBetter prefers a call that only waits, then the one that runs longest.
func isBetter(a, b *lease) bool {
	if a.Ahead != b.Ahead {
		return a.Ahead
	}
	return a.started.Before(b.started)
}

// isSlow reports whether a copy of a running call is worth it: it takes twice as
// long as its function usually does. Nothing is known before a first result.
func (s *Scheduler) isSlow(l *lease) bool {
	usual, known := l.call.session.times[l.call.work]
	ran := s.now.Sub(l.started)
	return known && len(l.call.leases) < s.cfg.Copies &&
		ran >= max(2*usual, s.cfg.CopyFrom)
}
