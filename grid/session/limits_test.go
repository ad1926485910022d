// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"skep/internal/uapi"
)

// setTime changes one of the time limits until the test ends.
func setTime(t *testing.T, limit *time.Duration, d time.Duration) {
	old := *limit
	*limit = d
	t.Cleanup(func() { *limit = old })
}

// Callers send known frames of a bounded length, and neither HELLO nor ACK.
func TestFramesThatCallersMustNotSend(t *testing.T) {
	a, b := connPair(t)
	go io.Copy(io.Discard, frameReader{b})
	for _, c := range []struct {
		kind uapi.FrameType
		n    int
		want string
	}{
		{uapi.TypeHello, 0, "a HELLO frame is not for callers"}, {uapi.TypeAck, 8, "a ACK frame is not for callers"},
		{0, 0, "is not for callers"}, {99, 0, "is not for callers"}, {uapi.TypePing, 0, ""}, {uapi.TypeError, uapi.FrameMax, ""},
		{uapi.TypeError, uapi.FrameMax + 1, fmt.Sprintf("a frame of %d bytes, at most %d", uapi.FrameMax+1, uapi.FrameMax)},
	} {
		err := a.Send(c.kind, 0, make([]byte, c.n))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v with %d bytes: %v", c.kind, c.n, err)
		}
	}
}

// A frameReader reads a session's frames as if they were bytes.
type frameReader struct{ c *Conn }

func (r frameReader) Read([]byte) (int, error) {
	_, err := r.c.Read()
	return 0, err
}

// fillWindow sends control frames until exactly left bytes are free in the window.
func fillWindow(t *testing.T, c *Conn, left int) {
	t.Helper()
	for free := uapi.SessionWindow - left; free > 0; {
		n := min(free, uapi.FrameSize+uapi.FrameMax)
		if err := c.Send(uapi.TypeBind, 0, make([]byte, n-uapi.FrameSize)); err != nil {
			t.Fatal(err)
		}
		free -= n
	}
}

// Control frames fill the window to its last byte. Then Send waits until the peer has
// acknowledged enough, or the session ends.
func TestControlFramesWaitForTheWindow(t *testing.T) {
	c, y := openToTest(t)
	fillWindow(t, c, uapi.FrameSize)
	runWithin(t, "the last frame", func() {
		if err := c.Send(uapi.TypePing, 0, nil); err != nil {
			t.Error(err)
		}
	})
	go io.Copy(io.Discard, y)
	sent := make(chan error, 1)
	go func() { sent <- c.Send(uapi.TypePing, 0, nil) }()
	written := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for c.next < len(c.queue) || !c.stream.idle {
			c.change.Wait()
		}
	}
	runWithin(t, "all frames on their way", written)
	select {
	case err := <-sent:
		t.Fatalf("a frame more than fits was sent: %v", err)
	default:
	}
	ack := append(uapi.Append(nil, uapi.Frame{Length: 8, Type: uapi.TypeAck}),
		binary.LittleEndian.AppendUint64(nil, uapi.FrameSize+uapi.FrameMax)...)
	go y.Write(append(ack, uapi.Append(nil, uapi.Frame{Type: uapi.TypePing})...))
	runWithin(t, "the acknowledgement", func() {
		if f, err := c.Read(); err != nil || f.Type != uapi.TypePing {
			t.Errorf("%v, %v", f.Type, err)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
	fillWindow(t, c, uapi.SessionWindow-uapi.FrameMax) // one long frame
	go func() { sent <- c.Send(uapi.TypePing, 0, nil) }()
	c.Abort(io.ErrClosedPipe)
	runWithin(t, "the end of the session", func() {
		if err := <-sent; err != nil && err != io.ErrClosedPipe {
			t.Error(err)
		}
	})
}

// A peer that says nothing, or not all of its HELLO, is given up.
func TestPeersThatSayNothing(t *testing.T) {
	setTime(t, &helloIn, 10*time.Millisecond)
	for name, b := range map[string][]byte{"nothing": nil, "a part of a HELLO": uapi.Append(nil, uapi.Frame{Length: 32, Type: uapi.TypeHello})} {
		for side, open := range map[string]func(net.Conn) error{
			"Open":   func(c net.Conn) error { _, err := Open(c, NewID()); return err },
			"Accept": func(c net.Conn) error { _, _, err := Accept(c, nil); return err },
		} {
			x, y := net.Pipe()
			go y.Write(b)
			go io.Copy(io.Discard, y)
			runWithin(t, side+" of a peer that sends "+name, func() {
				if err := open(x); !errors.Is(err, ErrCut) {
					t.Errorf("%s after %s: %v", side, name, err)
				}
			})
		}
	}
}

// Close gives up at once if its stream breaks, however long it might wait.
func TestCloseOnABrokenStream(t *testing.T) {
	setTime(t, &closeIn, time.Hour)
	c, y := openToTest(t)
	closed := make(chan struct{})
	go func() { defer close(closed); c.Close() }()
	readAll(t, y, 1) // a part of its BYE
	y.Close()
	runWithin(t, "Close", func() { <-closed })
	runWithin(t, "Close of an ended session", func() { c.Close() })
	if err := c.Ended(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// HELLO of another revision is recognized by its first 8 bytes, and one of this revision
// has to be whole.
func TestLengthsOfHello(t *testing.T) {
	begin := func(revision uint32, n int) []byte {
		b := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uapi.SessionMagic), revision)
		b = append(b, make([]byte, 64)...)[:n]
		return append(uapi.Append(nil, uapi.Frame{Length: uint32(n), Type: uapi.TypeHello}), b...)
	}
	call := uapi.Append(nil, uapi.Frame{Length: 32, Type: uapi.TypeHello, Call: 1})
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"an older one of 8 bytes", begin(0, 8), "revision 0, this side 1: update the other side"},
		{"a newer one of 64 bytes", begin(9, 64), "revision 9, this side 1: update this side"},
		{"7 bytes", begin(9, 7), "its HELLO is not skep's"},
		{"31 bytes of this revision", begin(uapi.SessionRevision, 31), "broke the protocol"},
		{"33 bytes of this revision", begin(uapi.SessionRevision, 33), "broke the protocol"},
		{"another frame", uapi.Append(nil, uapi.Frame{Type: uapi.TypePing}), "it opens with PING of call 0, not with HELLO"},
		{"a HELLO with a call", append(call, make([]byte, 32)...), "it opens with HELLO of call 1, not with HELLO"},
	} {
		want := strings.ReplaceAll(c.want, "this side 1", fmt.Sprintf("this side %d", uapi.SessionRevision))
		x, y := net.Pipe()
		go y.Write(c.b)
		go io.Copy(io.Discard, y)
		if _, _, err := Accept(x, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Of two streams that are offered at the same time the session takes one. A stream that
// comes after the end of the session is refused.
func TestStreamsThatComeTogether(t *testing.T) {
	c, _ := openToTest(t)
	offered, other := net.Pipe()
	defer other.Close()
	hello := uapi.Hello{Magic: uapi.SessionMagic, Revision: uapi.SessionRevision, Session: c.ID()}
	if err := c.attach(offered, newReader(offered), hello); err == nil || !strings.Contains(err.Error(), "attached to another stream meanwhile") {
		t.Errorf("a second stream: %v", err)
	}
	if c.Ended() != nil {
		t.Error("it ended the session")
	}
	c.Abort(io.ErrNoProgress)
	if err := c.attach(offered, newReader(offered), hello); err != io.ErrNoProgress {
		t.Errorf("after the end: %v", err)
	}
	if _, err := c.detach(); err != io.ErrNoProgress {
		t.Errorf("after the end: %v", err)
	}
	c.Abort(nil)
	if err := c.Wait(context.Background()); err != io.ErrNoProgress {
		t.Errorf("the first cause counts, not %v", err)
	}
}

// A failed writer accepts so many bytes.
type shortWriter struct{ left int }

func (w *shortWriter) Write(b []byte) (int, error) {
	if len(b) > w.left {
		return 0, io.ErrShortWrite
	}
	w.left -= len(b)
	return len(b), nil
}

// A frame is written without what the peer has, and each failure to write is reported.
func TestPartsOfFrames(t *testing.T) {
	f := &sent{payload: []byte("payload")}
	uapi.PutFrame(f.head[:], uapi.Frame{Length: 7, Type: uapi.TypeBind, Call: 3})
	frame := string(f.head[:]) + "payload"
	for skip := range len(frame) + 1 {
		var b strings.Builder
		if err := writeFrame(&b, f, uint64(skip)); err != nil || b.String() != frame[skip:] {
			t.Errorf("without %d bytes: %q, %v", skip, b.String(), err)
		}
		for room := range len(frame) - skip {
			if err := writeFrame(&shortWriter{room}, f, uint64(skip)); err == nil && room < len(frame)-skip {
				t.Errorf("without %d bytes into %d: no error", skip, room)
			}
		}
	}
	if writeAck(&shortWriter{uapi.FrameSize + 7}, 1) == nil || writeAck(&shortWriter{uapi.FrameSize + 8}, 1) != nil {
		t.Error("an ACK has another length")
	}
}
