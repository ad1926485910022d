// SPDX-License-Identifier: MIT

package part

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"unsafe"

	"skep/internal/uapi"
)

// errQueue ends a run whose kernel wrote what no kernel of ours writes.
var errQueue = errors.New("the kernel spoiled a queue: an address, a length or an index is outside of what it has")

const (
	descriptorBytes = 16
	flagNext        = 1
	flagWrite       = 2
	mostEntries     = 1024
	mostBytes       = 1 << 20 // of a request or of a reply
)

// A memory is the partition's pool, and the physical address of each of its parts.
type memory struct {
	pool   []byte
	ranges []uapi.SkepLinuxRange
}

// newMemory copies what the boot image wrote about the pool. The kernel may have changed
// it, so each part has to lie in the pool; which one it names is the kernel's affair.
func newMemory(pool []byte, l *uapi.SkepLinux) (memory, error) {
	m := memory{pool: pool}
	count := atomic.LoadUint32(&l.Ranges)
	if count > uint32(len(l.Range)) {
		return m, errQueue
	}
	for i := range count {
		r := uapi.SkepLinuxRange{Start: atomic.LoadUint64(&l.Range[i].Start), Length: atomic.LoadUint64(&l.Range[i].Length), Offset: atomic.LoadUint64(&l.Range[i].Offset)}
		bytes := uint64(len(pool))
		if r.Length > bytes || r.Offset > bytes-r.Length || r.Start+r.Length < r.Start {
			return m, errQueue
		}
		m.ranges = append(m.ranges, r)
	}
	return m, nil
}

// find returns the memory from a physical address on, of at most length bytes: less where
// a range ends.
func (m *memory) find(physical, length uint64) ([]byte, error) {
	for _, r := range m.ranges {
		if physical < r.Start || physical-r.Start >= r.Length {
			continue
		}
		at := physical - r.Start
		return m.pool[r.Offset+at:][:min(length, r.Length-at)], nil
	}
	return nil, errQueue
}

// whole returns memory of exactly length bytes, not 0, at a multiple of align.
func (m *memory) whole(physical, length, align uint64) ([]byte, error) {
	at, err := m.find(physical, length)
	if err == nil && (uint64(len(at)) < length || uint64(uintptr(unsafe.Pointer(&at[0])))%align != 0) {
		err = errQueue
	}
	return at, err
}

// A queue is the device's side of a split virtqueue (virtio 1.2, section 2.7) without
// indirect descriptors and events. The driver's side is hostile and may write anything at
// any moment: each word is read once and checked, a request is copied before it is looked
// at, and the device's own indices are kept here.
type queue struct {
	memory
	size                         uint16
	descriptors, available, used []byte
	took, put                    uint16
	held                         *chain // that peek returned
}

func newQueue(m memory, q *uapi.SkepLinuxQueue) (*queue, error) {
	size := uint64(atomic.LoadUint32(&q.Size))
	if size == 0 || size > mostEntries || size&(size-1) != 0 {
		return nil, errQueue
	}
	out := &queue{memory: m, size: uint16(size)}
	var errs [3]error
	out.descriptors, errs[0] = m.whole(atomic.LoadUint64(&q.Descriptors), size*descriptorBytes, 16)
	out.available, errs[1] = m.whole(atomic.LoadUint64(&q.Available), 4+2*size, 4)
	out.used, errs[2] = m.whole(atomic.LoadUint64(&q.Used), 4+8*size, 4)
	return out, errors.Join(errs[:]...)
}

// indexOf loads the flags and the index at the beginning of a ring at once, and returns the
// index.
func indexOf(ring []byte) uint16 {
	return uint16(atomic.LoadUint32((*uint32)(unsafe.Pointer(&ring[0]))) >> 16)
}

// A chain is one request, and where its reply goes.
type chain struct {
	head    uint16
	request []byte   // a copy
	reply   [][]byte // memory of the partition
	room    int      // bytes of reply
}

// next returns the next request, or nil if there is none.
func (q *queue) next() (*chain, error) {
	waiting := indexOf(q.available) - q.took
	switch {
	case waiting == 0:
		return nil, nil
	case waiting > q.size:
		return nil, errQueue
	}
	c := &chain{head: binary.LittleEndian.Uint16(q.available[4+2*(q.took%q.size):])}
	q.took++
	return c, q.collect(c)
}

// peek returns the next request like next, and the same one again until it is done.
func (q *queue) peek() (c *chain, err error) {
	if q.held == nil {
		q.held, err = q.next()
	}
	return q.held, err
}

// collect copies the readable parts of a chain and notes its writable ones, which come last.
func (q *queue) collect(c *chain) error {
	at := c.head
	for range q.size {
		if at >= q.size {
			return errQueue
		}
		var d [descriptorBytes]byte
		copy(d[:], q.descriptors[int(at)*descriptorBytes:])
		flags := binary.LittleEndian.Uint16(d[12:])
		physical, length := binary.LittleEndian.Uint64(d[:]), binary.LittleEndian.Uint32(d[8:])
		if flags&^(flagNext|flagWrite) != 0 || flags&flagWrite == 0 && c.reply != nil {
			return errQueue
		}
		if err := q.add(c, physical, uint64(length), flags&flagWrite != 0); err != nil {
			return err
		}
		if flags&flagNext == 0 {
			return nil
		}
		at = binary.LittleEndian.Uint16(d[14:])
	}
	return errQueue // a circle
}

func (q *queue) add(c *chain, physical, length uint64, writable bool) error {
	have := len(c.request)
	if writable {
		have = c.room
	}
	if length == 0 || length > uint64(mostBytes-have) {
		return errQueue
	}
	for length > 0 {
		part, err := q.find(physical, length)
		if err != nil {
			return err
		}
		if writable {
			c.reply = append(c.reply, part)
			c.room += len(part)
		} else {
			c.request = append(c.request, part...)
		}
		physical += uint64(len(part))
		length -= uint64(len(part))
	}
	return nil
}

// done writes a reply of at most c.room bytes and gives the chain back.
func (q *queue) done(c *chain, reply []byte) {
	q.held = nil
	bytes := uint32(len(reply))
	for _, part := range c.reply {
		reply = reply[copy(part, reply):]
	}
	at := q.used[4+8*int(q.put%q.size):]
	binary.LittleEndian.PutUint32(at, uint32(c.head))
	binary.LittleEndian.PutUint32(at[4:], bytes)
	q.put++
	// the flags before the index stay 0
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&q.used[0])), uint32(q.put)<<16)
}
