// SPDX-License-Identifier: MIT

package hub

import (
	"sync"
	"testing"
)

func init() { checkLocks = true }

func TestAssertLocked(t *testing.T) {
	var mu sync.Mutex
	mu.Lock()
	assertLocked(&mu) // must say nothing
	mu.Unlock()
	defer func() {
		if recover() == nil {
			t.Error("a lock that nobody holds was taken for held")
		}
	}()
	assertLocked(&mu)
}

func TestCallMoves(t *testing.T) {
	c := &call{}
	for _, to := range []callState{callWaiting, callRunning, callRunning, callWaiting, callRunning, callEnded} {
		c.move(to)
	}
	defer func() {
		if recover() == nil {
			t.Error("a call that has ended was queued again")
		}
	}()
	c.move(callWaiting)
}
