// SPDX-License-Identifier: MIT

package main

import (
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// leaveTerminal gives a program a session of its own, so that no terminal can end it.
func leaveTerminal(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}

// ignoreTerminal ignores the end of the terminal, which the master inherits, as with nohup(1).
// It closes what else the shell passed on.
func ignoreTerminal() error {
	signal.Ignore(syscall.SIGHUP)
	return dropInherited()
}

// endWithThis lets a program get SIGKILL when this process is killed. What it returns is called
// when the program has ended: the system means the thread that starts the program.
func endWithThis(cmd *exec.Cmd) func() {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return runtime.UnlockOSThread
}

// endProcess asks the holder of a run to end it.
func endProcess(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }
