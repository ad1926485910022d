// SPDX-License-Identifier: MIT

package watch

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"skep/internal/load"
)

// A Process is one that a test started, in a process group of its own. Only this package waits for it.
type Process struct {
	Text // what it said, where its streams went nowhere else
	Cmd  *exec.Cmd
	Done chan struct{} // closed when it has ended
}

// Start starts cmd. What it leaves running does not hold its streams for ever.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{Cmd: cmd, Done: make(chan struct{})}
	if cmd.Stdout == nil && cmd.Stderr == nil {
		cmd.Stdout, cmd.Stderr = p, p
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = time.Second
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // the status is looked at where it matters
		close(p.Done)
	}()
	return p, nil
}

// Running reports whether it has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.Done:
		return false
	default:
		return true
	}
}

// Kill ends it with its group by SIGKILL, and waits. Once a process was waited
// for, its number may be another's.
func (p *Process) Kill() {
	if p.Running() {
		_ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL)
		<-p.Done
	}
}

// Run runs cmd to its end, or kills its group when its time, that of an idle
// computer, is over: late. An exit status is not an error; exec.ErrWaitDelay
// is, when something else holds its streams.
func Run(cmd *exec.Cmd, limit time.Duration) (late bool, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = time.Second
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	timer := load.NewTimer(limit, Scale)
	defer timer.Stop()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err = <-done:
	case <-timer.C:
		late = true
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		err = <-done
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = nil
	}
	return late, err
}

// ExitCode is 128 + n for death by signal n.
func ExitCode(state *os.ProcessState) int {
	status := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
