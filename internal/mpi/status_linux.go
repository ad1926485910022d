// SPDX-License-Identifier: MIT

package mpi

import (
	"os"
	"syscall"
)

// abandoned says that a page's process is gone: its lock is.
func abandoned(page *os.File) bool {
	return syscall.Flock(int(page.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil
}
