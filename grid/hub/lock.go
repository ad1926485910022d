// SPDX-License-Identifier: MIT

package hub

import "sync"

// checkLocks enables assertLocked. Tests set it before anything runs.
var checkLocks bool

// assertLocked asserts that the caller holds a lock, like lockdep_assert_held in the kernel: in tests it ends the program if not.
func assertLocked(mu *sync.Mutex) {
	if checkLocks && mu.TryLock() {
		panic("hub: this is called with the lock held, and nobody holds it")
	}
}
