// SPDX-License-Identifier: MIT

// Package session sends frames over a byte stream. If the stream breaks, the session
// resumes on another one without loss: see include/skep/session.h.
//
// A Conn has one reader and many writers. Writers queue frames, and one goroutine per
// stream writes them. So a reader that must send an ACK never blocks on a peer that
// waits for this ACK. Frames stay queued until the peer acknowledges them. Read
// processes acknowledgements, so a program that sends much must keep reading.
package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// An ID identifies a session. The side that dials or starts the peer chooses it; the
// other side sends zeros until it has received it.
type ID [16]byte

// NewID returns a random id.
func NewID() (id ID) {
	if _, err := rand.Read(id[:]); err != nil {
		panic(err) // never fails on the systems that skep runs on
	}
	return id
}

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Errors of a Conn.
var (
	// ErrCut says that the stream ended without BYE. The session continues after
	// Attach with another stream.
	ErrCut = errors.New("the session's stream was cut")
	// ErrClosed says that this side has closed the session.
	ErrClosed = errors.New("the session is closed")
)

// A RevisionError names the revisions of both sides.
type RevisionError struct{ Ours, Theirs uint32 }

func (e *RevisionError) Error() string {
	older := "this side"
	if e.Theirs < e.Ours {
		older = "the other side"
	}
	return fmt.Sprintf("the peer speaks session revision %d, this side %d: update %s", e.Theirs, e.Ours, older)
}

// A ProtocolError says how the peer violated the protocol; it ends the session.
type ProtocolError struct{ Err error }

func (e *ProtocolError) Error() string { return "the other side broke the protocol: " + e.Err.Error() }

func (e *ProtocolError) Unwrap() error { return e.Err }

func protocolError(format string, args ...any) error {
	return &ProtocolError{fmt.Errorf(format, args...)}
}

// A Frame is a received frame. The next Read reuses Payload.
type Frame struct {
	Type    uapi.FrameType
	Flags   uint16
	Call    uint64
	Payload []byte
}

// Last reports whether this is the final DATA frame of a transfer.
func (f *Frame) Last() bool { return f.Flags&uapi.FlagLast != 0 }

// Limits. dataWindow is smaller than the window, so that control frames still fit when
// data has filled it.
const (
	dataChunk  = 256 << 10
	dataWindow = uapi.SessionWindow - uapi.FrameMax - 64<<10
)

// Time limits of a HELLO and of the last frames; tests change them.
var (
	helloIn = 10 * time.Second
	closeIn = 2 * time.Second
)

// sent is a frame that is queued, perhaps written, and not yet acknowledged.
type sent struct {
	at      uint64 // offset of its first byte in the session
	head    [uapi.FrameSize]byte
	payload []byte
	buffer  *[]byte // the buffer of the pool chunks that holds payload, or nil
	busy    int     // goroutines that are writing it; that of an old stream may be late
	data    bool
}

func (s *sent) endOffset() uint64 { return s.at + uapi.FrameSize + uint64(len(s.payload)) }

// A Conn is one session. mu guards all fields except in; change wakes all waiters.
type Conn struct {
	mu     sync.Mutex
	change *sync.Cond

	id     ID
	stream *stream // nil: cut or closed
	err    error   // why the session ended
	bye    bool    // the peer's BYE was read

	queue   []*sent // not acknowledged, in order
	next    int     // index of the first frame that this stream has not written
	queued  uint64  // end of the queue: bytes sent since the beginning
	acked   uint64
	pending int    // data frames that this stream has not written
	sentTo  uint64 // the largest offset that any stream was given to write
	dataEnd uint64 // end of the last DATA frame that was queued

	received uint64 // bytes received from the peer
	ackSent  uint64

	in []byte // payload buffer, used only by the reader
}

// A stream is one attachment. A goroutine compares its stream with Conn.stream to find
// out whether it has been replaced.
type stream struct {
	rw     io.ReadWriteCloser
	from   *reader
	skip   uint64 // bytes of the first frame that the peer already has
	sent   uint64 // end offset of the frames given to the writer
	idle   bool   // all of them are written and flushed
	broken bool   // writing failed; reading may still find an ERROR or BYE
}

func newConn(id ID) *Conn {
	c := &Conn{id: id}
	c.change = sync.NewCond(&c.mu)
	return c
}

// ID returns the session's id.
func (c *Conn) ID() ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id
}

// Open starts a session on a new stream by exchanging HELLO frames. If id is zero, the
// session gets the peer's id.
func Open(rw io.ReadWriteCloser, id ID) (*Conn, error) {
	c := newConn(id)
	if err := c.Attach(rw); err != nil {
		return nil, err
	}
	return c, nil
}

// Attach continues the session on another stream, as the side that dialled. On an error
// it closes rw; the caller may try another stream unless Ended returns an error.
func (c *Conn) Attach(rw io.ReadWriteCloser) error {
	hello, err := c.detach()
	if err != nil {
		rw.Close()
		return err
	}
	from := newReader(rw)
	wrote := make(chan error, 1)
	watch := time.AfterFunc(helloIn, func() { rw.Close() })
	defer watch.Stop()
	// Write and read at the same time: on a stream without buffers two sides that
	// both write first would deadlock.
	go func() { wrote <- writeHello(rw, hello) }()
	theirs, err := from.readHello()
	if r := (*RevisionError)(nil); err == nil || errors.As(err, &r) {
		// In both cases let the peer receive our revision.
		if e := <-wrote; err == nil {
			err = e
		}
	}
	if err == nil {
		err = c.attach(rw, from, theirs.Hello)
	}
	if err != nil {
		rw.Close()
	}
	return err
}

// Accept reads the peer's HELLO, then answers. find returns the session that a peer
// resumes, or nil. A peer that sends no id gets a new one.
func Accept(rw io.ReadWriteCloser, find func(ID) *Conn) (c *Conn, resumed bool, err error) {
	return AcceptAgain(rw, false, func(id ID, _ bool) *Conn {
		if find == nil {
			return nil
		}
		return find(id)
	})
}

// AcceptAgain is Accept for a side that may keep what a session was beyond this process. If
// keeps is set it tells the peer so. find learns whether the peer comes back to a session
// whose bytes it does not resume, and is called before the answer is sent.
func AcceptAgain(rw io.ReadWriteCloser, keeps bool, find func(id ID, again bool) *Conn) (c *Conn, resumed bool, err error) {
	from := newReader(rw)
	watch := time.AfterFunc(helloIn, func() { rw.Close() })
	defer watch.Stop()
	theirs, err := from.readHello()
	if r := (*RevisionError)(nil); errors.As(err, &r) {
		// Let the peer name both revisions in its error.
		writeHello(rw, uapi.Hello{Magic: uapi.SessionMagic, Revision: uapi.SessionRevision})
	}
	if err != nil {
		rw.Close()
		return nil, false, err
	}
	id := ID(theirs.Session)
	if id != (ID{}) {
		c = find(id, theirs.again)
	}
	resumed = c != nil
	if !resumed {
		if id == (ID{}) {
			id = NewID()
		}
		c = newConn(id)
	}
	hello, err := c.detach()
	if err == nil {
		flags := uint16(0)
		if keeps {
			flags = uapi.FlagAgain
		}
		err = writeHelloFlags(rw, hello, flags)
	}
	if err == nil {
		err = c.attach(rw, from, theirs.Hello)
	}
	if err != nil {
		rw.Close()
		return nil, resumed, err
	}
	return c, resumed, nil
}

func writeHello(w io.Writer, h uapi.Hello) error { return writeHelloFlags(w, h, 0) }

func writeHelloFlags(w io.Writer, h uapi.Hello, flags uint16) error {
	b := uapi.Append(nil, uapi.Frame{Length: 32, Type: uapi.TypeHello, Flags: flags})
	if _, err := w.Write(uapi.Append(b, h)); err != nil {
		return fmt.Errorf("%w: %w", ErrCut, err)
	}
	return nil
}

// detach drops the old stream, if any, and returns the HELLO for the peer. Frames that
// are still read from the old stream are ignored.
func (c *Conn) detach() (uapi.Hello, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return uapi.Hello{}, c.err
	}
	c.dropStream()
	return uapi.Hello{Magic: uapi.SessionMagic, Revision: uapi.SessionRevision,
		Session: c.id, Received: c.received}, nil
}

// dropStream closes the current stream. The caller holds c.mu.
func (c *Conn) dropStream() {
	lockdep.AssertHeld(&c.mu)
	if c.stream == nil {
		return
	}
	c.stream.rw.Close()
	c.stream = nil
	c.change.Broadcast()
}

// attach checks the peer's HELLO and resumes writing at the first byte that the peer has
// not received.
func (c *Conn) attach(rw io.ReadWriteCloser, from *reader, h uapi.Hello) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	peer := ID(h.Session)
	switch {
	case c.err != nil:
		return c.err
	case c.stream != nil:
		return errors.New("the session was attached to another stream meanwhile")
	case peer != (ID{}) && c.id != (ID{}) && peer != c.id:
		return c.fail(protocolError("it is in session %v, this side in %v", peer, c.id))
	case h.Received > c.sentTo || h.Received < c.acked:
		return c.fail(protocolError("it says that it received %d bytes; %d to %d are possible", h.Received, c.acked, c.sentTo))
	}
	if c.id == (ID{}) {
		c.id = peer
	}
	c.releaseAcked(h.Received)
	s := &stream{rw: rw, from: from, sent: h.Received}
	if len(c.queue) > 0 {
		s.skip = h.Received - c.queue[0].at
	}
	c.next, c.pending = 0, 0
	for _, f := range c.queue {
		if f.data {
			c.pending++
		}
	}
	c.stream, c.ackSent = s, c.received
	c.change.Broadcast()
	go c.write(s)
	return nil
}

// fail ends the session permanently and returns err. The caller holds c.mu.
func (c *Conn) fail(err error) error {
	lockdep.AssertHeld(&c.mu)
	if c.err == nil {
		c.err = err
		c.queue, c.next = nil, 0
	}
	c.dropStream()
	c.change.Broadcast()
	return err
}

// releaseAcked frees the frames that the peer has acknowledged. The caller holds c.mu,
// has validated received, and wakes the waiters.
func (c *Conn) releaseAcked(received uint64) {
	lockdep.AssertHeld(&c.mu)
	c.acked = received
	n := 0
	for n < len(c.queue) && c.queue[n].endOffset() <= received {
		if f := c.queue[n]; f.buffer != nil && f.busy == 0 {
			chunks.Put(f.buffer)
		}
		c.queue[n] = nil
		n++
	}
	c.queue = c.queue[n:]
	c.next = max(0, c.next-n)
}

// Ended returns why the session ended, or nil while it can continue.
func (c *Conn) Ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Abort ends the session at once; later calls return err.
func (c *Conn) Abort(err error) {
	if err == nil {
		err = ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(err)
}

// Close sends BYE, waits for at most closeIn until all frames are written, and ends the
// session.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endSession(uapi.TypeBye, nil, ErrClosed)
	return nil
}

// endSession sends a last frame, waits for at most closeIn until it is written, and ends
// the session with err. The caller holds c.mu.
func (c *Conn) endSession(t uapi.FrameType, payload []byte, err error) {
	lockdep.AssertHeld(&c.mu)
	if c.err != nil {
		return
	}
	s, late := c.stream, false
	if s != nil {
		c.enqueue(t, 0, 0, payload, nil)
		timer := time.AfterFunc(closeIn, func() {
			c.mu.Lock()
			late = true
			c.change.Broadcast()
			c.mu.Unlock()
		})
		for c.err == nil && c.stream == s && !s.broken && !(s.idle && c.next == len(c.queue)) && !late {
			c.change.Wait()
		}
		timer.Stop()
	}
	if c.err == nil {
		c.fail(err)
	}
}

// Wait waits, after ErrCut, until the session has a stream again. The error says why it
// will get none.
func (c *Conn) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		c.change.Broadcast()
		c.mu.Unlock()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.stream == nil && c.err == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.change.Wait()
	}
	return c.err
}
