// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"skep/internal/load"
	"skep/tests/watch"
)

// An actor is a process that goes on: a hub or an agent.
type actor struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	watch.Text // what it said
}

// start brings up an actor in a process group of its own.
func (s *stage) start(name string, env []string, argv ...string) (*actor, error) {
	a := &actor{name: name, cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	a.cmd.Dir = s.dir
	a.cmd.Env = append(os.Environ(), env...)
	a.cmd.Stdout, a.cmd.Stderr = a, a
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	a.cmd.WaitDelay = time.Second
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	s.actors = append(s.actors, a)
	go func() {
		a.cmd.Wait()
		close(a.done)
	}()
	return a, nil
}

func (a *actor) running() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// says waits for a line and gives what its groups matched.
func (a *actor) says(pattern string, limit time.Duration) ([]string, error) {
	want := regexp.MustCompile(pattern)
	var found []string
	err := watch.Poll(limit, func() error {
		if found = want.FindStringSubmatch(a.String()); found != nil {
			return nil
		}
		return fmt.Errorf("%s did not say %s", a.name, pattern)
	})
	return found, err
}

// ends waits for the end and gives the exit code, 128+n for signal n.
func (a *actor) ends(limit time.Duration) (int, error) {
	if !watch.Ends(a.done, limit) {
		return 0, fmt.Errorf("%s still runs", a.name)
	}
	return exitCode(a.cmd.ProcessState), nil
}

func (a *actor) signal(sig syscall.Signal) { a.cmd.Process.Signal(sig) }

// kill ends the process as nobody can prevent it, and waits.
func (a *actor) kill() {
	if a.running() {
		a.signal(syscall.SIGKILL)
		<-a.done
	}
}

func exitCode(state *os.ProcessState) int {
	status := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// An outcome is what a command that ended showed.
type outcome struct {
	stdout, stderr string
	code           int
	wall           time.Duration
}

func (o outcome) String() string {
	return fmt.Sprintf("exit code %d after %v\nstdout: %.800s\nstderr: %.800s", o.code, o.wall.Round(time.Millisecond), o.stdout, o.stderr)
}

// run waits for a command; that it must end is part of every test.
func (s *stage) run(stdin io.Reader, argv ...string) (outcome, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = s.dir
	cmd.Env = append(append(os.Environ(), wineEnv(s.o)...), "TMPDIR="+s.tmp())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	ctx, cancel := load.WithTimeout(context.Background(), later)
	defer cancel()
	late := context.AfterFunc(ctx, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err := cmd.Wait()
	o := outcome{stdout.String(), stderr.String(), exitCode(cmd.ProcessState), time.Since(begin)}
	if !late() {
		return o, fmt.Errorf("%s hangs: %v", strings.Join(argv, " "), o)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return o, err
	}
	return o, nil
}

// want checks an outcome: code, all of stdout unless it is any, and words that
// stderr must have; an error of skep is one sentence on one line.
func (o outcome) want(code int, stdout string, words ...string) error {
	if o.code != code || (stdout != any && o.stdout != stdout) {
		return fmt.Errorf("wanted exit code %d and stdout %.800q, got %v", code, stdout, o)
	}
	for _, word := range words {
		if !strings.Contains(o.stderr, word) {
			return fmt.Errorf("stderr lacks %q: %v", word, o)
		}
	}
	if len(words) > 0 && strings.Count(o.stderr, "\n") != 1 {
		return fmt.Errorf("wanted one line on stderr: %v", o)
	}
	return nil
}

const any = "\x00any"
