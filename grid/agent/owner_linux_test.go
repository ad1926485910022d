// SPDX-License-Identifier: MIT

package agent

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skep/internal/proctree"
)

// isStopped says whether all processes of a program, but its guard, are stopped.
func isStopped(p *process) bool {
	list := proctree.Below(procDir, p.pid)
	for _, pid := range list {
		if f := proctree.Stat(procDir, pid); f != nil && f[proctree.State] != "T" && f[proctree.State] != "Z" {
			return false
		}
	}
	return len(list) > 0
}

// A program cannot go on by its own means while it is paused.
func TestOwnerKeepsProgramsStopped(t *testing.T) {
	eachKind(t, func(t *testing.T, b bounds) {
		r := newOwnedOf(t, "use all when idle 15m\npause 1h\nsettle 0s", Config{State: tempDir(t), Slots: 1, confine: &b})
		call := r.start(fnFork, nil)
		p := r.awaitPrograms(1)[0]
		waitUntil(t, "its children", func() bool { return len(proctree.Below(procDir, p.pid)) >= 3 })
		r.away(0)
		waitUntil(t, "a stopped program", func() bool { return isStopped(p) })
		for _, pid := range proctree.Below(procDir, p.pid) {
			unix.Kill(pid, unix.SIGCONT)
		}
		waitUntil(t, "a program that is stopped again", func() bool { return isStopped(p) })
		r.away(time.Hour)
		waitUntil(t, "a program that goes on", func() bool { return !isStopped(p) })
		r.cancel(call)
		<-p.done
	})
}

// A process that has not yet executed the program is not stopped: its guard waits for it in
// a call that holds up all of Go's run-time.
func TestOwnerStopsNoStart(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	m := newMeter(guardOrder{Dir: t.TempDir()})
	m.tasks = func() []int { return []int{child.Process.Pid} }
	state := func() string { return proctree.Stat(procDir, child.Process.Pid)[proctree.State] }
	m.stopProgram(true)
	m.measure()
	if got := state(); got == "T" {
		t.Fatal("stopped before it was started")
	}
	m.programStarted()
	waitUntil(t, "a stopped program", func() bool { return state() == "T" })
	m.stopProgram(false)
	waitUntil(t, "a program that goes on", func() bool { return state() != "T" })
	m.stopProgram(true)
	waitUntil(t, "a program that is stopped again", func() bool { return state() == "T" })
}
