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

// A Process was started by a test, in a process group of its own. Only this package waits for
// it.
type Process struct {
	Text // its output, unless its streams were redirected
	Cmd  *exec.Cmd
	Done chan struct{} // closed when it has ended
	Err  error         // of Cmd.Wait, when it has ended
}

// Start starts cmd. Processes that cmd leaves running do not keep its streams open for ever.
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
		p.Err = cmd.Wait()
		close(p.Done)
	}()
	return p, nil
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.Done:
		return false
	default:
		return true
	}
}

// Kill kills the process group by SIGKILL and waits. It does not signal a process that was
// already waited for, because its number may be in use again.
func (p *Process) Kill() {
	if p.Running() {
		_ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL)
		<-p.Done
	}
}

// Run runs cmd and waits for its end. At the time limit, in seconds of an idle computer, it
// kills the process group and returns late. An exit status is not an error. If another
// process keeps the streams open, the error is exec.ErrWaitDelay.
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

// ExitCode returns the exit code, 128 + n for a process killed by signal n.
func ExitCode(state *os.ProcessState) int {
	status := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
