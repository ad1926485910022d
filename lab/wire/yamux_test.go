// SPDX-License-Identifier: MIT

package wire

import (
	"io"
	"testing"
	"time"
)

// A computer that stands still for minutes does not lose a machine.
func TestYamux_judgesNothingByTime(t *testing.T) {
	if c := Yamux(io.Discard); c.EnableKeepAlive || c.StreamOpenTimeout != 0 || c.ConnectionWriteTimeout < time.Hour {
		t.Errorf("%+v", c)
	}
}
