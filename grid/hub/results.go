// SPDX-License-Identifier: MIT

package hub

import (
	"encoding/hex"
	"fmt"
	"time"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

const mutesMax = 2

// An inlineResult arrived inside its message. It is stored in a spool before the hub is locked,
// because a spool may be a file.
type inlineResult struct {
	spool *spool // nil: the lease has it, or there is none
	err   error  // why it could not be stored
	split *splitResult
}

func (h *Hub) discardResult(r *inlineResult) {
	h.discardSplit(r.split)
	if r.spool != nil {
		r.spool.put()
	}
}

func (h *Hub) readDone(id string, data []byte) (report, error) {
	var v proto.Done
	raw, err := proto.Decode(data, &v)
	if err != nil {
		return report{}, err
	}
	r := &inlineResult{}
	if v.Inline {
		r.spool, r.err = h.storeInline(id, &v, raw)
	} else {
		r.err = h.sealResult(id, &v)
	}
	if r.err == nil {
		r.split, r.err = h.splitResultOf(id, &v, r.spool)
	}
	return report{take: func(n *node) error { return h.handleDone(n, &v, r) }, result: r}, nil
}

// storeInline stores a result that belongs to a lease; others are dropped.
func (h *Hub) storeInline(id string, v *proto.Done, raw []byte) (*spool, error) {
	c, l := h.leaseOf(id, sched.CallID(v.Call), sched.Fence(v.Fence))
	if c == nil {
		return nil, nil
	}
	s, err := h.spools.newSpool(uint64(len(raw)), h.resultQuotas(c, l)...)
	if err != nil {
		return nil, err
	}
	if _, err = s.Write(raw); err == nil {
		err = s.finish()
	}
	if err != nil {
		s.put()
		return nil, err
	}
	return s, nil
}

// leaseOf returns a lease that a node holds, and its call, or nil.
func (h *Hub) leaseOf(id string, number sched.CallID, fence sched.Fence) (*call, *lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isCurrent(sched.NodeID(id), number, fence) {
		return nil, nil
	}
	c := h.calls[number]
	return c, c.leases[fence]
}

// handleDone processes a node's result. It is checked completely before the scheduler is informed.
func (h *Hub) handleDone(n *node, v *proto.Done, r *inlineResult) error {
	lockdep.AssertHeld(&h.mu)
	h.noteHeard(n)
	c := h.calls[sched.CallID(v.Call)]
	id, f := sched.NodeID(n.info.ID), sched.Fence(v.Fence)
	ev := sched.Event(sched.CallDone{Node: id, Call: sched.CallID(v.Call), Fence: f,
		Duration: parseSeconds(v.Wall)})
	if c != nil && h.isCurrent(id, c.id, f) {
		kind, why := h.checkDone(c, c.leases[f], v, r)
		if why != "" {
			ev = sched.CallFailed{Node: id, Call: c.id, Fence: f, Kind: kind, Why: why}
			if kind == sched.Unsafe {
				h.setState(n, NodeBarred, why)
			}
		}
	}
	if !h.endAdopted(ev) {
		h.handleEvent(ev)
	}
	return nil
}

func (h *Hub) checkDone(c *call, l *lease, v *proto.Done, r *inlineResult) (sched.Failure, string) {
	if kind, why := c.checkSafety(l, v); why != "" {
		return kind, why
	}
	if err := c.checkResultSize(v.Length); err != nil {
		return sched.NodeFailed, err.Error()
	}
	if err := l.takeResult(v, r); err != nil {
		return sched.NodeFailed, "the result did not arrive whole: " + err.Error()
	}
	if c.data != nil && len(c.data.out) > 0 {
		if r.split == nil {
			return sched.NodeFailed, "the result is too short for the data that it leaves in the hub"
		}
		h.discardSplit(l.split)
		l.split, r.split = r.split, nil
	}
	l.done = v
	return 0, ""
}

// checkSafety reports why what a node says about a run cannot be trusted.
func (c *call) checkSafety(l *lease, v *proto.Done) (sched.Failure, string) {
	bee := l.node.info.Substrate == "bee-windows" || l.node.info.Substrate == "bee-linux"
	switch {
	case v.Program != c.module.digest:
		return sched.Unsafe, "refused by a safety check: the node ran another program than it was given"
	case v.Substrate != l.node.info.Substrate:
		return sched.Unsafe, "refused by a safety check: the node ran the program on another substrate than it has"
	case bee && (v.Calls == 0 || v.Nonce == 0):
		return sched.Unsafe, "refused by a safety check: the program did not run inside bee"
	}
	return 0, ""
}

// checkResultSize reports whether the call's result may have n bytes.
func (c *call) checkResultSize(n uint64) error {
	if n > c.most {
		return fmt.Errorf("the result of %s has %d bytes where its interface and its arguments allow %d", c.functionName(), n, c.most)
	}
	return nil
}

// resultQuotas returns those towards which a result counts.
func (h *Hub) resultQuotas(c *call, l *lease) []*quota {
	return c.caller.quotas(h, l.node.quota)
}

func (l *lease) takeResult(v *proto.Done, r *inlineResult) error {
	if v.Inline {
		if l.result != nil {
			l.result.put()
		}
		l.result, r.spool = r.spool, nil
	}
	if r.err != nil {
		return r.err
	}
	return l.checkResult(v)
}

// checkResult reports whether a lease has the result that its node announces.
func (l *lease) checkResult(v *proto.Done) error {
	if l.result == nil {
		return fmt.Errorf("it was announced but not sent")
	}
	digest, complete := l.result.complete()
	if !complete || uint64(l.result.want) != v.Length || hex.EncodeToString(digest[:]) != v.Digest {
		return fmt.Errorf("it is not what the node announced")
	}
	return nil
}

func (h *Hub) handleFailed(n *node, v *proto.Failed) error {
	lockdep.AssertHeld(&h.mu)
	h.noteHeard(n)
	ev := sched.CallFailed{Node: sched.NodeID(n.info.ID), Call: sched.CallID(v.Call),
		Fence: sched.Fence(v.Fence), Status: v.Status,
		Why: fmt.Sprintf("%s: %s", n.info.Name, truncateText(v.Text))}
	current := h.isCurrent(ev.Node, ev.Call, ev.Fence)
	switch v.Reason {
	case proto.ReasonDied:
		ev.Kind = sched.WorkerDied
	case proto.ReasonMute:
		// Each silence lasts for the whole timeout of a worker: two are enough.
		ev.Kind = sched.WorkerDied
		if c := h.calls[ev.Call]; c != nil && current {
			if c.mutes++; c.mutes == mutesMax {
				ev.Kind, c.code, ev.Why = sched.Final, uapi.EWorker, ev.Why+"; so was another worker with this call before"
			}
		}
	case proto.ReasonError, proto.ReasonLimit:
		ev.Kind = sched.Final
		if c := h.calls[ev.Call]; c != nil && current {
			c.code = v.Code
		}
	case proto.ReasonRefused:
		ev.Kind = sched.Unsafe
		if current {
			h.setState(n, NodeBarred, truncateText(v.Text))
		}
	case proto.ReasonCancelled:
		ev.Kind = sched.Returned
	default:
		ev.Kind = sched.NodeFailed
	}
	if c := h.calls[ev.Call]; current && ev.Kind == sched.NodeFailed && c.args.failure() != nil {
		// Missing arguments are not the node's fault.
		ev.Kind, c.code, ev.Why = sched.Final, uapi.EInternal, c.args.failure().Error()
	}
	if !h.endAdopted(ev) {
		h.handleEvent(ev)
	}
	return nil
}

// parseSeconds converts a duration of a node; an invalid one becomes 0, which means unknown.
func parseSeconds(v float64) time.Duration {
	if !(v > 0 && v < 1e9) {
		return 0
	}
	return time.Duration(v * float64(time.Second))
}
