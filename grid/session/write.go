// SPDX-License-Identifier: MIT

package session

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"skep/internal/lockdep"
	"skep/internal/uapi"
)

var chunks = sync.Pool{New: func() any { b := make([]byte, dataChunk); return &b }}

// ownMax is the length up to which data gets memory of its own. The peer acknowledges
// frames together, after many bytes. Until then a frame keeps its memory, so a buffer of
// the pool for each short result would keep a thousand times what was sent.
const ownMax = dataChunk / 2

// takeChunk returns memory for the next of n bytes, or of an unknown number if n is
// negative, and the buffer of the pool that it is in, or nil.
func takeChunk(n int64) ([]byte, *[]byte) {
	if n >= 0 && n <= ownMax {
		return make([]byte, n), nil
	}
	b := chunks.Get().(*[]byte)
	if n >= 0 && n < dataChunk {
		return (*b)[:n], b
	}
	return *b, b
}

func putChunk(b *[]byte) {
	if b != nil {
		chunks.Put(b)
	}
}

// enqueue appends a frame. The caller holds c.mu and has checked that the window has
// room.
func (c *Conn) enqueue(t uapi.FrameType, flags uint16, call uint64, payload []byte, buffer *[]byte) {
	lockdep.AssertHeld(&c.mu)
	f := &sent{at: c.queued, payload: payload, buffer: buffer, data: t == uapi.TypeData}
	uapi.PutFrame(f.head[:], uapi.Frame{Length: uint32(len(payload)), Type: t, Flags: flags, Call: call})
	c.queue = append(c.queue, f)
	c.queued = f.endOffset()
	if f.data {
		c.pending++
		c.dataEnd = c.queued
	}
	c.change.Broadcast()
}

// Send queues one frame. It keeps payload until the peer has acknowledged it, so the
// caller must not change it. Send blocks only while the window is full. While there is
// no stream, frames stay queued.
func (c *Conn) Send(t uapi.FrameType, call uint64, payload []byte) error {
	return c.send(t, 0, call, payload)
}

func (c *Conn) send(t uapi.FrameType, flags uint16, call uint64, payload []byte) error {
	switch {
	case !t.Known() || t == uapi.TypeHello || t == uapi.TypeAck:
		return fmt.Errorf("a %v frame is not for callers to send", t)
	case len(payload) > uapi.FrameMax:
		return fmt.Errorf("a frame of %d bytes, at most %d may be sent", len(payload), uapi.FrameMax)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	need := uint64(uapi.FrameSize + len(payload))
	for c.err == nil && c.queued+need-c.acked > uapi.SessionWindow {
		c.change.Wait()
	}
	if c.err != nil {
		return c.err
	}
	c.enqueue(t, flags, call, payload, nil)
	return nil
}

// SendError sends an error of a call, or of the session (call 0).
func (c *Conn) SendError(call uint64, e *uapi.Error) error {
	return c.Send(uapi.TypeError, call, e.Encode())
}

// SendData sends n bytes of r, or all of r if n is negative, as DATA frames; the last one
// is marked. It queues one frame at a time, so that other frames can be sent between. If
// r ends early or fails, SendData returns the error and sends no last frame; the caller
// then sends ERROR for the call.
func (c *Conn) SendData(ctx context.Context, call uint64, r io.Reader, n int64) error {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		c.change.Broadcast()
		c.mu.Unlock()
	})
	defer stop()
	for last := false; !last; {
		chunk, b := takeChunk(n)
		got, err := io.ReadFull(r, chunk)
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		switch {
		case ended && n < 0:
			last = true
		case ended && len(chunk) > 0:
			putChunk(b)
			return io.ErrUnexpectedEOF
		case err != nil && !ended:
			putChunk(b)
			return err
		}
		if n >= 0 {
			n -= int64(got)
			last = n == 0
		}
		part := chunk[:got]
		if b != nil && got <= ownMax {
			part = slices.Clone(part)
			putChunk(b)
			b = nil
		}
		if err := c.sendChunk(ctx, call, part, b, last); err != nil {
			putChunk(b)
			return err
		}
	}
	return nil
}

// DataEnd returns the offset, in the session's bytes, of the end of the last DATA frame that
// was queued.
func (c *Conn) DataEnd() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dataEnd
}

// AwaitAck waits until the peer has acknowledged all bytes before offset. The error is why it
// will not, or that of ctx.
func (c *Conn) AwaitAck(ctx context.Context, offset uint64) error {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		c.change.Broadcast()
		c.mu.Unlock()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && ctx.Err() == nil && c.acked < offset {
		c.change.Wait()
	}
	if c.acked >= offset {
		return nil
	}
	if c.err != nil {
		return c.err
	}
	return ctx.Err()
}

func (c *Conn) sendChunk(ctx context.Context, call uint64, part []byte, b *[]byte, last bool) error {
	flags := uint16(0)
	if last {
		flags = uapi.FlagLast
	}
	need := uint64(uapi.FrameSize + len(part))
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.err == nil && ctx.Err() == nil && (c.pending > 0 || c.queued+need-c.acked > dataWindow) {
		c.change.Wait()
	}
	if c.err != nil {
		return c.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.enqueue(uapi.TypeData, flags, call, part, b)
	return nil
}

// A step is what the writer does next.
type step int

const (
	stop step = iota
	flush
	ack
	frame
)

// write is the writer goroutine of one stream.
func (c *Conn) write(s *stream) {
	w := bufio.NewWriterSize(s.rw, 64<<10)
	for {
		var err error
		step, f, received := c.nextToWrite(s, w.Buffered() > 0)
		switch step {
		case stop:
			return
		case flush:
			err = w.Flush()
		case ack:
			err = writeAck(w, received)
		case frame:
			err = writeFrame(w, f, s.skip)
			s.skip = 0
			c.noteWritten(s, f)
		}
		if err != nil {
			c.mu.Lock()
			s.broken = true
			if c.bye && c.err == nil {
				c.fail(ErrClosed) // the peer's BYE was read before
			}
			c.change.Broadcast()
			c.mu.Unlock()
			return
		}
	}
}

// nextToWrite waits until there is something to write: an ACK first, then the queue in
// order.
func (c *Conn) nextToWrite(s *stream, buffered bool) (step, *sent, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.stream == s {
		s.idle = false
		switch {
		case c.received-c.ackSent >= uapi.AckEvery:
			c.ackSent = c.received
			return ack, nil, c.received
		case c.next < len(c.queue):
			f := c.queue[c.next]
			c.next++
			f.busy++
			s.sent = f.endOffset()
			c.sentTo = max(c.sentTo, s.sent)
			return frame, f, 0
		case buffered:
			return flush, nil, 0
		}
		s.idle = true
		c.change.Broadcast()
		c.change.Wait()
	}
	return stop, nil, 0
}

// noteWritten records that a frame was written, so that the next data frame may be
// queued.
func (c *Conn) noteWritten(s *stream, f *sent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.busy--
	if f.data && c.stream == s {
		c.pending--
		c.change.Broadcast()
	}
}

func writeAck(w io.Writer, received uint64) error {
	var b [uapi.FrameSize + 8]byte
	uapi.PutFrame(b[:], uapi.Frame{Length: 8, Type: uapi.TypeAck})
	binary.LittleEndian.PutUint64(b[uapi.FrameSize:], received)
	_, err := w.Write(b[:])
	return err
}

// writeFrame writes a frame without the first skip bytes, which the peer already has.
func writeFrame(w io.Writer, f *sent, skip uint64) error {
	head, payload := f.head[:], f.payload
	n := min(skip, uint64(len(head)))
	head, payload = head[n:], payload[skip-n:]
	if _, err := w.Write(head); err != nil {
		return err
	}
	_, err := w.Write(payload)
	return err
}
