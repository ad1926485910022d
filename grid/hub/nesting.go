// SPDX-License-Identifier: MIT

package hub

import (
	"encoding/binary"
	"errors"

	"skep/grid/sched"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// Calls that a function of the master makes while a call waits for it. The outer call lends the
// place that it has on its node until the function returns: sched.Lend. docs/design/callbacks.md.

// nestMax is how deep calls may nest: each level has a worker on some node.
const nestMax = 16

// splitNumber takes a number other than 0 off the end of a payload.
func splitNumber(b []byte, why string) (rest []byte, number uint64, err error) {
	at := len(b) - 8
	if at < 0 {
		return nil, 0, errors.New(why)
	}
	if number = binary.LittleEndian.Uint64(b[at:]); number == 0 {
		return nil, 0, errors.New(why)
	}
	return b[:at], number, nil
}

// nestCall notes for which call a new one is made, and lets that lend its place. An outer call
// that has ended, as when its worker died, lends none.
func (h *Hub) nestCall(c *call, outer uint64) *uapi.Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.outer, c.depth = outer, 1
	o := c.caller.calls[outer]
	if o == nil {
		return nil
	}
	if c.waitsFor(o) {
		return uapi.Errorf(uapi.ERefused, "%s cannot be called now: a method of the same object waits for the function that calls it", c.functionName())
	}
	if c.depth = o.depth + 1; c.depth > nestMax {
		return uapi.Errorf(uapi.ERefused, "%s cannot be called: calls of this program wait for one another %d deep, which is the most, and %s waits last",
			c.functionName(), nestMax, o.functionName())
	}
	c.within = o
	o.inners++
	if o.isCalling() {
		h.lend(o, true)
	}
	return nil
}

// isCalling reports whether a function of the master runs for a call. A hub that was started again
// may not know better yet.
func (c *call) isCalling() bool {
	if c.back == nil {
		return c.called
	}
	return !c.back.isDone()
}

// findInner lets a call that is sent again lend its place if one that it waits for came first.
func (h *Hub) findInner(c *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, in := range c.caller.calls {
		if in.outer == c.client && in.within == nil {
			in.within, in.depth = c, c.depth+1
			c.inners++
			c.lends = true
		}
	}
}

// leaveOuter notes that a call ends.
func (c *call) leaveOuter() {
	if c.within != nil {
		c.within.inners--
	}
}

// lend tells the scheduler whether the lease of a call lends its place.
func (h *Hub) lend(c *call, on bool) {
	lockdep.AssertHeld(&h.mu)
	if c.lends == on {
		return
	}
	c.lends = on
	for _, l := range c.leases {
		h.handleEvent(c.lending(l, on))
	}
}

func (c *call) lending(l *lease, on bool) sched.Lend {
	return sched.Lend{Node: sched.NodeID(l.node.info.ID), Fence: l.Fence, Session: c.caller.id, On: on}
}
