// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/grid/hub"
	"skep/internal/load"
	"skep/tests/picture"
)

// small is a problem whose solution takes long enough for both nodes to take part.
var small = []string{"-size", "16"}

// A show is the running demo, with a directory for all processes that it starts.
type show struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
	out bytes.Buffer
}

func startShow(t *testing.T, env []string, args ...string) *show {
	program := os.Getenv("DEMO")
	if program == "" {
		t.Fatal("DEMO names no program; run: make test T=demo")
	}
	dir, err := os.MkdirTemp("", "demo-test-")
	if err != nil {
		t.Fatal(err)
	}
	s := &show{t: t, dir: dir, cmd: exec.Command(program, args...)}
	s.cmd.Dir = filepath.Join("..", "..")
	s.cmd.Env = append(append(os.Environ(), "TMPDIR="+dir), env...)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	s.cmd.WaitDelay = time.Second
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		os.RemoveAll(dir)
	})
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// waitForEnd waits for the end and checks the exit code, the output, and that no process is left.
func (s *show) waitForEnd(code int, words ...string) {
	s.t.Helper()
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	out := s.out.String()
	if got := s.cmd.ProcessState.ExitCode(); got != code {
		s.t.Fatalf("exit code %d, wanted %d:\n%s", got, code, out)
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			s.t.Errorf("it does not say %q:\n%s", word, out)
		}
	}
	if left, _ := os.ReadDir(s.dir); len(left) > 0 {
		s.t.Errorf("%s is left", left[0].Name())
	}
	if left := s.listProcesses(); len(left) > 0 {
		s.t.Errorf("processes are left: %q", left)
	}
}

// listProcesses returns the command lines of processes that name the directory.
func (s *show) listProcesses() (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if strings.Contains(string(environ)+string(line), filepath.Base(s.dir)) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

func TestDemo(t *testing.T) {
	s := startShow(t, nil, small...)
	s.waitForEnd(0, "== Linux only", "Wine 8.0 on this machine", "reference", "largest relative difference", "residual",
		"median solve time, Windows to Linux", "bytes sent", "wall time", "bee's proof came with",
		"40 calls, the same program file on both substrates", "All is well.")
	t.Run("the picture shows what the demo prints", func(t *testing.T) { checkPicture(t, s.out.String()) })
	t.Run("the page quotes what the demo prints", func(t *testing.T) { checkPage(t, s.out.String()) })
}

var (
	ownWords = regexp.MustCompile(`skep1\.\w+…|Linux [0-9][^ ,]*`) // of a token, of a kernel
	passing  = regexp.MustCompile(`^This machine is busy|^\(The first time|^skep: call #|^#/# point | running # done `)
)

// keepLasting keeps the lines that every run prints. It omits progress, and messages about a
// new Wine prefix, a busy machine and retried calls.
func keepLasting(out string) []string {
	shapes := picture.ShapesOf(strings.Split(ownWords.ReplaceAllString(out, "1"), "\n"))
	return slices.DeleteFunc(shapes, passing.MatchString)
}

func checkPicture(t *testing.T, out string) {
	file, err := os.Open("../../docs/pictures/demo.svg")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text, err := picture.SessionText(file)
	if err != nil || len(text) < 20 || text[0] != "$ make demo" {
		t.Fatalf("the picture has %d lines: %v", len(text), err)
	}
	shown, printed := keepLasting(strings.Join(text[1:], "\n")), keepLasting(out)
	if !slices.Equal(shown, printed) {
		t.Errorf("numbers aside, the picture shows\n%s\nthe demo printed\n%s\nIf the demo is right, run: make record", strings.Join(shown, "\n"), strings.Join(printed, "\n"))
	}
}

// checkPage checks that each quoted line of the page, except progress, was printed.
func checkPage(t *testing.T, out string) {
	page, err := os.ReadFile("../../docs/running.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The demo, line by line\n")
	section, _, _ = strings.Cut(section, "\n## ")
	n, printed := 0, keepLasting(out)
	for line := range strings.Lines(section) {
		quoted, ok := strings.CutPrefix(line, "    ")
		if !ok {
			continue
		}
		for _, want := range keepLasting(quoted) {
			if n++; !slices.Contains(printed, want) {
				t.Errorf("docs/running.md quotes a line that the demo does not print: %s", want)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d quoted lines", n)
	}
}

// TestWrong: no computation reaches this accuracy, so the answer counts as wrong.
func TestWrong(t *testing.T) {
	s := startShow(t, nil, "-size", "8", "--", "--tol", "1e-30")
	s.waitForEnd(1, "the solver ended with exit code 1", "WRONG")
}

func TestCrowded(t *testing.T) {
	for text, want := range map[string]bool{"0.99 9 9 1/2 3\n": false, "1.00 0 0": true, "8.49 6.68 6.21 2/300 99\n": true, "": false} {
		if got := explainLoad(text, 2); (got != "") != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestSolverOnFullDisk: the demo fails if the eigenvalues could not be written.
func TestSolverOnFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, words := range []string{"--help", "--local --size 4"} {
		var said bytes.Buffer
		cmd := exec.Command("build/bin/eigen", strings.Fields(words)...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join("..", ".."), full, &said
		cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(said.String(), "can't be written") {
			t.Errorf("eigen %s: exit code %d: %s", words, code, said.String())
		}
	}
}

// TestCheat replaces bee by a loader that lets the system start the program, which Wine does
// with a Linux file. The answer is right, but the demo must fail: Linux ran everything.
func TestCheat(t *testing.T) {
	worker, err := filepath.Abs("../../build/bin/eigen.rex")
	if err != nil {
		t.Fatal(err)
	}
	s := startShow(t, []string{"CHEAT_PROGRAM=Z:" + strings.ReplaceAll(worker, "/", `\`), "CHEAT_COMMAND=eigen.rex"},
		"-size", "8", "-bee", os.Getenv("CHEAT"))
	s.waitForEnd(1, "0 calls ran on substrate bee-windows; at least 4 must", "it was on node windows")
}

// TestInterrupt presses Ctrl-C while both nodes work.
func TestInterrupt(t *testing.T) {
	s := startShow(t, nil, small...)
	late := load.NewTimer(time.Minute, load.Scale)
	defer late.Stop()
	for look := time.Tick(20 * time.Millisecond); !strings.Contains(strings.Join(s.listProcesses(), "\n"), "bee.exe"); {
		select {
		case <-look:
		case <-late.C:
			t.Fatal("no worker on the Windows node")
		}
	}
	s.cmd.Process.Signal(syscall.SIGINT)
	s.waitForEnd(130, "interrupted")
}

// soundResult returns a good run, made of events as the hub sends them.
func soundResult(edit func(*hub.Event)) *result {
	r := newResult()
	for i := range callsInAll {
		e := hub.Event{Type: "call", Session: "s", Call: uint64(i), Node: "L", Name: "linux", Substrate: "linux", Program: "d"}
		if i%4 == 0 {
			e.Node, e.Name, e.Substrate, e.Nonce, e.Calls = "W", "windows", "bee-windows", 7, 9
		}
		e.State = hub.CallLeased
		r.countEvent(e)
		e.State = hub.CallDone
		edit(&e)
		r.countEvent(e)
	}
	return r
}

func TestJudge(t *testing.T) {
	windows := func(f func(*hub.Event)) func(*hub.Event) {
		return func(e *hub.Event) {
			if e.Name == "windows" {
				f(e)
			}
		}
	}
	few := 0
	for _, c := range []struct {
		name, want string
		edit       func(*hub.Event)
		code       int
	}{
		{"all is well", "", func(*hub.Event) {}, 0},
		{"the master fails", "exit code 1", func(*hub.Event) {}, 1},
		{"another program was mapped", "mapped x", windows(func(e *hub.Event) { e.Program = "x" }), 0},
		{"no program is named", "mapped ,", windows(func(e *hub.Event) { e.Program = "" }), 0},
		{"no nonce", "without bee's proof", windows(func(e *hub.Event) { e.Nonce = 0 }), 0},
		{"no call was emulated", "without bee's proof", windows(func(e *hub.Event) { e.Calls = 0 }), 0},
		{"Windows does too little", "3 calls ran on substrate bee-windows", windows(func(e *hub.Event) {
			if few++; few > 3 {
				e.State = hub.CallRequeued
			}
		}), 0},
		{"Windows does nothing", "0 calls ran on substrate bee-windows", windows(func(e *hub.Event) { e.State = hub.CallRequeued }), 0},
		{"Linux does nothing", "0 calls ran on substrate linux", func(e *hub.Event) {
			if e.Name == "linux" {
				e.State = hub.CallFailed
			}
		}, 0},
	} {
		r := soundResult(c.edit)
		r.code = c.code
		var said []string
		for _, err := range judgeRuns("d", r, nil) {
			said = append(said, err.Error())
		}
		text := strings.Join(said, "\n")
		if (c.want == "") != (text == "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: said %q, wanted %q", c.name, text, c.want)
		}
	}
}
