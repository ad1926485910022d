// SPDX-License-Identifier: MIT

package watch

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func startShell(t *testing.T, s *Stage, script string) *Actor {
	t.Helper()
	a, err := s.Start("shell", exec.Command("/bin/sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newTestStage(t *testing.T) *Stage {
	t.Helper()
	s, err := NewStage("watch")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close((*Actor).Kill) })
	return s
}

func TestStageClose(t *testing.T) {
	s, err := NewStage("watch")
	if err != nil {
		t.Fatal(err)
	}
	a, b := startShell(t, s, "echo a; exec sleep 300"), startShell(t, s, "pwd; exec sleep 300")
	if found, err := b.WaitForLine(t.Context(), "(.*)\n", time.Minute); err != nil || found[1] != s.Dir {
		t.Errorf("it works in %q, %v; the stage's folder is %s", found, err, s.Dir)
	}
	var order []*Actor
	s.Close(func(a *Actor) { order = append(order, a); a.Kill() })
	if len(order) != 2 || order[0] != b || order[1] != a || a.Running() || b.Running() {
		t.Error("Close does not end the processes, or not the youngest first")
	}
	if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// A wait ends as soon as the process has ended, and sees its last line.
func TestActorThatEnds(t *testing.T) {
	s := newTestStage(t)
	a := startShell(t, s, "echo first; echo last; exit 3")
	if _, err := a.WaitForLine(t.Context(), "last", time.Minute); err != nil {
		t.Errorf("the last line was not seen: %v", err)
	}
	_, err := a.WaitForLine(t.Context(), "never", time.Hour)
	if err == nil || !strings.Contains(err.Error(), "shell ended") || !strings.Contains(err.Error(), "last") {
		t.Errorf("a wait for a process that ended: %v", err)
	}
	if code, err := a.WaitForExit(time.Minute); code != 3 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	if out := s.LastOutput(); out != "\n[shell] first\nlast" {
		t.Errorf("the last output: %q", out)
	}
}

func TestActorWaits(t *testing.T) {
	s := newTestStage(t)
	a := startShell(t, s, "exec sleep 300")
	if _, err := a.WaitForLine(t.Context(), "never", time.Millisecond); err == nil || !strings.Contains(err.Error(), "not within 1ms") {
		t.Errorf("a wait beyond its time limit: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.WaitForLine(ctx, "never", time.Hour); err != context.Canceled {
		t.Errorf("a wait that was cancelled: %v", err)
	}
	if _, err := a.WaitForExit(time.Millisecond); err == nil {
		t.Error("a process that runs has ended")
	}
}

// End kills a process that ignores SIGTERM, with its children; KillAlone kills no child.
func TestActorEnds(t *testing.T) {
	s := newTestStage(t)
	deaf := startShell(t, s, "trap '' TERM; echo ready; while :; do sleep 300; done")
	if _, err := deaf.WaitForLine(t.Context(), "ready", time.Minute); err != nil {
		t.Fatal(err)
	}
	deaf.End(time.Millisecond)
	if code, err := deaf.WaitForExit(time.Minute); code != 128+int(syscall.SIGKILL) || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
	polite := startShell(t, s, "trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done")
	if _, err := polite.WaitForLine(t.Context(), "ready", time.Minute); err != nil {
		t.Fatal(err)
	}
	polite.End(time.Minute)
	if code, err := polite.WaitForExit(time.Minute); code != 5 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
}
