// SPDX-License-Identifier: MIT

package launch

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"skep/internal/uapi"
)

// lockPage locks a status page like a live endpoint.
func lockPage(t *testing.T, path string) (release func()) {
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

// privateFolder creates a folder like libo2g.
func privateFolder(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "skep-o2g")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	return folder
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
	folder := privateFolder(t)
	// No process of this pid namespace has this number; one of another may.
	const far = 4194303
	live := uapi.O2GStatus{Magic: uapi.O2GStatusMagic, Revision: uapi.O2GStatusRevision,
		PID: far, Sent: 12, UnmatchedBytes: 7}
	live.Name[0], live.Name[2], live.Name[3] = 4, 0x34, 0x12
	copy(live.Name[8:], []byte{10, 0, 0, 9})
	copy(live.Engine[:], "user")
	copy(live.Program[:], "app\xff")
	page := writePage(t, folder, strconv.Itoa(far)+"-01020304", live)
	release := lockPage(t, page)
	dead := writePage(t, folder, strconv.Itoa(os.Getpid())+"-01020304", live)
	foreign := filepath.Join(folder, "notes.txt")
	if err := os.WriteFile(foreign, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}

	list, refused := ReadEndpoints([]string{folder, filepath.Join(folder, "absent")})
	if refused != nil || len(list) != 1 {
		t.Fatalf("%v, %+v", refused, list)
	}
	e := list[0]
	if e.PID != far || e.Program != "app?" || e.Engine != "user" || e.Address != "10.0.0.9:4660" || e.Sent != 12 || e.UnmatchedBytes != 7 {
		t.Errorf("%+v", e)
	}
	for path, stays := range map[string]bool{page: true, foreign: true, dead: false} {
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s: stays %v, want %v", filepath.Base(path), err == nil, stays)
		}
	}
	release()
	if list, refused := ReadEndpoints([]string{folder}); refused != nil || len(list) != 0 {
		t.Errorf("after its end: %v, %+v", refused, list)
	}
}

// In a container a rank may be process 1.
func TestPageNames(t *testing.T) {
	for name, want := range map[string]int{"1-01020304": 1, "77": 77, "0-01020304": 0, "-1-01020304": 0, "x-01020304": 0, "": 0} {
		if pid, ok := pageOf(name); ok != (want > 0) || ok && pid != want {
			t.Errorf("%q: %d, %v", name, pid, ok)
		}
	}
}

func TestStatusShowsWhatTheModuleCounts(t *testing.T) {
	folder := privateFolder(t)
	s := uapi.O2GStatus{Magic: uapi.O2GStatusMagic, Revision: uapi.O2GStatusRevision, PID: 77,
		SoftirqBytes: 1, WorkerBytes: 2, OverBudget: 3, DirectBytes: 4, SlabPages: 5,
		StoppedReading: 6, Wakes: 7, Sleeps: 8, RefusedMemory: 9}
	copy(s.Engine[:], "kernel")
	lockPage(t, writePage(t, folder, "77-01020304", s))
	list, refused := ReadEndpoints([]string{folder})
	if refused != nil || len(list) != 1 {
		t.Fatalf("%v, %+v", refused, list)
	}
	if m := list[0].Module; m == nil || *m != (Module{1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("%+v", m)
	}
}

func TestStatusNamesAnotherRevision(t *testing.T) {
	folder := privateFolder(t)
	lockPage(t, writePage(t, folder, "77-01020304", uapi.O2GStatus{Magic: uapi.O2GStatusMagic, Revision: uapi.O2GStatusRevision + 1, PID: 77}))
	list, refused := ReadEndpoints([]string{folder})
	want := "revision " + strconv.Itoa(uapi.O2GStatusRevision+1)
	if refused != nil || len(list) != 1 || list[0].PID != 77 || list[0].Engine != want {
		t.Errorf("%v, %+v, want %s", refused, list, want)
	}
}

func TestStatusIgnoresShortAndForeignFiles(t *testing.T) {
	folder := privateFolder(t)
	me := strconv.Itoa(os.Getpid())
	for name, text := range map[string]string{me + "-1": "", me + "-2": "short", me + "-3": string(make([]byte, 4096)), "-5": "x", "9x-1": "x"} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		defer lockPage(t, path)() // without the lock it would be removed
	}
	if list, refused := ReadEndpoints([]string{folder}); refused != nil || len(list) != 0 {
		t.Errorf("%v, %+v", refused, list)
	}
}

// plantLeftover creates a file like one that a killed process leaves.
func plantLeftover(t *testing.T, folder string) (check func()) {
	t.Helper()
	path := filepath.Join(folder, "50-hardening.conf")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestStatusTrustsNoFolderOfOthers: in /dev/shm any user may have created it.
func TestStatusTrustsNoFolderOfOthers(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, folder string) string{
		"open to others": func(t *testing.T, folder string) string {
			if err := os.Chmod(folder, 0o750); err != nil {
				t.Fatal(err)
			}
			return folder
		},
		"a link": func(t *testing.T, folder string) string {
			link := folder + ".link"
			if err := os.Symlink(folder, link); err != nil {
				t.Fatal(err)
			}
			return link
		},
		"a file": func(t *testing.T, folder string) string {
			writeFile(t, folder+".file", "")
			return folder + ".file"
		},
		"another's": func(t *testing.T, folder string) string {
			if os.Getuid() != 0 {
				t.Skip("only root can give a folder away")
			}
			if err := os.Chown(folder, 65534, 65534); err != nil {
				t.Fatal(err)
			}
			return folder
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder, good := privateFolder(t), privateFolder(t)
			check := plantLeftover(t, folder)
			page := writePage(t, good, "77-01020304", uapi.O2GStatus{Magic: uapi.O2GStatusMagic, Revision: uapi.O2GStatusRevision, PID: 77})
			defer lockPage(t, page)()
			bad := spoil(t, folder)
			list, refused := ReadEndpoints([]string{bad, good})
			if len(refused) != 1 || !strings.Contains(refused[0].Error(), bad+" is ignored") {
				t.Errorf("refused: %v", refused)
			}
			if len(list) != 1 || list[0].PID != 77 {
				t.Errorf("the other folder has %+v", list)
			}
			check()
		})
	}
}

// TestStatusIgnoresRenamedFolder: a rename after the folder was opened has no effect.
func TestStatusIgnoresRenamedFolder(t *testing.T) {
	folder, victim := privateFolder(t), privateFolder(t)
	check := plantLeftover(t, victim)
	plantLeftover(t, folder)
	f, err := openFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Rename(folder, folder+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, folder); err != nil {
		t.Fatal(err)
	}
	if list, err := readFolder(f); err != nil || len(list) != 0 {
		t.Errorf("%v, %+v", err, list)
	}
	check()
	if left, _ := os.ReadDir(folder + ".moved"); len(left) != 0 {
		t.Errorf("not swept: %v", left)
	}
}

// TestStatusNamesUnreadableFolder: it is not the same as one without endpoints.
func TestStatusNamesUnreadableFolder(t *testing.T) {
	f, err := openFolder(privateFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if list, err := readFolder(f); err == nil {
		t.Errorf("a folder that can't be read has %+v", list)
	}
}

// TestStatusLeavesOtherEntriesAlone: FIFOs do not block the reader, and symbolic
// links are not followed.
func TestStatusLeavesOtherEntriesAlone(t *testing.T) {
	folder, victim := privateFolder(t), privateFolder(t)
	check := plantLeftover(t, victim)
	if err := syscall.Mkfifo(filepath.Join(folder, "1-a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "2-a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(victim, "50-hardening.conf"), filepath.Join(folder, "3-a")); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		writeFile(t, filepath.Join(folder, "4-a"), "")
		if err := os.Chown(filepath.Join(folder, "4-a"), 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	before, _ := os.ReadDir(folder)
	if list, refused := ReadEndpoints([]string{folder}); refused != nil || len(list) != 0 {
		t.Errorf("%v, %+v", refused, list)
	}
	if after, _ := os.ReadDir(folder); len(after) != len(before) {
		t.Errorf("%v was left of %v", after, before)
	}
	check()
}
