// SPDX-License-Identifier: MIT

package hub

import "sync"

// checkLocks has assertLocked look. Tests set it, before anything runs.
var checkLocks bool

// assertLocked stands at the top of what is called with a lock held, under
// tests as lockdep_assert_held does in a kernel: it ends the program if it is
// not held.
func assertLocked(mu *sync.Mutex) {
	if checkLocks && mu.TryLock() {
		panic("hub: this is called with the lock held, and nobody holds it")
	}
}
