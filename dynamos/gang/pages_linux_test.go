// SPDX-License-Identifier: MIT

package gang

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }

func TestMappingsOfAProcess(t *testing.T) {
	const maps = `00400000-00401000 r-xp 00000000 08:01 1 /bin/x
00401000-00403000 rw-p 00001000 08:01 1 /bin/x
00500000-00501000 r--p 00000000 00:00 0
7f0000000000-7f0000002000 rw-s 00000000 00:01 5 /dev/shm/x y
7f1000000000-7f2000001000 rw-p 00000000 00:00 0 [shadow]
7f3000000000-7f3000000000 rw-p 00000000 00:00 0
nonsense
-1-2 rw-p
7f4000000000-7f4000001000
`
	want := []span{{0x401000, 0x403000}, {0x7f0000000000, 0x7f0000002000}}
	if got := parseMappings(maps); !reflect.DeepEqual(got, want) {
		t.Errorf("%x", got)
	}
}

// pagemap is a file with these entries from page 0 on.
func pagemap(entries ...uint64) *bytes.Reader {
	var b []byte
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint64(b, e)
	}
	return bytes.NewReader(b)
}

func TestPagesOfSpans(t *testing.T) {
	const p, s = pagePresent, pageSwapped
	file := pagemap(p, p|7, 0, s, s|p, p, 0, p)
	for _, c := range []struct {
		name  string
		spans []span
		bits  uint64
		want  []span
	}{
		{"present", []span{{0, 8 * pageSize}}, p, []span{{0, 2 * pageSize}, {4 * pageSize, 6 * pageSize}, {7 * pageSize, 8 * pageSize}}},
		{"swapped", []span{{0, 8 * pageSize}}, s, []span{{3 * pageSize, 5 * pageSize}}},
		{"parts", []span{{pageSize, 2 * pageSize}, {2 * pageSize, 4 * pageSize}}, p | s, []span{{pageSize, 2 * pageSize}, {3 * pageSize, 4 * pageSize}}},
		{"beyond the end", []span{{6 * pageSize, 100 * pageSize}, {0, pageSize}}, p, []span{{7 * pageSize, 8 * pageSize}, {0, pageSize}}},
		{"none", nil, p, nil},
	} {
		got, err := findPages(file, c.spans, c.bits)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %x, %v", c.name, got, err)
		}
	}
	if got := (&pages{spans: []span{{0, 2 * pageSize}, {8 * pageSize, 9 * pageSize}}}).size(); got != 3*pageSize {
		t.Errorf("size %d", got)
	}
}

// More pages than one read of the file returns.
func TestPagesOfALargeSpan(t *testing.T) {
	entries := make([]uint64, 20000)
	for i := range entries {
		entries[i] = uint64(i%2) * pagePresent
	}
	got, err := findPages(pagemap(entries...), []span{{0, 20000 * pageSize}}, pagePresent)
	if err != nil || len(got) != 10000 || got[9999] != (span{19999 * pageSize, 20000 * pageSize}) {
		t.Errorf("%d spans, %v", len(got), err)
	}
}

// The pages that this process has touched are found, and the kernel takes their list.
func TestPagesOfThisProcess(t *testing.T) {
	const n = 5
	m, err := unix.Mmap(-1, 0, n*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	if err := unix.Madvise(m, unix.MADV_NOHUGEPAGE); err != nil && err != unix.EINVAL {
		t.Fatal(err)
	}
	m[0], m[3*pageSize] = 1, 1
	begin := addressOf(m)
	all, err := readPages(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	var got []span
	for _, s := range all.spans {
		for at := s.begin; at < s.end; at += pageSize {
			if at >= begin && at < begin+n*pageSize {
				got = append(got, span{(at - begin) / pageSize, (at-begin)/pageSize + 1})
			}
		}
	}
	if want := []span{{0, 1}, {3, 4}}; !reflect.DeepEqual(got, want) {
		t.Errorf("pages %v, want %v", got, want)
	}
	mine := &pages{os.Getpid(), []span{{begin, begin + n*pageSize}, {1 << 20, 1<<20 + pageSize}}}
	var refused *RefusedError // to others than root, by older kernels also for their own process
	if err := mine.load(); err != nil && !(os.Geteuid() != 0 && errors.As(err, &refused)) {
		t.Errorf("load: %v", err)
	}
	if err := mine.await(); err != nil {
		t.Errorf("await: %v", err)
	}
}

func TestPagesOfAProcessThatHasEnded(t *testing.T) {
	c := exec.Command("true")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	gone := &pages{c.Process.Pid, []span{{1 << 20, 1<<20 + pageSize}}}
	if p, err := readPages(gone.pid); err != nil || p.size() != 0 {
		t.Errorf("read: %v, %v", p, err)
	}
	if p, err := gone.choose(pageSwapped); err != nil || p.size() != 0 {
		t.Errorf("choose: %v, %v", p, err)
	}
	if err := errors.Join(gone.load(), gone.await()); err != nil {
		t.Errorf("load: %v", err)
	}
}

func TestSpansThatAreLeft(t *testing.T) {
	list := []remoteSpan{{0, 10}, {20, 10}, {40, 10}}
	for n, want := range map[uint64]int{0: 2, 5: 2, 10: 1, 20: 0, 25: 0, 30: 0} {
		if got := len(dropBytes(list, n)); got != want {
			t.Errorf("%d bytes: %d are left, want %d", n, got, want)
		}
	}
}
