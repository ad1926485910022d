// SPDX-License-Identifier: MIT

package part

import (
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

const (
	netHeader     = 12   // bytes before a frame (virtio 1.2, section 5.1.6)
	netBuffers    = 10   // the place in it that says over how many chains a frame goes
	leastEthernet = 14   // bytes of a frame: its own header
	mostEthernet  = 1518 // with a VLAN's tag
)

// A card is the kernel's network card: queue 0 takes frames to it, queue 1 from it. A frame
// that can't go on is dropped and counted, and nothing waits for room: there is no promise
// of a network that it could break.
type card struct {
	link  *Link
	frame [netHeader + mostEthernet + 1]byte // with a byte for what is too long
}

// netModel is a device of virtio's kind 1: a card with an address and without offloads.
func netModel(l *Link) model {
	const kind, hasAddress = 1, 1 << 5
	return model{"its link", kind, 2, hasAddress, l.card[:], &card{link: l}}
}

// close leaves the link to its owner.
func (*card) close() error { return nil }

func (c *card) step(q []*queue) (busy bool, err error) {
	received, err := c.receive(q[0])
	if err != nil {
		return false, err
	}
	sent, err := c.send(q[1])
	return received || sent, err
}

// wait waits for a frame of this Linux, if the kernel can take one. Others stay in the
// interface, which drops and counts them when it has too many.
func (c *card) wait(q []*queue, limit time.Duration) {
	if len(q) == 0 || q[0].held == nil || c.link.deleted {
		time.Sleep(limit)
		return
	}
	t := unix.NsecToTimespec(limit.Nanoseconds())
	unix.Ppoll([]unix.PollFd{{Fd: int32(c.link.fd), Events: unix.POLLIN}}, &t, nil) // the next step sees what is there
}

// receive moves one frame from this Linux to the kernel.
func (c *card) receive(q *queue) (busy bool, err error) {
	room, err := q.peek()
	if room == nil || err != nil {
		return false, err
	}
	if len(room.request) > 0 || room.room < netHeader+mostEthernet {
		return false, errQueue
	}
	if c.link.deleted {
		return false, nil
	}
	n, err := unix.Read(c.link.fd, c.frame[netHeader:])
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil: // it goes away, or has
		c.link.deleted = true
		return true, nil
	case n > mostEthernet:
		c.link.dropped++
		return true, nil
	}
	binary.LittleEndian.PutUint16(c.frame[netBuffers:], 1)
	q.done(room, c.frame[:netHeader+n])
	return true, nil
}

// send moves one frame from the kernel to this Linux.
func (c *card) send(q *queue) (busy bool, err error) {
	f, err := q.next()
	if f == nil || err != nil {
		return false, err
	}
	if f.room > 0 || len(f.request) < netHeader {
		return false, errQueue
	}
	if !c.pass(f.request[:netHeader], f.request[netHeader:]) {
		c.link.dropped++
	}
	q.done(f, nil)
	return true, nil
}

// pass gives a frame to the interface. It takes none while it is down, for example. A header
// with flags or a kind of segments asks for offloads that the card does not have.
func (c *card) pass(header, frame []byte) bool {
	if header[0] != 0 || header[1] != 0 || len(frame) < leastEthernet || len(frame) > mostEthernet || c.link.deleted {
		return false
	}
	_, err := unix.Write(c.link.fd, frame)
	c.link.deleted = errors.Is(err, unix.EBADFD)
	return err == nil
}
