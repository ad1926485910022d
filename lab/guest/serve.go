// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"

	"skep/grid/proto"
	"skep/lab/wire"
)

// openPort waits for the port, which its driver creates when the device has answered, and
// opens it.
func openPort() (*os.File, error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, file := range names {
			name, _ := os.ReadFile(file)
			if strings.TrimSpace(string(name)) == wire.Port {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(file)), os.O_RDWR, 0)
			}
		}
	}
	return nil, fmt.Errorf("no virtio-serial port is called %q", wire.Port)
}

// serve sends the hello and serves requests until the channel ends.
func serve(port *os.File, hello wire.Hello) error {
	session, err := yamux.Server(port, wire.Yamux(os.Stderr))
	if err != nil {
		return err
	}
	first, err := session.Open()
	if err != nil {
		return err
	}
	if err := wire.Write(first, hello); err != nil {
		return err
	}
	if hello.Failure != "" {
		// The host reads it and ends the machine.
		io.Copy(io.Discard, first)
		return errors.New(hello.Failure)
	}
	for {
		stream, err := session.Accept()
		if err != nil {
			return fmt.Errorf("the host has ended: %w", err)
		}
		go serveStream(stream)
	}
}

func serveStream(stream net.Conn) {
	defer stream.Close()
	var r wire.Request
	if err := wire.Read(stream, &r); err != nil {
		proto.WriteExec(stream, proto.ExecFailed, wire.Failure(err))
		return
	}
	if err := r.Check(); err != nil {
		proto.WriteExec(stream, proto.ExecFailed, wire.Failure(err))
		return
	}
	switch r.Op {
	case wire.PowerOff:
		powerOff(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	case wire.Reboot:
		powerOff(syscall.LINUX_REBOOT_CMD_RESTART)
	case wire.Run:
		run(stream, &r)
	}
}

// powerOff sends SIGTERM to all processes, waits briefly for them, and turns off.
func powerOff(how int) {
	syscall.Kill(-1, syscall.SIGTERM)
	for end := time.Now().Add(time.Second); time.Now().Before(end) && anyLeft(); {
		time.Sleep(10 * time.Millisecond)
	}
	syscall.Kill(-1, syscall.SIGKILL)
	turnOff(how)
}

// anyLeft reports whether a process other than this one and the kernel threads is left.
// Kernel threads have no executable.
func anyLeft() bool {
	images, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, image := range images {
		if _, err := os.Readlink(image); err == nil && image != "/proc/1/exe" {
			return true
		}
	}
	return false
}
