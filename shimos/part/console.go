// SPDX-License-Identifier: MIT

package part

import (
	"errors"
	"sync/atomic"

	"skep/internal/uapi"
)

// errSpoiled ends a run whose kernel wrote what no kernel of ours writes.
var errSpoiled = errors.New("the kernel spoiled its console: its counters say that more is there than fits")

// A console is this side of the console of a Linux kernel on a partition. The kernel may
// write anything to the mailbox at any moment, so each of its words is read once, and
// counters of this side are kept here.
type console struct {
	l    *uapi.SkepLinux
	took uint32 // bytes of output
	put  uint32 // bytes of input
}

// state returns the kernel's state. Output that it wrote before is there afterwards.
func (c *console) state() uapi.SkepLinuxState {
	return uapi.SkepLinuxState(atomic.LoadUint32((*uint32)(&c.l.State)))
}

// take moves output to p and returns how much.
func (c *console) take(p []byte) (int, error) {
	have := atomic.LoadUint32(&c.l.Out.Put) - c.took
	if have > uapi.SkepLinuxRing {
		return 0, errSpoiled
	}
	n := min(int(have), len(p))
	at := int(c.took % uapi.SkepLinuxRing)
	first := copy(p[:n], c.l.OutBytes[at:])
	copy(p[first:n], c.l.OutBytes[:])
	c.took += uint32(n)
	atomic.StoreUint32(&c.l.Out.Take, c.took)
	return n, nil
}

// give moves bytes of p to the kernel's input and returns how many fitted.
func (c *console) give(p []byte) (int, error) {
	used := c.put - atomic.LoadUint32(&c.l.In.Take)
	if used > uapi.SkepLinuxRing {
		return 0, errSpoiled
	}
	n := min(uapi.SkepLinuxRing-int(used), len(p))
	at := int(c.put % uapi.SkepLinuxRing)
	first := copy(c.l.InBytes[at:], p[:n])
	copy(c.l.InBytes[:], p[first:n])
	c.put += uint32(n)
	atomic.StoreUint32(&c.l.In.Put, c.put)
	return n, nil
}

// code returns the exit code of the kernel's program. The state says that there is one.
func (c *console) code() uint32 { return atomic.LoadUint32(&c.l.Code) }

// why returns the reason of a refusal.
func (c *console) why() string {
	kept := c.l.Why
	return uapi.Text(kept[:])
}

// resize tells the kernel the size of the terminal, if it is known.
func (c *console) resize(rows, columns uint16) {
	atomic.StoreUint32(&c.l.Size, uint32(rows)<<16|uint32(columns))
}

// A served is a console with its Terminal.
type served struct {
	t      Terminal
	up     func() // nil: called
	rest   []byte // typed, and not taken
	buffer []byte
}

func newServed(t Terminal, up func()) *served {
	return &served{t: t, up: up, rest: make([]byte, 0, 4096), buffer: make([]byte, uapi.SkepLinuxRing)}
}

// step moves bytes in both directions and returns how many of output. state was read
// before: with one of an end all output is there, and the Terminal gets it.
func (s *served) step(c *console, state uapi.SkepLinuxState) (int, error) {
	if state >= uapi.LinuxUp && state != uapi.LinuxRefused && s.up != nil {
		s.up()
		s.up = nil
	}
	c.resize(s.t.Size())
	room := len(s.buffer)
	if state < uapi.LinuxRefused {
		room = min(room, s.t.Room())
	}
	n, err := c.take(s.buffer[:room])
	if n > 0 {
		_, err = s.t.Write(s.buffer[:n])
	}
	if err != nil {
		return n, err
	}
	if len(s.rest) == 0 {
		s.rest = s.rest[:cap(s.rest)]
		s.rest = s.rest[:s.t.Typed(s.rest)]
	}
	given, err := c.give(s.rest)
	s.rest = s.rest[:copy(s.rest, s.rest[given:])]
	return n, err
}
