// SPDX-License-Identifier: MIT

package ident

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile waits for the lock of this name; `skep token` and the hub share
// files. The kernel unlocks it when the process ends.
func lockFile(name string) (unlock func(), err error) {
	return lock(name, unix.LOCK_EX)
}

// TryLock fails if another process has the lock. It is for resources that only one process
// may use.
func TryLock(name string) (unlock func(), err error) {
	return lock(name, unix.LOCK_EX|unix.LOCK_NB)
}

func lock(name string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s cannot be locked: %w", name, err)
	}
	return func() { f.Close() }, nil
}
