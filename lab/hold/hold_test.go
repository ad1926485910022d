// SPDX-License-Identifier: MIT

//go:build linux

package hold

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/internal/load"
	"skep/internal/peercred"
	"skep/lab"
	"skep/lab/wire"
)

// The test program itself is the holder. Its guests are fake.
const holderVariable = "SKEP_TEST_HOLDER"

func TestMain(m *testing.M) {
	if os.Getenv(holderVariable) == "" {
		os.Exit(m.Run())
	}
	signal.Ignore(syscall.SIGPIPE)
	if err := Serve(context.Background(), os.Stdin, os.Stdout, bootFake); err != nil {
		os.Exit(1)
	}
}

// A fake is a guest whose behaviour its machine's Append and its programs' names select.
type fake struct {
	dir  string
	done chan struct{}
	once sync.Once
	err  error
}

func bootFake(ctx context.Context, build string, m lab.Machine) (Guest, error) {
	dir := recordsDir(build, m.Name)
	if err := os.MkdirAll(filepath.Join(dir, "out"), 0o755); err != nil {
		return nil, err
	}
	switch m.Append {
	case "broken":
		return nil, errors.New("it does not boot")
	case "slow":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	err := os.WriteFile(filepath.Join(dir, "console.log"), []byte("booted\n"), 0o644)
	return &fake{dir: dir, done: make(chan struct{})}, err
}

func (g *fake) Done() <-chan struct{} { return g.done }
func (g *fake) Err() error            { return g.err }
func (g *fake) Dir() string           { return g.dir }
func (g *fake) Hello() wire.Hello     { return wire.Hello{Release: "6.1-fake", CPUs: 2} }
func (g *fake) Kill()                 { g.dieWith(errors.New("it was killed")) }

func (g *fake) PowerOff(context.Context) error {
	g.dieWith(nil)
	return nil
}

func (g *fake) dieWith(err error) {
	g.once.Do(func() {
		g.err = err
		close(g.done)
	})
}

func (g *fake) Stream(context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go g.answerConn(theirs)
	return ours, nil
}

func (g *fake) answerConn(c net.Conn) {
	defer c.Close()
	var r wire.Request
	if wire.Read(c, &r) != nil {
		return
	}
	say := func(t proto.ExecType, text string) { proto.WriteExec(c, t, []byte(text)) }
	switch r.Program.Args[0] {
	case "cat":
		buf := make([]byte, proto.ExecFrameMax)
		for {
			t, p, err := proto.ReadExec(c, buf)
			if err != nil || (t == proto.ExecStdin && len(p) == 0) {
				break
			}
			say(proto.ExecStdin, "")
			say(proto.ExecStdout, string(p))
		}
		say(proto.ExecStderr, "to stderr")
		say(proto.ExecExit, string(binary.LittleEndian.AppendUint32(nil, 7)))
	case "wait":
		say(proto.ExecStdout, "waiting")
		io.Copy(io.Discard, c)
		os.WriteFile(filepath.Join(g.dir, "out", "ended"), nil, 0o644)
	case "panic":
		g.dieWith(errors.New("Kernel panic - not syncing: a test"))
	case "holder":
		fmt.Fprintln(os.Stderr, "a last sentence")
		os.Exit(1)
	case "nonsense":
		c.Write(bytes.Repeat([]byte{0xff}, 64))
	default:
		say(proto.ExecFailed, string(wire.Failure(os.ErrNotExist)))
	}
}

func startMachine(t *testing.T, build string, m lab.Machine) (*Machine, error) {
	t.Helper()
	t.Setenv(holderVariable, "1")
	m.Memory, m.Kernel = 16, "6.1"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	machine, err := Start(ctx, []string{os.Args[0]}, build, m, func(State) {})
	if err == nil {
		t.Cleanup(func() { machine.Down(context.Background()) })
	}
	return machine, err
}

func mustStart(t *testing.T, build, name string) *Machine {
	t.Helper()
	m, err := startMachine(t, build, lab.Machine{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// deepFolder returns a folder whose path is longer than the path of a socket may be.
func deepFolder(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.MkdirAll(filepath.Join(dir, "lab"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func waitUntil(t *testing.T, what string, test func() bool) {
	t.Helper()
	limit, tick := time.After(load.Stretch(20*time.Second)), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for !test() {
		select {
		case <-limit:
			t.Fatal("never: " + what)
		case <-tick.C:
		}
	}
}

func makeProgram(words ...string) lab.Program { return lab.Program{Args: words} }

func checkRemoved(t *testing.T, err error, words ...string) {
	t.Helper()
	var gone *Gone
	if !errors.As(err, &gone) {
		t.Fatalf("%v is not about the machine", err)
	}
	for _, w := range words {
		if !strings.Contains(gone.Text, w) {
			t.Errorf("%q lacks %q", gone.Text, w)
		}
	}
}

func TestProgramsStreamsAndStatus(t *testing.T) {
	m := mustStart(t, deepFolder(t), "one")
	if m.Release != "6.1-fake" || m.State != Up {
		t.Errorf("%+v", m.Info)
	}
	in := strings.Repeat("0123456789", 100_000)
	var out, errs bytes.Buffer
	status, err := m.Exec(t.Context(), makeProgram("cat"), lab.Streams{In: strings.NewReader(in), Out: &out, Err: &errs})
	if status != 7 || err != nil || out.String() != in || errs.String() != "to stderr" {
		t.Errorf("status %d, %v, %d of %d bytes, %q", status, err, out.Len(), len(in), errs.String())
	}
	var failed *lab.RunError
	if _, err := m.Exec(t.Context(), makeProgram("absent"), lab.Streams{}); !errors.As(err, &failed) {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestFolderIsClosedToOthers(t *testing.T) {
	build := deepFolder(t)
	mustStart(t, build, "one")
	for _, path := range []string{rootDir(build), machineDir(build, "one"), filepath.Join(machineDir(build, "one"), socketName)} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestNamesAreTakenOnce(t *testing.T) {
	build := deepFolder(t)
	m := mustStart(t, build, "one")
	if _, err := startMachine(t, build, lab.Machine{Name: "one"}); err == nil || !strings.Contains(err.Error(), "skep lab shell one") {
		t.Errorf("a second one: %v", err)
	}
	if name := FreeName(build, "one"); name != "one2" {
		t.Errorf("the free name is %s", name)
	}
	for _, bad := range []string{"", ".hold", "a/b"} {
		if _, err := startMachine(t, build, lab.Machine{Name: bad}); err == nil {
			t.Errorf("a machine named %q started", bad)
		}
	}
	// The lab's own files have names that no machine may have.
	for _, name := range []string{lockName, "boot", socketName, infoName} {
		other := mustStart(t, build, name)
		if _, _, err := List(build); err != nil {
			t.Errorf("beside a machine named %q: %v", name, err)
		}
		if err := other.Down(t.Context()); err != nil {
			t.Errorf("a machine named %q: %v", name, err)
		}
	}
	mustStart(t, build, "two")
	running, dead, err := List(build)
	if err != nil || len(dead) != 0 || JoinNames(running) != "one, two" {
		t.Errorf("%s, %v, %v", JoinNames(running), dead, err)
	}
	if err := m.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if running, _, _ = List(build); JoinNames(running) != "two" {
		t.Errorf("left: %s", JoinNames(running))
	}
}

func TestDownLeavesOnlyWhatWasBroughtBack(t *testing.T) {
	build := deepFolder(t)
	m, other := mustStart(t, build, "one"), mustStart(t, build, "two")
	os.WriteFile(filepath.Join(other.Out(), "file"), nil, 0o644)
	for _, x := range []*Machine{m, other} {
		if err := x.Down(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if exists(m.Dir) || exists(machineDir(build, "one")) || exists(other.Console()) || !exists(filepath.Join(other.Out(), "file")) {
		t.Error("the folders are not as they should be")
	}
	if _, err := startMachine(t, build, lab.Machine{Name: "two"}); err == nil || !strings.Contains(err.Error(), other.Out()) {
		t.Errorf("the files of an earlier machine: %v", err)
	}
	if _, err := m.Exec(t.Context(), makeProgram("cat"), lab.Streams{}); err == nil {
		t.Error("a program ran in a machine that is off")
	} else {
		checkRemoved(t, err, "turned off")
	}
}

func TestEndOfAClientEndsItsProgram(t *testing.T) {
	m := mustStart(t, deepFolder(t), "one")
	c, err := m.openStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.Write(c, wire.Request{Op: wire.Run, Program: wire.Program{Args: []string{"wait"}}}); err != nil {
		t.Fatal(err)
	}
	if kind, p, err := proto.ReadExec(c, make([]byte, proto.ExecFrameMax)); kind != proto.ExecStdout || string(p) != "waiting" {
		t.Fatal(kind, p, err)
	}
	c.Close()
	waitUntil(t, "the program ended", func() bool { return exists(filepath.Join(m.Out(), "ended")) })
}

func TestDeathOfTheGuestIsNamed(t *testing.T) {
	build := deepFolder(t)
	m := mustStart(t, build, "one")
	if err := m.Keep(); err != nil {
		t.Fatal(err)
	}
	_, err := m.Exec(t.Context(), makeProgram("panic"), lab.Streams{})
	checkRemoved(t, err, "not syncing: a test", m.Console())
	_, err = m.Exec(t.Context(), makeProgram("cat"), lab.Streams{}) // and again
	checkRemoved(t, err, "not syncing: a test")
	running, dead, err := List(build)
	if err != nil || len(running) != 0 || len(dead) != 1 || dead[0].State != Dead || !strings.Contains(dead[0].Cause, "a test") {
		t.Errorf("%v %+v %v", running, dead, err)
	}
	if _, dead, _ = List(build); len(dead) != 0 || exists(machineDir(build, "one")) || !exists(m.Console()) {
		t.Errorf("after it was told: %+v", dead)
	}
}

func TestInvalidMessagesOfTheGuest(t *testing.T) {
	m := mustStart(t, deepFolder(t), "one")
	if status, err := m.Exec(t.Context(), makeProgram("nonsense"), lab.Streams{Out: io.Discard}); err == nil {
		t.Errorf("status %d", status)
	}
}

func holderOf(t *testing.T, m *Machine) int {
	t.Helper()
	c, err := dial(machineDir(m.build, m.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := peercred.Read(c)
	if err != nil || int(peer.Pid) == os.Getpid() {
		t.Fatal(peer, err)
	}
	return int(peer.Pid)
}

func TestDeathOfTheHolderIsNamed(t *testing.T) {
	build := deepFolder(t)
	m := mustStart(t, build, "one")
	syscall.Kill(holderOf(t, m), syscall.SIGKILL)
	waitUntil(t, "the lock is free", func() bool { return !isAlive(machineDir(build, "one")) })
	_, err := m.Exec(t.Context(), makeProgram("cat"), lab.Streams{})
	checkRemoved(t, err, "holder was killed")
	mustStart(t, build, "one") // the name is free again
}

// What a holder wrote to standard error before its end is why it ended.
func TestLastSentenceOfAHolderIsReported(t *testing.T) {
	m := mustStart(t, deepFolder(t), "one")
	m.Exec(t.Context(), makeProgram("holder"), lab.Streams{})
	waitUntil(t, "the lock is free", func() bool { return !isAlive(machineDir(m.build, "one")) })
	_, err := m.Exec(t.Context(), makeProgram("cat"), lab.Streams{})
	checkRemoved(t, err, "its holder ended: a last sentence")
}

// A deaf guest does not turn off.
type deaf struct{ *fake }

func (g deaf) PowerOff(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestDeafGuestIsKilled(t *testing.T) {
	g := deaf{&fake{done: make(chan struct{})}}
	powerOff(g, time.Millisecond)
	select {
	case <-g.Done():
	default:
		t.Error("it still runs")
	}
}

// If the disk is full, the old file stays whole and is still reported. The test sets a
// limit on file sizes, which holds for the whole process and could hit go test's own log.
// So it runs in a child process, which has no such log.
func TestInfoIsReplacedAtomically(t *testing.T) {
	const child = "HOLD_TEST_CHILD"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestInfoIsReplacedAtomically$")
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	build := deepFolder(t)
	dir := machineDir(build, "one")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	info := Info{Name: "one", State: Dead, Cause: "a panic", Dir: recordsDir(build, "one")}
	if err := writeInfo(dir, info); err != nil {
		t.Fatal(err)
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 16, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	err := writeInfo(dir, Info{Name: "one", State: Ending, Cause: strings.Repeat("x", 100)})
	if back := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); back != nil {
		t.Fatal(back)
	}
	if err == nil {
		t.Error("more was written than fits")
	}
	if got, err := readInfo(dir); err != nil || *got != info {
		t.Errorf("%+v, %v", got, err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left beside it: %v", list)
	}
}

func TestInfoThatCannotBeRead(t *testing.T) {
	build := deepFolder(t)
	m := mustStart(t, build, "one")
	syscall.Kill(holderOf(t, m), syscall.SIGKILL)
	waitUntil(t, "the lock is free", func() bool { return !isAlive(machineDir(build, "one")) })
	if err := os.WriteFile(filepath.Join(machineDir(build, "one"), infoName), []byte(`{"name":`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := m.Exec(t.Context(), makeProgram("cat"), lab.Streams{})
	checkRemoved(t, err, "one died", "can't be read", m.Console())
	if _, dead, err := List(build); err != nil || len(dead) != 1 || !strings.Contains(dead[0].Cause, "can't be read") {
		t.Errorf("%+v, %v", dead, err)
	}
}

// List does not report a machine dead that is just ending in order.
func TestListDuringAnEnd(t *testing.T) {
	build := deepFolder(t)
	stop, deaths := make(chan struct{}), make(chan string)
	for range 2 {
		go func() {
			said := ""
			defer func() { deaths <- said }()
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, dead, err := List(build)
				if len(dead) > 0 || err != nil {
					said = fmt.Sprint(err)
					for _, d := range dead {
						said += "; " + d.Death()
					}
				}
			}
		}()
	}
	for range 10 {
		if err := mustStart(t, build, "one").Down(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	for range 2 {
		if said := <-deaths; said != "" {
			t.Error(said)
		}
	}
}

func TestSilentHolderIsEnded(t *testing.T) {
	build := deepFolder(t)
	m := mustStart(t, build, "one")
	pid := holderOf(t, m)
	syscall.Kill(pid, syscall.SIGSTOP)
	// The threads of the holder stop one by one; some may still answer.
	waitUntil(t, "the list shows that it is silent", func() bool {
		running, _, err := List(build)
		return err == nil && len(running) == 1 && running[0].State == Silent
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.Exec(ctx, makeProgram("cat"), lab.Streams{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a program there ends with %v", err)
	}
	c, err := dial(machineDir(build, "one"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := kill(c, machineDir(build, "one")); err != nil {
		t.Fatal(err)
	}
	if err := m.waitRemoved(nil); err != nil || exists(machineDir(build, "one")) {
		t.Error(err)
	}
}

func TestMachineEndsWithWhoeverOrderedIt(t *testing.T) {
	build := deepFolder(t)
	m, kept := mustStart(t, build, "one"), mustStart(t, build, "two")
	if err := kept.Keep(); err != nil {
		t.Fatal(err)
	}
	m.tie.Close() // as at the end of the process
	waitUntil(t, "the machine ended", func() bool { return !isAlive(machineDir(build, "one")) })
	if _, err := kept.Exec(t.Context(), makeProgram("cat"), lab.Streams{Out: io.Discard, Err: io.Discard}); err != nil {
		t.Error(err)
	}
}

func TestBootThatFails(t *testing.T) {
	build := deepFolder(t)
	if _, err := startMachine(t, build, lab.Machine{Name: "one", Append: "broken"}); err == nil || err.Error() != "it does not boot" {
		t.Errorf("%v", err)
	}
	if exists(machineDir(build, "one")) || exists(recordsDir(build, "one")) {
		t.Error("something is left of it")
	}
}

// If the client ends during the boot, the machine ends too: no client would know of it.
func TestClientLeavesDuringBoot(t *testing.T) {
	build := deepFolder(t)
	t.Setenv(holderVariable, "1")
	cmd := exec.Command(os.Args[0])
	tie, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer tie.Close()
	out, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out.Close()
	cmd.Stdout = answers
	err = cmd.Start()
	answers.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.Write(tie, order{build, lab.Machine{Name: "one", Memory: 16, Kernel: "6.1"}}); err != nil {
		t.Error(err)
	}
	late := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	if err := cmd.Wait(); err == nil || !late.Stop() {
		t.Errorf("the holder ended: %v", err)
	}
	if exists(machineDir(build, "one")) || exists(filepath.Join(recordsDir(build, "one"), "console.log")) {
		t.Error("something is left of it")
	}
}

// Files in which QEMU stores owners and modes do not make a folder non-empty.
func TestEmpty(t *testing.T) {
	dir := t.TempDir()
	if !Empty(dir) || !Empty(filepath.Join(dir, "absent")) {
		t.Error("an empty folder is not")
	}
	for _, name := range []string{".virtfs_metadata", ".virtfs_metadata_root"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !Empty(dir) {
		t.Error("a folder with QEMU's notes alone is not empty")
	}
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if Empty(dir) {
		t.Error("a folder with a file is empty")
	}
}

func TestBootAfterAStoppedBoot(t *testing.T) {
	build := deepFolder(t)
	t.Setenv(holderVariable, "1")
	ctx, cancel := context.WithCancel(t.Context())
	seen := make(chan State, 8)
	first := make(chan error)
	begin := func(name, how string) {
		_, err := Start(ctx, []string{os.Args[0]}, build, lab.Machine{Name: name, Append: how, Memory: 16},
			func(s State) { seen <- s })
		first <- err
	}
	go begin("one", "slow")
	if s := <-seen; s != Booting {
		t.Errorf("the first is %s", s)
	}
	go begin("two", "slow")
	if s := <-seen; s != Waiting {
		t.Errorf("the second is %s", s)
	}
	if running, _, _ := List(build); len(running) != 2 || running[0].State != Booting || running[1].State != Waiting {
		t.Errorf("%+v", running)
	}
	cancel()
	for range 2 {
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if running, dead, err := List(build); len(running)+len(dead) != 0 || err != nil {
		t.Errorf("left: %v %v %v", running, dead, err)
	}
}

func TestMoreMemoryThanFreeIsRefused(t *testing.T) {
	t.Setenv(holderVariable, "1")
	free, err := FreeMemory()
	if err != nil || free < 1 {
		t.Fatal(free, err)
	}
	_, err = Start(t.Context(), []string{os.Args[0]}, deepFolder(t), lab.Machine{Name: "one", Memory: free * 2}, func(State) {})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(free*2)) {
		t.Errorf("%v", err)
	}
}

// plantModule writes an object file with the .modinfo of a module.
func plantModule(t *testing.T, path string, info ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	gcc := exec.Command("gcc", "-c", "-x", "assembler", "-o", path, "-")
	text := "\t.section .modinfo, \"a\"\n"
	for _, entry := range info {
		text += fmt.Sprintf("\t.asciz %q\n", entry)
	}
	gcc.Stdin = strings.NewReader(text)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// modprobe loads our modules by their files, after those that they need.
func TestModulesForModprobe(t *testing.T) {
	build := t.TempDir()
	dir := filepath.Join(build, "kmod", "6.1")
	plantModule(t, dir+"/alone/alone.ko", "license=GPL", "depends=", "depend=x")
	plantModule(t, dir+"/needs/needs.ko", "depends=one,two-2,a$b", "name=needs")
	plantModule(t, filepath.Join(build, "kmod", "6.12", "other", "other.ko"), "depends=")
	want := "install alone /sbin/insmod " + dir + "/alone/alone.ko $CMDLINE_OPTS\n" +
		"install needs /sbin/modprobe -qa one two-2 && /sbin/insmod " + dir + "/needs/needs.ko $CMDLINE_OPTS\n"
	if text, err := modprobeConfig(build, "6.1"); text != want || err != nil {
		t.Errorf("%v\n%s\nwant\n%s", err, text, want)
	}
}

func TestModprobeConfig(t *testing.T) {
	build := t.TempDir()
	if text, err := modprobeConfig(build, "6.1"); text != "" || err != nil {
		t.Errorf("without modules: %q %v", text, err)
	}
	dir := filepath.Join(build, "kmod", "6.1", "skep-x")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(dir, "skep-x.ko"), []byte("no ELF"), 0o644)
	if _, err := modprobeConfig(build, "6.1"); err == nil || !strings.Contains(err.Error(), "not a kernel module") {
		t.Errorf("%v", err)
	}
}
