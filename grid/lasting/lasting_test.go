// SPDX-License-Identifier: MIT

package lasting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
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
var quick = Limits{Beat: time.Hour, Keep: time.Hour, Poll: time.Millisecond}

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
			dials += l.dials
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
		if l.dials < 30 {
			t.Errorf("seed %d: the connection broke %d times", seed, l.dials)
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
