// SPDX-License-Identifier: MIT

package part

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"skep/internal/uapi"
)

// Where a driver of the tests has its queue, by offsets in a pool of 64 KiB that is at two
// physical addresses: its second half is below the first.
const (
	testPool  = 0x10000
	testHigh  = 0x200000 // of the first half
	testLow   = 0x100000 // of the second one
	testTable = 0x0
	testAvail = 0x1000
	testUsed  = 0x2000
	testData  = 0x4000
	testSize  = 8
)

// A driver is the kernel's side of a queue.
type driver struct {
	pool []byte
	l    *uapi.SkepLinux
	at   int // how far table and rings are behind those of the first queue
}

func newDriver() *driver {
	d := &driver{make([]byte, testPool), new(uapi.SkepLinux), 0}
	d.l.Ranges = 2
	d.l.Range[0] = uapi.SkepLinuxRange{Start: testLow, Length: testPool / 2, Offset: testPool / 2}
	d.l.Range[1] = uapi.SkepLinuxRange{Start: testHigh, Length: testPool / 2, Offset: 0}
	d.l.Device[0].Queue[0] = uapi.SkepLinuxQueue{Descriptors: testHigh + testTable, Available: testHigh + testAvail, Used: testHigh + testUsed, Size: testSize}
	return d
}

func (d *driver) describe(i int, physical uint64, length uint32, flags, next uint16) {
	at := d.pool[d.at+testTable+16*i:]
	binary.LittleEndian.PutUint64(at, physical)
	binary.LittleEndian.PutUint32(at[8:], length)
	binary.LittleEndian.PutUint16(at[12:], flags)
	binary.LittleEndian.PutUint16(at[14:], next)
}

// offer makes a chain available, as the one with this number.
func (d *driver) offer(number, head uint16) {
	binary.LittleEndian.PutUint16(d.pool[d.at+testAvail+4+2*int(number%testSize):], head)
	binary.LittleEndian.PutUint16(d.pool[d.at+testAvail+2:], number+1)
}

func (d *driver) queue(t *testing.T) *queue {
	t.Helper()
	m, err := newMemory(d.pool, d.l)
	if err != nil {
		t.Fatal(err)
	}
	q, err := newQueue(m, &d.l.Device[0].Queue[0])
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// Requests in several parts, of both ranges, go around the ring; so do their replies.
func TestQueueCarriesRequestsAndReplies(t *testing.T) {
	d := newDriver()
	q := d.queue(t)
	if c, err := q.next(); c != nil || err != nil {
		t.Fatalf("an empty queue has %v, %v", c, err)
	}
	copy(d.pool[testData:], "first ")
	copy(d.pool[testPool/2+16:], "second")
	for i := range uint16(3 * testSize) {
		head := i % 3
		d.describe(int(head), testHigh+testData, 6, flagNext, 4)
		d.describe(4, testLow+16, 6, flagNext, 5)
		d.describe(5, testHigh+testData+100, 3, flagNext|flagWrite, 6)
		d.describe(6, testLow+200, 10, flagWrite, 0)
		d.offer(i, head)
		c, err := q.next()
		if err != nil || string(c.request) != "first second" || c.room != 13 {
			t.Fatalf("request %d: %+v, %v", i, c, err)
		}
		reply := []byte{byte(i), 'e', 'p', 'l', 'y'}
		q.done(c, reply)
		got := append(bytes.Clone(d.pool[testData+100:][:3]), d.pool[testPool/2+200:][:3]...)
		if !bytes.Equal(got, append(reply, 0)) {
			t.Fatalf("reply %d is %q", i, got)
		}
		used := d.pool[testUsed:]
		at := used[4+8*int(i%testSize):]
		if index := binary.LittleEndian.Uint32(used); index != uint32(i+1)<<16 {
			t.Fatalf("after %d: flags and index are %#x", i, index)
		}
		if id, n := binary.LittleEndian.Uint32(at), binary.LittleEndian.Uint32(at[4:]); id != uint32(head) || n != 5 {
			t.Fatalf("after %d: chain %d, %d bytes", i, id, n)
		}
	}
}

// A request may end at the end of the memory, and no later.
func TestQueueRefusesWhatIsOutside(t *testing.T) {
	last := uint64(testHigh + testPool/2 - 4)
	for what, spoil := range map[string]func(*driver){
		"as it should be":          func(*driver) {},
		"a head outside":           func(d *driver) { d.offer(0, testSize) },
		"too many chains":          func(d *driver) { binary.LittleEndian.PutUint16(d.pool[testAvail+2:], testSize+1) },
		"an address before":        func(d *driver) { d.describe(0, testLow-1, 4, 0, 0) },
		"an address behind":        func(d *driver) { d.describe(0, testHigh+testPool/2, 4, 0, 0) },
		"an address between":       func(d *driver) { d.describe(0, testLow+testPool/2, 4, 0, 0) },
		"an end behind":            func(d *driver) { d.describe(0, last, 5, 0, 0) },
		"the last address":         func(d *driver) { d.describe(0, ^uint64(0), 4, 0, 0) },
		"no bytes":                 func(d *driver) { d.describe(0, last, 0, 0, 0) },
		"too many bytes":           func(d *driver) { d.describe(0, testHigh, 0xffffffff, flagWrite, 0) },
		"an indirect descriptor":   func(d *driver) { d.describe(0, last, 4, 4, 0) },
		"a next one outside":       func(d *driver) { d.describe(0, last, 4, flagNext, testSize) },
		"a circle":                 func(d *driver) { d.describe(0, last, 4, flagNext, 0) },
		"a request behind a reply": func(d *driver) { d.describe(0, last, 4, flagNext|flagWrite, 1); d.describe(1, last, 4, 0, 0) },
	} {
		d := newDriver()
		d.describe(0, last, 4, 0, 0)
		d.offer(0, 0)
		spoil(d)
		if _, err := d.queue(t).next(); errors.Is(err, errQueue) != (what != "as it should be") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A chain may name the same memory again and again, until it is a MiB.
func TestQueueBoundsARequest(t *testing.T) {
	q := newDriver().queue(t)
	for _, full := range []bool{false, true} {
		c := &chain{request: make([]byte, mostBytes-4), room: mostBytes - 4}
		length := uint64(4)
		if full {
			length = 5
		}
		for _, writable := range []bool{false, true} {
			if err := q.add(c, testHigh, length, writable); errors.Is(err, errQueue) != full {
				t.Errorf("%d bytes more, writable: %v: %v", length, writable, err)
			}
		}
	}
}

func TestQueueIsInTheMemory(t *testing.T) {
	for what, spoil := range map[string]func(*uapi.SkepLinux){
		"as it should be":      func(*uapi.SkepLinux) {},
		"no entries":           func(l *uapi.SkepLinux) { l.Device[0].Queue[0].Size = 0 },
		"six entries":          func(l *uapi.SkepLinux) { l.Device[0].Queue[0].Size = 6 },
		"too many entries":     func(l *uapi.SkepLinux) { l.Device[0].Queue[0].Size = 2 * mostEntries },
		"a table outside":      func(l *uapi.SkepLinux) { l.Device[0].Queue[0].Descriptors = 0 },
		"a table at an end":    func(l *uapi.SkepLinux) { l.Device[0].Queue[0].Descriptors = testHigh + testPool/2 - 16*testSize + 16 },
		"an odd address":       func(l *uapi.SkepLinux) { l.Device[0].Queue[0].Available += 2 },
		"a used ring outside":  func(l *uapi.SkepLinux) { l.Device[0].Queue[0].Used = 1 << 40 },
		"an odd used ring":     func(l *uapi.SkepLinux) { l.Device[0].Queue[0].Used += 2 },
		"too many ranges":      func(l *uapi.SkepLinux) { l.Ranges = uapi.SkepLinuxRanges + 1 },
		"a range too long":     func(l *uapi.SkepLinux) { l.Range[0].Length = testPool + 1 },
		"a range outside":      func(l *uapi.SkepLinux) { l.Range[0].Offset = testPool/2 + 1 },
		"an offset that wraps": func(l *uapi.SkepLinux) { l.Range[0].Offset = ^uint64(0) - 1 },
		"a start that wraps":   func(l *uapi.SkepLinux) { l.Range[0].Start = ^uint64(0) - 1 },
	} {
		d := newDriver()
		spoil(d.l)
		m, err := newMemory(d.pool, d.l)
		if err == nil {
			_, err = newQueue(m, &d.l.Device[0].Queue[0])
		}
		if errors.Is(err, errQueue) != (what != "as it should be") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Any memory, any places of ranges and rings in it, and any reply.
func FuzzQueue(f *testing.F) {
	good := newDriver()
	good.describe(0, testHigh+testData, 6, flagNext, 1)
	good.describe(1, testHigh+testData+64, 32, flagWrite, 0)
	good.offer(0, 0)
	f.Add(good.pool[:testData], uint64(testHigh), uint64(testPool/2), uint64(0), uint64(testHigh+testTable), uint64(testHigh+testAvail), uint64(testHigh+testUsed), uint32(testSize))
	f.Fuzz(func(t *testing.T, content []byte, start, length, offset, table, available, used uint64, size uint32) {
		pool := make([]byte, testPool)
		copy(pool, content)
		l := &uapi.SkepLinux{Ranges: 1}
		l.Device[0].Queue[0] = uapi.SkepLinuxQueue{Descriptors: table, Available: available, Used: used, Size: size}
		l.Range[0] = uapi.SkepLinuxRange{Start: start, Length: length, Offset: offset}
		m, err := newMemory(pool, l)
		if err != nil {
			return
		}
		q, err := newQueue(m, &l.Device[0].Queue[0])
		if err != nil {
			return
		}
		for range 100 {
			c, err := q.next()
			if c == nil || err != nil {
				return
			}
			if len(c.request) > mostBytes || c.room > mostBytes {
				t.Fatalf("a request of %d bytes, room for %d", len(c.request), c.room)
			}
			q.done(c, bytes.Repeat([]byte{0xff}, min(c.room, 300)))
		}
	})
}
