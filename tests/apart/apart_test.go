// SPDX-License-Identifier: MIT

// Package apart runs hubs, agents, commands and programs of the former release together
// with those of this tree.
package apart

import (
	"context"
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
const limit = time.Minute

// A release is a skep, and a master program and its workers that were made with it.
type release struct{ name, skep, master, modules string }

// releases returns the former release and this tree's.
func releases(t *testing.T) (former, this release) {
	t.Helper()
	build := built.Folder(t, "make test T=apart")
	folder := os.Getenv("FORMER")
	if _, err := os.Stat(filepath.Join(folder, "made")); err != nil {
		t.Skip("this clone lacks the commit of the former release: git fetch --unshallow")
	}
	work := filepath.Join(build, "test", "chaos")
	return release{"former", filepath.Join(folder, "skep"), filepath.Join(folder, "work", "master"), filepath.Join(folder, "work")},
		release{"this", filepath.Join(build, "bin", "skep"), filepath.Join(work, "master"), work}
}

// A scene is a hub and its agents, of any releases.
type scene struct {
	t       *testing.T
	dir     string
	address string
	hub     *process
	agents  map[string]*process
	said    watch.Text // of hub and agents
}

// A process is a running program; over gets the result of its end, once.
type process struct {
	*exec.Cmd
	over chan error
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir, err := os.MkdirTemp("", "a") // short, for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &scene{t: t, dir: dir, address: "127.0.0.1:0", agents: map[string]*process{}}
	// Agents of root run programs as nobody, who writes the log.
	for _, err := range []error{os.Chmod(s.dir, 0o755), os.Mkdir(s.path("log"), 0o777), os.Chmod(s.path("log"), 0o777)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("hub and agents said:\n%s", s.said.String())
		}
	})
	return s
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

func (s *scene) start(r release, stdout io.Writer, args ...string) *process {
	s.t.Helper()
	cmd := exec.Command(r.skep, args...)
	cmd.Stdout, cmd.Stderr = stdout, &s.said
	cmd.Env = append(os.Environ(), "SKEP_ERRORS=return", "HOME="+s.dir, "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	p := &process{cmd, make(chan error, 1)}
	gone := make(chan bool)
	go func() {
		p.over <- cmd.Wait()
		close(gone)
	}()
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		<-gone
	})
	return p
}

// end ends a program as service managers do.
func (s *scene) end(p *process) {
	s.t.Helper()
	p.Process.Signal(syscall.SIGTERM)
	late := load.NewTimer(limit, load.Scale)
	defer late.Stop()
	select {
	case <-p.over:
	case <-late.C:
		s.t.Fatalf("%v does not end", p.Args)
	}
}

// command runs a command of a release to its end, and returns what it printed.
func (s *scene) command(r release, input string, args ...string) string {
	s.t.Helper()
	ctx, cancel := load.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.skep, args...)
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "XDG_STATE_HOME=", "XDG_RUNTIME_DIR=")
	cmd.Stdin = strings.NewReader(input)
	cmd.Stderr = &s.said
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("the %s skep %v: %v\n%s", r.name, args, err, out)
	}
	return string(out)
}

var joinLine = regexp.MustCompile(`SKEP_TOKEN=(\S+) skep join (\S+)`)

// startHub starts a hub and waits until it listens.
func (s *scene) startHub(r release) {
	s.t.Helper()
	var said watch.Text
	s.hub = s.start(r, &said, "up", "--state", s.path("hub"), "--listen", s.address, "--no-agent")
	s.await("a hub", func() bool {
		m := joinLine.FindStringSubmatch(said.String())
		if m != nil {
			s.address = m[2]
		}
		return m != nil
	})
}

// startAgent starts an agent, which joins unless it has joined before.
func (s *scene) startAgent(r release, name string) {
	s.t.Helper()
	args := []string{"join", "--state", s.path(name), "--name", name, "--slots", "2", "--allow-write", s.path("log")}
	if _, err := os.Stat(s.path(name)); err != nil {
		m := joinLine.FindStringSubmatch(s.command(r, "", "token", "--state", s.path("hub")))
		args = append(args, s.address, "--token", m[1])
	}
	s.agents[name] = s.start(r, &s.said, args...)
}

// await waits until f returns true.
func (s *scene) await(what string, f func() bool) {
	s.t.Helper()
	late := load.NewTimer(limit, load.Scale)
	defer late.Stop()
	for !f() {
		select {
		case <-late.C:
			s.t.Fatalf("in vain waited for %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// awaitNodes waits until the nodes of the agents are up.
func (s *scene) awaitNodes(r release) {
	s.t.Helper()
	s.await("the nodes", func() bool {
		for name, p := range s.agents {
			select {
			case err := <-p.over:
				s.t.Fatalf("the agent of %s ended: %v", name, err)
			default:
			}
		}
		list := s.command(r, "", "nodes", "--state", s.path("hub"))
		up := 0
		for line := range strings.Lines(list) {
			words := strings.Fields(line)
			if s.agents[words[0]] != nil && strings.Contains(line, " up ") {
				up++
			}
		}
		return up == len(s.agents)
	})
}

// A session is a run of a master program.
type session struct {
	name     string
	calls    int
	run      *process
	out, log string
	said     *watch.Text
}

// begin begins a session by the skep of the hub's computer.
func (s *scene) begin(client, program release, calls int) *session {
	s.t.Helper()
	y := &session{name: fmt.Sprintf("skep %s, program %s", client.name, program.name), calls: calls,
		said: &watch.Text{}, log: s.path(fmt.Sprintf("log/%s-%s", client.name, program.name))}
	if err := os.WriteFile(y.log, nil, 0o666); err != nil {
		s.t.Fatal(err)
	}
	os.Chmod(y.log, 0o666)
	y.run = s.start(client, y.said, "run", "--state", s.path("hub"), "--modules", program.modules, "--",
		program.master, fmt.Sprint(calls), "20", "1000", y.log)
	return y
}

// ended returns how many calls have ended.
func (y *session) ended() int { return strings.Count("\n"+y.said.String(), "\nended ") }

// finish waits for the end of a session. Each call must have ended once, with the right answer.
func (s *scene) finish(y *session) {
	s.t.Helper()
	late := load.NewTimer(2*limit, load.Scale)
	defer late.Stop()
	select {
	case err := <-y.run.over:
		if err != nil {
			s.t.Errorf("%s: %v", y.name, err)
		}
	case <-late.C:
		s.t.Fatalf("%s: only %d of %d calls have ended", y.name, y.ended(), y.calls)
	}
	if want := fmt.Sprintf("\n%d right, 0 wrong, 0 failed\n", y.calls); !strings.HasSuffix(y.said.String(), want) || y.ended() != y.calls {
		s.t.Errorf("%s: %d calls have ended; the master printed: %.400s", y.name, y.ended(), y.said.String())
	}
	b, err := os.ReadFile(y.log)
	if err != nil {
		s.t.Fatal(err)
	}
	ran := map[string]bool{}
	for number := range strings.FieldsSeq(string(b)) {
		ran[number] = true
	}
	if len(ran) != y.calls {
		s.t.Errorf("%s: %d of %d calls have run", y.name, len(ran), y.calls)
	}
}

// Programs of both releases, started by commands of both, run on a hub of one release and an
// agent of the other.
func TestHubAndAgent(t *testing.T) {
	former, this := releases(t)
	for _, c := range []struct{ hub, agent release }{{former, this}, {this, former}} {
		t.Run("hub of "+c.hub.name+" agent of "+c.agent.name, func(t *testing.T) {
			s := newScene(t)
			s.startHub(c.hub)
			s.startAgent(c.agent, "node")
			s.awaitNodes(c.hub)
			for _, client := range []release{former, this} {
				for _, program := range []release{former, this} {
					s.finish(s.begin(client, program, 100))
				}
				if got := s.command(client, "in\n", "exec", "--state", s.path("hub"), "--", "/bin/busybox", "cat"); got != "in\n" {
					t.Errorf("exec of %s printed %q", client.name, got)
				}
			}
		})
	}
}

// A cluster of the former release is upgraded machine by machine while a session runs. No
// call is lost, no node joins again, and the hub's records stay.
func TestUpgrade(t *testing.T) {
	former, this := releases(t)
	for _, order := range [][]string{{"hub", "one", "two"}, {"one", "two", "hub"}} {
		t.Run(strings.Join(order, " "), func(t *testing.T) {
			s := newScene(t)
			s.startHub(former)
			s.startAgent(former, "one")
			s.startAgent(former, "two")
			s.awaitNodes(former)
			// The former release's library stops after 4 MiB of large arguments.
			y := s.begin(former, this, 1200)
			for i, name := range order {
				s.await("calls", func() bool { return y.ended() >= 250*(i+1) })
				if name == "hub" {
					s.hub.Process.Kill()
					<-s.hub.over
					s.startHub(this)
				} else {
					s.end(s.agents[name])
					s.startAgent(this, name)
				}
				s.awaitNodes(this)
			}
			if y.ended() == y.calls {
				t.Error("the session ended before the upgrade did")
			}
			s.finish(y)
			s.finish(s.begin(this, this, 100))
		})
	}
}

// An agent of the former release is not asked to run a movable program.
func TestMovablePrograms(t *testing.T) {
	former, this := releases(t)
	s := newScene(t)
	s.startHub(this)
	s.startAgent(former, "old")
	s.awaitNodes(this)
	for _, on := range []string{"any", "node=old"} {
		cmd := exec.Command(this.skep, "exec", "--state", s.path("hub"), "--movable", "--on", on, "--", "/bin/busybox", "true")
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "runs movable programs: it needs Linux, bee") {
			t.Errorf("--on %s: %v, %s", on, err, out)
		}
	}
	s.startAgent(this, "new")
	s.awaitNodes(this)
	if !strings.Contains(s.command(this, "", "nodes", "--state", s.path("hub")), " namespaces ") {
		t.Skip("programs have no name spaces of their own here")
	}
	s.command(this, "", "exec", "--state", s.path("hub"), "--movable", "--", "/bin/busybox", "true")
}
