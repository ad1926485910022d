// SPDX-License-Identifier: MIT

package hub

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"skep/internal/lockdep"
)

func init() { lockdep.Enabled = true }

func TestCallMoves(t *testing.T) {
	c := &call{}
	for _, to := range []callState{callWaiting, callRunning, callRunning, callWaiting, callRunning, callEnded} {
		c.setState(to)
	}
	defer func() {
		if recover() == nil {
			t.Error("a call that has ended was queued again")
		}
	}()
	c.setState(callWaiting)
}

// No disk access happens under the hub's lock. If the memory limit is reached, the data of a
// message is written to a file before the lock is taken.
func TestHubLock_isFreeWhileTheDiskWorks(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	w.hub.spools.limit = 0
	var files atomic.Int32
	w.hub.spools.create = func(dir, pattern string) (*os.File, error) {
		files.Add(1)
		for end := time.Now().Add(testTimeout); !w.hub.mu.TryLock(); <-time.After(time.Millisecond) {
			if time.Now().After(end) {
				t.Error("a file was made under the hub's lock")
				return os.CreateTemp(dir, pattern)
			}
		}
		w.hub.mu.Unlock()
		return os.CreateTemp(dir, pattern)
	}
	m.call(5, []byte("arguments"))
	a.sendDone(a.nextLease(), []byte("result"))
	if _, b := m.readResult(5); string(b) != "result" {
		t.Errorf("the result is %q", b)
	}
	if n := files.Load(); n != 2 {
		t.Errorf("%d files were made for arguments and result", n)
	}
}
