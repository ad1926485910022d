// SPDX-License-Identifier: MIT

package wire

import (
	"io"
	"time"

	"github.com/hashicorp/yamux"
)

// Yamux returns the configuration of both ends. On a loaded computer the emulator may
// stand still for long, so nothing here uses timeouts; deadlines are set by the caller of
// a program. At most one stream may wait to be accepted by the host; at the guest many
// may.
func Yamux(log io.Writer) *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.ConnectionWriteTimeout = time.Hour
	c.StreamOpenTimeout = 0
	c.LogOutput = log
	return c
}
