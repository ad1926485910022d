// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"skep/grid/proto"
)

// Exactly the Landlock rights that a kernel supports are requested.
func TestLandlockVersions(t *testing.T) {
	const first = 1<<13 - 1
	refer := uint64(first | unix.LANDLOCK_ACCESS_FS_REFER)
	truncate := refer | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	devices := truncate | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	for abi, want := range map[int]uint64{1: first, 2: refer, 3: truncate, 4: truncate, 5: devices, 6: devices, 7: devices} {
		if got := handledAccess(abi); got != want {
			t.Errorf("version %d: %#x, want %#x", abi, got, want)
		}
	}
}

// Sizes of /proc are in KiB. An invalid size counts as 0.
func TestParseKiB(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "1": 1024, "907": 907 << 10, "16g": 0, "-1": 0, "/": 0, ":": 0, strings.Repeat("9", 30): 0} {
		if got := parseKiB(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	total, free := memoryInfo()
	if total < 1<<28 || free == 0 || free > total || freeBytes("/no such folder") != 0 || freeBytes("/") == 0 {
		t.Errorf("memory %d of %d", free, total)
	}
	if s := systemText(); !strings.HasPrefix(s, "Linux ") || len(s) < 8 {
		t.Errorf("the system is %q", s)
	}
}

// Each file counts with its allocated size, at least a page. Open files without a name count too.
// Counting ends when the sum exceeds `enough`.
func TestDiskBytes(t *testing.T) {
	dir := t.TempDir()
	empty := diskBytes(dir, nil, 1<<40)
	if empty != 4096 {
		t.Errorf("an empty folder has %d bytes", empty)
	}
	write := func(name string, n int) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			_, err = f.Write(make([]byte, n))
		}
		if err == nil {
			err = f.Sync() // allocates its blocks
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	write("small", 0)
	large := write("large", 1<<20)
	if n := diskBytes(dir, nil, 1<<40); n < 1<<20+2*4096 || n > 1<<20+5*4096 {
		t.Errorf("1 MiB, an empty file and the folder have %d bytes", n)
	}
	if n := diskBytes(dir, nil, 1); n > 1<<20 {
		t.Errorf("the count went on to %d", n)
	}
	self := []int{os.Getpid()}
	if n := diskBytes(dir, self, 1<<40); n > 1<<20+5*4096 {
		t.Errorf("a file with a name counts twice: %d bytes", n)
	}
	os.Remove(large.Name())
	if n := diskBytes(dir, self, 1<<40); n < 1<<20 || n > 1<<20+5*4096 {
		t.Errorf("an open file without a name: %d bytes", n)
	}
	if n := diskBytes(filepath.Join(dir, "none"), self, 1<<40); n != 0 {
		t.Errorf("no folder has %d bytes", n)
	}
}

// The closer the usage is to a limit, the sooner it is measured again. An exceeded limit is named.
func TestMeter(t *testing.T) {
	self := []int{os.Getpid()}
	used := residentBytes(self)
	if used == 0 || sharedOnce(self) == 0 || countThreads(self) < 2 || countThreads([]int{0}) != 0 {
		t.Fatalf("this process has %d bytes and %d threads", used, countThreads(self))
	}
	const giga = 1 << 30
	for _, c := range []struct {
		name  string
		limit proto.Limits
		want  proto.Limit
		next  time.Duration
	}{
		{"no limit", proto.Limits{}, "", 250 * time.Millisecond},
		{"memory far away", proto.Limits{Memory: used + 64*giga}, "", 250 * time.Millisecond},
		{"memory near", proto.Limits{Memory: used + giga/2}, "", 150 * time.Millisecond},
		{"memory", proto.Limits{Memory: 1}, proto.LimitMemory, 0},
		{"processes", proto.Limits{Processes: 1}, proto.LimitProcesses, 0},
		{"enough processes", proto.Limits{Processes: 10000}, "", 250 * time.Millisecond},
		{"processor time", proto.Limits{CPU: 1e-9}, proto.LimitCPU, 0},
		{"enough processor time", proto.Limits{CPU: 1e9}, "", 250 * time.Millisecond},
		{"disk", proto.Limits{Disk: 1}, proto.LimitDisk, 0},
		{"enough disk", proto.Limits{Disk: 1 << 50}, "", 250 * time.Millisecond},
	} {
		m := newMeter(guardOrder{Limits: c.limit, Dir: t.TempDir()})
		m.tasks = func() []int { return self }
		e, next := m.measure()
		var limit proto.Limit
		if e != nil {
			limit = e.Limit
		}
		if limit != c.want || next > c.next || next < c.next/2 {
			t.Errorf("%s: %+v, looks again in %v", c.name, e, next)
		}
		if e != nil && (e.Used <= e.Allowed || e.Allowed == 0) {
			t.Errorf("%s: %v of %v", c.name, e.Used, e.Allowed)
		}
	}
	// Processor time used before a call does not count for the call.
	m := newMeter(guardOrder{Limits: proto.Limits{CPU: 1e-9}})
	m.tasks = func() []int { return self }
	if m.start(1e9); m.cpu != 1e9 || m.before <= 0 {
		t.Errorf("a call begins at %v with %v", m.before, m.cpu)
	}
	if e, _ := m.measure(); e != nil {
		t.Errorf("%+v", e)
	}
	m.disk = time.Now().Add(time.Hour)
	m.order.Limits.Disk = 1
	if e, _ := m.measure(); e != nil {
		t.Errorf("the disk was measured too soon: %+v", e)
	}
}

// No process can change a program's sealed copy.
func TestSealedProgram(t *testing.T) {
	f, err := sealProgram(strings.NewReader("program"), "skep")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("it was written to")
	}
	if f.Truncate(100) == nil || f.Truncate(1) == nil {
		t.Error("it was cut or made longer")
	}
	if text, _ := os.ReadFile("/proc/self/fd/" + findMemoryFile(f)); string(text) != "program" {
		t.Errorf("it is %q", text)
	}
	if _, err := sealProgram(&limitedReader{}, "skep"); err == nil {
		t.Error("half a program was taken")
	}
}

// limitedReader gives one part, then an error.
type limitedReader struct{ n int }

func (r *limitedReader) Read(b []byte) (int, error) {
	if r.n++; r.n > 1 {
		return 0, os.ErrDeadlineExceeded
	}
	return copy(b, "part"), nil
}

func findMemoryFile(f *os.File) string {
	own, _ := f.Stat()
	list, _ := filepath.Glob("/proc/self/fd/*")
	i := slices.IndexFunc(list, func(name string) bool { info, err := os.Stat(name); return err == nil && os.SameFile(info, own) })
	return filepath.Base(list[max(i, 0)])
}

// Several programs that start at the same time share one copy, which is freed with the last.
func TestSealedCopiesAreShared(t *testing.T) {
	dir := t.TempDir()
	s := fakeStore{dir}
	digest := s.put(t, []byte("data"))
	path := filepath.Join(dir, digest)
	m := memories{}
	first, err := m.get(digest, path)
	if err != nil {
		t.Fatal(err)
	}
	second, _ := m.get(digest, path)
	m.put(digest)
	if first != second || len(m.open) != 1 {
		t.Errorf("%d copies", len(m.open))
	}
	m.put(digest)
	m.put(digest) // no program uses it any more
	if _, err := first.Stat(); err == nil || len(m.open) != 0 {
		t.Error("the copy is still open")
	}
	if _, err := m.get(digest, filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "not in the cache") {
		t.Errorf("%v", err)
	}
	os.WriteFile(path, bytes.ToUpper([]byte("data")), 0o600)
	for name, err := range map[string]error{"copied": getCopyError(&m, digest, path), "read": checkCached(digest, path)} {
		if err == nil || !strings.Contains(err.Error(), "was changed by another program") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func getCopyError(m *memories, digest, path string) error { _, err := m.get(digest, path); return err }

// Reports in quick succession do not each ask the system how much memory and disk is free.
func TestFreeRoomIsReadSeldom(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var f freeRoom
		if r := f.read(dir); r.total < r.memory || r.memory == 0 || r.disk == 0 {
			t.Fatalf("%+v is free", r)
		}
		f.last = room{memory: 1, disk: 1}
		<-time.After(roomAge - 1)
		if r := f.read(dir); r.memory != 1 || r.disk != 1 {
			t.Error("it was read too early")
		}
		<-time.After(1)
		if r := f.read(dir); r.memory == 1 || r.disk == 1 {
			t.Error("it was not read in time")
		}
	})
}
