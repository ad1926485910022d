// SPDX-License-Identifier: MIT

// Package lockdep asserts that locks are held, like lockdep_assert_held in the kernel.
package lockdep

import "sync"

// Enabled turns the assertions on. Tests set it before anything runs.
var Enabled bool

// AssertHeld panics if assertions are on and nobody holds mu. It cannot see who holds it.
func AssertHeld(mu *sync.Mutex) {
	if Enabled && mu.TryLock() {
		panic("lockdep: a function that needs a lock was called, and nobody holds it")
	}
}
