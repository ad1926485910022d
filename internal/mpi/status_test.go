// SPDX-License-Identifier: MIT

package mpi

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"skep/internal/uapi"
)

func writePage(t *testing.T, folder string, pid int, s uapi.O2GStatus) string {
	t.Helper()
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, &s); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, strconv.Itoa(pid)+"-1")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStatusShowsLivePagesAndRemovesDeadOnes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("O2G runs on Linux")
	}
	folder, me := t.TempDir(), os.Getpid()
	live := uapi.O2GStatus{Magic: uapi.O2GStatusMagic, Revision: uapi.O2GStatusRevision,
		PID: uint32(me), Start: startOf(me), Sent: 12, HeldBytes: 7}
	live.Name[0], live.Name[2], live.Name[3] = 4, 0x34, 0x12
	copy(live.Name[8:], []byte{10, 0, 0, 9})
	copy(live.Engine[:], "user")
	copy(live.Program[:], "app\xff")
	page := writePage(t, folder, me, live)

	const gone = 4194303 // above what Linux gives out
	dead := live
	dead.PID = gone
	deadPage := writePage(t, folder, gone, dead)
	reused := live
	reused.PID, reused.Start = uint32(os.Getppid()), startOf(os.Getppid())+1
	reusedPage := writePage(t, folder, os.Getppid(), reused)
	foreign := filepath.Join(folder, "notes.txt")
	if err := os.WriteFile(foreign, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}

	list, err := Endpoints([]string{folder, filepath.Join(folder, "absent")})
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %+v", err, list)
	}
	e := list[0]
	if e.PID != me || e.Program != "app?" || e.Engine != "user" || e.Address != "10.0.0.9:4660" || e.Sent != 12 || e.HeldBytes != 7 {
		t.Errorf("%+v", e)
	}
	for path, stays := range map[string]bool{page: true, foreign: true, deadPage: false, reusedPage: false} {
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s: stays %v, want %v", filepath.Base(path), err == nil, stays)
		}
	}
}

func TestStatusTakesShortAndForeignFilesForNothing(t *testing.T) {
	folder := t.TempDir()
	me := strconv.Itoa(os.Getpid())
	for name, text := range map[string]string{me + "-1": "", me + "-2": "short", me + "-3": string(make([]byte, 4096)), "-5": "x", "9x-1": "x"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := Endpoints([]string{folder}); err != nil || len(list) != 0 {
		t.Errorf("%v, %+v", err, list)
	}
}
