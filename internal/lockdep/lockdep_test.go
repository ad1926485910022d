// SPDX-License-Identifier: MIT

package lockdep

import (
	"sync"
	"testing"
)

func TestAssertHeld(t *testing.T) {
	var mu sync.Mutex
	AssertHeld(&mu) // must not panic: assertions are off
	Enabled = true
	mu.Lock()
	AssertHeld(&mu) // must not panic
	mu.Unlock()
	defer func() {
		if recover() == nil {
			t.Error("a lock that nobody holds was taken for held")
		}
	}()
	AssertHeld(&mu)
}
