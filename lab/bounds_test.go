// SPDX-License-Identifier: MIT

//go:build linux

package lab

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The largest and the smallest value of each part of a machine, and the next ones.
func TestMachineAtItsBounds(t *testing.T) {
	name := func(n int) string { return strings.Repeat("n", n) }
	for what, c := range map[string]struct {
		m  Machine
		ok bool
	}{
		"64 CPUs": {Machine{CPUs: 64}, true}, "65 CPUs": {Machine{CPUs: 65}, false}, "1 CPU": {Machine{CPUs: 1}, true}, "-1 CPUs": {Machine{CPUs: -1}, false},
		"2 threads": {Machine{CPUs: 4, Threads: 2}, true}, "3 threads": {Machine{CPUs: 6, Threads: 3}, false}, "-1 threads": {Machine{Threads: -1}, false},
		"256 MiB": {Machine{Memory: 256}, true}, "255 MiB": {Machine{Memory: 255}, false}, "64 GiB": {Machine{Memory: 64 << 10}, true}, "1 MiB more": {Machine{Memory: 64<<10 + 1}, false},
		"8 NUMA nodes": {Machine{CPUs: 8, NUMA: 8}, true}, "9 NUMA nodes": {Machine{CPUs: 9, NUMA: 9, Memory: 9 * 128}, false}, "-1 NUMA nodes": {Machine{NUMA: -1}, false},
		"CPUs that do not divide": {Machine{CPUs: 3, NUMA: 2}, false}, "memory that does not divide": {Machine{CPUs: 2, NUMA: 2, Memory: 1023}, false},
		"128 MiB of each": {Machine{CPUs: 2, NUMA: 2, Memory: 256}, true}, "127 MiB of each": {Machine{CPUs: 3, NUMA: 3, Memory: 3 * 127}, false},
		"whole cores of each": {Machine{CPUs: 4, NUMA: 2, Threads: 2}, true}, "half cores of each": {Machine{CPUs: 2, NUMA: 2, Threads: 2}, false},
		"64 nodes": {Machine{Nodes: 64}, true}, "65 nodes": {Machine{Nodes: 65}, false}, "-1 nodes": {Machine{Nodes: -1}, false},
		"10 s of delay": {Machine{Nodes: 1, Delay: 10 * time.Second}, true}, "more delay": {Machine{Nodes: 1, Delay: 10*time.Second + 1}, false}, "-1 ns of delay": {Machine{Nodes: 1, Delay: -1}, false},
		"all lost": {Machine{Nodes: 1, Loss: 1}, true}, "more than all": {Machine{Nodes: 1, Loss: 1.001}, false}, "less than none": {Machine{Nodes: 1, Loss: -0.001}, false},
		"loss without nodes": {Machine{Loss: 0.5}, false}, "delay without nodes": {Machine{Delay: 1}, false},
		"8 disks":          {Machine{Disks: []Disk{{MiB: 1}, {MiB: 1}, {MiB: 1}, {MiB: 1}, {MiB: 1}, {MiB: 1}, {MiB: 1}, {MiB: 1}}}, true},
		"a disk of 16 GiB": {Machine{Disks: []Disk{{MiB: 16 << 10}}}, true}, "a larger disk": {Machine{Disks: []Disk{{MiB: 16<<10 + 1}}}, false},
		"the second disk": {Machine{Disks: []Disk{{MiB: 1}, {MiB: 0}}}, false}, "1,024 bytes": {Machine{Append: strings.Repeat("a", 1024)}, true}, "1,025 bytes": {Machine{Append: strings.Repeat("a", 1025)}, false},
		"a tilde": {Machine{Append: " ~"}, true}, "a delete": {Machine{Append: "\x7f"}, false}, "a unit separator": {Machine{Append: "\x1f"}, false},
		"63 letters": {Machine{Name: name(63)}, true}, "64 letters": {Machine{Name: name(64)}, false}, "digits": {Machine{Name: "0-._Z9"}, true}, "a dot first": {Machine{Name: ".a"}, false},
		"a colon first": {Machine{Name: ":"}, false}, "a slash first": {Machine{Name: "/"}, false}, "a module": {Machine{Modules: []string{"a-b_c"}}, true}, "no module": {Machine{Modules: []string{"a", ""}}, false},
	} {
		c.m.Build = t.TempDir()
		if err := c.m.Check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestNamesOfKernels(t *testing.T) {
	for s, ok := range map[string]bool{"6.1.0-1-amd64": true, "": false, "x": false, "6": true, "6/1": false, ":": false, "/": false,
		"6" + strings.Repeat("x", 63): true, "6" + strings.Repeat("x", 64): false, "9.A~+_z": true} {
		if validRelease(s) != ok {
			t.Errorf("release %q: %v", s, !ok)
		}
	}
	for s, want := range map[string]string{"6.1": "6.1", "6.1.176-1": "6.1", "6.12.95-1~bpo12+1": "6.12", "6.1.176": "6.1.176", "6.1.176-1 ": "6.1.176-1 ",
		"6.1.9-0" + strings.Repeat("a", 31): "6.1", "6.1.9-0" + strings.Repeat("a", 32): "6.1.9-0" + strings.Repeat("a", 32)} {
		if got := seriesOf(s); got != want || exactVersion(s) != (got != s) {
			t.Errorf("%q is of series %q", s, got)
		}
	}
	for n, ok := range map[int]bool{0: false, 1: true, 64: true, 65: false} {
		if countName(strings.Repeat("n", n)) != ok {
			t.Errorf("a range with a name of %d letters: %v", n, !ok)
		}
	}
}

// The answer of a probe counts for the boot of this computer in which it was given, and
// only if it is one of two words.
func TestAnswersOfAProbe(t *testing.T) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Skip(err)
	}
	boot := strings.TrimSpace(string(id))
	for known, want := range map[string]string{boot + " kvm\n": "kvm", boot + " tcg\n": "tcg", "another kvm\n": "tcg", boot + " hvf\n": "tcg", boot + "\n": "tcg", boot + " kvm more\n": "tcg", "": "tcg"} {
		file := filepath.Join(t.TempDir(), "accel")
		if err := os.WriteFile(file, []byte(known), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := cachedProbe(t.Context(), file, "/nonesuch", "image"); got != want || err != nil {
			t.Errorf("%q: %q, %v", known, got, err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != boot+" "+want+"\n" {
			t.Errorf("%q is replaced by %q, %v", known, text, err)
		}
	}
}

// Each log may have so much, and no byte more.
func TestLogsOfAGuest(t *testing.T) {
	for _, name := range []string{consoleFile, resultsFile, emulator} {
		g, _ := deadGuest(t, "true", "", "")
		plantFile(t, filepath.Join(g.Dir(), resultsFile), "")
		for n, ok := range map[int64]bool{logMax: true, logMax + 1: false} {
			if err := os.Truncate(filepath.Join(g.Dir(), name), n); err != nil {
				t.Fatal(err)
			}
			if err := g.tooMuch(os.Getpid()); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s of %d bytes: %v", name, n, err)
			}
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		plantFile(t, filepath.Join(dir, name), "x")
	}
	for files, ok := range map[int64]bool{3: true, 2: false} { // the folder counts as well
		if err := outTooMuch(dir, os.Getpid(), 1<<20, files); (err == nil) != ok {
			t.Errorf("at most %d files: %v", files, err)
		}
	}
}

// The end of a log is read, of one boot, and as much of it as an error needs.
func TestEndOfALog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	plantFile(t, path, strings.Repeat("a", 10)+strings.Repeat("b", tailMax-1)+"c")
	for from, want := range map[int64]string{0: "b", 10: "b", 11: "b", tailMax + 9: "c"} {
		got := readTail(path, from)
		if n := min(tailMax, tailMax+10-from); int64(len(got)) != n || got[:1] != want || got[len(got)-1] != 'c' {
			t.Errorf("from %d: %d bytes, %.3q", from, len(got), got)
		}
	}
	if got := readTail(path, tailMax+10); got != "" {
		t.Errorf("behind the end: %q", got)
	}
	if got := readTail(path+"x", 0); got != "" || size(path+"x") != 0 || size(path) != tailMax+10 {
		t.Errorf("no file: %q", got)
	}
	l := &lastLine{}
	for _, text := range []string{"[WARN] slow\n", "first\n[ERR] second\n", "third\n"} {
		if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	if l.String() != "[ERR] second" {
		t.Errorf("%q", l.String())
	}
}

// What stands in the way of a machine's folder is named.
func TestFolderThatCannotBeClaimed(t *testing.T) {
	top := t.TempDir()
	plantFile(t, filepath.Join(top, "file"), "")
	if _, err := claimDir(filepath.Join(top, "file")); !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), "choose another name if a file") {
		t.Errorf("a file: %v", err)
	}
	m := Machine{Build: top, Name: "vm"}
	g := &Guest{machine: m, kernel: fakeKernel(t, top), done: make(chan struct{})}
	if err := g.prepareDir(); err == nil || !strings.Contains(err.Error(), "is not built: run make") {
		t.Errorf("no guest program: %v", err)
	}
	g.releaseAll()
	if _, err := g.lock.Stat(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the lock is kept: %v", err)
	}
}

// Lines of errors are short, printable and of one piece.
func TestLinesOfErrors(t *testing.T) {
	for line, want := range map[string]string{" a b ": "a b", "a\tb": "a?b", "a\x7fb": "a?b", "\u009fx\u00a0y": "?x\u00a0y", "\xff": "?", "a~": "a~",
		strings.Repeat("x", 300): strings.Repeat("x", 300), strings.Repeat("x", 301): strings.Repeat("x", 300)} {
		if got := cleanLine(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
	var l Limited
	for range 3 {
		if n, err := l.Write(make([]byte, 100<<10)); n != 100<<10 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	if len(l) != 256<<10 {
		t.Errorf("%d bytes are kept", len(l))
	}
}
