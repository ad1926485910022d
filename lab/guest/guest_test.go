// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"skep/lab/wire"
)

func TestEnvironment(t *testing.T) {
	env := buildEnv(&wire.Program{User: true, Env: []string{"A=1", "PATH=/x", "A=2"}})
	for _, want := range []string{"PATH=/x", "A=2", "HOME=/skep", "USER=skep"} {
		if !slices.Contains(env, want) {
			t.Errorf("%q lacks %s", env, want)
		}
	}
	if len(env) != 6 {
		t.Errorf("%q: a name stands there twice", env)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"bin/prog": 0o755, "other/prog": 0o644, "other/data": 0o644} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + dir + "/other:bin"}
	if got, err := lookPath("prog", dir, env); err != nil || got != dir+"/bin/prog" {
		t.Errorf("prog is %q, %v", got, err)
	}
	if got, err := lookPath("./prog", dir, env); err != nil || got != "./prog" {
		t.Errorf("a path is %q, %v", got, err)
	}
	if _, err := lookPath("data", dir, env); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that cannot be executed: %v", err)
	}
}

func TestAddLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwd")
	old := "root:x:0:0::/root:/bin/sh\nsomebody:x:1000:1000::/:/bin/sh\nskep:x:7:7::/:/bin/sh\ndamaged\n"
	if err := os.WriteFile(file, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := addLine(file, "skep:x:1000:1000::/skep:/bin/sh"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if want := "skep:x:1000:1000::/skep:/bin/sh\nroot:x:0:0::/root:/bin/sh\n"; string(got) != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDepends(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
		good       bool
	}{
		{"two", "\x7fELF\x00license=GPL\x00depends=veth,bridge\x00name=x\x00", []string{"veth", "bridge"}, true},
		{"none", "\x00depends=\x00", nil, true},
		{"no module", "\x7fELF", nil, false},
	} {
		file := filepath.Join(t.TempDir(), "x.ko")
		if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := moduleDeps(file)
		if (err == nil) != c.good || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	if got, err := moduleDeps(filepath.Join(t.TempDir(), "gone.ko")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a file that is not there: %q, %v", got, err)
	}
}

func TestMakeSwap(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(disk, make([]byte, 10*4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makeSwap(disk); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(disk)
	if err != nil || len(b) != 10*4096 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if string(b[4086:4096]) != "SWAPSPACE2" || b[1024] != 1 || b[1028] != 9 || strings.Trim(string(b[4096:]), "\x00") != "" {
		t.Errorf("header % x ... %q", b[1024:1032], b[4086:4096])
	}
}

func TestExitStatus(t *testing.T) {
	if got := exitStatus(syscall.WaitStatus(7 << 8)); got != 7 {
		t.Errorf("exit 7 is %d", got)
	}
	if got := exitStatus(syscall.WaitStatus(syscall.SIGKILL)); got != 137 {
		t.Errorf("killed is %d", got)
	}
}

// Only the fields by which a job checks frames are set here.
func TestJob_frames(t *testing.T) {
	j := &job{input: make(chan []byte, wire.Window), files: &files{}, group: t.TempDir()}
	for range wire.Window {
		if err := j.handleFrame(1, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.handleFrame(1, []byte("x")); err == nil {
		t.Error("input beyond the window is taken")
	}
	if err := j.handleFrame(9, []byte{1, 0, 1, 0}); err == nil {
		t.Error("a size is taken without a terminal")
	}
	if err := j.handleFrame(5, nil); err == nil {
		t.Error("an exit status is taken from the host")
	}
}
