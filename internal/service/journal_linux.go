// SPDX-License-Identifier: MIT

package service

import (
	"fmt"
	"os"
	"syscall"
)

// IsJournal reports whether the journal reads a stream. systemd gives the device and inode
// of that stream in JOURNAL_STREAM.
func IsJournal(f *os.File) bool {
	named := os.Getenv("JOURNAL_STREAM")
	if named == "" {
		return false
	}
	var s syscall.Stat_t
	return syscall.Fstat(int(f.Fd()), &s) == nil && named == fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}
