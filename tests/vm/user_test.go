// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skep/lab"
	"skep/tests/vmtest"
)

// A user types commands of skep lab. Each command must end by itself.
type user struct {
	build, machine string
}

const (
	userSoon = time.Minute
	userBoot = 5 * time.Minute
)

func newUser(t *testing.T, name string) *user {
	vmtest.Lock(t)
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	u := &user{build, fmt.Sprintf("%s-%d", name, os.Getpid())}
	t.Cleanup(func() {
		u.makeCommand("down", u.machine).Run()
		os.RemoveAll(u.recordsPath())
	})
	return u
}

func (u *user) recordsPath() string { return filepath.Join(u.build, "lab", u.machine) }

func (u *user) makeCommand(args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(u.build, "bin", "skep"), append([]string{"lab"}, args...)...)
	c.Env = append(os.Environ(), "SKEP_BUILD="+u.build, "SHELL=/bin/sh", "TERM=dumb", "PS1=")
	return c
}

// A result is the output and exit code of a command.
type result struct {
	out, err string
	code     int
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %.600q\nstderr: %.600q", r.code, r.out, r.err)
}

func (u *user) runTyped(t *testing.T, limit time.Duration, stdin string, args ...string) result {
	t.Helper()
	c := u.makeCommand(args...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(limit, func() { c.Process.Kill() })
	c.Wait()
	r := result{out.String(), errs.String(), c.ProcessState.ExitCode()}
	if !late.Stop() {
		t.Fatalf("skep lab %s hangs: %v", strings.Join(args, " "), r)
	}
	return r
}

// runInMachine runs a command in the machine.
func (u *user) runInMachine(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	return u.runTyped(t, userSoon, stdin, append([]string{"run", "--name", u.machine}, args...)...)
}

// readState returns the machine's state in the list, empty if it is not listed.
func (u *user) readState(t *testing.T) (state, cause string) {
	t.Helper()
	r := u.runTyped(t, userSoon, "", "list", "--json")
	var list []struct{ Name, State, Cause string }
	if err := json.Unmarshal([]byte(r.out), &list); err != nil || r.code != 0 {
		t.Fatal(err, r)
	}
	for _, m := range list {
		if m.Name == u.machine {
			return m.State, m.Cause
		}
	}
	return "", ""
}

// checkGone checks that no process of the machine is left.
func (u *user) checkGone(t *testing.T) {
	t.Helper()
	userUntil(t, "no QEMU is left", func() bool { return len(listQEMUs(u.machine)) == 0 })
	if _, err := os.Stat(filepath.Join(u.build, "lab", ".hold", u.machine)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the holder's folder is left: %v", err)
	}
}

func userUntil(t *testing.T, what string, test func() bool) {
	t.Helper()
	limit, tick := time.After(userSoon), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !test() {
		select {
		case <-limit:
			t.Fatal("never: " + what)
		case <-tick.C:
		}
	}
}

// A screen is a terminal with a program on it. The mutex guards text.
type screen struct {
	master *os.File
	cmd    *exec.Cmd
	ended  chan struct{}
	before *unix.Termios // of the terminal, when the program began

	sync.Mutex
	text bytes.Buffer
}

func newScreen(t *testing.T, c *exec.Cmd) *screen {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	s := &screen{master: master, cmd: c, ended: make(chan struct{})}
	s.resize(t, 24, 80)
	if s.before, err = unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
		t.Fatal(err)
	}
	c.Stdin, c.Stdout, c.Stderr = slave, slave, slave
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill() })
	go func() {
		c.Wait()
		close(s.ended)
	}()
	go s.read()
	return s
}

func (s *screen) read() {
	buf := make([]byte, 4096)
	for {
		n, err := s.master.Read(buf)
		if err != nil {
			return
		}
		s.Lock()
		s.text.Write(buf[:n])
		s.Unlock()
	}
}

func (s *screen) screenText() string {
	s.Lock()
	defer s.Unlock()
	return s.text.String()
}

func (s *screen) resize(t *testing.T, rows, columns uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(s.master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}); err != nil {
		t.Fatal(err)
	}
}

// waitForText waits for words; how long depends on what the screen waits for.
func (s *screen) waitForText(t *testing.T, limit time.Duration, words string) {
	t.Helper()
	late, tick := time.After(limit), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(s.screenText(), words) {
		select {
		case <-late:
			t.Fatalf("the screen does not show %q:\n%s", words, s.screenText())
		case <-tick.C:
		}
	}
}

func (s *screen) typeText(t *testing.T, text string) {
	t.Helper()
	if _, err := s.master.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// waitForExit waits for the program's end and checks that the terminal is as it was.
func (s *screen) waitForExit(t *testing.T, code int) {
	t.Helper()
	select {
	case <-s.ended:
	case <-time.After(2 * userSoon):
		t.Fatalf("it does not end:\n%s", s.screenText())
	}
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("exit code %d, want %d:\n%s", got, code, s.screenText())
	}
	after, err := unix.IoctlGetTermios(int(s.master.Fd()), unix.TCGETS)
	if err != nil || *after != *s.before {
		t.Errorf("the terminal is not as it was: %+v, %v; before %+v", after, err, s.before)
	}
}

// TestUserMachine follows docs/running.md: a machine with a shell, and commands in it from another
// terminal.
func TestUserMachine(t *testing.T) {
	u := newUser(t, "user")
	s := newScreen(t, u.makeCommand("up", "--kernel", "6.12", "--cpus", "4", "--nodes", "3",
		"--name", u.machine, "--delay", "20ms", "--swap", "64M", "--module", "trivial"))
	s.waitForText(t, userBoot, "leave the shell to end it")
	t.Run("a shell has the terminal", u.testShell(s))
	t.Run("a command has its streams and status", u.testStreams)
	t.Run("signals reach a command", u.testSignals)
	t.Run("the machine has nodes, swap, modules and an ordinary user", u.testParts)
	t.Run("each page's command loads its module", u.testPageModules)
	t.Run("each cure of skep doctor loads its module", u.testCures)
	t.Run("a folder is the user's own, and files come back", u.testFiles)
	t.Run("a killed command ends in the machine too", u.testKilled)
	t.Run("wrong use is reported", u.testWrongUse)
	t.Run("a second shell leaves the machine alone", func(t *testing.T) {
		second := newScreen(t, u.makeCommand("shell", u.machine, "--user"))
		second.typeText(t, "echo I am $(id -un)\n")
		second.waitForText(t, userSoon, "I am skep")
		second.typeText(t, "exit 3\n")
		second.waitForExit(t, 0)
		if state, _ := u.readState(t); state != "up" {
			t.Errorf("the machine is %q", state)
		}
	})
	t.Run("the end of the shell ends the machine", func(t *testing.T) {
		s.typeText(t, "exit\n")
		s.waitForExit(t, 0)
		u.checkGone(t)
		if left, _ := os.ReadFile(filepath.Join(u.recordsPath(), "out", "back")); string(left) != "from the guest\n" {
			t.Errorf("what it brought back is %q", left)
		}
	})
}

func (u *user) testShell(s *screen) func(*testing.T) {
	return func(t *testing.T) {
		s.typeText(t, "echo this is $(uname -n), $(stty size)\n")
		s.waitForText(t, userSoon, "this is "+u.machine+", 24 80")
		s.resize(t, 50, 132)
		s.typeText(t, "until stty size | grep '50 132'; do :; done; echo resized $?\n")
		s.waitForText(t, userSoon, "resized 0")
		// Ctrl-C is the guest's to handle.
		s.typeText(t, "echo sleeping $((1+1)); sleep 1000; echo slept\n")
		s.waitForText(t, userSoon, "sleeping 2")
		s.typeText(t, "\003")
		s.waitForText(t, userSoon, "^C")
		s.typeText(t, "echo stopped $?\n")
		s.waitForText(t, userSoon, "stopped 130")
		s.typeText(t, "skep version >/dev/null && echo ours\n")
		s.waitForText(t, userSoon, "\nours")
	}
}

func (u *user) testStreams(t *testing.T) {
	in := strings.Repeat("input ", 50_000)
	r := u.runInMachine(t, in, "--", "sh", "-c", "cat; echo problem >&2; exit 7")
	if r.out != in || r.err != "problem\n" || r.code != 7 {
		t.Errorf("%d bytes of %d back, %v", len(r.out), len(in), r)
	}
	for _, c := range []struct {
		code int
		word string
		args []string
	}{
		{127, "not found", []string{"no-such-program"}}, {127, "no such file", []string{"/no/such/program"}},
		{126, "permission denied", []string{"/etc/passwd"}}, {137, "", []string{"sh", "-c", "kill -9 $$"}},
	} {
		r := u.runInMachine(t, "", append([]string{"--"}, c.args...)...)
		if r.code != c.code || r.out != "" || !strings.Contains(r.err, c.word) || (c.word == "") != (r.err == "") {
			t.Errorf("%v: %v, want %d", c.args, r, c.code)
		}
	}
}

func (u *user) testSignals(t *testing.T) {
	c := u.makeCommand("run", "--name", u.machine, "--", "sh", "-c", "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.1; done")
	s := newScreen(t, c)
	s.waitForText(t, userSoon, "ready")
	c.Process.Signal(syscall.SIGTERM)
	s.waitForExit(t, 5)
	s.waitForText(t, userSoon, "caught")
}

func (u *user) testParts(t *testing.T) {
	for _, c := range []struct {
		what, want string
		args       []string
	}{
		{"kernel and processors", "6.12.", []string{"--", "sh", "-c", "test $(nproc) = 4 && uname -r"}},
		{"the last node", "10.77.0.3/24", []string{"--node", "3", "--", "ip", "-br", "addr", "show", "eth0"}},
		{"a node", "10.77.0.2/24", []string{"--node", "2", "--", "ip", "-br", "addr", "show", "eth0"}},
		{"its delay", "delay 20ms", []string{"--node", "2", "--", "tc", "qdisc", "show", "dev", "eth0"}},
		{"the same node", "10.77.0.2/24", []string{"--", "ip", "netns", "exec", "node2", "ip", "-br", "addr", "show", "eth0"}},
		{"swap", "/dev/vda", []string{"--", "cat", "/proc/swaps"}},
		{"an ordinary user", "uid=1000(skep)", []string{"--user", "--", "id"}},
		{"a loaded module", "trivial", []string{"--", "cat", "/proc/modules"}},
		{"unloading", "unloaded", []string{"--", "sh", "-c", "modprobe -r trivial && ! grep trivial /proc/modules && echo unloaded"}},
		{"loading by name", "trivial", []string{"--", "sh", "-c", "modprobe trivial && cat /proc/modules"}},
	} {
		if r := u.runInMachine(t, "", c.args...); r.code != 0 || !strings.Contains(r.out, c.want) {
			t.Errorf("%s: %v, want %q", c.what, r, c.want)
		}
	}
}

func (u *user) testFiles(t *testing.T) {
	// Below /tmp, where a machine has a folder of its own.
	dir, err := os.MkdirTemp("", "skep user ")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("my file\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// As a build folder in a tree below /tmp is there before its tree.
	part := filepath.Join(dir, "build")
	if err := os.Mkdir(part, 0o755); err != nil {
		t.Fatal(err)
	}
	if r := u.runInMachine(t, "", "--", "sh", "-c", `mkdir -p "$1" && mount --bind "/host$1" "$1"`, "sh", part); r.code != 0 {
		t.Error(r)
	}
	script := "pwd; cat mine; echo changed >mine; echo new >new; cat mine; echo from the guest >/out/back"
	for range 2 { // the second finds the folder there
		r := u.runInMachine(t, "", "--dir", dir, "--", "sh", "-c", script)
		if r.code != 0 || !strings.HasPrefix(r.out, dir+"\n") || !strings.HasSuffix(r.out, "changed\n") {
			t.Error(r)
		}
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "mine")); string(text) != "my file\n" {
		t.Errorf("the machine changed a file here: %q", text)
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("the machine made a file here")
	}
	wd, _ := os.Getwd()
	if r := u.runInMachine(t, "", "--", "pwd"); r.out != wd+"\n" {
		t.Errorf("%v, want the folder %s", r, wd)
	}
}

func (u *user) testKilled(t *testing.T) {
	c := u.makeCommand("run", "--name", u.machine, "--", "sh", "-c", "echo begun; exec sleep 4321")
	s := newScreen(t, c)
	s.waitForText(t, userSoon, "begun")
	c.Process.Kill()
	userUntil(t, "the program ends", func() bool {
		return u.runInMachine(t, "", "--", "sh", "-c", "! grep -q '[4]321' /proc/[0-9]*/cmdline 2>/dev/null").code == 0
	})
}

func (u *user) testWrongUse(t *testing.T) {
	for _, c := range []struct {
		code int
		word string
		args []string
	}{
		{1, "skep lab shell " + u.machine, []string{"up", "--detach", "--name", u.machine}},
		{2, "there is no node 4", []string{"run", "--name", u.machine, "--node", "4", "--", "true"}},
		{2, "needs a terminal", []string{"up"}},
		{2, "needs a terminal", []string{"shell", u.machine}},
		{3, "no machine is named", []string{"run", "--name", "absent", "--", "true"}},
		{1, "MiB are free", []string{"run", "--memory", "63G", "--", "true"}},
	} {
		if r := u.runTyped(t, userSoon, "", c.args...); r.code != c.code || !strings.Contains(r.err, c.word) {
			t.Errorf("skep lab %v: %v, want %d and %q", c.args, r, c.code, c.word)
		}
	}
}

// TestUserHolder kills the holder of a machine that no shell keeps.
func TestUserHolder(t *testing.T) {
	u := newUser(t, "user-held")
	r := u.runTyped(t, userBoot, "", "up", "--detach", "--name", u.machine, "--cpus", "1", "--memory", "512M")
	if r.code != 0 || !strings.Contains(r.out, "skep lab down "+u.machine) || r.err != "" {
		t.Fatal(r)
	}
	if r := u.runTyped(t, userSoon, "", "list"); !strings.Contains(r.out, u.machine) || !strings.Contains(r.out, "512M") {
		t.Error(r)
	}
	if r := u.runInMachine(t, "", "--", "sh", "-c", "nproc; modprobe trivial && cat /proc/modules"); !strings.HasPrefix(r.out, "1\n") || !strings.Contains(r.out, "trivial") {
		t.Error(r)
	}
	c := u.makeCommand("run", "--name", u.machine, "--", "sh", "-c", "echo begun; exec sleep 1000")
	s := newScreen(t, c)
	s.waitForText(t, userSoon, "begun")
	emulators := listQEMUs(u.machine)
	if len(emulators) != 1 {
		t.Fatalf("%d QEMU", len(emulators))
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", emulators[0]))
	if err != nil {
		t.Fatal(err)
	}
	var holder int
	_, rest, _ := strings.Cut(string(stat), ") ")
	if _, err := fmt.Sscanf(rest[2:], "%d", &holder); err != nil || holder <= 1 {
		t.Fatal(holder, err)
	}
	syscall.Kill(holder, syscall.SIGKILL)
	s.waitForExit(t, 3)
	s.waitForText(t, userSoon, "its holder was killed")
	if state, cause := u.readState(t); state != "dead" || cause != "its holder was killed" {
		t.Errorf("the list says %q, %q", state, cause)
	}
	if state, _ := u.readState(t); state != "" {
		t.Errorf("once it was told, the list says %q", state)
	}
	u.checkGone(t)
}

// TestUserCommand runs commands that boot a machine of their own. The second machine dies while its
// command runs.
func TestUserCommand(t *testing.T) {
	u := newUser(t, "user-none")
	r := u.runTyped(t, userBoot, "in", "run", "--cpus", "1", "--", "sh", "-c", "cat; nproc >&2; exit 9")
	if r.out != "in" || r.err != "1\n" || r.code != 9 {
		t.Error(r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), userBoot)
	defer cancel()
	c := u.makeCommand("run", "--memory", "512M", "--cpus", "1", "--", "sh", "-c", "uname -r; echo c >/proc/sysrq-trigger; sleep 100")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	u.machine = fmt.Sprintf("run-%d", c.Process.Pid)
	defer context.AfterFunc(ctx, func() { c.Process.Kill() })()
	c.Wait()
	console := filepath.Join(u.recordsPath(), "console.log")
	if c.ProcessState.ExitCode() != 3 || !strings.HasPrefix(out.String(), "6.1.") ||
		!strings.Contains(errs.String(), "sysrq triggered crash") || !strings.Contains(errs.String(), console) {
		t.Errorf("exit code %d, %q, %q", c.ProcessState.ExitCode(), out.String(), errs.String())
	}
	if text, _ := os.ReadFile(console); !bytes.Contains(text, []byte("Kernel panic")) {
		t.Errorf("the console is %.300q", text)
	}
	u.checkGone(t)
}
