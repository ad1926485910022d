// SPDX-License-Identifier: MIT

package hub

import (
	"net"
	"sync"
)

// A crowd holds connections whose peers are not authenticated yet. Beyond a limit the
// oldest is closed, so that idle connections cannot keep out a peer that authenticates
// quickly. The lock guards what follows it.
type crowd struct {
	most int

	mu     sync.Mutex
	order  []net.Conn // the oldest first
	closed bool
}

// add returns false when the hub is stopping.
func (c *crowd) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if len(c.order) >= c.most {
		go c.order[0].Close() // TLS sends close_notify, which may take a while
		c.order = c.order[1:]
	}
	c.order = append(c.order, conn)
	return true
}

func (c *crowd) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.order {
		if other == conn {
			c.order = append(c.order[:i], c.order[i+1:]...)
			return
		}
	}
}

// close closes all connections, present and future.
func (c *crowd) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conn := range c.order {
		conn.Close()
	}
}
