// SPDX-License-Identifier: MIT

package part

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const testSectors = 16

// A spinning is a disk of 16 sectors, and the queue of the kernel.
type spinning struct {
	*driver
	device *device
	path   string
	asked  uint16
}

func newSpinning(t testing.TB) *spinning {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, newFrame(testSectors*sectorBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := diskModel(path)
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver()
	list, err := plug(d.l, d.pool, []model{m})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeModels([]model{m}); err != nil {
			t.Error(err)
		}
	})
	return &spinning{driver: d, device: list[0], path: path}
}

func (s *spinning) ready(t testing.TB) {
	t.Helper()
	s.l.Device[0].Ready = 1
	if busy, err := s.device.look(); !busy || err != nil {
		t.Fatalf("the queue: %v, %v", busy, err)
	}
}

// request puts a request with its header, data, and room for a reply in three descriptors.
func (s *spinning) request(kind uint32, sector uint64, data []byte, room int) {
	at := s.pool[testData:]
	clear(at[:diskHeader])
	binary.LittleEndian.PutUint32(at, kind)
	binary.LittleEndian.PutUint64(at[8:], sector)
	s.describe(0, testHigh+testData, diskHeader, flagNext, 2)
	if len(data) > 0 {
		copy(at[64:], data)
		s.describe(0, testHigh+testData, diskHeader, flagNext, 1)
		s.describe(1, testHigh+testData+64, uint32(len(data)), flagNext, 2)
	}
	for i := range room {
		s.pool[testPool/2+i] = 0xee
	}
	s.describe(2, testLow, uint32(room), flagWrite, 0)
	s.offer(s.asked, 0)
	s.asked++
}

// ask carries a request out and returns what was read, and the result.
func (s *spinning) ask(t *testing.T, kind uint32, sector uint64, data []byte, room int) ([]byte, byte) {
	t.Helper()
	s.request(kind, sector, data, room)
	s.device.mustLook(t, true)
	if n, length := s.used(); n != s.asked || int(length) != room {
		t.Fatalf("%d of %d requests are done, the last with %d bytes of %d", n, s.asked, length, room)
	}
	got := s.pool[testPool/2:][:room]
	return got[:room-1], got[room-1]
}

func TestDiskKeepsWhatIsWritten(t *testing.T) {
	s := newSpinning(t)
	at := &s.l.Device[0]
	if at.Kind != 2 || at.Queues != 1 || at.Features != 0x206 || string(at.Config[:16]) != "\x10\x00\x00\x00\x00\x00\x00\x00\x00\x20\x00\x00\x40\x00\x00\x00" {
		t.Errorf("the kernel is told %+v", at)
	}
	s.ready(t)
	s.device.mustLook(t, false)
	before, _ := os.ReadFile(s.path)
	got, result := s.ask(t, diskRead, 3, nil, 2*sectorBytes+1)
	if result != diskDone || !bytes.Equal(got, before[3*sectorBytes:5*sectorBytes]) {
		t.Errorf("two sectors: %d", result)
	}
	data := bytes.Repeat([]byte("new "), 2*sectorBytes/4)
	if _, result := s.ask(t, diskWrite, testSectors-2, data, 1); result != diskDone {
		t.Errorf("the last two sectors: %d", result)
	}
	if _, result := s.ask(t, diskFlush, 0, nil, 1); result != diskDone {
		t.Errorf("a flush: %d", result)
	}
	after, _ := os.ReadFile(s.path)
	if !bytes.Equal(after, append(bytes.Clone(before[:len(before)-len(data)]), data...)) {
		t.Error("the file has something else")
	}
	if got, result := s.ask(t, diskName, 0, nil, 20+1); result != diskDone || string(got) != "skep"+strings.Repeat("\x00", 16) {
		t.Errorf("its name: %q, %d", got, result)
	}
}

// What is wrong with a request alone is an error of the disk, and changes nothing.
func TestDiskRefusesRequests(t *testing.T) {
	one := make([]byte, sectorBytes)
	s := newSpinning(t)
	s.ready(t)
	before, _ := os.ReadFile(s.path)
	for what, c := range map[string]struct {
		kind   uint32
		sector uint64
		data   []byte
		room   int
		want   byte
	}{
		"a read behind the end":    {diskRead, testSectors, nil, sectorBytes + 1, diskFailed},
		"a read over the end":      {diskRead, testSectors - 1, nil, 2*sectorBytes + 1, diskFailed},
		"a read far away":          {diskRead, ^uint64(0), nil, sectorBytes + 1, diskFailed},
		"a read that wraps":        {diskRead, 1 << 55, nil, sectorBytes + 1, diskFailed},
		"half a sector":            {diskRead, 0, nil, sectorBytes/2 + 1, diskFailed},
		"a read with data":         {diskRead, 0, one, sectorBytes + 1, diskFailed},
		"a write behind the end":   {diskWrite, testSectors, one, 1, diskFailed},
		"a write of half a sector": {diskWrite, 0, one[:100], 1, diskFailed},
		"a write with room":        {diskWrite, 0, one, 2, diskFailed},
		"a discard":                {11, 0, one, 1, diskUnknown},
		"none":                     {3, 0, nil, 1, diskUnknown},
	} {
		if got, result := s.ask(t, c.kind, c.sector, c.data, c.room); result != c.want || !bytes.Equal(got, make([]byte, c.room-1)) {
			t.Errorf("%s: %d", what, result)
		}
	}
	if after, _ := os.ReadFile(s.path); !bytes.Equal(after, before) {
		t.Error("the file has changed")
	}
}

// A disk whose file became shorter fails, and the kernel goes on.
func TestDiskOfAShortFileFails(t *testing.T) {
	s := newSpinning(t)
	s.ready(t)
	if err := os.Truncate(s.path, sectorBytes); err != nil {
		t.Fatal(err)
	}
	if _, result := s.ask(t, diskRead, 1, nil, sectorBytes+1); result != diskFailed {
		t.Errorf("%d", result)
	}
	if _, result := s.ask(t, diskRead, 0, nil, sectorBytes+1); result != diskDone {
		t.Errorf("what is there: %d", result)
	}
}

// What was written may be lost if the flush fails, so the kernel hears of it.
func TestDiskSaysThatAFlushFailed(t *testing.T) {
	r, w, err := os.Pipe() // which can't be flushed
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d := &disk{file: w, size: sectorBytes}
	defer d.close()
	if result := d.answer([]byte("\x04\x00\x00\x00zeroSECTOR_0"), nil, nil); result != diskFailed {
		t.Errorf("%d", result)
	}
}

func TestSpoiledDiskEndsTheRun(t *testing.T) {
	for what, spoil := range map[string]func(*spinning){
		"no room for a result": func(s *spinning) { s.describe(0, testHigh+testData, diskHeader, 0, 0); s.offer(0, 0) },
		"a short header":       func(s *spinning) { s.describe(0, testHigh+testData, diskHeader-1, flagNext, 2); s.offer(0, 0) },
		"room outside":         func(s *spinning) { s.describe(2, 0, 1, flagWrite, 0) },
		"a queue outside":      func(s *spinning) { s.l.Device[0].Queue[0].Used = 0 },
	} {
		s := newSpinning(t)
		s.request(diskFlush, 0, nil, 1)
		s.l.Device[0].Ready = 1
		spoil(s)
		if err := serveDevices(t.Context(), []*device{s.device}); !errors.Is(err, errQueue) || !strings.HasPrefix(err.Error(), "its disk: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestDiskIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	path := func(name string, bytes int) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe := filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := path("taken", sectorBytes)
	m, err := diskModel(taken)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	for file, want := range map[string]string{
		dir:              "the disk: " + dir + " is neither a regular file nor a block device",
		pipe:             "the disk: " + pipe + " is neither a regular file nor a block device",
		"/dev/null":      "the disk: /dev/null is neither a regular file nor a block device",
		dir + "/none":    "the disk: stat " + dir + "/none: no such file or directory",
		path("odd", 513): "the disk: " + dir + "/odd has 513 bytes, and a disk has a multiple of 512",
		path("empty", 0): "the disk: " + dir + "/empty has 0 bytes, and a disk has a multiple of 512",
		taken:            "the disk: another program has " + taken + " locked",
	} {
		b := Boot{Disk: file}
		if list, err := b.models(); len(list) != 0 || !isRefused(err, want) {
			t.Errorf("%s: %v, %v", file, list, err)
		}
	}
}

// Any memory with any request: the file keeps its size.
func FuzzDisk(f *testing.F) {
	good := newSpinning(f)
	good.request(diskWrite, 1, make([]byte, sectorBytes), 1)
	f.Add(good.pool[:testData+1024], uint32(diskWrite), uint64(1))
	f.Fuzz(func(t *testing.T, content []byte, kind uint32, sector uint64) {
		s := newSpinning(t)
		copy(s.pool, content)
		binary.LittleEndian.PutUint32(s.pool[testData:], kind)
		binary.LittleEndian.PutUint64(s.pool[testData+8:], sector)
		s.l.Device[0].Ready = 1
		for range 20 {
			if busy, err := s.device.look(); !busy || err != nil {
				if err != nil && !errors.Is(err, errQueue) {
					t.Fatal(err)
				}
				break
			}
		}
		if info, err := os.Stat(s.path); err != nil || info.Size() != testSectors*sectorBytes {
			t.Fatal(info, err)
		}
	})
}
