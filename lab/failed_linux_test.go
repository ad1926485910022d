// SPDX-License-Identifier: MIT

package lab

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A file in place of a folder stops what needs the folder, and the error names it.
func TestFilesInPlaceOfFolders(t *testing.T) {
	top := t.TempDir()
	file := filepath.Join(top, "file")
	plantFile(t, file, "")
	set := kernelSet{"6.1.9", "linux-image-6.1.9", "linux-headers-6.1.9", "linux-headers-6.1.9-common", "linux-kbuild-6.1", "", ""}
	k := &debugKernel{series: "6.1-debug", dir: file + "/x", work: file + "/x.build", recipe: top, says: io.Discard}
	for name, do := range map[string]func() error{
		"a fetch":          func() error { _, err := FetchKernel(t.Context(), file, "6.1", io.Discard); return err },
		"a lock":           func() error { _, err := lockFile(t.Context(), file+"/lock", nil); return err },
		"apt's folders":    func() error { _, err := openArchive(t.Context(), file, "6.1"); return err },
		"an arrangement":   func() error { return arrangeFiles(top, file, set) },
		"what is kept":     func() error { return keepOnly(file, "x86") },
		"a debug build":    func() error { return k.prepareDir("digest") },
		"a log of a build": func() error { return k.run(t.Context(), "none") },
		"a system":         func() error { _, err := StartSystem(t.Context(), System{Name: "s", Build: file}); return err },
		"a guest's files":  func() error { return (&Guest{machine: Machine{Build: file, Name: "g"}}).prepareDir() },
	} {
		if err := do(); !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone := &debugKernel{series: "6.1-debug", work: top + "/none/x.build", recipe: top, says: io.Discard}
	if err := gone.prepareDir("digest"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a build in no folder: %v", err)
	}
	if err := gone.run(t.Context(), "none"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a log in no folder: %v", err)
	}
	if _, err := (&Guest{machine: Machine{Build: top, Name: "none"}}).createUnnamed(); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("a file in no folder: %v", err)
	}
}

// Only one architecture is kept, and files beside the folders stay.
func TestKeepOnly(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"x86/a.h", "arm/a.h", "Kconfig"} {
		plantFile(t, filepath.Join(dir, name), "")
	}
	if err := keepOnly(dir, "x86"); err != nil {
		t.Fatal(err)
	}
	if !exists(dir+"/x86/a.h") || exists(dir+"/arm") || !exists(dir+"/Kconfig") {
		t.Error("another folder was kept, or too little")
	}
}

// Both ends of a pair are their users' alone: when one end closes, the other sees it.
func TestEndsOfASocketPair(t *testing.T) {
	for _, closed := range []string{"ours", "QEMU's"} {
		conn, theirs, err := socketPair()
		if err != nil {
			t.Fatal(err)
		}
		if closed == "ours" {
			conn.Close()
			n, _, err := syscall.Recvfrom(int(theirs.Fd()), make([]byte, 1), syscall.MSG_DONTWAIT)
			if n != 0 || err != nil {
				t.Errorf("QEMU's end: %d, %v", n, err)
			}
			theirs.Close()
			continue
		}
		theirs.Close()
		conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("our end: %v", err)
		}
		conn.Close()
	}
}

// A probe that is given up ends its QEMU, and its answer is not kept.
func TestProbeThatIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	qemu, pid := filepath.Join(dir, "qemu"), filepath.Join(dir, "pid")
	if err := os.WriteFile(qemu, []byte("#!/bin/sh\necho $$ >"+pid+".part\nmv "+pid+".part "+pid+"\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		poll := time.NewTicker(5 * time.Millisecond)
		defer poll.Stop()
		for !exists(pid) {
			<-poll.C
		}
		cancel()
	}()
	cache := filepath.Join(dir, "accel")
	if got, err := cachedProbe(ctx, cache, qemu, "image"); got != "" || !errors.Is(err, context.Canceled) || exists(cache) {
		t.Errorf("%q, %v; kept: %v", got, err, exists(cache))
	}
	if canBoot(t.Context(), dir+"/none", "image") {
		t.Error("no QEMU boots")
	}
}

// A system starts with its kernel as it is, or unpacked, and ends by Kill, which frees its folder.
func TestSystemFromItsStartToItsEnd(t *testing.T) {
	m := fakeMachine(t, "mute")
	build := m.Build
	plain := filepath.Join(build, "plain")
	plantFile(t, plain, "a kernel that is not packed")
	for range 2 {
		s, err := StartSystem(t.Context(), System{Name: "sys", Build: build, Kernel: plain, Append: "fake.mute"})
		if err != nil {
			t.Fatal(err)
		}
		if s.Console() != filepath.Join(build, "lab", "sys", "console.log") {
			t.Error(s.Console())
		}
		if _, err := StartSystem(t.Context(), System{Name: "sys", Build: build, Kernel: plain}); err == nil || !strings.Contains(err.Error(), "belongs to a machine that runs") {
			t.Errorf("a second one in its folder: %v", err)
		}
		s.Kill()
		select {
		case <-s.Done():
		default:
			t.Error("it was killed and runs")
		}
		if _, err := s.Port.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("its port: %v", err)
		}
	}
	r := &RunningSystem{dir: t.TempDir()}
	if path, err := r.unpackKernel(plain); path != plain || err != nil {
		t.Errorf("%q, %v", path, err)
	}
}

// A package of apt-cache has a name and a version.
func TestPackagesWithoutAName(t *testing.T) {
	d, err := parseDeb("Package: a\nVersion: 1\nSize: 17\nDepends: b (>= 1), c | d\n")
	if err != nil || d.name != "a" || d.version != "1" || d.size != "17" || strings.Join(d.depends, " ") != "b c d" {
		t.Errorf("%+v, %v", d, err)
	}
	for _, text := range []string{"", "Package: a\n", "Version: 1\n"} {
		_, err := parseDeb(text)
		wantError(t, err, "a package without name or version")
	}
}

// A command that is given up says that, not what it printed.
func TestCommandThatIsGivenUp(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runOutput(ended, nil, "sh", "-c", "echo no >&2; exit 1"); err != context.Canceled {
		t.Error(err)
	}
	_, err := runOutput(t.Context(), nil, "sh", "-c", "yes x | head -c 5000 >&2; echo the end >&2; exit 1")
	wantError(t, err, "the end")
	if err != nil && (len(err.Error()) < 800 || len(err.Error()) > 900) {
		t.Errorf("%d bytes", len(err.Error()))
	}
	text, err := runOutput(t.Context(), nil, "sh", "-c", "echo $LC_ALL")
	if err != nil || text != "C\n" {
		t.Errorf("%q, %v", text, err)
	}
}
