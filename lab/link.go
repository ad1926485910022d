// SPDX-License-Identifier: MIT

package lab

import (
	"fmt"
	"os"
)

// A Wire is one end of an Ethernet link between two guests. Each Ethernet frame is one
// datagram, so a guest that dies while it sends leaves no partial frame. Both ends stay
// open after their guests have ended.
type Wire struct {
	end  int    // 1 or 2
	peer string // name of the guest at the other end
	file *os.File
}

func addressOf(end int) string { return fmt.Sprintf("10.78.0.%d", end) }

func (w *Wire) address() string { return addressOf(w.end) }

// hosts returns the lines of /etc/hosts for both ends.
func (w *Wire) hosts(own string) []string {
	lines := []string{addressOf(w.end) + " " + own}
	if w.peer != "" {
		lines = append(lines, addressOf(3-w.end)+" "+w.peer)
	}
	return lines
}

func (w *Wire) mac() string { return fmt.Sprintf("52:54:00:73:6b:%02x", w.end) }
