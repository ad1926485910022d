// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"skep/internal/uapi"
)

// A fuse passes left bytes in one direction, then closes the connection.
type fuse struct {
	net.Conn
	left int
}

func (f *fuse) Write(b []byte) (int, error) {
	if len(b) <= f.left {
		f.left -= len(b)
		return f.Conn.Write(b)
	}
	n, _ := f.Conn.Write(b[:f.left])
	f.left = 0
	f.Conn.Close()
	return n, io.ErrClosedPipe
}

// A side is one end of the exchange. It sends its lines, receives those of the other
// side, and gets a new stream whenever the old one is cut.
type side struct {
	conn    *Conn
	recover func(*Conn) error
	heard   []string
	full    chan struct{} // closed when all lines are received, or after an error
	err     error         // why it stopped early
}

const lines = 6

func (s *side) runScript() {
	for i := range lines {
		var err error
		if i%3 == 2 {
			text := strings.Repeat(fmt.Sprint(i), 40)
			err = s.conn.SendData(context.Background(), uint64(i), strings.NewReader(text), int64(len(text)))
		} else {
			err = s.conn.Send(uapi.TypeBind, uint64(i), []byte(fmt.Sprintf("line %d", i)))
		}
		if err != nil {
			s.err = err
			return
		}
	}
}

// listen continues after the last line, because the other side may still need a stream.
func (s *side) listen() {
	for {
		f, err := s.conn.Read()
		if errors.Is(err, ErrCut) {
			err = s.recover(s.conn)
			if err == nil {
				continue
			}
		}
		if err != nil {
			if len(s.heard) < lines {
				s.err = err
				close(s.full)
			}
			return
		}
		s.heard = append(s.heard, fmt.Sprintf("%v %d %d %s", f.Type, f.Call, f.Flags, f.Payload))
		if len(s.heard) == lines {
			close(s.full)
		}
	}
}

// playExchange runs the exchange. The first stream is cut after cutA bytes in one
// direction or cutB in the other (never if negative), the second one 17 bytes later.
func playExchange(cutA, cutB int) (a, b *side, cuts int) {
	id := NewID()
	a = &side{conn: newConn(id), full: make(chan struct{})}
	b = &side{conn: newConn(id), full: make(chan struct{})}
	b.recover = func(c *Conn) error { return c.Wait(context.Background()) }
	dial := func() net.Conn {
		x, y := net.Pipe()
		left := func(n int) int {
			if cuts >= 2 || n < 0 {
				return 1 << 30
			}
			return n + 17*cuts
		}
		fx, fy := &fuse{x, left(cutA)}, &fuse{y, left(cutB)}
		cuts++
		go Accept(fy, func(ID) *Conn { return b.conn })
		return fx
	}
	a.recover = func(c *Conn) error {
		for {
			err := c.Attach(dial())
			if !errors.Is(err, ErrCut) {
				return err
			}
		}
	}
	var wg sync.WaitGroup
	for _, s := range []*side{a, b} {
		wg.Go(s.runScript)
		wg.Go(s.listen)
	}
	<-a.full
	<-b.full
	heard := [2]int{len(a.heard), len(b.heard)}
	a.conn.Abort(nil)
	b.conn.Abort(nil)
	wg.Wait()
	if heard != [2]int{len(a.heard), len(b.heard)} {
		a.err = errors.New("lines came after the last one")
	}
	return a, b, cuts
}

func TestResumeAtEveryByte(t *testing.T) {
	length := 0 // bytes that a side sends, with HELLO
	for i := range lines {
		n := len("line 0")
		if i%3 == 2 {
			n = 40
		}
		length += uapi.FrameSize + n
	}
	length += 48
	for _, dir := range []string{"of the dialling side", "of the accepting side", "of both"} {
		t.Run(dir, func(t *testing.T) {
			for at := range length {
				cutA, cutB := at, at
				switch dir {
				case "of the dialling side":
					cutB = -1
				case "of the accepting side":
					cutA = -1
				}
				runWithin(t, fmt.Sprintf("a cut at byte %d", at), func() { checkResume(t, at, cutA, cutB) })
			}
		})
	}
}

func checkResume(t *testing.T, at, cutA, cutB int) {
	a, b, cuts := playExchange(cutA, cutB)
	if a.err != nil || b.err != nil {
		t.Errorf("cut at %d: %v, %v", at, a.err, b.err)
	}
	if got, want := strings.Join(a.heard, "\n"), strings.Join(b.heard, "\n"); got != want || len(a.heard) != lines {
		t.Errorf("cut at %d: heard\n%s\nand\n%s", at, got, want)
	}
	if cuts < 2 {
		t.Errorf("cut at %d: the stream was never cut", at)
	}
}

// The peer's new stream replaces a dead one that this side has not noticed.
func TestNewStreamReplacesSilentOne(t *testing.T) {
	a, b := connPair(t)
	got := make(chan string, 1)
	go func() {
		f, err := b.Read()
		for errors.Is(err, ErrCut) {
			if err = b.Wait(context.Background()); err == nil {
				f, err = b.Read()
			}
		}
		got <- fmt.Sprint(f.Type, err)
	}()
	x, y := net.Pipe()
	go Accept(y, func(id ID) *Conn { return b })
	runWithin(t, "the new stream", func() {
		if err := a.Attach(x); err != nil {
			t.Error(err)
		}
		a.Send(uapi.TypePing, 0, nil)
		if s := <-got; s != "PING <nil>" {
			t.Error(s)
		}
	})
}

// readAll reads n bytes from y.
func readAll(t *testing.T, y net.Conn, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	runWithin(t, "the bytes", func() {
		if _, err := io.ReadFull(y, b); err != nil {
			t.Error(err)
		}
	})
	return b
}

// A peer that has received part of a frame gets the rest, from that byte on.
func TestPeerHasPartOfAFrame(t *testing.T) {
	const text = "eleven byte"
	first := uapi.Append(nil, uapi.Frame{Length: uint32(len(text)), Type: uapi.TypeBind, Call: 1})
	second := uapi.Append(nil, uapi.Frame{Length: uint32(len(text)), Type: uapi.TypeBind, Call: 2})
	all := string(first) + text + string(second) + text
	hello := uapi.Hello{Magic: uapi.SessionMagic, Revision: uapi.SessionRevision}
	helloSize := uapi.FrameSize + len(uapi.Append(nil, hello))
	for _, has := range []int{0, 1, uapi.FrameSize - 1, uapi.FrameSize, uapi.FrameSize + 1,
		uapi.FrameSize + len(text) - 1, uapi.FrameSize + len(text), uapi.FrameSize + len(text) + 3} {
		a := newConn(NewID())
		attach := func(received int) net.Conn {
			x, y := net.Pipe()
			hello.Received = uint64(received)
			go writeHello(y, hello)
			done := make(chan error, 1)
			go func() { done <- a.Attach(x) }()
			readAll(t, y, helloSize)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			return y
		}
		y := attach(0)
		for call := range uint64(2) {
			if err := a.Send(uapi.TypeBind, call+1, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if got := string(readAll(t, y, len(all))); got != all {
			t.Fatalf("it says %q, want %q", got, all)
		}
		y.Close()
		y = attach(has)
		if got := string(readAll(t, y, len(all)-has)); got != all[has:] {
			t.Errorf("with %d bytes it gets %q, want %q", has, got, all[has:])
		}
		a.Abort(nil)
		y.Close()
	}
}

// A cancelled Wait does not change the session, however often it happens.
func TestWaitStops(t *testing.T) {
	c := newConn(NewID())
	runWithin(t, "the end of the waits", func() {
		for range 100 {
			ctx, cancel := context.WithCancel(context.Background())
			got := make(chan error, 1)
			go func() { got <- c.Wait(ctx) }()
			cancel()
			if err := <-got; !errors.Is(err, context.Canceled) {
				t.Errorf("Wait: %v", err)
			}
		}
		c.Abort(nil)
		if err := c.Wait(context.Background()); !errors.Is(err, ErrClosed) {
			t.Errorf("Wait after the end: %v", err)
		}
	})
}
