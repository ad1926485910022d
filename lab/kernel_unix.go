// SPDX-License-Identifier: MIT

//go:build unix

package lab

import (
	"os"
	"syscall"
)

var errLocked error = syscall.EWOULDBLOCK

func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}
