// SPDX-License-Identifier: MIT

package lab

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/yamux"

	"skep/lab/wire"
)

func TestClaim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab", "vm")
	f, err := claimDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "out", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := claimDir(dir); err == nil || !strings.Contains(err.Error(), "another name") {
		t.Errorf("the folder of a machine that runs: %v", err)
	}
	f.Close()
	again, err := claimDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left of the dead run: %v, %v", left, err)
	}
}

func TestProcess_ending(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"true", ""},
		{"exit 3", "QEMU failed (exit status 3)"},
		{"kill -9 $$", "QEMU was killed by signal 9 (killed)"},
	} {
		p, err := startProcess(exec.Command("sh", "-c", c.script))
		if err != nil {
			t.Fatal(err)
		}
		<-p.done
		if got := p.endText(); got != c.want {
			t.Errorf("%s: %q, want %q", c.script, got, c.want)
		}
	}
	if _, err := startProcess(exec.Command("/nonesuch")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// deadGuest returns a guest whose QEMU, here a script, has ended.
func deadGuest(t *testing.T, script, console, said string) (*Guest, *vm) {
	t.Helper()
	g := &Guest{machine: Machine{Build: t.TempDir(), Name: "vm"}, done: make(chan struct{})}
	if err := os.MkdirAll(g.Dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{consoleFile: console, emulator: said} {
		if err := os.WriteFile(filepath.Join(g.Dir(), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, err := startProcess(exec.Command("sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	<-p.done
	return g, &vm{process: p}
}

func TestGuest_cause(t *testing.T) {
	for _, c := range []struct{ name, script, console, said, want string }{
		{"panic", "true", "x\n[    1.2] Kernel panic - not syncing: Fatal exception\n[ 1.3] Call Trace:\n", "", "Kernel panic - not syncing: Fatal exception"},
		{"first panic", "true", "Kernel panic - not syncing: a\nKernel panic - not syncing: b\n", "", "Kernel panic - not syncing: a"},
		{"killed", "kill -9 $$", "Kernel panic - not syncing: a\n", "", "QEMU was killed by signal 9 (killed)"},
		{"QEMU's own", "exit 1", "", "warning: x\nqemu: no such option\n", "QEMU failed (exit status 1): qemu: no such option"},
		{"process 1", "true", "skep-guest: mount the root: no such device\r\n", "", "the guest could not mount the root: no such device"},
		{"nothing said", "true", "Power down\n", "", "the guest turned itself off or restarted, and nobody had asked for it"},
	} {
		g, v := deadGuest(t, c.script, c.console, c.said)
		if got := g.findCause(v); got.Error() != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A guest that must not boot again has ended for good, even if its QEMU ended in order.
// Otherwise Kill would wait for ever.
func TestGuest_endBetweenBoots(t *testing.T) {
	for _, late := range []bool{false, true} {
		g, v := deadGuest(t, "true", "reboot: Restarting system\n", "")
		ours, theirs := net.Pipe()
		defer theirs.Close()
		var err error
		if v.session, err = yamux.Client(ours, wire.Yamux(io.Discard)); err != nil {
			t.Fatal(err)
		}
		v.gone = make(chan struct{})
		g.vm, g.end = v, restarting
		g.judgeEnd(v)
		want := error(nil)
		if late {
			want = errors.New("it took too long")
			g.fail(want)
		}
		// An expired time limit is not the cause: the end came in time.
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.betweenBoots(over, v); err != want {
			t.Errorf("%v, want %v", err, want)
		}
		select {
		case <-g.done:
			if !late {
				t.Error("a guest that may boot again is done")
			}
		default:
			if late {
				t.Error("a guest that may not boot again is not done")
			}
		}
	}
}

// A restart appends to console.log. A panic of an earlier boot is not reported again.
func TestGuest_earlierBoot(t *testing.T) {
	earlier := "Kernel panic - not syncing: then\n"
	g, v := deadGuest(t, "true", earlier+"Power down\n", "")
	v.console = int64(len(earlier))
	if line := g.panicLine(v); line != "" {
		t.Errorf("this boot's panic: %q", line)
	}
}

func TestGuest_tooMuch(t *testing.T) {
	g, _ := deadGuest(t, "true", "", "")
	if err := g.tooMuch(os.Getpid()); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(filepath.Join(g.Dir(), consoleFile), logMax+1); err != nil {
		t.Fatal(err)
	}
	if err := g.tooMuch(os.Getpid()); err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Errorf("a console of more than 64 MiB: %v", err)
	}
}

func TestOutTooMuch(t *testing.T) {
	out := t.TempDir()
	hole := filepath.Join(out, "hole")
	if err := os.WriteFile(hole, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(hole, 1<<30); err != nil {
		t.Fatal(err)
	}
	if err := outTooMuch(out, os.Getpid(), 1<<20, 2); err != nil {
		t.Errorf("a file that is one hole: %v", err)
	}
	if err := os.WriteFile(filepath.Join(out, "full"), make([]byte, 2<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := outTooMuch(out, os.Getpid(), 1<<20, 3); err == nil || !strings.Contains(err.Error(), "/out") {
		t.Errorf("2 MiB of 1: %v", err)
	}
	if err := outTooMuch(out, os.Getpid(), 1<<30, 2); err == nil {
		t.Error("a folder and two files are two files")
	}
}

// A removed file that is still open uses disk space too.
func TestOutTooMuch_removed(t *testing.T) {
	out := t.TempDir()
	f, err := os.Create(filepath.Join(out, "full"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	if err := outTooMuch(out, os.Getpid(), 1<<20, 9); err == nil || !strings.Contains(err.Error(), "/out") {
		t.Errorf("2 MiB of 1: %v", err)
	}
	if err := outTooMuch(out, os.Getpid(), 4<<20, 9); err != nil {
		t.Errorf("2 MiB of 4: %v", err)
	}
	if err := outTooMuch(t.TempDir(), os.Getpid(), 1<<20, 9); err != nil {
		t.Errorf("a file of another folder: %v", err)
	}
}

// Files in folders too deep for a path count too.
func TestOutTooMuch_deep(t *testing.T) {
	out := t.TempDir()
	root, err := os.OpenRoot(out)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("d", 250)
	for range 20 {
		if err := root.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := root.OpenRoot(name)
		root.Close()
		if err != nil {
			t.Fatal(err)
		}
		root = next
	}
	root.Close()
	if err := outTooMuch(out, os.Getpid(), 1<<30, 99); err == nil || !strings.Contains(err.Error(), "looked through") {
		t.Errorf("a folder too deep to look at: %v", err)
	}
}

func TestAccel_chosen(t *testing.T) {
	m := &Machine{Build: t.TempDir(), Count: &Count{}}
	t.Setenv("SKEP_ACCEL", "")
	if a, err := m.chooseAccel(t.Context(), "/nonesuch", ""); a != "tcg" || err != nil {
		t.Errorf("for counts: %q, %v", a, err)
	}
	t.Setenv("SKEP_ACCEL", "kvm")
	if _, err := m.chooseAccel(t.Context(), "/nonesuch", ""); err == nil {
		t.Error("counts under kvm")
	}
	m.Count = nil
	if a, err := m.chooseAccel(t.Context(), "/nonesuch", ""); a != "kvm" || err != nil {
		t.Errorf("as asked: %q, %v", a, err)
	}
	t.Setenv("SKEP_ACCEL", "hvf")
	if _, err := m.chooseAccel(t.Context(), "/nonesuch", ""); err == nil || !strings.Contains(err.Error(), "set tcg or kvm") {
		t.Errorf("an unknown one: %v", err)
	}
}

// The answer is cached: a second call does not start QEMU.
func TestAccel_probe(t *testing.T) {
	dir := t.TempDir()
	qemu := filepath.Join(dir, "qemu")
	good := "#!/bin/sh\necho 'Kernel panic - not syncing: VFS: no root'\n"
	for i, c := range []struct{ script, want string }{
		{good, "kvm"},
		{"#!/bin/sh\necho KVM: no >&2\nexit 1\n", "tcg"},
		{"#!/bin/sh\n", "tcg"},
	} {
		cache := filepath.Join(dir, "accel"+string(rune('0'+i)))
		if err := os.WriteFile(qemu, []byte(c.script), 0o755); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, err := cachedProbe(t.Context(), cache, qemu, "image"); got != c.want || err != nil {
				t.Errorf("%q gives %q, %v; want %q", c.script, got, err, c.want)
			}
			os.Remove(qemu)
		}
	}
	stale := filepath.Join(dir, "stale")
	if err := os.WriteFile(stale, []byte("another-start kvm\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := cachedProbe(t.Context(), stale, qemu, "image"); got != "tcg" || err != nil {
		t.Errorf("an answer of another start of this computer: %q, %v", got, err)
	}
}

// An invalid machine, or one without a kernel, is refused before any file is created.
func TestStart_refused(t *testing.T) {
	for why, m := range map[string]Machine{
		"CPUs":                      {CPUs: 65},
		"kernel 6.1 is not fetched": {},
	} {
		m.Build = t.TempDir()
		g, err := Start(t.Context(), m)
		if err == nil || g != nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, %v; want a word of %q", g, err, why)
		}
		if list, _ := os.ReadDir(m.Build); len(list) > 0 {
			t.Errorf("%s: it left %v", why, list)
		}
	}
}
