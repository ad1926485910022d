// SPDX-License-Identifier: MIT

package lab

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// A process dies with the one that started it, whatever that one's end.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended
	err  error         // how; read after done
}

// startProcess starts cmd. The kernel kills it when the thread that started it ends,
// so that thread is kept, by this goroutine, until the process has ended.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	// A group of its own: a terminal's interrupt is ours to handle.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run is cmd.Run for a command that dies with this process, whatever its end.
func run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}

// kill is for a process of any state.
func (p *process) kill() { p.cmd.Process.Kill() }

// endText says in words how a process that failed ended; empty: in order.
func (p *process) endText() string {
	if p.err == nil {
		return ""
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		return fmt.Sprintf("QEMU was killed by signal %d (%v)", int(status.Signal()), status.Signal())
	}
	return fmt.Sprintf("QEMU failed (%v)", p.err)
}
