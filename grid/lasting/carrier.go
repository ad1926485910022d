// SPDX-License-Identifier: MIT

package lasting

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"skep/internal/lockdep"
)

// What a carrier carries: a kind and a length, 1 and 4 bytes, and so many bytes.
type kind byte

const (
	data kind = 1 + iota // of the stream
	read                 // 8 bytes: the offset up to which the sender's program has read, and 1 more after an end
	beat                 // nothing
	end                  // the sender writes no more
	gone                 // and reads no more
)

const headSize = 5

// A step is what a carrier is given to write.
type step struct {
	kind kind
	b    []byte
	ok   bool // false: the carrier is not in use any more
}

// mustTell reports whether the other side should hear how much was read: it may wait for room,
// or for word that all arrived.
func (c *Conn) mustTell() bool {
	lockdep.AssertHeld(&c.mu)
	k := c.carrier
	return k != nil && (c.taken()-k.told >= window/4 || c.taken() > k.told && c.inEnd)
}

// taken is what the other side is told as read. An end counts as one byte.
func (c *Conn) taken() uint64 {
	lockdep.AssertHeld(&c.mu)
	if c.inEnd && c.in.Len() == 0 {
		return c.read + 1
	}
	return c.read
}

// nextStep waits until there is something to write.
func (c *Conn) nextStep(k *carrier) step {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.carrier == k {
		left := c.out[k.sentTo-c.outAt:]
		switch {
		case c.mustTell() || k.beat && c.taken() > k.told:
			k.told, k.beat = c.taken(), false
			return step{read, binary.LittleEndian.AppendUint64(nil, k.told), true}
		case len(left) > 0:
			part := left[:min(len(left), chunkMax)]
			k.sentTo += uint64(len(part))
			c.wrote, k.beat = max(c.wrote, k.sentTo), false
			return step{data, part, true}
		case c.end && !k.sentEnd:
			k.sentEnd, c.said = true, true
			return step{end, nil, true}
		case c.closed && !k.sentBye:
			k.sentBye = true
			return step{gone, nil, true}
		case k.beat:
			k.beat = false
			return step{beat, nil, true}
		}
		c.change.Wait()
	}
	return step{}
}

// send writes to a carrier until that is given up.
func (c *Conn) send(k *carrier) {
	t := time.AfterFunc(c.limits.Beat, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		k.beat = true
		c.change.Broadcast()
	})
	defer t.Stop()
	buf := make([]byte, 0, headSize+chunkMax)
	for {
		s := c.nextStep(k)
		if !s.ok {
			return
		}
		buf = binary.LittleEndian.AppendUint32(append(buf[:0], byte(s.kind)), uint32(len(s.b)))
		buf = append(buf, s.b...)
		if _, err := k.conn.Write(buf); err != nil {
			c.breakCarrier(k, err)
			return
		}
		if s.kind == gone {
			c.noteBye()
		}
		t.Reset(c.limits.Beat)
	}
}

func (c *Conn) noteBye() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saidBye = true
	c.finish()
}

// A patient reads from a connection, and gives it up when nothing comes. It looks several times,
// so that a process that was stopped, or whose machine slept, finds what came meanwhile.
type patient struct {
	conn net.Conn
	each time.Duration // 0: for ever
}

const looks = 3

func (p *patient) Read(b []byte) (n int, err error) {
	if p.each == 0 {
		return p.conn.Read(b)
	}
	for range looks {
		p.conn.SetReadDeadline(time.Now().Add(p.each))
		n, err = p.conn.Read(b)
		if e, ok := err.(net.Error); n > 0 || !ok || !e.Timeout() {
			return n, err
		}
	}
	return 0, err
}

// receive reads from a carrier until that is given up.
func (c *Conn) receive(k *carrier) {
	from := bufio.NewReaderSize(&patient{k.conn, c.limits.Silence / looks}, chunkMax)
	var head [headSize]byte
	buf := make([]byte, chunkMax)
	for {
		_, err := io.ReadFull(from, head[:])
		n := binary.LittleEndian.Uint32(head[1:])
		if err == nil && n > chunkMax {
			err = fmt.Errorf("%w: a piece of %d bytes", ErrProtocol, n)
		}
		if err == nil {
			_, err = io.ReadFull(from, buf[:n])
		}
		if err == nil {
			err = c.take(k, kind(head[0]), buf[:n])
		}
		if err != nil {
			c.breakCarrier(k, err)
			return
		}
	}
}

// take handles what a carrier brought.
func (c *Conn) take(k *carrier, what kind, b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.carrier != k {
		return net.ErrClosed // it comes again on the next one
	}
	switch {
	case what == data && len(b) > 0 && !c.inEnd && len(b) <= window-c.in.Len():
		if c.closed {
			c.read += uint64(len(b))
		} else {
			c.in.Write(b)
		}
	case what == read && len(b) == 8:
		if err := c.release(k, binary.LittleEndian.Uint64(b)); err != nil {
			return err
		}
	case what == beat && len(b) == 0:
		return nil
	case what == end && len(b) == 0:
		c.inEnd = true
	case what == gone && len(b) == 0:
		c.inEnd, c.inGone = true, true
	default:
		return fmt.Errorf("%w: %d bytes of kind %d", ErrProtocol, len(b), what)
	}
	c.finish()
	c.change.Broadcast()
	return nil
}

// release drops what the other side has read.
func (c *Conn) release(k *carrier, offset uint64) error {
	lockdep.AssertHeld(&c.mu)
	total := c.outAt + uint64(len(c.out))
	if c.said && offset == total+1 {
		c.ended = true
		offset = total
	}
	if offset < c.outAt || offset > k.sentTo {
		return fmt.Errorf("%w: %d bytes read of %d to %d", ErrProtocol, offset, c.outAt, k.sentTo)
	}
	c.out = c.out[offset-c.outAt:]
	c.outAt = offset
	return nil
}
