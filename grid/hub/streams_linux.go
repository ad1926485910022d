// SPDX-License-Identifier: MIT

package hub

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// boundUnsent has the kernel give a connection up whose peer acknowledges nothing for so long.
// Its own limit is a quarter of an hour.
func boundUnsent(c *net.TCPConn, d time.Duration) {
	if raw, err := c.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
		})
	}
}
