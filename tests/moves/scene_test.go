// SPDX-License-Identifier: MIT

// Package moves moves programs between nodes while they run.
package moves

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/internal/load"
	"skep/tests/built"
	"skep/tests/watch"
)

// limit is what a wait may take on an idle computer.
const limit = 30 * time.Second

// A scene is a hub and two agents.
type scene struct {
	t       *testing.T
	build   string
	dir     string
	address string
	token   string
	slots   string // of the next agent
	hub     *exec.Cmd
	agents  map[string]*exec.Cmd
	said    watch.Text
}

var joinLine = regexp.MustCompile(`SKEP_TOKEN=(\S+) skep join (\S+)`)

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, build: built.Folder(t, "make test T=moves"), slots: "2", agents: map[string]*exec.Cmd{}}
	dir, err := os.MkdirTemp("", "m") // short, for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	s.dir = dir
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("hub and agents said:\n%s", s.said.String())
		}
	})
	var up watch.Text
	s.hub = s.start(&up, "up", "--state", s.path("hub"), "--listen", "127.0.0.1:0", "--no-agent")
	s.await("a hub", func() bool {
		m := joinLine.FindStringSubmatch(up.String())
		if m != nil {
			s.address = m[2]
		}
		return m != nil
	})
	m := joinLine.FindStringSubmatch(s.must("token", "--uses", "9"))
	s.token = m[1]
	s.startAgent("a")
	s.startAgent("b")
	s.awaitNodes()
	return s
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

func (s *scene) skep(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.build, "bin", "skep"), args...)
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=", "SKEP_STATE="+s.path("hub"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func (s *scene) start(stdout io.Writer, args ...string) *exec.Cmd {
	s.t.Helper()
	return s.run(stdout, s.skep(args...))
}

func (s *scene) run(stdout io.Writer, cmd *exec.Cmd) *exec.Cmd {
	s.t.Helper()
	cmd.Stdout, cmd.Stderr = stdout, &s.said
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.kill(cmd) })
	return cmd
}

func (s *scene) kill(cmd *exec.Cmd) {
	cmd.Process.Kill()
	cmd.Wait()
}

// command runs a command to its end.
func (s *scene) command(args ...string) (string, error) {
	ctx, cancel := load.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := s.skep(args...)
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

func (s *scene) must(args ...string) string {
	s.t.Helper()
	out, err := s.command(args...)
	if err != nil {
		s.t.Fatalf("skep %v: %v", args, err)
	}
	return out
}

func (s *scene) startAgent(name string) {
	s.t.Helper()
	s.startAgentBy(nil, name)
}

// startAgentBy has a command start an agent, in a place of its own.
func (s *scene) startAgentBy(by []string, name string) {
	s.t.Helper()
	args := []string{"join", "--state", s.path(name), "--name", name, "--slots", s.slots}
	if _, err := os.Stat(s.path(name)); err != nil {
		args = append(args, s.address, "--token", s.token)
	}
	cmd := s.skep(args...)
	if by != nil {
		path, err := exec.LookPath(by[0])
		if err != nil {
			s.t.Fatal(err)
		}
		cmd.Path, cmd.Args = path, append(by, cmd.Args...)
	}
	s.agents[name] = s.run(&s.said, cmd)
}

func (s *scene) await(what string, f func() bool) {
	s.t.Helper()
	late := load.NewTimer(limit, load.Scale)
	defer late.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !f() {
		select {
		case <-late.C:
			s.t.Fatalf("in vain waited for %s", what)
		case <-poll.C:
		}
	}
}

func (s *scene) awaitNodes() {
	s.t.Helper()
	s.await("the nodes", func() bool {
		list := s.must("nodes")
		if strings.Contains(list, " landlock ") || strings.Contains(list, " none ") {
			s.t.Skip("programs have no name spaces of their own here")
		}
		return strings.Count(list, " up ") == len(s.agents)
	})
}

// A job is a program of skep exec.
type job struct {
	*exec.Cmd
	s        *scene
	number   string
	out, err watch.Text
	over     chan error
	input    io.Closer // of beginOpen
}

// begin begins a program of this build, and waits until it runs.
func (s *scene) begin(input string, options []string, program ...string) *job {
	s.t.Helper()
	return s.beginWith(strings.NewReader(input), options, program...)
}

// beginOpen leaves the program's input open.
func (s *scene) beginOpen(options []string, program ...string) *job {
	s.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	defer r.Close()
	s.t.Cleanup(func() { w.Close() })
	j := s.beginWith(r, options, program...)
	j.input = w
	return j
}

func (s *scene) beginWith(input io.Reader, options []string, program ...string) *job {
	s.t.Helper()
	args := append([]string{"exec"}, options...)
	if !filepath.IsAbs(program[0]) {
		program[0] = filepath.Join(s.build, "test", "moves", program[0])
	}
	args = append(append(args, "--"), program...)
	j := &job{Cmd: s.skep(args...), s: s, over: make(chan error, 1)}
	j.Stdin, j.Stdout, j.Stderr = input, &j.out, &j.err
	if err := j.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { j.over <- j.Wait() }()
	s.t.Cleanup(func() { j.Process.Kill() })
	s.await("a program", func() bool {
		_, rest, found := strings.Cut(j.err.String(), "skep: job ")
		j.number, _, _ = strings.Cut(rest, " ")
		return found
	})
	s.await("its start", func() bool { return j.state() == "running" })
	return j
}

// state returns what skep move lists of the program.
func (j *job) state() string {
	for line := range strings.Lines(j.s.must("move")) {
		if w := strings.Fields(line); w[0] == j.number {
			return w[2]
		}
	}
	return "ended"
}

// node returns where the program runs.
func (j *job) node() string {
	for line := range strings.Lines(j.s.must("move")) {
		if w := strings.Fields(line); w[0] == j.number {
			return w[1]
		}
	}
	return ""
}

// end waits for the program's end and returns its exit code.
func (j *job) end() int {
	j.s.t.Helper()
	late := load.NewTimer(2*limit, load.Scale)
	defer late.Stop()
	select {
	case err := <-j.over:
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode()
		}
		return 0
	case <-late.C:
		j.s.t.Fatalf("the program does not end; it printed %d bytes, and %s", len(j.out.String()), j.err.String())
		return -1
	}
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}
