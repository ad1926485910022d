// SPDX-License-Identifier: MIT

// Package session moves frames over a byte stream, and goes on where it was
// when a broken stream is replaced: see include/skep/session.h.
//
// A Conn has one reader and many writers. Writers queue frames; one goroutine
// per stream writes them, so a reader that owes an ACK never waits for a peer
// that waits for it. Frames stay queued until the peer acknowledged them; Read
// is what takes acknowledgements, so who sends much must keep reading.
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

	"skep/internal/uapi"
)

// An ID names a session. Who dials or starts the peer chooses it; the other
// side sends zeros until it knows it.
type ID [16]byte

// NewID returns a random id.
func NewID() (id ID) {
	if _, err := rand.Read(id[:]); err != nil {
		panic(err) // does not fail on the systems skep runs on
	}
	return id
}

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Errors of a Conn.
var (
	// ErrCut says that the stream ended without BYE: Attach another and go on.
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

// A ProtocolError says how the peer broke the rules; it ends the session.
type ProtocolError struct{ Err error }

func (e *ProtocolError) Error() string { return "the other side broke the protocol: " + e.Err.Error() }

func (e *ProtocolError) Unwrap() error { return e.Err }

func protocolError(format string, args ...any) error {
	return &ProtocolError{fmt.Errorf(format, args...)}
}

// A Frame as it was read. The next Read reuses Payload.
type Frame struct {
	Type    uapi.FrameType
	Flags   uint16
	Call    uint64
	Payload []byte
}

// Last reports whether this is the final DATA frame of a transfer.
func (f *Frame) Last() bool { return f.Flags&uapi.FlagLast != 0 }

// Limits of the queue. Data leaves room for control frames in the window.
const (
	dataChunk  = 256 << 10
	dataWindow = uapi.SessionWindow - uapi.FrameMax - 64<<10
	helloIn    = 10 * time.Second
	closeIn    = 2 * time.Second
)

// A sent frame: queued, perhaps written, not yet acknowledged.
type sent struct {
	at      uint64 // its first byte's place in the session
	head    [uapi.FrameSize]byte
	payload []byte
	buffer  *[]byte // of chunks, if payload is in one
	busy    int     // writers that have it in hand; a stale one may be late
	data    bool
}

func (s *sent) endOffset() uint64 { return s.at + uapi.FrameSize + uint64(len(s.payload)) }

// A Conn is one session. mu guards all of it but in; change wakes all waiters.
type Conn struct {
	mu     sync.Mutex
	change *sync.Cond

	id     ID
	stream *stream // nil: cut or closed
	err    error   // why the session ended
	bye    bool    // the peer's BYE was read

	queue   []*sent // not acknowledged, in order
	next    int     // first in queue that this stream has yet to write
	queued  uint64  // end of the queue: bytes sent since the beginning
	acked   uint64
	pending int    // data frames that this stream has yet to write
	sentTo  uint64 // the furthest position that any stream was asked to write

	received uint64 // bytes taken from the peer
	ackSent  uint64

	in []byte // the reader's payload buffer, its alone
}

// A stream is one attachment; who holds a stale one notices by comparing.
type stream struct {
	rw     io.ReadWriteCloser
	from   *reader
	skip   uint64 // bytes of the first frame that the peer already has
	sent   uint64 // end of what was taken to be written
	idle   bool   // all of it is out
	broken bool   // writing failed; reading may still find an ERROR or BYE
}

func newConn(id ID) *Conn {
	c := &Conn{id: id}
	c.change = sync.NewCond(&c.mu)
	return c
}

// ID is the session's id.
func (c *Conn) ID() ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.id
}

// Open starts a session on a new stream: HELLO goes out, the peer's comes in.
// With a zero id the peer's counts.
func Open(rw io.ReadWriteCloser, id ID) (*Conn, error) {
	c := newConn(id)
	if err := c.Attach(rw); err != nil {
		return nil, err
	}
	return c, nil
}

// Attach continues the session on another stream, as the side that dialled. On
// an error rw is closed; unless Ended says otherwise another may be tried.
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
	// At once, lest two sides on a stream without buffers both write.
	go func() { wrote <- writeHello(rw, hello) }()
	theirs, err := from.readHello()
	if r := (*RevisionError)(nil); err == nil || errors.As(err, &r) {
		// In both cases the peer is to know our revision.
		if e := <-wrote; err == nil {
			err = e
		}
	}
	if err == nil {
		err = c.attach(rw, from, theirs)
	}
	if err != nil {
		rw.Close()
	}
	return err
}

// Accept reads the peer's HELLO, then answers. find gives the session that a
// peer wants to resume, or nil; a peer without an id gets a new one.
func Accept(rw io.ReadWriteCloser, find func(ID) *Conn) (c *Conn, resumed bool, err error) {
	from := newReader(rw)
	watch := time.AfterFunc(helloIn, func() { rw.Close() })
	defer watch.Stop()
	theirs, err := from.readHello()
	if r := (*RevisionError)(nil); errors.As(err, &r) {
		// So that the other side can name both numbers too.
		writeHello(rw, uapi.Hello{Magic: uapi.SessionMagic, Revision: uapi.SessionRevision})
	}
	if err != nil {
		rw.Close()
		return nil, false, err
	}
	id := ID(theirs.Session)
	if find != nil && id != (ID{}) {
		c = find(id)
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
		err = writeHello(rw, hello)
	}
	if err == nil {
		err = c.attach(rw, from, theirs)
	}
	if err != nil {
		rw.Close()
		return nil, resumed, err
	}
	return c, resumed, nil
}

func writeHello(w io.Writer, h uapi.Hello) error {
	b := uapi.Append(nil, uapi.Frame{Length: 32, Type: uapi.TypeHello})
	if _, err := w.Write(uapi.Append(b, h)); err != nil {
		return fmt.Errorf("%w: %w", ErrCut, err)
	}
	return nil
}

// detach leaves the old stream, if any, and says what to greet the peer with.
// From here on frames of the old stream do not count.
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

// dropStream ends the current stream; c.mu is held.
func (c *Conn) dropStream() {
	if c.stream == nil {
		return
	}
	c.stream.rw.Close()
	c.stream = nil
	c.change.Broadcast()
}

// attach checks the peer's HELLO and starts to write from where the peer is.
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
		return c.fail(protocolError("it says it received %d bytes, between %d and %d may be", h.Received, c.acked, c.sentTo))
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

// fail ends the session for good; c.mu is held. Returns err.
func (c *Conn) fail(err error) error {
	if c.err == nil {
		c.err = err
		c.queue, c.next = nil, 0
	}
	c.dropStream()
	c.change.Broadcast()
	return err
}

// releaseAcked forgets what the peer has; c.mu is held, received was checked.
func (c *Conn) releaseAcked(received uint64) {
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
	if n > 0 {
		c.change.Broadcast()
	}
}

// Ended is why the session is over, or nil while it may go on.
func (c *Conn) Ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Abort ends the session at once; later calls answer err.
func (c *Conn) Abort(err error) {
	if err == nil {
		err = ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(err)
}

// Close says BYE, waits a little until all is written, and ends the session.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endSession(uapi.TypeBye, nil, ErrClosed)
	return nil
}

// endSession sends a last frame, waits until it is out, or not for long, and ends the
// session with err; c.mu is held.
func (c *Conn) endSession(t uapi.FrameType, payload []byte, err error) {
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

// Wait waits until the session has a stream, after ErrCut; the error says why
// it will have none.
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
