// SPDX-License-Identifier: MIT

package hub

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// A splitResult is a result whose stored data was taken out.
type splitResult struct {
	spool *spool // what the master gets
	out   []uapi.Datum
	owner string // of the blobs' pins, until commit
}

func (h *Hub) discardSplit(s *splitResult) {
	if s != nil && s.spool != nil {
		s.spool.put()
		s.spool = nil
		h.blobs.Unpin(s.owner)
	}
}

// splitResultOf stores what the result of a lease leaves in the hub. It returns nil if there is
// nothing; then handleDone finds out whether the result can be accepted. Hub.mu is not held.
func (h *Hub) splitResultOf(id string, v *proto.Done, inline *spool) (*splitResult, error) {
	c, l := h.leaseOf(id, sched.CallID(v.Call), sched.Fence(v.Fence))
	if c == nil {
		return nil, nil
	}
	h.mu.Lock()
	from := cmp.Or(inline, l.result)
	ok := c.data != nil && len(c.data.out) > 0 && from != nil && from.get()
	var out []uapi.Datum
	if ok {
		out = slices.Clone(c.data.out)
	}
	h.mu.Unlock()
	if !ok {
		return nil, nil
	}
	defer from.put()
	if digest, complete := from.complete(); !complete || hex.EncodeToString(digest[:]) != v.Digest || !inOrder(out, uint64(from.want)) {
		return nil, nil
	}
	s := &splitResult{out: out, owner: fmt.Sprintf("%s/%d", dataOwner(c.caller.key), v.Fence)}
	return s, h.fillSplit(c, s, from)
}

func (h *Hub) fillSplit(c *call, s *splitResult, from *spool) (err error) {
	left := uint64(from.want)
	for _, v := range s.out {
		left += uint64(len(v.Digest)) - v.Length
	}
	if s.spool, err = h.spools.newSpool(left, c.caller.quotas(h)...); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			h.discardSplit(s)
		}
	}()
	r := from.reader(context.Background()) // it is complete
	var at uint64
	for i := range s.out {
		v := &s.out[i]
		if _, err = io.CopyN(s.spool, r, int64(v.Offset-at)); err != nil {
			return err
		}
		if v.Digest, err = h.putBlob(io.LimitReader(r, int64(v.Length)), s.owner); err != nil {
			return fmt.Errorf("a result cannot be stored: %w", err)
		}
		if _, err = s.spool.Write(v.Digest[:]); err != nil {
			return err
		}
		at = v.Offset + v.Length
	}
	if _, err = io.Copy(struct{ io.Writer }{s.spool}, r); err != nil {
		return err
	}
	return s.spool.finish()
}

// commitSplit gives the session the data that a result left, in place of what it had there.
func (h *Hub) commitSplit(c *call, l *lease) {
	lockdep.AssertHeld(&h.mu)
	s := l.split
	for i, v := range s.out {
		h.blobs.Pin(hex.EncodeToString(v.Digest[:]), dataOwner(c.caller.key))
		d, fresh := c.caller.addDatum(v.Digest, v.Length)
		if fresh { // what was reserved for it is the datum's now
			c.data.reserved -= v.Length
		}
		if v.Mode&uapi.OneNode != 0 {
			d.one, d.node = true, l.Node
		}
		if old := c.data.out[i].Digest; old != [32]byte{} {
			h.dropDatum(c.caller, old)
		}
	}
	h.blobs.Unpin(s.owner)
}
