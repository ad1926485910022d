// SPDX-License-Identifier: MIT

package agent

import (
	"strconv"
	"testing"
	"time"

	"skep/grid/engine"
)

// Messages that arrive faster than they are handled wait, all of them and in their order.
func TestAllMessagesAreReceived(t *testing.T) {
	e, err := engine.Start(engine.Config{Dir: tempDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	messages, err := receiveAll(t.Context(), e.Conn(), "skep.v1.to.x.*")
	if err != nil {
		t.Fatal(err)
	}
	const many = 10_000
	for i := range many {
		if err := e.Conn().Publish("skep.v1.to.x.cancel", strconv.AppendInt(nil, int64(i), 10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Conn().Flush(); err != nil { // all have arrived
		t.Fatal(err)
	}
	for i := range many {
		select {
		case m := <-messages:
			if got := string(m.Data); got != strconv.Itoa(i) {
				t.Fatalf("message %s came instead of %d", got, i)
			}
		case <-time.After(testTimeout):
			t.Fatalf("message %d was dropped", i)
		}
	}
}
