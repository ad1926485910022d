// SPDX-License-Identifier: MIT

//go:build linux

// Package peercred says which process is at the other end of a local socket.
package peercred

import (
	"net"

	"golang.org/x/sys/unix"
)

// Read returns the process and the user that connected c, or that listened at its other
// end, as the kernel recorded them then (SO_PEERCRED in unix(7)).
func Read(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	return peer, failed
}
