// SPDX-License-Identifier: MIT

package detach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"skep/internal/atomicfile"
)

func ended() bool { return true }

func readLog(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	if err := Follow(t.Context(), dir, &b, ended); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A log keeps its first part and its last ones, and a reader hears how much is missing between.
func TestLogIsBounded(t *testing.T) {
	const logPart, logParts = 1 << 20, 8 // as the design says
	random := rand.New(rand.NewPCG(1, 2))
	block := make([]byte, 1021) // no part has a whole number of them
	for i := range block {
		block[i] = "0123456789abcdef"[random.IntN(16)]
	}
	for _, size := range []int{0, 1, logPart - 1, logPart, logPart + 1, (logParts + 1) * logPart, (logParts+1)*logPart + 1, 20*logPart + 17} {
		dir := t.TempDir()
		l, err := OpenLog(dir)
		if err != nil {
			t.Fatal(err)
		}
		all := bytes.Repeat(block, size/len(block)+1)[:size]
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(100_000))
			if got, err := l.Write(rest[:n]); got != n || err != nil {
				t.Fatal(got, err)
			}
			rest = rest[n:]
		}
		l.Close()
		want := string(all)
		if last := max(size-1, 0) / logPart; last > logParts {
			from := (last - logParts + 1) * logPart
			want = fmt.Sprintf("%s(%d bytes were here and are lost)\n%s", all[:logPart], from-logPart, all[from:])
		}
		if got := readLog(t, dir); got != want {
			t.Errorf("%d bytes: %d came, not %d", size, len(got), len(want))
		}
		if parts, _ := filepath.Glob(filepath.Join(dir, "output.*")); len(parts) > logParts+1 {
			t.Errorf("%d bytes are in %d files", size, len(parts))
		}
	}
}

// A reader sees what is written while it reads, until the run has ended.
func TestLogIsFollowed(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	step := 0
	var got bytes.Buffer
	err = Follow(t.Context(), dir, &got, func() bool {
		step++
		fmt.Fprintf(l, "line %d\n", step)
		return step == 3
	})
	if err != nil || got.String() != "line 1\nline 2\nline 3\n" {
		t.Errorf("%q, %v", got.String(), err)
	}
}

// A bounded file is a disk that takes so many bytes more.
type boundedFile struct {
	strings.Builder
	room   int
	closed bool
}

func (f *boundedFile) Write(b []byte) (int, error) {
	n, err := min(len(b), f.room), error(nil)
	if n < len(b) {
		err = errors.New("full")
	}
	f.room -= n
	f.Builder.Write(b[:n])
	return n, err
}

func (f *boundedFile) Close() error {
	f.closed = true
	return nil
}

// A run that fills the disk has an end with an exit code: room for its record was taken when it
// began, and is given back then.
func TestFullDiskTakesTheEnd(t *testing.T) {
	r := Open(t.TempDir())
	id, err := r.Create()
	if err == nil {
		err = r.Write(Record{ID: id, Words: []string{"./fill"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	room, err := os.Stat(r.spare(id))
	if err != nil || room.Size() <= spareMore {
		t.Fatalf("%v, %v", room, err)
	}
	full := errors.New("no space left on device")
	writeFile = func(name string, b []byte, mode fs.FileMode) error {
		if _, err := os.Stat(r.spare(id)); err == nil {
			return full
		}
		return atomicfile.Write(name, b, mode)
	}
	defer func() { writeFile = atomicfile.Write }()
	now := time.Now()
	if err := r.Write(Record{ID: id, Ended: &now, Exit: 7}); err != nil {
		t.Error(err)
	}
	if v, err := r.Read(id); err != nil || v.State != Ended || v.Exit != 7 {
		t.Errorf("%+v, %v", v, err)
	}
	writeFile = atomicfile.Write
	if err := r.Write(Record{ID: id}); err != nil {
		t.Fatal(err)
	}
	if err := r.Write(Record{ID: id, Ended: &now}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.spare(id)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the room stays: %v", err)
	}
	writeFile = func(string, []byte, fs.FileMode) error { return full }
	if err := r.Write(Record{ID: id}); !errors.Is(err, full) {
		t.Errorf("a disk that is full at the beginning: %v", err)
	}
}

// Output that a full disk does not take is counted, and the next that it takes says so. A
// sentence of which only a part fits is written again.
func TestLogOnAFullDisk(t *testing.T) {
	said := func(n int) string { return fmt.Sprintf("(%d bytes were here and are lost: full)\n", n) }
	sentence := len(said(10))
	for _, c := range []struct {
		rooms []int // for each line of 5 bytes
		want  string
	}{
		{[]int{5, 0, 0, 0, 99}, "line\n" + said(15) + "line\n"},
		{[]int{4, 99}, "line" + said(1) + "line\n"},
		{[]int{3, 99, 5}, "lin" + said(2) + "line\nline\n"},
		{[]int{0, 0, sentence - 1, 99}, said(10)[:sentence-1] + said(15) + "line\n"},
		{[]int{0, 0, sentence, 99}, said(10) + said(5) + "line\n"},
		{[]int{0, 0, sentence + 2, 99}, said(10) + "li" + said(3) + "line\n"},
		{[]int{0, 0, sentence + 5, 5}, said(10) + "line\nline\n"},
	} {
		f := &boundedFile{}
		l := &Log{file: f}
		for _, f.room = range c.rooms {
			if n, err := l.Write([]byte("line\n")); n != 5 || err != nil {
				t.Fatal(n, err)
			}
		}
		if f.String() != c.want {
			t.Errorf("%v: %q, not %q", c.rooms, f.String(), c.want)
		}
	}
}

// A part that cannot be made loses output as a full disk does; the one before stays open.
func TestLogWithoutANextPart(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenLog(filepath.Join(dir, "none")); err == nil {
		t.Error("a log without a folder")
	}
	f := &boundedFile{room: 1 << 30}
	l := &Log{dir: dir, file: f, size: logPart - 2}
	blocker := partName(dir, 1)
	if err := os.Mkdir(blocker, 0o700); err != nil {
		t.Fatal(err)
	}
	l.Write([]byte("line\n"))
	if f.String() != "li" || f.closed || l.lost != 3 {
		t.Errorf("%q, closed: %v, %d lost", f.String(), f.closed, l.lost)
	}
	os.Remove(blocker)
	l.Write([]byte("more\n"))
	if err := l.Close(); err != nil || !f.closed {
		t.Errorf("%v; the part before is closed: %v", err, f.closed)
	}
	if b, err := os.ReadFile(blocker); err != nil || !strings.HasPrefix(string(b), "(3 bytes were here and are lost: ") || !strings.HasSuffix(string(b), "\nmore\n") {
		t.Errorf("%q, %v", b, err)
	}
	if n, err := l.Write([]byte("late\n")); n != 5 || err != nil || l.lost != 5 {
		t.Errorf("%d, %v, %d lost after the log was closed", n, err, l.lost)
	}
}

// A reader that is slower than the log hears how much it missed, also within a part.
func TestFollowMisses(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"record.json", "lock", "output.", "output.9.tmp", "other.9"} {
		put(name, "{}")
	}
	put("output.0", "first\n")
	put("output.2", "0123456789")
	step := 0
	var got strings.Builder
	err := Follow(t.Context(), dir, &got, func() bool {
		if step++; got.Len() > 0 && strings.HasSuffix(got.String(), "9") {
			os.Remove(partName(dir, 2))
			put("output.5", "last\n")
			put("output.6", "")
		}
		return step > 3
	})
	want := fmt.Sprintf("first\n(%d bytes were here and are lost)\n0123456789(%d bytes were here and are lost)\nlast\n", 2*logPart-6, 3*logPart-10)
	if err != nil || got.String() != want {
		t.Errorf("%q, not %q; %v", got.String(), want, err)
	}
}

// A reader ends at the first error of what it reads and writes, and when it is told to.
func TestFollowEnds(t *testing.T) {
	dir := t.TempDir()
	if err := Follow(t.Context(), filepath.Join(dir, "none"), io.Discard, ended); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a log that is not there: %v", err)
	}
	for part, text := range map[int]string{0: "first", 2: "second"} {
		if err := os.WriteFile(partName(dir, part), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, room := range []int{3, 5} { // within the output, and within the sentence
		f := &boundedFile{room: room}
		if err := Follow(t.Context(), dir, f, ended); err == nil || err.Error() != "full" || len(f.String()) != room {
			t.Errorf("%d bytes: %q, %v", room, f.String(), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var got strings.Builder
	err := Follow(ctx, dir, &got, func() bool { cancel(); return false })
	if !errors.Is(err, context.Canceled) || !strings.HasSuffix(got.String(), "second") {
		t.Errorf("%q, %v", got.String(), err)
	}
	os.Remove(partName(dir, 2))
	os.Mkdir(partName(dir, 2), 0o700)
	if err := Follow(t.Context(), dir, io.Discard, ended); err == nil {
		t.Error("a part that cannot be read")
	}
}

func TestRecords(t *testing.T) {
	r := Open(t.TempDir())
	if list, err := r.List(); len(list) != 0 || err != nil {
		t.Fatal(list, err)
	}
	var ids []string
	for i := range 4 {
		id, err := r.Create()
		if err != nil {
			t.Fatal(err)
		}
		if i == 3 { // its holder did not write anything yet
			break
		}
		if err := r.Hold(id); i == 0 && err != nil {
			t.Fatal(err)
		} else if i > 0 {
			os.Remove(r.lock(id)) // as if the holder had been killed
		}
		v := Record{ID: id, Words: []string{"x"}, Started: time.Unix(int64(i), 0), State: "of the file"}
		if i == 1 {
			v.Ended, v.Exit = &v.Started, 7
		}
		if err := r.Write(v); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	list, err := r.List()
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for i, want := range []State{Running, Ended, Lost} {
		if list[i].ID != ids[i] || list[i].State != want {
			t.Errorf("run %d: %+v", i, list[i])
		}
	}
	if err := r.Forget(ids[0]); err == nil || !strings.Contains(err.Error(), "has not ended: end it with") {
		t.Error(err)
	}
	for _, id := range ids[1:] {
		if err := r.Forget(id); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{ids[1], "", "..", "0000000g"} {
		if _, err := r.Read(id); !errors.Is(err, ErrNone) {
			t.Errorf("%q: %v", id, err)
		}
	}
	testBadRecords(t, r, ids[0])
}

// testBadRecords writes records that cannot be used: the folder's name counts, and a record
// that cannot be read or written is an error of each command.
func testBadRecords(t *testing.T, r Runs, id string) {
	t.Helper()
	os.WriteFile(r.file(id), []byte(`{"id":"ffffffff"}`), 0o600)
	if v, err := r.Read(id); err != nil || v.ID != id {
		t.Errorf("%+v, %v", v, err)
	}
	if err := r.Write(Record{ID: id, Started: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}); err == nil {
		t.Error("a record with a time that has no text")
	}
	os.WriteFile(r.file(id), []byte("{"), 0o600)
	text := "the record of run " + id + " cannot be read"
	if _, err := r.List(); err == nil || !strings.Contains(err.Error(), text) {
		t.Error(err)
	}
	if _, err := r.Create(); err == nil || !strings.Contains(err.Error(), text) {
		t.Error(err)
	}
	if err := r.Forget(id); err == nil || !strings.Contains(err.Error(), text) {
		t.Error(err)
	}
}

// One process holds a run. To look whether somebody does leaves it free.
func TestOneHolds(t *testing.T) {
	r := Open(t.TempDir())
	id, err := r.Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Write(Record{ID: id}); err != nil {
		t.Fatal(err)
	}
	if v, err := r.Read(id); err != nil || v.State != Lost {
		t.Errorf("%+v, %v", v, err)
	}
	if err := r.Hold(id); err != nil {
		t.Error(err)
	}
	if err := r.Hold(id); err == nil {
		t.Error("a run has two holders")
	}
	if err := r.Hold("ffffffff"); err == nil {
		t.Error("a run that is not there is held")
	}
}

// A folder of runs that cannot be made or read is an error.
func TestNoFolder(t *testing.T) {
	state := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(state, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := Open(state)
	if id, err := r.Create(); err == nil || id != "" {
		t.Errorf("%q, %v", id, err)
	}
}

// The runtime closes files that nothing refers to, so a holder must refer to its lock.
func TestHolderKeepsItsLock(t *testing.T) {
	r := Open(t.TempDir())
	id, err := r.Create()
	if err == nil {
		err = r.Hold(id)
	}
	if err == nil {
		err = r.Write(Record{ID: id, Started: time.Unix(1, 0)})
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // a finalizer runs after the collection that finds its object
		runtime.GC()
		if v, err := r.Read(id); err != nil || v.State != Running {
			t.Fatalf("%+v, %v", v, err)
		}
		runtime.Gosched()
	}
}

// The oldest runs that have ended make room; those that run stay.
func TestOldRunsGo(t *testing.T) {
	r := Open(t.TempDir())
	var first string
	for i := range 64 + 3 {
		id, err := r.Create()
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"started":%q,"ended":"2026-01-01T00:00:00Z"}`, time.Unix(int64(i), 0).Format(time.RFC3339))
		if i == 0 {
			first, text = id, `{"started":"1970-01-01T00:00:00Z"}`
			if err := r.Hold(id); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(r.file(id), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := r.List()
	if err != nil || len(list) != 64+1 || list[0].ID != first || list[1].Started.Unix() != 3 {
		t.Errorf("%d runs, %v", len(list), err)
	}
}
