// SPDX-License-Identifier: MIT

package service

import (
	"fmt"
	"os"
	"syscall"
)

// IsJournal says whether a stream is the one that the journal reads: systemd
// names its device and inode.
func IsJournal(f *os.File) bool {
	named := os.Getenv("JOURNAL_STREAM")
	if named == "" {
		return false
	}
	var s syscall.Stat_t
	return syscall.Fstat(int(f.Fd()), &s) == nil && named == fmt.Sprintf("%d:%d", s.Dev, s.Ino)
}
