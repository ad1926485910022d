// SPDX-License-Identifier: MIT

package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Limits on the yamux frames of a hostile guest: no pings, each of which would cost the
// host a goroutine, one stream opened by the guest, and no more data in a frame than a
// window holds.
const (
	frameSize   = 12
	typeData    = 0
	typeWindow  = 1
	typePing    = 2
	typeGoAway  = 3
	flagSYN     = 1
	windowBytes = 256 << 10
)

// Guard wraps the host's end of the channel. It checks each incoming frame before yamux
// gets it, and ends the channel at the first frame that our guest program would not send.
func Guard(conn io.ReadWriteCloser) io.ReadWriteCloser { return &guard{ReadWriteCloser: conn} }

type guard struct {
	io.ReadWriteCloser
	head [frameSize]byte
	have int    // bytes of head
	data uint32 // bytes of the frame's data that have not arrived
	syns int
}

func (g *guard) Read(b []byte) (int, error) {
	n, err := g.ReadWriteCloser.Read(b)
	if bad := g.checkBytes(b[:n]); bad != nil {
		g.ReadWriteCloser.Close()
		return 0, bad
	}
	return n, err
}

func (g *guard) checkBytes(b []byte) error {
	for len(b) > 0 {
		if g.data > 0 {
			n := min(uint64(len(b)), uint64(g.data))
			g.data -= uint32(n)
			b = b[n:]
		}
		n := copy(g.head[g.have:], b)
		g.have += n
		b = b[n:]
		if g.have == frameSize {
			g.have = 0
			if err := g.checkFrame(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *guard) checkFrame() error {
	kind, flags := g.head[1], binary.BigEndian.Uint16(g.head[2:])
	length := binary.BigEndian.Uint32(g.head[8:])
	switch {
	case g.head[0] != 0 || kind > typeGoAway:
		return fmt.Errorf("a frame of version %d and type %d", g.head[0], kind)
	case kind == typePing:
		return fmt.Errorf("a ping")
	case kind == typeData && length > windowBytes:
		return fmt.Errorf("a frame of %d bytes", length)
	case flags&flagSYN != 0:
		if g.syns++; g.syns > 1 {
			return fmt.Errorf("a second stream of the guest's own")
		}
	}
	if kind == typeData {
		g.data = length
	}
	return nil
}
