// SPDX-License-Identifier: MIT

package session

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"skep/internal/lockdep"
	"skep/internal/uapi"
)

type reader struct{ r *bufio.Reader }

func newReader(r io.Reader) *reader { return &reader{bufio.NewReaderSize(r, 64<<10)} }

// A hello is the frame that opens every stream.
type hello struct {
	uapi.Hello
	again bool // uapi.FlagAgain
}

func (r *reader) readHello() (h hello, err error) {
	f, b, err := r.readFrame(nil)
	if err != nil {
		return h, err
	}
	h.again = f.Flags&uapi.FlagAgain != 0
	if f.Type != uapi.TypeHello || f.Call != 0 {
		return h, protocolError("it opens with %v of call %d, not with HELLO", f.Type, f.Call)
	}
	// HELLO of another revision may be longer, but begins with magic and revision.
	if len(b) < 8 || binary.LittleEndian.Uint32(b) != uapi.SessionMagic {
		return h, protocolError("its HELLO is not skep's")
	}
	if theirs := binary.LittleEndian.Uint32(b[4:]); theirs != uapi.SessionRevision {
		return h, &RevisionError{uapi.SessionRevision, theirs}
	}
	if h.Hello, err = uapi.DecodeExact[uapi.Hello](b); err != nil {
		err = &ProtocolError{err}
	}
	return h, err
}

// readFrame reads one frame; the payload goes into buf if it fits. It returns ErrCut if
// the stream ends within the frame, and a ProtocolError for an invalid frame.
func (r *reader) readFrame(buf []byte) (uapi.Frame, []byte, error) {
	var head [uapi.FrameSize]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return uapi.Frame{}, buf, fmt.Errorf("%w: %w", ErrCut, err)
	}
	f, err := uapi.ParseFrame(head[:])
	if err != nil {
		return f, buf, &ProtocolError{err}
	}
	if uint32(cap(buf)) < f.Length {
		buf = make([]byte, max(f.Length, 4<<10))
	}
	buf = buf[:f.Length]
	if _, err := io.ReadFull(r.r, buf); err != nil {
		return f, buf, fmt.Errorf("%w: %w", ErrCut, err)
	}
	return f, buf, nil
}

// Read returns the next frame. Its payload is valid until the next Read. Only one
// goroutine may read at a time. The error is io.EOF if the peer sent BYE, and ErrCut if
// the stream broke: then Attach another or Wait for one, and Read again. After any other
// error the session has ended.
func (c *Conn) Read() (Frame, error) {
	for {
		c.mu.Lock()
		s, err := c.stream, c.endError()
		c.mu.Unlock()
		if err != nil {
			return Frame{}, err
		}
		f, b, err := s.from.readFrame(c.in)
		c.in = b
		if out, ok, err := c.accountFrame(s, f, b, err); ok || err != nil {
			return out, err
		}
	}
}

// endError returns why there is nothing to read, or nil. The caller holds c.mu.
func (c *Conn) endError() error {
	lockdep.AssertHeld(&c.mu)
	switch {
	case c.bye:
		return io.EOF
	case c.err != nil:
		return c.err
	case c.stream == nil:
		return ErrCut
	}
	return nil
}

// accountFrame counts a frame that was received on s, or handles the read error err. It
// returns false for a frame that callers do not see.
func (c *Conn) accountFrame(s *stream, f uapi.Frame, b []byte, err error) (Frame, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != s {
		return Frame{}, false, nil // the peer sends it again on the new stream
	}
	switch {
	case errors.Is(err, ErrCut):
		c.dropStream()
		return Frame{}, false, err
	case err == nil && f.Type == uapi.TypeHello:
		err = protocolError("a second HELLO on one stream")
	case err == nil && f.Type == uapi.TypeAck:
		if err = c.handleAck(s, b); err == nil {
			return Frame{}, false, nil
		}
	}
	if err != nil {
		c.endSession(uapi.TypeError, uapi.Errorf(uapi.EProtocol, "%v", err).Encode(), err)
		return Frame{}, false, err
	}
	c.received += uapi.FrameSize + uint64(f.Length)
	if f.Type == uapi.TypeBye {
		c.bye = true
		return Frame{}, false, io.EOF
	}
	if c.received-c.ackSent >= uapi.AckEvery {
		c.change.Broadcast()
	}
	return Frame{f.Type, f.Flags, f.Call, b}, true, nil
}

func (c *Conn) handleAck(s *stream, b []byte) error {
	if len(b) != 8 {
		return protocolError("an ACK of %d bytes", len(b))
	}
	received := binary.LittleEndian.Uint64(b)
	if received < c.acked || received > s.sent {
		return protocolError("an ACK of %d; %d to %d are possible", received, c.acked, s.sent)
	}
	c.releaseAcked(received)
	c.change.Broadcast()
	return nil
}
