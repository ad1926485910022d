// SPDX-License-Identifier: MIT

//go:build linux

package ninep

import (
	"encoding/binary"
	"strings"

	"golang.org/x/sys/unix"
)

// Types of the requests of 9P2000.L. The reply to each is one more.
const (
	kindError      = 6 // of a reply alone: Rlerror is 7
	kindStatfs     = 8
	kindOpen       = 12
	kindCreate     = 14
	kindSymlink    = 16
	kindMknod      = 18
	kindReadlink   = 22
	kindGetattr    = 24
	kindSetattr    = 26
	kindReaddir    = 40
	kindFsync      = 50
	kindLock       = 52
	kindGetlock    = 54
	kindLink       = 70
	kindMkdir      = 72
	kindRenameat   = 74
	kindUnlinkat   = 76
	kindVersion    = 100
	kindAttach     = 104
	kindFlush      = 108
	kindWalk       = 110
	kindRead       = 116
	kindWrite      = 118
	kindClunk      = 120
	kindRemove     = 122
	headBytes      = 7 // size[4] type[1] tag[2]
	maxName        = 255
	maxWalk        = 16
	noFid          = ^uint32(0)
	protocol       = "9P2000.L"
	unknownVersion = "unknown"
)

// A decoder reads the fields of a request. After a field that is not there each one is
// zero, and bad is set.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.rest)) {
		d.bad, d.rest = true, nil
		return nil
	}
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out
}

func (d *decoder) number(bytes uint64) (n uint64) {
	for i, b := range d.take(bytes) {
		n |= uint64(b) << (8 * i)
	}
	return n
}

func (d *decoder) u16() uint16 { return uint16(d.number(2)) }
func (d *decoder) u32() uint32 { return uint32(d.number(4)) }
func (d *decoder) u64() uint64 { return d.number(8) }

func (d *decoder) text() string { return string(d.take(uint64(d.u16()))) }

// name reads the name of an entry of a folder. Whatever leads out of the folder is none.
func (d *decoder) name() string {
	name := d.text()
	if !isName(name) {
		d.bad = true
	}
	return name
}

// isName says whether a name is that of an entry in a folder.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxName && !strings.ContainsAny(name, "/\x00")
}

// end is the request's end.
func (d *decoder) end() error {
	if d.bad || len(d.rest) > 0 {
		return unix.EINVAL
	}
	return nil
}

// An encoder writes the fields of a reply.
type encoder []byte

func (e *encoder) u8(n uint8)   { *e = append(*e, n) }
func (e *encoder) u16(n uint16) { *e = binary.LittleEndian.AppendUint16(*e, n) }
func (e *encoder) u32(n uint32) { *e = binary.LittleEndian.AppendUint32(*e, n) }
func (e *encoder) u64(n uint64) { *e = binary.LittleEndian.AppendUint64(*e, n) }

func (e *encoder) text(s string) {
	e.u16(uint16(len(s)))
	*e = append(*e, s...)
}

// A qid names a file for the client.
type qid struct {
	kind uint8
	path uint64
}

func (e *encoder) qid(q qid) {
	e.u8(q.kind)
	e.u32(0) // a version of the content, which nobody keeps
	e.u64(q.path)
}
