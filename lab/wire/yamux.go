// SPDX-License-Identifier: MIT

package wire

import (
	"io"
	"time"

	"github.com/hashicorp/yamux"
)

// Yamux is the configuration of both ends. The emulator may stand still for
// long on a loaded computer, so nothing here judges by time: deadlines belong
// to the program's caller. One stream at most may wait to be accepted by the
// host, the guest takes many.
func Yamux(log io.Writer) *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.ConnectionWriteTimeout = time.Hour
	c.StreamOpenTimeout = 0
	c.LogOutput = log
	return c
}
