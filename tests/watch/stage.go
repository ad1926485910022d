// SPDX-License-Identifier: MIT

package watch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"skep/internal/load"
)

// A Stage holds the folder of a test and the processes that it started there. Close removes both.
type Stage struct {
	Dir    string
	Actors []*Actor
}

// NewStage creates a stage in the folder for temporary files: the path of a socket has at
// most 107 bytes, so a build folder may be too deep.
func NewStage(name string) (*Stage, error) {
	dir, err := os.MkdirTemp("", "skep-"+name+"-")
	if err != nil {
		return nil, err
	}
	return &Stage{Dir: dir}, nil
}

// Start starts a process under a name for messages. Its working directory is the stage's
// folder unless cmd names another one.
func (s *Stage) Start(name string, cmd *exec.Cmd) (*Actor, error) {
	if cmd.Dir == "" {
		cmd.Dir = s.Dir
	}
	p, err := Start(cmd)
	if err != nil {
		return nil, err
	}
	a := &Actor{p, name}
	s.Actors = append(s.Actors, a)
	return a, nil
}

// Close ends the processes that still run, the youngest first, and removes the folder.
func (s *Stage) Close(end func(*Actor)) {
	s.EndAll(end)
	os.RemoveAll(s.Dir)
}

// EndAll ends the processes that still run, the youngest first.
func (s *Stage) EndAll(end func(*Actor)) {
	for i := len(s.Actors) - 1; i >= 0; i-- {
		end(s.Actors[i])
	}
	s.Actors = nil
}

// LastOutput returns the last output of each process, for a failure's details.
func (s *Stage) LastOutput() string {
	var out strings.Builder
	for _, a := range s.Actors {
		text := a.String()
		text = text[max(0, len(text)-1500):]
		fmt.Fprintf(&out, "\n[%s] %s", a.Name, strings.TrimSpace(text))
	}
	return out.String()
}

// An Actor is a process of a stage.
type Actor struct {
	*Process
	Name string
}

// Poll calls test until it succeeds, the process has ended, or the time is over.
func (a *Actor) Poll(ctx context.Context, limit time.Duration, test func() error) error {
	timer := load.NewTimer(limit, Scale)
	defer timer.Stop()
	for last := ""; ; {
		ended := !a.Running() // before the test: then it has seen all of the output
		err := test()
		switch {
		case err == nil:
			return nil
		case ended:
			last = a.Name + " ended"
		}
		if last != "" {
			return fmt.Errorf("%w: %s; it said: %s", err, last, strings.TrimSpace(a.String()))
		}
		select {
		case <-time.After(tick):
		case <-a.Done:
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			last = fmt.Sprintf("not within %v", limit)
		}
	}
}

// WaitForLine waits until the output matches a pattern, and returns the matches of its groups.
func (a *Actor) WaitForLine(ctx context.Context, pattern string, limit time.Duration) (found []string, err error) {
	want := regexp.MustCompile(pattern)
	err = a.Poll(ctx, limit, func() error {
		if found = want.FindStringSubmatch(a.String()); found == nil {
			return fmt.Errorf("%s did not say %s", a.Name, pattern)
		}
		return nil
	})
	return found, err
}

// WaitForExit waits for the end and returns the exit code, 128 + n for signal n.
func (a *Actor) WaitForExit(limit time.Duration) (int, error) {
	if !Ends(a.Done, limit) {
		return 0, fmt.Errorf("%s still runs", a.Name)
	}
	return ExitCode(a.Cmd.ProcessState), nil
}

// Signal sends a signal to the process and to none of its children.
func (a *Actor) Signal(sig syscall.Signal) { _ = a.Cmd.Process.Signal(sig) }

// KillAlone kills the process by SIGKILL and waits for its end. Its children notice it.
func (a *Actor) KillAlone() {
	if a.Running() {
		a.Signal(syscall.SIGKILL)
		<-a.Done
	}
}

// End asks the process by SIGTERM to end. After the grace time it kills the process group.
func (a *Actor) End(grace time.Duration) {
	if a.Running() {
		a.Signal(syscall.SIGTERM)
		if !Ends(a.Done, grace) {
			a.Kill()
		}
	}
}
