// SPDX-License-Identifier: MIT

package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"skep/internal/lockdep"
	"skep/internal/uapi"
)

func init() { lockdep.Enabled = true }

const testTimeout = 20 * time.Second

// runWithin fails the test, naming what, if f takes too long.
func runWithin(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(testTimeout):
		t.Fatalf("%s: still waiting after %v", what, testTimeout)
	}
}

func connPair(t *testing.T) (a, b *Conn) {
	t.Helper()
	x, y := net.Pipe()
	return joinConns(t, x, y)
}

func joinConns(t *testing.T, x, y net.Conn) (a, b *Conn) {
	t.Helper()
	var errA, errB error
	runWithin(t, "opening", func() {
		got := make(chan struct{})
		go func() { defer close(got); b, _, errB = Accept(y, nil) }()
		a, errA = Open(x, NewID())
		<-got
	})
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	t.Cleanup(func() { a.Abort(nil); b.Abort(nil) })
	if a.ID() != b.ID() {
		t.Fatalf("ids %v and %v", a.ID(), b.ID())
	}
	return a, b
}

func socketPair(t *testing.T) (x, y net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if x, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if y, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return x, y
}

func TestFramesGoBothWays(t *testing.T) {
	a, b := connPair(t)
	runWithin(t, "frames", func() {
		if err := a.Send(uapi.TypeBind, 0, []byte("eigen")); err != nil {
			t.Error(err)
		}
		f, err := b.Read()
		if err != nil || f.Type != uapi.TypeBind || string(f.Payload) != "eigen" {
			t.Errorf("%v %v", f, err)
		}
		b.SendError(7, uapi.Errorf(uapi.ENoModule, "no module %q", "eigen"))
		f, err = a.Read()
		if err != nil || f.Type != uapi.TypeError || f.Call != 7 {
			t.Errorf("%v %v", f, err)
		}
		if e, err := uapi.ParseError(f.Payload); err != nil || e.Code != uapi.ENoModule || e.Text != `no module "eigen"` {
			t.Errorf("%v %v", e, err)
		}
		closed := make(chan struct{})
		go func() { defer close(closed); a.Close() }()
		for range 2 {
			if _, err := b.Read(); err != io.EOF {
				t.Errorf("after BYE: %v", err)
			}
		}
		<-closed
	})
	if err := a.Send(uapi.TypePing, 0, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("sending after Close: %v", err)
	}
}

func TestDataBothWaysAtOnce(t *testing.T) {
	x, y := socketPair(t)
	a, b := joinConns(t, x, y)
	const size = 24 << 20
	send := func(c *Conn, call uint64) error {
		return c.SendData(context.Background(), call, io.LimitReader(rand.NewChaCha8([32]byte{byte(call)}), size), -1)
	}
	want := func(call uint64) string {
		h := sha256.New()
		io.CopyN(h, rand.NewChaCha8([32]byte{byte(call)}), size)
		return fmt.Sprintf("%x", h.Sum(nil))
	}
	// Readers continue after the last frame, because they process the ACKs.
	receive := func(c *Conn, sum chan<- string) {
		h := sha256.New()
		for {
			f, err := c.Read()
			if err != nil {
				return
			}
			h.Write(f.Payload)
			if f.Last() {
				sum <- fmt.Sprintf("%x", h.Sum(nil))
			}
		}
	}
	runWithin(t, "24 MiB each way", func() {
		var wg sync.WaitGroup
		for call, c := range []*Conn{a, b} {
			other := []*Conn{b, a}[call]
			wg.Go(func() {
				if err := send(c, uint64(call)); err != nil {
					t.Error(err)
				}
			})
			sum := make(chan string, 1)
			go receive(other, sum)
			wg.Go(func() {
				if got := <-sum; got != want(uint64(call)) {
					t.Errorf("call %d: %s", call, got)
				}
			})
		}
		wg.Wait()
	})
}

// A peer that reads nothing stops data frames but not control frames.
func TestWindowHoldsDataNotControl(t *testing.T) {
	a, b := connPair(t)
	ctx, cancel := context.WithCancel(context.Background())
	sent := make(chan error, 1)
	counted := &counter{r: zeros{}}
	go func() { sent <- a.SendData(ctx, 1, counted, 64<<20) }()
	runWithin(t, "a control frame behind data", func() {
		if err := a.Send(uapi.TypePing, 0, nil); err != nil {
			t.Error(err)
		}
		for frames := 0; ; frames++ {
			f, err := b.Read()
			if err != nil {
				t.Error(err)
				return
			}
			if f.Type == uapi.TypePing {
				if frames > 2 {
					t.Errorf("PING came after %d frames of data", frames)
				}
				return
			}
		}
	})
	cancel()
	runWithin(t, "cancelling", func() {
		if err := <-sent; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
	if n := counted.n; n > uapi.SessionWindow {
		t.Errorf("%d bytes were taken from the source", n)
	}
}

// Without acknowledgements no more than the window is queued.
func TestNoAckNoMemory(t *testing.T) {
	x, y := net.Pipe()
	go io.Copy(io.Discard, y)
	go writeHello(y, uapi.Hello{Magic: uapi.SessionMagic, Revision: uapi.SessionRevision})
	c, err := Open(x, NewID())
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	source := &counter{r: zeros{}}
	go func() { sent <- c.SendData(context.Background(), 1, source, -1) }()
	runWithin(t, "the window to fill", func() {
		c.mu.Lock()
		for c.queued+dataChunk+uapi.FrameSize <= dataWindow {
			c.change.Wait()
		}
		c.mu.Unlock()
	})
	runWithin(t, "the longest control frame, for which data leaves room", func() {
		if err := c.Send(uapi.TypeError, 0, make([]byte, uapi.FrameMax)); err != nil {
			t.Error(err)
		}
	})
	c.mu.Lock()
	if c.queued > uapi.SessionWindow {
		t.Errorf("%d bytes are kept", c.queued)
	}
	c.mu.Unlock()
	c.Abort(nil)
	runWithin(t, "the sender", func() {
		if err := <-sent; !errors.Is(err, ErrClosed) {
			t.Errorf("sender: %v", err)
		}
	})
}

func TestSideWithoutIDLearnsThePeers(t *testing.T) {
	x, y := net.Pipe()
	peer := ID{7}
	go io.Copy(io.Discard, y)
	go writeHello(y, uapi.Hello{Magic: uapi.SessionMagic, Revision: uapi.SessionRevision, Session: peer})
	c, err := Open(x, ID{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abort(nil)
	if c.ID() != peer {
		t.Errorf("this side is in session %v, its peer in %v", c.ID(), peer)
	}
}

func TestPeersWithoutIDGetSessionsOfTheirOwn(t *testing.T) {
	seen := map[ID]bool{{}: true}
	for range 2 {
		x, y := net.Pipe()
		go io.Copy(io.Discard, x)
		go writeHello(x, uapi.Hello{Magic: uapi.SessionMagic, Revision: uapi.SessionRevision})
		c, resumed, err := Accept(y, func(ID) *Conn { t.Error("no id was looked for"); return nil })
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abort(nil)
		if resumed || seen[c.ID()] {
			t.Errorf("resumed %v, session %v", resumed, c.ID())
		}
		seen[c.ID()] = true
	}
}

func TestCutIsReportedWithItsCause(t *testing.T) {
	x, y := net.Pipe()
	a, _ := joinConns(t, x, y)
	y.Close()
	runWithin(t, "the cut", func() {
		if _, err := a.Read(); !errors.Is(err, ErrCut) || !errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := a.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("there is no stream, but waiting for one gives %v", err)
	}
}

// A writer with nothing to write sleeps.
func TestWriterRests(t *testing.T) {
	a, b := connPair(t)
	runWithin(t, "a frame, then rest", func() {
		a.Send(uapi.TypePing, 0, nil)
		b.Read()
		a.mu.Lock()
		defer a.mu.Unlock()
		for a.stream != nil && !a.stream.idle {
			a.change.Wait()
		}
		if a.pending != 0 {
			t.Errorf("%d frames of data wait, none was sent", a.pending)
		}
	})
}

func TestCloseDoesNotWaitForAPeerThatReadsNothing(t *testing.T) {
	t.Parallel() // takes as long as closeIn
	a, _ := connPair(t)
	runWithin(t, "Close", func() { a.Close() })
	if err := a.Ended(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// openToTest opens a session whose peer is the test itself.
func openToTest(t *testing.T) (c *Conn, peer net.Conn) {
	t.Helper()
	x, y := net.Pipe()
	go func() {
		writeHello(y, uapi.Hello{Magic: uapi.SessionMagic, Revision: uapi.SessionRevision})
	}()
	done := make(chan error, 1)
	go func() {
		var err error
		c, err = Open(x, NewID())
		done <- err
	}()
	readAll(t, y, uapi.FrameSize+32)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Abort(nil); y.Close() })
	return c, y
}

// Close waits for the last byte, whatever the peer sends meanwhile.
func TestCloseWritesAllOfItsBye(t *testing.T) {
	c, y := openToTest(t)
	closed := make(chan struct{})
	go func() { defer close(closed); c.Close() }()
	bye := readAll(t, y, 1)
	go func() {
		ack := append(uapi.Append(nil, uapi.Frame{Length: 8, Type: uapi.TypeAck}), make([]byte, 8)...)
		for range 50 {
			y.Write(ack)
		}
		y.Write(uapi.Append(nil, uapi.Frame{Type: uapi.TypePing}))
	}()
	runWithin(t, "the peer's frames", func() {
		if f, err := c.Read(); err != nil || f.Type != uapi.TypePing {
			t.Errorf("while it closes: %v %v", f.Type, err)
		}
	})
	bye = append(bye, readAll(t, y, uapi.FrameSize-1)...)
	if f, err := uapi.ParseFrame(bye); err != nil || f.Type != uapi.TypeBye {
		t.Errorf("the peer got %v %v", f.Type, err)
	}
	runWithin(t, "Close", func() { <-closed })
}

// Who sends to a peer that said BYE and went is told, and does not wait for ever.
func TestSendingAfterThePeersBye(t *testing.T) {
	c, y := openToTest(t)
	go func() {
		y.Write(uapi.Append(nil, uapi.Frame{Type: uapi.TypeBye}))
		y.Close()
	}()
	runWithin(t, "BYE, then sending", func() {
		if _, err := c.Read(); err != io.EOF {
			t.Errorf("after BYE: %v", err)
		}
		if err := c.SendData(context.Background(), 1, zeros{}, -1); !errors.Is(err, ErrClosed) {
			t.Errorf("sending: %v", err)
		}
	})
}

// A session that has ended closes the stream that it is offered.
func TestEndedSessionClosesItsStream(t *testing.T) {
	c := newConn(NewID())
	c.Abort(nil)
	x, y := net.Pipe()
	runWithin(t, "the end of the stream", func() {
		if err := c.Attach(x); !errors.Is(err, ErrClosed) {
			t.Errorf("Attach: %v", err)
		}
		if _, err := y.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the stream: %v", err)
		}
	})
}

// A long transfer uses a few buffers again and again.
func TestBuffersAreUsedAgain(t *testing.T) {
	const size = 64 << 20
	a, b := connPair(t)
	go a.Read() // processes the ACKs
	last := make(chan error, 1)
	go func() {
		for {
			if f, err := b.Read(); err != nil || f.Last() {
				last <- err
				return
			}
		}
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	runWithin(t, "64 MiB", func() {
		if err := a.SendData(context.Background(), 1, zeros{}, size); err != nil {
			t.Error(err)
		}
		if err := <-last; err != nil {
			t.Error(err)
		}
	})
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > size*3/4 {
		t.Errorf("%d MiB were allocated", n>>20)
	}
}

// What waits for an acknowledgement takes no more memory than its bytes need: results of
// many small calls are acknowledged together.
func TestSmallDataKeepsLittleMemory(t *testing.T) {
	const sends = 1000
	for _, n := range []int64{4, -1} { // the length is known, or not
		a, b := connPair(t)
		sent := make(chan error, 1)
		go func() {
			var err error
			for i := range sends {
				if err == nil {
					err = a.SendData(context.Background(), uint64(i), strings.NewReader("four"), n)
				}
			}
			sent <- err
		}()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for ends := 0; ends < sends; {
			f, err := b.Read()
			if err != nil {
				t.Fatal(err)
			}
			if f.Last() {
				ends++
			}
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 4<<20 {
			t.Errorf("length %d: %d KiB are kept for %d bytes", n, kept>>10, 4*sends)
		}
		runtime.KeepAlive(a)
	}
}

func TestShortSourceIsAnError(t *testing.T) {
	a, b := connPair(t)
	go func() {
		for {
			if _, err := b.Read(); err != nil {
				return
			}
		}
	}()
	runWithin(t, "sources", func() {
		if err := a.SendData(context.Background(), 1, strings.NewReader("ab"), 3); err != io.ErrUnexpectedEOF {
			t.Errorf("short: %v", err)
		}
		if err := a.SendData(context.Background(), 1, iotestErr{}, -1); err != errSource {
			t.Errorf("failing: %v", err)
		}
		if err := a.SendData(context.Background(), 1, strings.NewReader(""), 0); err != nil {
			t.Errorf("empty: %v", err)
		}
	})
}

func TestRevisionsAreNamed(t *testing.T) {
	x, y := net.Pipe()
	go func() {
		io.CopyN(io.Discard, y, 48)
		writeHello(y, uapi.Hello{Magic: uapi.SessionMagic, Revision: 9})
	}()
	var r *RevisionError
	_, err := Open(x, NewID())
	if !errors.As(err, &r) || !strings.Contains(err.Error(), "9") || !strings.Contains(err.Error(), fmt.Sprintf("revision 9, this side %d", uapi.SessionRevision)) {
		t.Fatalf("%v", err)
	}
	x, y = net.Pipe()
	answer := make(chan []byte, 1)
	go func() {
		writeHello(y, uapi.Hello{Magic: uapi.SessionMagic, Revision: 0})
		b := make([]byte, 48)
		io.ReadFull(y, b)
		answer <- b
	}()
	if _, _, err := Accept(x, nil); !errors.As(err, &r) || r.Theirs != 0 {
		t.Fatalf("%v", err)
	}
	runWithin(t, "the answer to an old peer", func() {
		if b := <-answer; b[uapi.FrameSize+4] != uapi.SessionRevision {
			t.Errorf("the old peer learns revision %d", b[uapi.FrameSize+4])
		}
	})
}

func TestHostileFrames(t *testing.T) {
	frame := func(f uapi.Frame, payload ...byte) []byte {
		return append(uapi.Append(nil, f), payload...)
	}
	ackOf := func(n byte) []byte {
		return frame(uapi.Frame{Length: 8, Type: uapi.TypeAck}, n, 0, 0, 0, 0, 0, 0, 0)
	}
	for name, b := range map[string][]byte{
		"unknown type":        frame(uapi.Frame{Type: 99}),
		"type zero":           frame(uapi.Frame{}),
		"too long":            frame(uapi.Frame{Length: uapi.FrameMax + 1, Type: uapi.TypeData}),
		"longest there is":    frame(uapi.Frame{Length: ^uint32(0), Type: uapi.TypeData}),
		"flags":               frame(uapi.Frame{Type: uapi.TypeData, Flags: 6}),
		"last on a ping":      frame(uapi.Frame{Type: uapi.TypePing, Flags: 1}),
		"second hello":        frame(uapi.Frame{Type: uapi.TypeHello}),
		"short ack":           frame(uapi.Frame{Type: uapi.TypeAck, Length: 1}, 1),
		"ack of what is not":  ackOf(200),
		"ack between in time": append(ackOf(16), ackOf(1)...),
	} {
		t.Run(name, func(t *testing.T) {
			x, y := net.Pipe()
			said := make(chan []byte, 1)
			go func() {
				writeHello(y, uapi.Hello{Magic: uapi.SessionMagic, Revision: uapi.SessionRevision})
				io.CopyN(io.Discard, y, 48+16) // HELLO and a PING
				go y.Write(b)
				all, _ := io.ReadAll(y)
				said <- all
			}()
			c, err := Open(x, NewID())
			if err != nil {
				t.Fatal(err)
			}
			c.Send(uapi.TypePing, 0, nil)
			var p *ProtocolError
			runWithin(t, "the verdict", func() { _, err = c.Read() })
			if !errors.As(err, &p) {
				t.Fatalf("%v", err)
			}
			if c.Ended() == nil || c.Send(uapi.TypePing, 0, nil) == nil {
				t.Fatal("the session goes on")
			}
			runWithin(t, "the error frame", func() {
				all := <-said
				f, err := uapi.ParseFrame(all)
				if err != nil || f.Type != uapi.TypeError {
					t.Errorf("the peer was told %x", all)
				}
			})
		})
	}
}

func TestHostileHellos(t *testing.T) {
	for name, h := range map[string]uapi.Hello{
		"magic":    {Magic: 1, Revision: uapi.SessionRevision},
		"received": {Magic: uapi.SessionMagic, Revision: uapi.SessionRevision, Received: 1},
		"session":  {Magic: uapi.SessionMagic, Revision: uapi.SessionRevision, Session: [16]byte{1}},
	} {
		x, y := net.Pipe()
		go writeHello(y, h)
		go io.Copy(io.Discard, y)
		var p *ProtocolError
		if _, err := Open(x, ID{2}); !errors.As(err, &p) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += n
	return n, err
}

var errSource = errors.New("source")

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, errSource }

func BenchmarkData(b *testing.B) {
	dir := b.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		b.Fatal(err)
	}
	go func() {
		y, _ := l.Accept()
		c, _, err := Accept(y, nil)
		for err == nil {
			_, err = c.Read()
		}
	}()
	x, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	c, err := Open(x, NewID())
	if err != nil {
		b.Fatal(err)
	}
	go c.Read() // processes the ACKs
	payload := bytes.Repeat([]byte("skep"), 16<<18)
	b.SetBytes(int64(len(payload)))
	for b.Loop() {
		if err := c.SendData(context.Background(), 1, bytes.NewReader(payload), int64(len(payload))); err != nil {
			b.Fatal(err)
		}
	}
	c.Close()
}
