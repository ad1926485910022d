// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"skep/tests/watch"
)

// An actor is a background process: a hub or an agent.
type actor struct {
	*watch.Process
	name string
}

// start starts an actor.
func (s *stage) start(name string, env []string, argv ...string) (*actor, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), env...)
	p, err := watch.Start(cmd)
	if err != nil {
		return nil, err
	}
	a := &actor{p, name}
	s.actors = append(s.actors, a)
	return a, nil
}

// waitForLine waits for a line and returns the matches of the pattern's groups.
func (a *actor) waitForLine(pattern string, limit time.Duration) ([]string, error) {
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

// waitForExit waits for the end and returns the exit code, 128+n for signal n.
func (a *actor) waitForExit(limit time.Duration) (int, error) {
	if !watch.Ends(a.Done, limit) {
		return 0, fmt.Errorf("%s still runs", a.name)
	}
	return watch.ExitCode(a.Cmd.ProcessState), nil
}

func (a *actor) signal(sig syscall.Signal) { a.Cmd.Process.Signal(sig) }

// kill kills the process by SIGKILL and waits for its end. Its children notice it.
func (a *actor) kill() {
	if a.Running() {
		a.signal(syscall.SIGKILL)
		<-a.Done
	}
}

// An outcome is the output and exit code of a command.
type outcome struct {
	stdout, stderr string
	code           int
	wall           time.Duration
}

func (o outcome) String() string {
	return fmt.Sprintf("exit code %d after %v\nstdout: %.800s\nstderr: %.800s", o.code, o.wall.Round(time.Millisecond), o.stdout, o.stderr)
}

// run runs a command and waits for its end. A command that does not end fails the test.
func (s *stage) run(stdin io.Reader, argv ...string) (outcome, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = s.dir
	cmd.Env = append(append(os.Environ(), wineEnv(s.o)...), "TMPDIR="+s.tmpDir())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	begin := time.Now()
	late, err := watch.Run(cmd, later)
	if err != nil {
		return outcome{}, err
	}
	o := outcome{stdout.String(), stderr.String(), watch.ExitCode(cmd.ProcessState), time.Since(begin)}
	if late {
		return o, fmt.Errorf("%s hangs: %v", strings.Join(argv, " "), o)
	}
	return o, nil
}

// checkOutcome checks an outcome: code, all of stdout unless it is any, and words that
// stderr must have; an error of skep is one sentence on one line.
func (o outcome) checkOutcome(code int, stdout string, words ...string) error {
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
