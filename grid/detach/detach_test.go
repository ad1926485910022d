// SPDX-License-Identifier: MIT

package detach

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
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
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, logPart - 1, logPart, logPart + 1, (logParts + 1) * logPart, (logParts+1)*logPart + 1, 20*logPart + 17} {
		dir := t.TempDir()
		l, err := OpenLog(dir)
		if err != nil {
			t.Fatal(err)
		}
		all := make([]byte, size)
		for i := range all {
			all[i] = "0123456789abcdef"[random.IntN(16)]
		}
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

// Output that a full disk does not take is counted, and the next that it takes says so.
func TestLogOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	l.Write([]byte("before\n"))
	good := l.file
	if l.file, err = os.Open(os.DevNull); err != nil { // takes nothing
		t.Fatal(err)
	}
	for range 3 {
		if n, err := l.Write([]byte("lost\n")); n != 5 || err != nil {
			t.Fatal(n, err)
		}
	}
	l.file.Close()
	l.file = good
	l.Write([]byte("after\n"))
	got := readLog(t, dir)
	if !strings.HasPrefix(got, "before\n(15 bytes were here and are lost: ") || !strings.HasSuffix(got, ")\nafter\n") {
		t.Errorf("%q", got)
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
		v := Record{ID: id, Words: []string{"x"}, Started: time.Unix(int64(i), 0), State: Ended}
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
	os.WriteFile(r.file(ids[0]), []byte("{"), 0o600)
	if _, err := r.List(); err == nil || !strings.Contains(err.Error(), "the record of run "+ids[0]+" cannot be read") {
		t.Error(err)
	}
}

// The oldest runs that have ended make room; those that run stay.
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

func TestOldRunsGo(t *testing.T) {
	r := Open(t.TempDir())
	var first string
	for i := range keptMost + 3 {
		id, err := r.Create()
		if err != nil {
			t.Fatal(err)
		}
		v := Record{ID: id, Started: time.Unix(int64(i), 0)}
		if i == 0 {
			first = id
			if err := r.Hold(id); err != nil {
				t.Fatal(err)
			}
		} else {
			v.Ended = &v.Started
		}
		if err := r.Write(v); err != nil {
			t.Fatal(err)
		}
	}
	list, err := r.List()
	if err != nil || len(list) != keptMost+1 || list[0].ID != first || list[1].Started.Unix() != 3 {
		t.Errorf("%d runs, %v", len(list), err)
	}
}
