// SPDX-License-Identifier: MIT

package hub

import (
	"sync"

	"skep/grid/proto"
)

// A frameBox has the frames that wait to be written to a leg's node, in their order. So nobody
// who holds a lock waits for a node. mu guards all.
type frameBox struct {
	mu     sync.Mutex
	room   *sync.Cond // there may be some, or it is closed
	frames []waitingFrame
	size   int  // bytes of frames, also of the one that is being written
	busy   bool // somebody writes them
	closed bool
}

type waitingFrame struct {
	kind proto.ExecType
	p    []byte
}

// passMost is how many bytes of an image wait for a node that is slower than their source.
const passMost = 4 << 20

// put adds a frame. write is called for each in turn, and closes the box by its error.
func (b *frameBox) put(kind proto.ExecType, p []byte, write func(proto.ExecType, []byte) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.frames = append(b.frames, waitingFrame{kind, p})
	b.size += len(p)
	if !b.busy {
		b.busy = true
		go b.drain(write)
	}
}

// await returns when the box has room for more of an image; false: it is closed.
func (b *frameBox) await() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.room == nil {
		b.room = sync.NewCond(&b.mu)
	}
	for b.size >= passMost && !b.closed {
		b.room.Wait()
	}
	return !b.closed
}

// drain writes frames until there are none.
func (b *frameBox) drain(write func(proto.ExecType, []byte) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.frames) > 0 && !b.closed {
		f := b.frames[0]
		b.frames = b.frames[1:]
		b.mu.Unlock()
		err := write(f.kind, f.p)
		b.mu.Lock()
		b.size -= len(f.p)
		if err != nil {
			b.shut()
		}
		b.wake()
	}
	b.busy = false
}

// close drops what waits, and lets nobody wait.
func (b *frameBox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shut()
}

// shut is called with the lock held.
func (b *frameBox) shut() {
	b.closed, b.frames = true, nil
	b.wake()
}

func (b *frameBox) wake() {
	if b.room != nil {
		b.room.Broadcast()
	}
}
