// SPDX-License-Identifier: MIT

package hub

import (
	"fmt"
	"net"
	"net/url"
	"os/user"
	"strconv"

	"skep/internal/peercred"
)

// peerUser returns the user at the other end of the control socket, by the kernel's word.
func peerUser(c net.Conn) string {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return "user"
	}
	peer, err := peercred.Read(u)
	if err != nil {
		return "user"
	}
	name := ""
	if known, err := user.LookupId(strconv.FormatUint(uint64(peer.Uid), 10)); err == nil {
		name = url.PathEscape(known.Username)
	}
	return fmt.Sprintf("user:%d:%s", peer.Uid, name)
}
