// SPDX-License-Identifier: MIT

// Package lasting is a stream of bytes that outlives the connections that carry it.
//
// Each side keeps what it wrote until the program at the other side has read it. When a
// connection breaks, or carries nothing for too long, the side that dialled makes another one.
// The sides then tell each other how much they have, and go on there. A side that closes says
// so; without that word the side that accepted waits for a time, and then gives up.
//
// Conn.mu guards all fields of a Conn but those that are set once. Each carrier has one
// goroutine that reads and one that writes, so neither side waits for the other to read.
package lasting

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"skep/internal/lockdep"
	"skep/internal/patience"
)

// Limits of a stream. Both sides need equal ones but for Silence.
type Limits struct {
	Beat    time.Duration // a side that has nothing to send sends a beat this often
	Silence time.Duration // a carrier that brings nothing for so long is given up; 0: never
	Keep    time.Duration // the stream outlives its carrier for so long
	Poll    time.Duration // between two tries to get another carrier
	Try     time.Duration // how long one may take, and what it counts at most
	Tell    time.Duration // how long a stream has no carrier before its user hears of it
}

// Default limits.
var Default = Limits{Beat: 5 * time.Second, Silence: 15 * time.Second, Keep: 2 * time.Minute, Poll: 200 * time.Millisecond,
	Try: 15 * time.Second, Tell: 3 * time.Second}

// Errors of a Conn.
var (
	// ErrOver says that the other side does not have the stream any more.
	ErrOver = errors.New("the stream is over at the other side")
	// ErrAway says that no other carrier came in time.
	ErrAway = errors.New("the other side did not come back in time")
	// ErrProtocol says that the other side sent what it must not.
	ErrProtocol = errors.New("the other side broke the protocol of lasting streams")
)

const (
	window   = 1 << 20           // bytes that the other side has not read
	chunkMax = 16<<10 - headSize // one record of TLS
)

// A Conn is one side of a stream. It is a net.Conn.
type Conn struct {
	limits        Limits
	local, remote net.Addr
	redial        func() // asks for another carrier; nil at the side that accepted
	over          func() // called once, when nothing is left to do

	mu   sync.Mutex
	err  error // why the stream is lost
	left bool  // over was called
	// What waits: readers, writers and those that flush, and the goroutines that send.
	readers, writers, senders *sync.Cond

	carrier *carrier // nil: none now
	tries   int      // to get another one

	out     ring // from offset outAt on: what the other side has not read
	outAt   uint64
	wrote   uint64 // the greatest offset that a carrier was given
	end     bool   // this side writes no more
	said    bool   // a carrier was given that
	closed  bool   // this side reads no more either
	saidBye bool   // a carrier took that

	in         ring   // received and not read
	read       uint64 // offset of its first byte
	inEnd      bool   // the other side writes no more
	inGone     bool   // the other side reads no more
	ended      bool   // the other side has read all up to the end
	readLimit  deadline
	writeLimit deadline
}

// A carrier is a connection in use. Its Conn's mu guards all but conn.
type carrier struct {
	conn    net.Conn
	sentTo  uint64 // offset up to which bytes of out were given to it
	sentEnd bool
	sentBye bool
	told    uint64 // the last offset that the other side was told as read
	beat    bool   // one is due
}

// A deadline of Read or Write.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func newConn(l Limits, local, remote net.Addr) *Conn {
	c := &Conn{limits: l, local: local, remote: remote}
	c.readers, c.writers, c.senders = sync.NewCond(&c.mu), sync.NewCond(&c.mu), sync.NewCond(&c.mu)
	return c
}

// wakeAll has all that wait look again.
func (c *Conn) wakeAll() {
	c.readers.Broadcast()
	c.writers.Broadcast()
	c.senders.Broadcast()
}

// Accept begins a stream on a connection, at the side that was dialled. over is called when
// the stream is over, on a goroutine of its own.
func Accept(l Limits, conn net.Conn, over func()) *Conn {
	c := newConn(l, conn.LocalAddr(), conn.RemoteAddr())
	c.over = over
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin(conn, 0)
	return c
}

// received returns how many bytes of the stream this side has.
func (c *Conn) received() uint64 {
	lockdep.AssertHeld(&c.mu)
	return c.read + uint64(c.in.n)
}

// Attach goes on with another connection, at the side that was dialled. The other side has
// theirs bytes. connect tells it how many this side has, and returns the connection; bytes of an
// older one are not taken any more.
func (c *Conn) Attach(theirs uint64, connect func(ours uint64) (net.Conn, error)) error {
	ours, try, err := c.prepare(theirs)
	if err != nil {
		return err
	}
	conn, err := connect(ours)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
	case c.err != nil:
		err = c.err
	case c.tries != try: // the other side tried again meanwhile
		err = errors.New("another connection took its place")
	default:
		c.begin(conn, theirs)
		return nil
	}
	if conn != nil {
		conn.Close()
	}
	if c.tries == try {
		c.await()
	}
	return err
}

func (c *Conn) prepare(theirs uint64) (ours uint64, try int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.canGoOn(theirs) {
		c.fail(ErrProtocol)
	}
	if c.err != nil {
		return 0, 0, c.err
	}
	c.drop()
	c.tries++
	return c.received(), c.tries, nil
}

// canGoOn reports whether the other side can have so many bytes.
func (c *Conn) canGoOn(theirs uint64) bool {
	lockdep.AssertHeld(&c.mu)
	return theirs >= c.outAt && theirs <= c.wrote
}

// begin uses a connection.
func (c *Conn) begin(conn net.Conn, theirs uint64) {
	lockdep.AssertHeld(&c.mu)
	// What the other side was told may not have arrived, so told is 0.
	k := &carrier{conn: conn, sentTo: theirs}
	c.carrier = k
	c.wakeAll()
	go c.receive(k)
	go c.send(k)
}

// drop gives a connection up.
func (c *Conn) drop() {
	lockdep.AssertHeld(&c.mu)
	if c.carrier == nil {
		return
	}
	go c.carrier.conn.Close() // which may wait for a peer that does not read
	c.carrier = nil
	c.wakeAll()
}

// breakCarrier handles the end of a connection.
func (c *Conn) breakCarrier(k *carrier, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.carrier != k {
		return
	}
	c.drop()
	switch {
	case errors.Is(err, ErrProtocol):
		c.fail(err)
	case c.redial == nil && c.received() == 0: // nobody waits for it yet
		c.fail(ErrAway)
	}
	c.await()
}

// await waits for another carrier, unless nothing is left to carry.
func (c *Conn) await() {
	lockdep.AssertHeld(&c.mu)
	switch {
	case c.finish():
	case c.redial != nil:
		go c.redial()
	default:
		c.tries++
		go c.expire(c.tries)
	}
}

// expire gives the stream up when no carrier came for as long as it is kept. Time in which this
// process did not run is not the other side's.
func (c *Conn) expire(try int) {
	for left := patience.Ticks(c.limits.Keep); left.Wait(nil); {
		c.mu.Lock()
		gone := c.tries != try || c.err != nil
		c.mu.Unlock()
		if gone {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tries == try {
		c.fail(ErrAway)
	}
}

// Fail ends the stream without a word to the other side.
func (c *Conn) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(err)
}

func (c *Conn) fail(err error) {
	lockdep.AssertHeld(&c.mu)
	if c.err == nil {
		c.err = err
	}
	c.drop()
	c.leave()
	c.wakeAll()
}

// leave reports once that nothing is left to do.
func (c *Conn) leave() {
	lockdep.AssertHeld(&c.mu)
	if !c.left && c.over != nil {
		go c.over()
	}
	c.left = true
}

// finish ends a stream that this side closed, if the other side needs nothing more from it.
func (c *Conn) finish() bool {
	lockdep.AssertHeld(&c.mu)
	if c.err != nil {
		return true
	}
	// Without that word the other side would wait for this one. Only a side that dials can bring it.
	said := c.saidBye || c.carrier == nil && c.redial == nil
	if !c.closed || !said || !c.inGone && !c.isTaken() {
		return false
	}
	c.fail(net.ErrClosed)
	return true
}

// isTaken reports whether the other side has read all, and knows that no more comes.
func (c *Conn) isTaken() bool {
	lockdep.AssertHeld(&c.mu)
	return c.end && c.out.n == 0 && c.ended
}

// Flush waits until the other side has read all, or no carrier will come, as this side does not
// dial, or so much time has passed.
func (c *Conn) Flush(most time.Duration) {
	late := false
	t := time.AfterFunc(most, func() {
		c.mu.Lock()
		late = true
		c.wakeAll()
		c.mu.Unlock()
	})
	defer t.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !late && c.err == nil && (c.carrier != nil || c.redial != nil) && !c.inGone && (c.out.n > 0 || c.end && !c.ended) {
		c.writers.Wait()
	}
}

// Read reads what comes next, or waits for it. io.EOF: the other side writes no more.
func (c *Conn) Read(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case c.readLimit.passed():
			return 0, os.ErrDeadlineExceeded
		case c.in.n > 0:
			n := c.in.copyAt(b, 0)
			c.in.drop(n)
			c.read += uint64(n)
			if c.mustTell() {
				c.senders.Broadcast()
			}
			return n, nil
		case c.inEnd:
			return 0, io.EOF
		case c.err != nil:
			return 0, c.err
		case len(b) == 0:
			return 0, nil
		}
		c.readers.Wait()
	}
}

// Write keeps the bytes, and waits while the other side has too many unread ones.
func (c *Conn) Write(b []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(b) > 0 {
		switch {
		case c.end:
			return n, net.ErrClosed
		case c.err != nil:
			return n, c.err
		case c.inGone:
			return n, io.ErrClosedPipe
		case c.writeLimit.passed():
			return n, os.ErrDeadlineExceeded
		}
		part := min(len(b), c.out.free())
		if part == 0 {
			c.writers.Wait()
			continue
		}
		c.out.add(b[:part])
		b, n = b[part:], n+part
		c.senders.Broadcast()
	}
	return n, nil
}

// CloseWrite says that this side writes no more.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = true
	c.wakeAll()
	return nil
}

// Close says that this side neither writes nor reads any more. What it wrote still arrives, if
// the process lives on.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end, c.closed = true, true
	c.read = c.received()
	c.in = ring{}
	c.finish()
	c.wakeAll()
	return nil
}

// LocalAddr and RemoteAddr are those of the first carrier.
func (c *Conn) LocalAddr() net.Addr  { return c.local }
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline, SetReadDeadline and SetWriteDeadline are those of a net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setDeadline(&c.readLimit, t)
	c.setDeadline(&c.writeLimit, t)
	return nil
}

func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setDeadline(&c.readLimit, t)
	return nil
}

func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setDeadline(&c.writeLimit, t)
	return nil
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (c *Conn) setDeadline(d *deadline, t time.Time) {
	lockdep.AssertHeld(&c.mu)
	if d.timer != nil {
		d.timer.Stop()
	}
	d.at, d.timer = t, nil
	if !t.IsZero() {
		d.timer = time.AfterFunc(time.Until(t), func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.wakeAll()
		})
	}
	c.wakeAll()
}
