// SPDX-License-Identifier: MIT

package mpi

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"skep/internal/uapi"
)

// lock holds a page as a live endpoint does.
func lock(t *testing.T, path string) (release func()) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

func writePage(t *testing.T, folder, name string, s uapi.O2GStatus) string {
	t.Helper()
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, &s); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStatusShowsLivePagesAndRemovesDeadOnes(t *testing.T) {
	folder := t.TempDir()
	// No process of this namespace has the number: one of another one has.
	const far = 4194303
	live := uapi.O2GStatus{Magic: uapi.O2GStatusMagic, Revision: uapi.O2GStatusRevision,
		PID: far, Sent: 12, HeldBytes: 7}
	live.Name[0], live.Name[2], live.Name[3] = 4, 0x34, 0x12
	copy(live.Name[8:], []byte{10, 0, 0, 9})
	copy(live.Engine[:], "user")
	copy(live.Program[:], "app\xff")
	page := writePage(t, folder, strconv.Itoa(far)+"-01020304", live)
	release := lock(t, page)
	dead := writePage(t, folder, strconv.Itoa(os.Getpid())+"-01020304", live)
	foreign := filepath.Join(folder, "notes.txt")
	if err := os.WriteFile(foreign, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}

	list, err := Endpoints([]string{folder, filepath.Join(folder, "absent")})
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %+v", err, list)
	}
	e := list[0]
	if e.PID != far || e.Program != "app?" || e.Engine != "user" || e.Address != "10.0.0.9:4660" || e.Sent != 12 || e.HeldBytes != 7 {
		t.Errorf("%+v", e)
	}
	for path, stays := range map[string]bool{page: true, foreign: true, dead: false} {
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s: stays %v, want %v", filepath.Base(path), err == nil, stays)
		}
	}
	release()
	if list, err := Endpoints([]string{folder}); err != nil || len(list) != 0 {
		t.Errorf("after its end: %v, %+v", err, list)
	}
}

func TestStatusShowsWhatTheModuleCounts(t *testing.T) {
	folder := t.TempDir()
	s := uapi.O2GStatus{Magic: uapi.O2GStatusMagic, Revision: uapi.O2GStatusRevision, PID: 77,
		SoftirqBytes: 1, WorkerBytes: 2, OverBudget: 3, DirectBytes: 4, SlabPages: 5,
		StoppedReading: 6, Wakes: 7, Sleeps: 8, RefusedMemory: 9}
	copy(s.Engine[:], "kernel")
	lock(t, writePage(t, folder, "77-01020304", s))
	list, err := Endpoints([]string{folder})
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %+v", err, list)
	}
	if m := list[0].Module; m == nil || *m != (Module{1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("%+v", m)
	}
}

func TestStatusTakesShortAndForeignFilesForNothing(t *testing.T) {
	folder := t.TempDir()
	me := strconv.Itoa(os.Getpid())
	for name, text := range map[string]string{me + "-1": "", me + "-2": "short", me + "-3": string(make([]byte, 4096)), "-5": "x", "9x-1": "x"} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		defer lock(t, path)() // else it is removed unread
	}
	if list, err := Endpoints([]string{folder}); err != nil || len(list) != 0 {
		t.Errorf("%v, %+v", err, list)
	}
}
