// SPDX-License-Identifier: MIT

package lasting

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"skep/internal/lockdep"
)

func TestMain(m *testing.M) {
	lockdep.Enabled = true
	os.Exit(m.Run())
}

const testTimeout = 30 * time.Second

// quick are limits that no test waits for.
var quick = Limits{Beat: time.Hour, Keep: time.Hour, Poll: time.Millisecond, Try: testTimeout}

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

// A link is the way between two sides. Its other side is begun by the first connection.
type link struct {
	t     *testing.T
	far   chan *Conn // the other side
	over  chan struct{}
	limit Limits // of the other side

	mu    sync.Mutex
	other *Conn
	dials int
	conn  net.Conn              // the last one
	left  func(dial int) [2]int // how many bytes each direction carries; nil: no end
	down  bool                  // no connection comes through
}

func newLink(t *testing.T, l Limits) *link {
	return &link{t: t, far: make(chan *Conn, 1), over: make(chan struct{}), limit: l}
}

var errDown = errors.New("no way to the other side")

func (l *link) dial(_ context.Context, ours uint64) (net.Conn, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, 0, errDown
	}
	x, y := net.Pipe()
	l.conn = x
	if l.left != nil {
		n := l.left(l.dials)
		x, y = &fuse{x, n[0]}, &fuse{y, n[1]}
	}
	l.dials++
	if l.other == nil {
		l.other = Accept(l.limit, y, func() { close(l.over) })
		l.far <- l.other
		return x, 0, nil
	}
	theirs := uint64(0)
	err := l.other.Attach(ours, func(has uint64) (net.Conn, error) { theirs = has; return y, nil })
	if err != nil {
		x.Close()
		return nil, 0, fmt.Errorf("%w: %w", ErrOver, err)
	}
	return x, theirs, nil
}

// count returns how many connections there were.
func (l *link) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dials
}

func (l *link) open(limits Limits, away func(error)) (near, far *Conn) {
	l.t.Helper()
	d := &Dialer{Limits: limits, Dial: l.dial, Away: away}
	near, err := d.Open(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	far = <-l.far
	for _, c := range []*Conn{near, far} {
		c.SetDeadline(time.Now().Add(testTimeout))
		l.t.Cleanup(func() { c.Fail(net.ErrClosed) })
	}
	return near, far
}

// cut breaks the connection; while down is set there is no other one.
func (l *link) cut(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
	l.conn.Close()
}

func randomBytes(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// pass writes at one side and closes its direction, and reads all at the other.
func pass(t *testing.T, from, to *Conn, b []byte, r *rand.Rand) {
	t.Helper()
	go func() {
		for rest := b; len(rest) > 0; {
			n := min(len(rest), 1+r.IntN(5000))
			if _, err := from.Write(rest[:n]); err != nil {
				t.Error(err)
				return
			}
			rest = rest[n:]
		}
		from.CloseWrite()
	}()
	got, err := io.ReadAll(to)
	if err != nil || !bytes.Equal(got, b) {
		t.Errorf("%d of %d bytes, the same: %v, %v", len(got), len(b), bytes.HasPrefix(b, got), err)
	}
}

// exchange passes bytes both ways and closes both sides.
func (l *link) exchange(near, far *Conn, seed uint64, n int) {
	write(l.t, near, "a") // a stream on which nothing came is not kept
	readOnce(l.t, far, "a")
	var both sync.WaitGroup
	both.Go(func() { pass(l.t, near, far, randomBytes(seed, n), rand.New(rand.NewPCG(seed, 2))) })
	both.Go(func() { pass(l.t, far, near, randomBytes(seed+1, n), rand.New(rand.NewPCG(seed, 3))) })
	both.Wait()
	near.Close()
	far.Close()
}

// Nothing is lost and nothing comes twice, wherever connections break: after each of the first
// bytes in each direction, and hundreds of times at random places, in more than the window.
func TestNothingIsLost(t *testing.T) {
	dials := 0
	for at := range 60 {
		for way := range 2 {
			l := newLink(t, quick)
			l.left = func(dial int) [2]int {
				n := [2]int{1 << 30, 1 << 30}
				if dial < 3 {
					n[way] = at + 7*dial
					if way == 0 && dial == 0 {
						n[0] += headSize + 1
					}
				}
				return n
			}
			near, far := l.open(quick, nil)
			l.exchange(near, far, uint64(at), 40)
			dials += l.count()
		}
	}
	if dials < 300 {
		t.Errorf("120 streams had %d connections", dials)
	}
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 4))
		l := newLink(t, quick)
		l.left = func(dial int) [2]int { return [2]int{headSize + 1 + r.IntN(60000), r.IntN(60000)} }
		near, far := l.open(quick, nil)
		l.exchange(near, far, seed, window*5/2)
		if n := l.count(); n < 30 {
			t.Errorf("seed %d: the connection broke %d times", seed, n)
		}
	}
}

func readOnce(t *testing.T, c *Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("%q, %v", b, err)
	}
}

func write(t *testing.T, c *Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// A side that closes is gone for the other at once; what it wrote before arrives, also over
// another connection.
func TestClose(t *testing.T) {
	for _, cut := range []bool{false, true} {
		l := newLink(t, quick)
		near, far := l.open(quick, nil)
		write(t, near, "a")
		readOnce(t, far, "a")
		if cut {
			l.cut(true)
		}
		write(t, near, "last")
		near.Close()
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if cut {
			l.cut(false)
		}
		if b, err := io.ReadAll(far); err != nil || string(b) != "last" {
			t.Errorf("%q, %v", b, err)
		}
		var err error
		for err == nil { // the word that it reads no more may come a little later
			_, err = far.Write([]byte("x"))
		}
		if !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, ErrAway) {
			t.Error(err)
		}
		far.Close()
		<-l.over
	}
}

// The side that was dialled keeps the stream for its time, and not longer; then the other one
// hears that it is over. One on which nothing came is not kept.
func TestKeep(t *testing.T) {
	short := quick
	short.Keep = 20 * time.Millisecond
	l := newLink(t, short)
	near, far := l.open(quick, nil)
	write(t, near, "a")
	readOnce(t, far, "a")
	l.cut(true)
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, ErrAway) {
		t.Error(err)
	}
	<-l.over
	l.cut(false)
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, ErrOver) {
		t.Error(err)
	}
	if _, err := near.Write([]byte("x")); !errors.Is(err, ErrOver) {
		t.Error(err)
	}

	l = newLink(t, quick)
	_, far = l.open(quick, nil)
	l.cut(true)
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, ErrAway) {
		t.Error(err)
	}
}

// A stream whose other side came back, but got no connection, is kept for its time as well.
func TestKeepWithoutConnection(t *testing.T) {
	short := quick
	short.Keep = 20 * time.Millisecond
	x, y := net.Pipe()
	over := make(chan struct{})
	c := Accept(short, y, func() { close(over) })
	go x.Write([]byte{byte(data), 1, 0, 0, 0, 'a'})
	readOnce(t, c, "a")
	if err := c.Attach(0, func(uint64) (net.Conn, error) { return nil, errDown }); !errors.Is(err, errDown) {
		t.Fatal(err)
	}
	select {
	case <-over:
	case <-time.After(testTimeout):
		t.Fatal("it is kept for ever")
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, ErrAway) {
		t.Error(err)
	}
}

// The side that dials gives up too, some time later than the other.
func TestDialerGivesUp(t *testing.T) {
	short := quick
	short.Keep, short.Try = time.Millisecond, time.Millisecond
	l := newLink(t, quick)
	said := make(chan error, 10)
	near, _ := l.open(short, func(err error) { said <- err })
	l.cut(true)
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, ErrAway) {
		t.Error(err)
	}
	if err := <-said; !errors.Is(err, errDown) {
		t.Error(err)
	}
}

// A user hears when the other side is away, and when it is there again.
func TestAway(t *testing.T) {
	l := newLink(t, quick)
	said := make(chan error, 10)
	near, far := l.open(quick, func(err error) { said <- err })
	write(t, near, "a")
	readOnce(t, far, "a")
	l.cut(true)
	if err := <-said; !errors.Is(err, errDown) {
		t.Error(err)
	}
	l.cut(false)
	if err := <-said; err != nil {
		t.Error(err)
	}
	write(t, near, "b")
	readOnce(t, far, "b")
}

// A connection that swallows all without a word is given up by the side that dialled, for
// another one. One that only carries beats is not.
func TestSilence(t *testing.T) {
	lively := quick
	lively.Beat = 10 * time.Millisecond
	impatient := lively
	impatient.Silence = 600 * time.Millisecond
	l := newLink(t, lively)
	near, far := l.open(impatient, nil)
	write(t, near, "a")
	readOnce(t, far, "a")
	for end := time.Now().Add(2 * impatient.Silence); time.Now().Before(end); {
		<-time.After(impatient.Silence / 10)
	}
	far.mu.Lock()
	k := far.carrier
	if far.tries != 0 {
		t.Error("a connection with beats was given up")
	}
	far.mu.Unlock()
	for kept := true; kept; { // a beat also says what was read
		<-time.After(time.Millisecond)
		near.mu.Lock()
		kept = near.out.n > 0
		near.mu.Unlock()
	}
	// From now on the connection takes what is written, and nothing arrives.
	far.mu.Lock()
	far.carrier = &carrier{conn: k.conn}
	far.mu.Unlock()
	write(t, near, "b")
	write(t, far, "c")
	readOnce(t, far, "b")
	readOnce(t, near, "c")
}

// What the other side does not read makes a writer wait, until its deadline.
func TestWindow(t *testing.T) {
	l := newLink(t, quick)
	near, far := l.open(quick, nil)
	near.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	n, err := near.Write(make([]byte, 2*window))
	if n != window || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes, %v", n, err)
	}
	near.SetWriteDeadline(time.Time{})
	go near.Write(make([]byte, window))
	if _, err := io.ReadFull(far, make([]byte, 2*window)); err != nil {
		t.Error(err)
	}
	near.SetReadDeadline(time.Now().Add(-1))
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	near.SetReadDeadline(time.Time{})
	write(t, far, "x")
	readOnce(t, near, "x")
}

// Flush waits for the other side, and not for ever.
func TestFlush(t *testing.T) {
	l := newLink(t, quick)
	near, far := l.open(quick, nil)
	write(t, far, "last")
	far.Close()
	far.Flush(time.Millisecond)
	if b, err := io.ReadAll(near); err != nil || string(b) != "last" {
		t.Errorf("%q, %v", b, err)
	}
	far.Flush(time.Hour)
	if far.mu.Lock(); !far.isTaken() {
		t.Error("it does not know that all was read")
	}
	far.mu.Unlock()
}

// The newest connection counts, and what one takes from an older one does not come twice.
func TestNewestConnectionCounts(t *testing.T) {
	l := newLink(t, quick)
	near, far := l.open(quick, nil)
	write(t, near, "a")
	readOnce(t, far, "a")
	first, second := make(chan error), make(chan error)
	begun := make(chan struct{})
	go func() {
		first <- far.Attach(0, func(uint64) (net.Conn, error) {
			close(begun)
			x, _ := net.Pipe()
			return x, <-second
		})
	}()
	<-begun
	if err := far.Attach(0, func(ours uint64) (net.Conn, error) {
		if ours != 1 {
			t.Errorf("it has %d bytes", ours)
		}
		x, _ := net.Pipe()
		return x, nil
	}); err != nil {
		t.Error(err)
	}
	close(second)
	if err := <-first; err == nil {
		t.Error("an older connection took the place of a newer one")
	}
}

// Numbers and pieces that cannot be end the stream; none makes it keep more than it may.
func TestHostilePeer(t *testing.T) {
	number := func(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
	piece := func(k kind, b []byte) []byte {
		return append(binary.LittleEndian.AppendUint32([]byte{byte(k)}, uint32(len(b))), b...)
	}
	full := bytes.Repeat(piece(data, make([]byte, 1<<13)), window>>13)
	for what, b := range map[string][]byte{
		"a kind":            piece(9, nil),
		"no kind":           piece(0, nil),
		"a large piece":     {byte(data), 0, 0x40, 0, 0},
		"an empty piece":    piece(data, nil),
		"more than fits":    append(full, piece(data, []byte("x"))...),
		"more than sent":    piece(read, number(4)),
		"an end not sent":   piece(read, number(3)),
		"a great number":    piece(read, number(1<<63)),
		"less than before":  append(piece(read, number(2)), piece(read, number(1))...),
		"a short number":    piece(read, []byte("x")),
		"a beat with bytes": piece(beat, []byte("x")),
		"data after an end": append(piece(end, nil), piece(data, []byte("x"))...),
	} {
		x, y := net.Pipe()
		over := make(chan struct{})
		c := Accept(quick, y, func() { close(over) })
		write(t, c, "ab")
		if _, err := io.ReadFull(x, make([]byte, headSize+2)); err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, x)
		go x.Write(b)
		select {
		case <-over:
		case <-time.After(testTimeout):
			t.Fatalf("%s is accepted", what)
		}
		if c.mu.Lock(); !errors.Is(c.err, ErrProtocol) || c.in.n > window {
			t.Errorf("%s: %v", what, c.err)
		}
		c.mu.Unlock()
	}
	for _, theirs := range []uint64{1, 1 << 40} {
		x, _ := net.Pipe()
		c := Accept(quick, x, nil)
		if err := c.Attach(theirs, nil); !errors.Is(err, ErrProtocol) {
			t.Errorf("a peer that has %d bytes of none: %v", theirs, err)
		}
	}
}

// A peer cannot want again what it said that it had read.
func TestWhatWasReadIsGone(t *testing.T) {
	x, y := net.Pipe()
	c := Accept(quick, y, nil)
	write(t, c, "ab")
	if _, err := io.ReadFull(x, make([]byte, headSize+2)); err != nil {
		t.Fatal(err)
	}
	said := binary.LittleEndian.AppendUint64([]byte{byte(read), 8, 0, 0, 0}, 2)
	if _, err := x.Write(append(said, byte(beat), 0, 0, 0, 0)); err != nil {
		t.Fatal(err)
	}
	for empty := false; !empty; { // the pipe took it before the stream
		c.mu.Lock()
		empty = c.out.n == 0
		c.mu.Unlock()
	}
	if err := c.Attach(1, nil); !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
}

// The word that a side closes is kept as well, until the other side has it.
func TestEndIsKept(t *testing.T) {
	x, y := net.Pipe()
	over := make(chan struct{})
	c := Accept(quick, y, func() { close(over) })
	if _, err := x.Write([]byte{byte(data), 1, 0, 0, 0, 'a'}); err != nil {
		t.Fatal(err)
	}
	readOnce(t, c, "a")
	c.Close()
	ends := []byte{byte(end), 0, 0, 0, 0, byte(gone), 0, 0, 0, 0}
	for range 2 {
		got := make([]byte, len(ends))
		if _, err := io.ReadFull(x, got); err != nil || !bytes.Equal(got, ends) {
			t.Fatalf("%v, %v", got, err)
		}
		for said := false; !said; { // the pipe took it before the stream knows
			c.mu.Lock()
			said = c.saidBye
			c.mu.Unlock()
		}
		x.Close()
		if err := c.Attach(0, func(uint64) (net.Conn, error) { x, y = net.Pipe(); return y, nil }); err != nil {
			t.Fatal(err)
		}
	}
	said := binary.LittleEndian.AppendUint64([]byte{byte(read), 8, 0, 0, 0}, 1)
	go io.Copy(io.Discard, x)
	if _, err := x.Write(said); err != nil {
		t.Fatal(err)
	}
	select {
	case <-over:
	case <-time.After(testTimeout):
		t.Fatal("it does not end")
	}
}

// BenchmarkTransfer compares 64 MiB over a stream with the same over its connection, without and
// with TLS.
func BenchmarkTransfer(b *testing.B) {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	secret := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	secret.ServerName = "example.com"
	for _, name := range []string{"connection", "stream", "TLS connection", "TLS stream"} {
		b.Run(name, func(b *testing.B) {
			listen, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer listen.Close()
			x, err := net.Dial("tcp", listen.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			y, err := listen.Accept()
			if err != nil {
				b.Fatal(err)
			}
			if strings.HasPrefix(name, "TLS") {
				x, y = tls.Client(x, secret), tls.Server(y, server.TLS)
			}
			if strings.HasSuffix(name, "stream") {
				d := &Dialer{Limits: quick, Dial: func(context.Context, uint64) (net.Conn, uint64, error) { return x, 0, nil }}
				near, err := d.Open(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				x, y = near, Accept(quick, y, nil)
			}
			benchmarkTransfer(b, x, y)
		})
	}
}

func benchmarkTransfer(b *testing.B, x, y net.Conn) {
	const n = 64 << 20
	b.SetBytes(n)
	part := make([]byte, 256<<10)
	for b.Loop() {
		go func() {
			for range n / len(part) {
				x.Write(part)
			}
		}()
		if _, err := io.CopyN(io.Discard, y, n); err != nil {
			b.Fatal(err)
		}
	}
	x.Close()
	y.Close()
}
