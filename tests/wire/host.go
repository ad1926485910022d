// SPDX-License-Identifier: MIT

package wire

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// A host is a set of namespaces, held by its first process, which reads from a pipe of ours.
type host struct {
	first *exec.Cmd
	pipe  io.Closer
}

// newHost creates a host with its own network, host name and mounts. Its /sys shows its own
// devices, because UCX reads them there.
func newHost(name string) (*host, error) {
	h := &host{}
	h.first = exec.Command("/bin/sh", "-c", "mount --make-rprivate / && mount -t sysfs sysfs /sys && "+
		"hostname "+name+" && ip link set lo up && echo ready && exec cat >/dev/null")
	h.first.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNS}
	h.first.Stderr = os.Stderr
	in, err := h.first.StdinPipe()
	if err != nil {
		return nil, err
	}
	h.pipe = in
	out, err := h.first.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.first.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "ready\n" {
		h.close()
		return nil, errors.New("a host's namespaces can't be made")
	}
	return h, nil
}

func (h *host) pidText() string { return fmt.Sprint(h.first.Process.Pid) }

func (h *host) enterCommand() []string {
	return []string{"nsenter", "-t", h.pidText(), "-n", "-u", "-m"}
}

func (h *host) close() {
	h.pipe.Close() // cat ends
	_ = h.first.Wait()
}
