// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"skep/grid/sched"
)

// nearArgs is what the agent of this process reads. A worker that fails may be closed while
// another goroutine still reads for it: mu is held by whoever uses the spool.
type nearArgs struct {
	hub    *Hub
	node   string
	lease  *lease
	cancel context.CancelFunc

	mu     sync.Mutex
	from   *spoolReader
	closed bool
}

var errArgsClosed = errors.New("the arguments were closed")

// NearArgs opens arguments for the agent of this process, also while they arrive. The lease
// is checked as for a request over the network.
func (h *Hub) NearArgs(ctx context.Context, node string, number, fence uint64) (io.ReadCloser, error) {
	c, l := h.leaseOf(node, sched.CallID(number), sched.Fence(fence))
	if c == nil {
		return nil, notHeld(number, fence)
	}
	if !c.args.get() {
		return nil, errors.New("the call has ended")
	}
	ctx, cancel := context.WithCancel(ctx)
	return &nearArgs{hub: h, node: node, lease: l, cancel: cancel, from: c.args.reader(ctx)}, nil
}

func notHeld(number, fence uint64) error {
	return fmt.Errorf("this node does not hold the lease %d of call %d", fence, number)
}

func (a *nearArgs) Read(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return 0, errArgsClosed
	}
	return a.from.Read(b)
}

// NextFile waits until n more bytes have arrived and returns the file that has them, and where;
// they count as read. It is the caller's until let is called. Without a file there is an error, or
// the bytes are in memory: Read gives them.
func (a *nearArgs) NextFile(n int64) (file *os.File, at int64, let func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, 0, nil, errArgsClosed
	}
	if file, err = a.from.await(n); file == nil {
		return nil, 0, nil, err
	}
	if !a.from.s.get() {
		return nil, 0, nil, errSpoolGone
	}
	at = a.from.at
	a.from.at += n
	return file, at, a.from.s.put, nil
}

// Close ends a read that waits for the master.
func (a *nearArgs) Close() error {
	a.cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	a.hub.countNear(a.node, a.lease, uint64(a.from.at))
	a.from.s.put()
	return nil
}

// countNear counts bytes for a node that needed no connection.
func (h *Hub) countNear(node string, l *lease, n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.sent += n
	l.near += n
	if to := h.nodes[node]; to != nil {
		to.info.Sent += n
	}
}

// NearResult stores a result beside its lease, as takeBody does.
func (h *Hub) NearResult(ctx context.Context, node string, number, fence, n uint64, body io.Reader) error {
	c, l := h.leaseOf(node, sched.CallID(number), sched.Fence(fence))
	if c == nil {
		return notHeld(number, fence)
	}
	s, err := h.resultSpool(c, l, n, true)
	if err != nil {
		return err
	}
	err = fillSpool(s, untilDone{ctx, body})
	if err == nil && !h.keepResult(c, l, s) {
		err = fmt.Errorf("the lease %d of call %d was taken back", fence, number)
	}
	if err != nil {
		s.put()
		return err
	}
	h.copyResult(s)
	h.mirror.settle()
	h.mu.Lock()
	l.near += n
	h.mu.Unlock()
	return nil
}

// untilDone is a reader that ends with a context.
type untilDone struct {
	ctx context.Context
	io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.Reader.Read(b)
}
