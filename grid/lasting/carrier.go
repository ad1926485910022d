// SPDX-License-Identifier: MIT

package lasting

import (
	"bufio"
	"encoding/binary"
	"fmt"
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
	if c.inEnd && c.in.n == 0 {
		return c.read + 1
	}
	return c.read
}

// batchMax is about how much a carrier is given at a time.
const batchMax = 4 * (headSize + chunkMax)

// nextBatch waits until there is something to write to a carrier, and appends it to b. It
// returns nil if the carrier is not in use any more.
func (c *Conn) nextBatch(k *carrier, b []byte) (batch []byte, bye bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.carrier == k {
		batch, bye = c.appendSteps(k, b)
		if len(batch) > 0 {
			return batch, bye
		}
		c.senders.Wait()
	}
	return nil, false
}

// appendSteps appends what there is to write now.
func (c *Conn) appendSteps(k *carrier, b []byte) (batch []byte, bye bool) {
	lockdep.AssertHeld(&c.mu)
	for len(b) < batchMax {
		left := c.out.n - int(k.sentTo-c.outAt)
		switch {
		case c.mustTell() || k.beat && c.taken() > k.told:
			k.told, k.beat = c.taken(), false
			b = binary.LittleEndian.AppendUint64(appendHead(b, read, 8), k.told)
		case left > 0:
			n := min(left, chunkMax)
			b = appendHead(b, data, n)
			b = b[:len(b)+c.out.copyAt(b[len(b):len(b)+n], int(k.sentTo-c.outAt))]
			k.sentTo += uint64(n)
			c.wrote, k.beat = max(c.wrote, k.sentTo), false
		case c.end && !k.sentEnd:
			k.sentEnd, c.said = true, true
			b = appendHead(b, end, 0)
		case c.closed && !k.sentBye:
			k.sentBye = true
			return appendHead(b, gone, 0), true
		case k.beat:
			k.beat = false
			c.out.trim()
			c.in.trim()
			return appendHead(b, beat, 0), false
		default:
			return b, false
		}
	}
	return b, false
}

func appendHead(b []byte, what kind, n int) []byte {
	return binary.LittleEndian.AppendUint32(append(b, byte(what)), uint32(n))
}

// send writes to a carrier until that is given up.
func (c *Conn) send(k *carrier) {
	t := time.AfterFunc(c.limits.Beat, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		k.beat = true
		c.senders.Broadcast()
	})
	defer t.Stop()
	buf := make([]byte, 0, batchMax+headSize+chunkMax)
	for {
		batch, bye := c.nextBatch(k, buf)
		if batch == nil {
			return
		}
		if _, err := k.conn.Write(batch); err != nil {
			c.breakCarrier(k, err)
			return
		}
		if bye {
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
	from := bufio.NewReaderSize(&patient{k.conn, c.limits.Silence / looks}, batchMax)
	for {
		var piece []byte
		head, err := from.Peek(headSize)
		if err == nil {
			n := binary.LittleEndian.Uint32(head[1:])
			if n > chunkMax {
				err = fmt.Errorf("%w: a piece of %d bytes", ErrProtocol, n)
			} else {
				piece, err = from.Peek(headSize + int(n))
			}
		}
		if err == nil {
			err = c.take(k, kind(piece[0]), piece[headSize:])
		}
		if err != nil {
			c.breakCarrier(k, err)
			return
		}
		from.Discard(len(piece))
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
	case what == data && len(b) > 0 && !c.inEnd && len(b) <= c.in.free():
		if c.closed {
			c.read += uint64(len(b))
		} else {
			c.in.add(b)
		}
		c.readers.Broadcast()
		if c.mustTell() {
			c.senders.Broadcast()
		}
		return nil
	case what == read && len(b) == 8:
		if err := c.release(k, binary.LittleEndian.Uint64(b)); err != nil {
			return err
		}
		c.writers.Broadcast()
		c.finish()
		return nil
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
	c.wakeAll()
	return nil
}

// release drops what the other side has read.
func (c *Conn) release(k *carrier, offset uint64) error {
	lockdep.AssertHeld(&c.mu)
	total := c.outAt + uint64(c.out.n)
	if c.said && offset == total+1 {
		c.ended = true
		offset = total
	}
	if offset < c.outAt || offset > k.sentTo {
		return fmt.Errorf("%w: %d bytes read of %d to %d", ErrProtocol, offset, c.outAt, k.sentTo)
	}
	c.out.drop(int(offset - c.outAt))
	c.outAt = offset
	return nil
}
