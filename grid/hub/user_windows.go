// SPDX-License-Identifier: MIT

package hub

import (
	"net"
	"net/url"
	"os/user"
)

// peerUser returns the hub's own user: only that one can reach the control socket.
func peerUser(net.Conn) string {
	known, err := user.Current()
	if err != nil {
		return "user"
	}
	return "user::" + url.PathEscape(known.Username)
}
