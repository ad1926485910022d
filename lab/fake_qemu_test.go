// SPDX-License-Identifier: MIT

//go:build linux

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"skep/lab/wire"
)

// TestMain is also a QEMU: under that name this program plays a guest that boots at once.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "qemu-system-x86_64" {
		os.Exit(playQEMU(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// argumentOf returns the value of an option of QEMU.
func argumentOf(args []string, option string) string {
	i := slices.Index(args, option)
	if i < 0 || i+1 == len(args) {
		return ""
	}
	return args[i+1]
}

// pathOf returns the file of a character device.
func pathOf(args []string, id string) string {
	for _, a := range args {
		if rest, ok := strings.CutPrefix(a, "file,id="+id+",append=on,path="); ok {
			return rest
		}
	}
	return ""
}

func appendFile(path, text string) {
	if f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0); err == nil {
		f.WriteString(text)
		f.Close()
	}
}

// playQEMU acts as the word after "fake." on the kernel's command line says.
func playQEMU(args []string) int {
	_, role, _ := strings.Cut(argumentOf(args, "-append"), "fake.")
	console := pathOf(args, "console")
	switch role {
	case "exit":
		fmt.Fprintln(os.Stderr, "qemu: starts\nqemu: no such machine")
		return 1
	case "panic":
		appendFile(console, "boots\nKernel panic - not syncing: no root\nmore\n")
		return 0
	case "init":
		appendFile(console, "skep-guest: mount the root: no such device\n")
		return 0
	case "stale":
		appendFile(console, "int3: 0000 [#1]\nModules linked in:\nKernel panic - not syncing: again\n")
		return 0
	}
	conn, err := net.FileConn(os.NewFile(controlFD, "control"))
	if err != nil {
		return 2
	}
	session, err := yamux.Server(conn, wire.Yamux(io.Discard))
	if err != nil {
		return 3
	}
	if role == "mute" {
		appendFile(pathOf(args, "results"), "waits\n")
		select {}
	}
	first, err := session.Open()
	if err != nil {
		return 4
	}
	hello := wire.Hello{Release: "6.1.0-1-amd64", CPUs: 2, Memory: 1000, Failure: checkInherited(args)}
	switch role {
	case "failure":
		hello.Failure = "load modules: none"
	case "release":
		hello.Release = "../6.1\x1b"
	case "nonsense":
		first.Write([]byte("\x02\x00\x00\x00[]"))
	case "silent":
		appendFile(pathOf(args, "results"), "waits\n")
		select {}
	}
	appendFile(console, "boots\n")
	if wire.Write(first, hello) != nil {
		return 5
	}
	for {
		stream, err := session.Accept()
		if err != nil {
			return 0
		}
		var r wire.Request
		if wire.Read(stream, &r) != nil {
			continue
		}
		switch {
		case r.Op == wire.Run && role == "torn":
			stream.Close()
		case r.Op == wire.Run && role == "dies":
			appendFile(console, "Kernel panic - not syncing: while it ran\n")
			return 0
		case r.Op == wire.Run:
			discardInput(stream)
			sendExit(stream, int32(len(r.Program.Args)))
		case role == "deaf":
			appendFile(pathOf(args, "results"), "asked\n")
		default:
			appendFile(console, "reboot: "+string(r.Op)+"\n")
			return 0
		}
	}
}

// checkInherited returns what is wrong with the files that QEMU inherits.
func checkInherited(args []string) string {
	head := make([]byte, 6)
	if _, err := os.NewFile(initramfsFD, "initramfs").ReadAt(head, 0); err != nil || string(head) != "070701" {
		return fmt.Sprintf("read the initramfs: %q, %v", head, err)
	}
	if argumentOf(args, "-initrd") != "/proc/self/fd/4" {
		return "find the initramfs"
	}
	for i := range strings.Count(strings.Join(args, " "), "virtio-blk-pci") {
		info, err := os.NewFile(uintptr(diskFD+i), "disk").Stat()
		if err != nil || info.Size() != int64(i+1)<<20 {
			return fmt.Sprintf("use disk %d: %v, %v", i, info, err)
		}
	}
	return ""
}

// fakeMachine returns a machine that boots in a fake QEMU of this role.
func fakeMachine(t *testing.T, role string) Machine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, build := t.TempDir(), t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "qemu-system-x86_64")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("SKEP_ACCEL", "tcg")
	k := fakeKernel(t, build)
	plantFile(t, filepath.Join(k.ModuleDir(), "modules.builtin"), strings.ReplaceAll(
		"virtio_pci virtio_console 9pnet_virtio 9p overlay virtio_blk virtio_net bridge sch_netem ", " ", ".ko\n"))
	plantFile(t, filepath.Join(build, "bin", guestName), string(objectFile()))
	return Machine{Build: build, Name: "fake", Append: "fake." + role}
}

func startFake(t *testing.T, m Machine) *Guest {
	t.Helper()
	g, err := Start(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Kill)
	return g
}

// isDone reports whether a guest has ended for good.
func isDone(g *Guest) bool {
	select {
	case <-g.Done():
		return true
	default:
		return false
	}
}

func TestMachineFromItsStartToItsEnd(t *testing.T) {
	m := fakeMachine(t, "")
	m.Disks = []Disk{{MiB: 1}, {MiB: 2}}
	g := startFake(t, m)
	if h := g.Hello(); h.Release != "6.1.0-1-amd64" || h.CPUs != 2 || g.Err() != nil || isDone(g) || g.Machine().CPUs != 2 || g.Machine().Name != "fake" {
		t.Errorf("%+v, %v", h, g.Err())
	}
	var names []string
	list, err := os.ReadDir(g.Dir())
	for _, e := range list {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s %v", e.Name(), info.Mode()))
	}
	if want := []string{"console.log -rw-r--r--", "out drwxr-xr-x", "qemu.log -rw-r--r--", "results.tap -rw-r--r--"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("the folder has %q, %v", names, err)
	}
	if _, err := Start(t.Context(), m); err == nil || !strings.Contains(err.Error(), `machine "fake": `) || !strings.Contains(err.Error(), "belongs to a machine that runs") {
		t.Errorf("a second one of that name: %v", err)
	}
	if status, err := g.Run(t.Context(), Program{Args: []string{"a", "b"}}, Streams{}); status != 2 || err != nil {
		t.Errorf("status %d, %v", status, err)
	}
	if err := g.PowerOff(t.Context()); err != nil || g.Err() != nil || !isDone(g) {
		t.Errorf("%v, %v", err, g.Err())
	}
	if text, err := os.ReadFile(filepath.Join(g.Dir(), consoleFile)); err != nil || string(text) != "boots\nreboot: poweroff\n" {
		t.Errorf("console %q, %v", text, err)
	}
	for _, f := range append(g.files, g.lock) {
		if _, err := f.Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s is still open: %v", f.Name(), err)
		}
	}
	var dead *DeadError
	if err := g.PowerOff(t.Context()); !errors.As(err, &dead) || err.Error() != `machine "fake" is dead: it was turned off` {
		t.Errorf("once more: %v", err)
	}
}

func TestMachineBootsAgain(t *testing.T) {
	g := startFake(t, fakeMachine(t, ""))
	for range 2 {
		if err := g.Reboot(t.Context()); err != nil || isDone(g) || g.Err() != nil {
			t.Fatal(err, g.Err())
		}
	}
	if status, err := g.Run(t.Context(), Program{Args: []string{"a"}}, Streams{}); status != 1 || err != nil {
		t.Errorf("status %d, %v", status, err)
	}
	if text, err := os.ReadFile(filepath.Join(g.Dir(), consoleFile)); err != nil || string(text) != "boots\nreboot: reboot\nboots\nreboot: reboot\nboots\n" {
		t.Errorf("console %q, %v", text, err)
	}
	g.Kill()
	if !isDone(g) || g.Err() != ErrKilled {
		t.Errorf("killed: %v", g.Err())
	}
	var dead *DeadError
	if _, err := g.Run(t.Context(), Program{Args: []string{"a"}}, Streams{}); !errors.As(err, &dead) || !errors.Is(err, ErrKilled) {
		t.Errorf("a killed guest: %v", err)
	}
}

// A guest whose panic was declared boots again; one that stays up is killed, and a panic that
// was not declared is its death.
func TestMachineBootsAfterAPanic(t *testing.T) {
	g := startFake(t, fakeMachine(t, "dies"))
	if err := g.RebootAfterPanic(t.Context()); err == nil || !strings.Contains(err.Error(), "no panic was declared") || isDone(g) {
		t.Errorf("a panic that nobody declared: %v", err)
	}
	g.ExpectPanic()
	if _, err := g.Run(t.Context(), Program{Args: []string{"a"}}, Streams{}); err == nil {
		t.Error("a program ended well in a panic")
	}
	if err := g.RebootAfterPanic(t.Context()); err != nil || isDone(g) || g.Err() != nil {
		t.Fatal(err, g.Err())
	}
	if text, err := os.ReadFile(filepath.Join(g.Dir(), consoleFile)); err != nil || string(text) != "boots\nKernel panic - not syncing: while it ran\nboots\n" {
		t.Errorf("console %q, %v", text, err)
	}
	var dead *DeadError
	if _, err := g.Run(t.Context(), Program{Args: []string{"a"}}, Streams{}); !errors.As(err, &dead) || !strings.Contains(err.Error(), "while it ran") {
		t.Errorf("a second panic, which was not declared: %v", err)
	}

	g = startFake(t, fakeMachine(t, ""))
	g.ExpectPanic()
	reason := errors.New("enough")
	over, end := context.WithCancelCause(t.Context())
	end(reason)
	if err := g.RebootAfterPanic(over); !errors.Is(err, reason) || !strings.Contains(err.Error(), "did not panic") || !isDone(g) {
		t.Errorf("a guest that does not panic: %v", err)
	}
}

// Whatever stops a boot is named, and with a console it stays to be read.
func TestMachineThatDoesNotBoot(t *testing.T) {
	for role, c := range map[string]struct {
		want    string
		console bool
	}{
		"exit":     {"QEMU failed (exit status 1): qemu: no such machine", false},
		"panic":    {"Kernel panic - not syncing: no root; its console is ", true},
		"init":     {"the guest could not mount the root: no such device; its console is ", true},
		"failure":  {"the guest could not load modules: none; its console is ", true},
		"release":  {`the guest violated the protocol in its hello: it calls its kernel "../6.1?"`, true},
		"nonsense": {"the guest violated the protocol in its hello: not a message", false},
		"stale":    {"Kernel panic - not syncing: again; its console is ", true},
	} {
		m := fakeMachine(t, role)
		g, err := Start(t.Context(), m)
		if err == nil || g != nil || !strings.HasPrefix(err.Error(), `machine "fake": `+c.want) {
			t.Errorf("%s: %v, want %q", role, err, c.want)
		}
		m, _ = m.withDefaults()
		console, failed := os.ReadFile(filepath.Join(m.dir(), consoleFile))
		if c.console != (failed == nil) && role != "nonsense" {
			t.Errorf("%s: console %q, %v", role, console, failed)
		}
		if boots := bytes.Count(console, []byte("int3")); role == "stale" && boots != 1 {
			t.Errorf("the console has %d boots", boots)
		}
	}
}

// awaitResults returns when a guest has reported something.
func awaitResults(dir string) {
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for size(filepath.Join(dir, resultsFile)) == 0 {
		<-poll.C
	}
}

// A boot that its caller ends ends at once, with the caller's reason: before the guest
// says anything, and amid its first message.
func TestMachineWhoseBootIsEnded(t *testing.T) {
	for _, role := range []string{"mute", "silent"} {
		m := fakeMachine(t, role)
		full, err := m.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		reason := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			awaitResults(full.dir())
			cancel(reason)
		}()
		if g, err := Start(ctx, m); g != nil || !errors.Is(err, reason) {
			t.Errorf("%s: %v, %v", role, g, err)
		}
		if exists(full.dir()) {
			t.Errorf("%s: its folder stays, without a console", role)
		}
	}
}

// A guest that does not turn off is killed when its caller gives up.
func TestMachineThatDoesNotTurnOff(t *testing.T) {
	g := startFake(t, fakeMachine(t, "deaf"))
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		awaitResults(g.Dir())
		cancel(reason)
	}()
	if err := g.PowerOff(ctx); !errors.Is(err, reason) || !isDone(g) || !errors.Is(g.Err(), reason) {
		t.Errorf("%v, %v", err, g.Err())
	}
	over, end := context.WithCancel(t.Context())
	end()
	if _, err := g.Stream(over); !errors.Is(err, context.Canceled) {
		t.Errorf("a stream for a caller that is gone: %v", err)
	}
}

// A panic while a program runs is the reason why the run has no status.
func TestMachineThatDiesWhileAProgramRuns(t *testing.T) {
	g := startFake(t, fakeMachine(t, "dies"))
	var dead *DeadError
	if status, err := g.Run(t.Context(), Program{Args: []string{"a"}}, Streams{}); status != 0 || !errors.As(err, &dead) || !strings.Contains(err.Error(), "not syncing: while it ran") {
		t.Errorf("status %d, %v", status, err)
	}
	if !isDone(g) || g.Err() == nil {
		t.Errorf("it goes on: %v", g.Err())
	}
}

// A pair is two guests on one link; if the second does not come up, the first ends.
func TestPairOfMachines(t *testing.T) {
	m := fakeMachine(t, "")
	a, b := m, m
	a.Name, b.Name = "a", "b"
	p, err := NewPair(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if p[0].Machine().Wire.peer != "b" || p[1].Machine().Wire.peer != "a" || p[0].Machine().Wire.end == p[1].Machine().Wire.end {
		t.Errorf("%+v and %+v", p[0].Machine().Wire, p[1].Machine().Wire)
	}
	if err := p.PowerOff(t.Context()); err != nil || !isDone(p[0]) || !isDone(p[1]) {
		t.Errorf("%v", err)
	}
	b.Append = "fake.panic"
	if p, err := NewPair(t.Context(), a, b); p != nil || err == nil || !strings.Contains(err.Error(), "no root") || !strings.Contains(err.Error(), "the other's console is ") {
		t.Errorf("%v, %v", p, err)
	}
	b.Name = "a"
	if p, err := NewPair(t.Context(), a, b); p != nil || err == nil || !strings.Contains(err.Error(), `both machines of a pair are called "a"`) {
		t.Errorf("%v, %v", p, err)
	}
}
