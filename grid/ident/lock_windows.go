// SPDX-License-Identifier: MIT

package ident

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile waits for the lock of this name; `skep token` and the hub share
// files. The system unlocks it when the process ends.
func lockFile(name string) (unlock func(), err error) {
	return lock(name, windows.LOCKFILE_EXCLUSIVE_LOCK)
}

// TryLock fails if another process has the lock. It is for resources that only one process
// may use.
func TryLock(name string) (unlock func(), err error) {
	return lock(name, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY)
}

func lock(name string, flags uint32) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	var o windows.Overlapped
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &o)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s cannot be locked: %w", name, err)
	}
	return func() { f.Close() }, nil
}
