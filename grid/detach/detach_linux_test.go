// SPDX-License-Identifier: MIT

package detach

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"testing"
	"time"
)

// What a run prints and its command are of its user alone.
func TestOnlyTheUserReads(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	r := Open(t.TempDir())
	id, err := r.Create()
	if err == nil {
		err = r.Write(Record{ID: id})
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenLog(r.Dir(id))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for name, want := range map[string]os.FileMode{r.Dir(id): 0o700, r.file(id): 0o600, partName(r.Dir(id), 0): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// A run that ends while its record is read has ended, and is not lost. The record is a FIFO
// here, so that the end comes after its beginning was read.
func TestEndsWhileItIsRead(t *testing.T) {
	r := Open(t.TempDir())
	id, err := r.Create()
	if err == nil {
		err = syscall.Mkfifo(r.file(id), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(r.file(id), os.O_WRONLY, 0)
		if err == nil {
			err = r.Write(Record{ID: id, Ended: &time.Time{}, Exit: 3})
		}
		if err == nil {
			_, err = f.WriteString("{}")
			f.Close()
		}
		done <- err
	}()
	v, err := r.Read(id)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err != nil || v.State != Ended || v.Exit != 3 {
		t.Errorf("%+v, %v", v, err)
	}
}

// Whoever makes room at the same time as others does not fail because they were faster.
func TestMakeRoomTogether(t *testing.T) {
	r := Open(t.TempDir())
	createEnded := func() error {
		id, err := r.Create()
		if err == nil {
			err = os.WriteFile(r.file(id)+".new", []byte(`{"ended":"2026-01-01T00:00:00Z"}`), 0o600)
		}
		if err == nil {
			err = os.Rename(r.file(id)+".new", r.file(id))
		}
		return err
	}
	for range 64 + 1 {
		if err := createEnded(); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	begin := make(chan bool)
	for range 8 {
		group.Go(func() {
			<-begin
			for range 4 {
				if err := createEnded(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	close(begin)
	group.Wait()
}

// A reader closes each part, and reports one that cannot be opened.
func TestPartsAreClosed(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // which closes files as well
	dir := t.TempDir()
	for part := range 50 {
		if err := os.WriteFile(partName(dir, part), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := filepath.Glob("/proc/self/fd/*")
	readLog(t, dir)
	after, _ := filepath.Glob("/proc/self/fd/*")
	if len(after) >= len(before)+50 {
		t.Errorf("%d descriptors, %d before", len(after), len(before))
	}
	loop := partName(dir, 50)
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	if err := Follow(t.Context(), dir, os.Stdout, ended); err == nil {
		t.Error("a part that cannot be opened")
	}
}
