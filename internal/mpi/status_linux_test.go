// SPDX-License-Identifier: MIT

package mpi

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStatusTakesTheDeadForDead: a killed rank may wait for its parent.
func TestStatusTakesTheDeadForDead(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "exit 0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if start := startOf(pid); start != 0 {
		t.Errorf("a process that has ended and was not reaped began at %d", start)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
