// SPDX-License-Identifier: MIT

package lab

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
)

// A process is killed when the process that started it ends, even by SIGKILL.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done
}

// startProcess starts cmd. The kernel kills the process when the thread that started it
// ends, so the goroutine that started it keeps its thread until the process has ended.
func startProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	// A process group of its own: a terminal's ^C reaches only this program.
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

// run is cmd.Run for a command that is killed when this process ends.
func run(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}

// kill kills the process, which may have ended already.
func (p *process) kill() { p.cmd.Process.Kill() }

// endText describes how the process failed; it is empty if it ended in order.
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
