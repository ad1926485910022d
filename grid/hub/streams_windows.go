// SPDX-License-Identifier: MIT

package hub

import (
	"net"
	"time"
)

// boundUnsent: Windows itself gives such a connection up after some 20 s.
func boundUnsent(*net.TCPConn, time.Duration) {}
