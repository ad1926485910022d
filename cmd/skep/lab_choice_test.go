// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skep/internal/cli"
	labs "skep/lab"
	"skep/lab/hold"
	"skep/lab/wire"
)

func machinesOf(names string) (list []*hold.Machine) {
	for _, name := range strings.Fields(names) {
		list = append(list, &hold.Machine{Info: hold.Info{Name: name}})
	}
	return list
}

// A command uses the machine that is named, or the only one.
func TestLabChoosesAMachine(t *testing.T) {
	for _, c := range []struct{ running, name, want, wrong string }{
		{"", "", "", ""},
		{"a", "", "a", ""},
		{"a run-7", "", "a", ""},
		{"run-7", "", "", ""},
		{"run-7", "run-7", "run-7", ""},
		{"a b", "b", "b", ""},
		{"a b", "", "", "several machines run, name one of them: a, b"},
		{"a", "b", "", "no machine is named b; these run: a"},
		{"a run-7", "b", "", "no machine is named b; these run: a, run-7"},
		{"", "b", "", "no machine is named b, and none runs"},
		{"", "/b", "", "no machine can have this name"},
	} {
		m, err := chooseMachine(t.TempDir(), c.name, machinesOf(c.running), nil)
		got := ""
		if m != nil {
			got = m.Name
		}
		if got != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q of %q: %q, %v", c.name, c.running, got, err)
		}
	}
}

// The machines that skep lab down ends, and its message if it ends none.
func TestLabChoosesWhatToEnd(t *testing.T) {
	for _, c := range []struct {
		running, dead, name string
		all                 bool
		want                string
		code                int
		wrong               string
	}{
		{"a", "", "", false, "a", 0, ""},
		{"a run-7", "", "", false, "a", 0, ""},
		{"a b", "", "b", false, "b", 0, ""},
		{"a run-7", "", "", true, "a, run-7", 0, ""},
		{"", "", "", true, "", 0, ""},
		{"", "d", "", false, "", 0, ""},
		{"", "d", "d", false, "", 0, ""},
		{"a", "d", "d", false, "", 0, ""},
		{"a b", "d", "", false, "", cli.Usage, "several machines run, name one of them or give --all: a, b"},
		{"a b", "", "", false, "", cli.Usage, "several machines run, name one of them or give --all: a, b"},
		{"run-7", "", "", false, "", cli.Usage, "name one, or give --all"},
		{"", "", "", false, "", cli.Failed, "no machine runs here"},
		{"", "", "x", false, "", cli.Unreachable, "no machine is named x, and none runs"},
		{"a", "", "x", false, "", cli.Unreachable, "no machine is named x; these run: a"},
		{"a", "d", "x", false, "", cli.Unreachable, "no machine is named x; these run: a"},
	} {
		var dead []*hold.Info
		for _, name := range strings.Fields(c.dead) {
			dead = append(dead, &hold.Info{Name: name, Cause: "a panic"})
		}
		var list []*hold.Machine
		var err error
		printedBy(t, &os.Stderr, func() {
			printedBy(t, &os.Stdout, func() {
				d := &labDown{all: c.all}
				list, err = d.chooseMachines(cli.NewFlags("lab down", "lab down"), c.name, machinesOf(c.running), dead)
			})
		})
		code, text := cli.ExitCode(err)
		if hold.JoinNames(list) != c.want || code != c.code || !strings.Contains(text, c.wrong) {
			t.Errorf("%+v: %q, %d %q", c, hold.JoinNames(list), code, text)
		}
	}
}

// --delay and --loss need nodes.
func TestLabDelaysNodes(t *testing.T) {
	for line, want := range map[string]int{
		"--nodes 2 --delay 20ms --loss 1%": 0, "--nodes 2": 0,
		"--delay 20ms": cli.Usage, "--loss 1%": cli.Usage,
	} {
		r := &labRun{}
		f := cli.NewFlags("lab run", "lab run")
		r.options(f)
		if _, err := f.ParseCommand(append(strings.Fields(line), "--", "x")); err != nil {
			t.Fatal(err)
		}
		r.Name = "run"
		if code, text := cli.ExitCode(r.labMachine.check(f, t.TempDir())); code != want {
			t.Errorf("%s: %d %q", line, code, text)
		}
	}
}

// A holder is never started by hand: without an order it ends, and an order
// that can't be carried out fails.
func TestLabHoldWantsAnOrder(t *testing.T) {
	var order bytes.Buffer
	if err := wire.Write(&order, struct {
		Build   string
		Machine labs.Machine
	}{t.TempDir(), labs.Machine{Name: "../x"}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		order, want string
		code        int
	}{
		{"", "skep starts this command itself", cli.Usage},
		{order.String(), "", cli.Failed},
	} {
		path := filepath.Join(t.TempDir(), "order")
		if err := os.WriteFile(path, []byte(c.order), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		old := os.Stdin
		os.Stdin = in
		_, code, text := outputOf(t, "lab", "hold")
		os.Stdin = old
		in.Close()
		if code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%q: %d %q", c.order, code, text)
		}
	}
}

// Signals reach the program. Only signals that should end it count towards giving up.
func TestLabPassesSignals(t *testing.T) {
	ctx, passed, stop := passSignals(t.Context())
	defer stop()
	send := func(s syscall.Signal) {
		t.Helper()
		if err := unix.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-passed:
			if got != s {
				t.Fatalf("%v came as %v", s, got)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%v never comes", s)
		}
	}
	for range signalsIgnored + 1 {
		send(syscall.SIGUSR1)
	}
	send(syscall.SIGTERM)
	send(syscall.SIGINT)
	if ctx.Err() != nil {
		t.Fatal("the program was given up too early")
	}
	if err := unix.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		t.Fatal("a program that ignores every signal is never given up")
	}
}

func openTerminal(t *testing.T) (ours, program *os.File) {
	t.Helper()
	ours, program, err := openPair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close(); ours.Close() })
	return ours, program
}

// While a shell of a machine has the terminal, every key is passed on unchanged. Afterwards
// the terminal has its former settings.
func TestLabTerminalIsRaw(t *testing.T) {
	ours, program := openTerminal(t)
	fd := int(program.Fd())
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	// All flags that cfmakeraw(3) clears.
	const input = unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	const local = unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	old.Iflag |= input
	old.Lflag |= local
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, old); err != nil {
		t.Fatal(err)
	}
	restore, err := rawTerminal(program)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	if raw.Iflag&input != 0 || raw.Lflag&local != 0 || raw.Oflag&unix.OPOST != 0 {
		t.Errorf("left are %#x, %#x, %#x", raw.Iflag&input, raw.Lflag&local, raw.Oflag&unix.OPOST)
	}
	keys := "\x03\x04\x11\x13\x16\x1a\x1c\r\n\x00\x7f\xffa"
	if _, err := ours.WriteString(keys); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 100)
	n, err := program.Read(got)
	if err != nil || string(got[:n]) != keys {
		t.Errorf("typed %q, read %q, %v", keys, got[:n], err)
	}
	restore()
	if now, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil || *now != *old {
		t.Errorf("the terminal was %+v and is %+v, %v", old, now, err)
	}
}

// The machine's terminal gets each new size of this one.
func TestLabFollowsTheSize(t *testing.T) {
	_, program := openTerminal(t)
	sizes, stop := followSize(program)
	defer stop()
	for rows := uint16(24); rows < 27; rows++ {
		err := unix.IoctlSetWinsize(int(program.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: 80})
		if err == nil {
			err = unix.Kill(os.Getpid(), unix.SIGWINCH)
		}
		if err != nil {
			t.Fatal(err)
		}
		select {
		case s := <-sizes:
			if s != (labs.Size{Rows: rows, Columns: 80}) {
				t.Errorf("%+v", s)
			}
		case <-time.After(time.Minute):
			t.Fatal("a new size is never told")
		}
	}
}

// A shell in a machine that has ended fails, and the terminal has its former settings.
func TestLabShellOfALostMachine(t *testing.T) {
	t.Chdir(t.TempDir()) // becomes the build folder
	_, program := openTerminal(t)
	stdin := os.Stdin
	os.Stdin = program
	defer func() { os.Stdin = stdin }()
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	m := &hold.Machine{Info: hold.Info{Name: "gone"}}
	err = labInteract(context.Background(), t.TempDir(), m, &labProgram{dir: "/"})
	if code, text := cli.ExitCode(err); code != cli.Unreachable || !strings.Contains(text, "the machine gone") {
		t.Errorf("%d %q", code, text)
	}
	if now, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS); err != nil || *now != *before {
		t.Errorf("the terminal was %+v and is %+v, %v", before, now, err)
	}
	os.Stdin = stdin
	file, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := rawTerminal(file); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("what is no terminal: %v", err)
	}
}
