// SPDX-License-Identifier: MIT

package sched

import (
	"cmp"
	"slices"
)

// An index holds the nodes that can take a lease, so that an event costs no look at the
// busy ones. Its lists are in the order of Scheduler.nodes.
type index struct {
	free  []*node          // open for a lease that runs
	ready map[work][]*node // open for a lease ahead of this work, which they have completed before
}

// update puts a node where it belongs. It is called after each change of what node.open
// depends on, or of node.shown.
func (x *index) update(n *node) {
	if is := n.open(false); is != n.inFree {
		x.free, n.inFree = place(x.free, n, is), is
	}
	for w := range n.shown {
		if is := n.open(true); is != n.inReady[w] {
			x.ready[w] = place(x.ready[w], n, is)
			if len(x.ready[w]) == 0 {
				delete(x.ready, w)
			}
			n.inReady[w] = is
		}
	}
}

// forget removes a node, before it is forgotten or its functions are.
func (x *index) forget(n *node) {
	x.free = place(x.free, n, false)
	for w := range n.inReady {
		if x.ready[w] = place(x.ready[w], n, false); len(x.ready[w]) == 0 {
			delete(x.ready, w)
		}
	}
	n.inFree, n.inReady = false, map[work]bool{}
}

// place adds a node to a sorted list, or removes it.
func place(list []*node, n *node, is bool) []*node {
	at, found := slices.BinarySearchFunc(list, n.id, func(o *node, id NodeID) int { return cmp.Compare(o.id, id) })
	switch {
	case is && !found:
		return slices.Insert(list, at, n)
	case !is && found:
		return slices.Delete(list, at, at+1)
	}
	return list
}
