// SPDX-License-Identifier: MIT

package part

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"skep/internal/uapi"
	"skep/shimos/ninep"
)

const (
	leastReply = 11 // bytes: an error
	soon       = 50 * time.Microsecond
	late       = 5 * time.Millisecond
)

// files serves a folder to the kernel on a partition, through the queue in its memory.
type files struct {
	l      *uapi.SkepLinux
	pool   []byte
	server *ninep.Server
	queue  *queue // nil: the kernel has none
	seen   time.Time
}

// close closes the folder. Without files it does nothing, as serve.
func (f *files) close() error {
	if f == nil {
		return nil
	}
	return f.server.Close()
}

// serve answers requests until ctx ends, or the kernel does what no kernel of ours does.
// Nobody can interrupt this Linux for a request, so it looks for them: all the time after
// the last one, then less and less.
func (f *files) serve(ctx context.Context) error {
	if f == nil {
		return nil
	}
	f.seen = time.Now()
	for ctx.Err() == nil {
		busy, err := f.step()
		if err != nil {
			return fmt.Errorf("its files: %w", err)
		}
		if busy {
			f.seen = time.Now()
			continue
		}
		// an eighth of the time that it has been quiet
		time.Sleep(min(max(time.Since(f.seen)/8, soon), late))
	}
	return nil
}

// step answers one request, or takes or leaves the queue.
func (f *files) step() (busy bool, err error) {
	ready := atomic.LoadUint32(&f.l.Device[0].Ready)
	switch {
	case ready == 0 && f.queue != nil:
		f.queue = nil
		atomic.StoreUint32(&f.l.Device[0].Served, 0)
		return true, nil
	case ready != 0 && f.queue == nil:
		return true, f.begin()
	case f.queue == nil:
		return false, nil
	}
	c, err := f.queue.next()
	if c == nil || err != nil {
		return false, err
	}
	if c.room < leastReply {
		return false, errQueue
	}
	reply, err := f.server.Answer(c.request, c.room)
	if err != nil {
		return false, err
	}
	f.queue.done(c, reply)
	return true, nil
}

// begin takes the queue that the kernel describes.
func (f *files) begin() error {
	m, err := newMemory(f.pool, f.l)
	if err != nil {
		return err
	}
	if f.queue, err = newQueue(m, &f.l.Device[0].Queue[0]); err != nil {
		return err
	}
	atomic.StoreUint32(&f.l.Device[0].Served, 1)
	return nil
}
