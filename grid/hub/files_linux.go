// SPDX-License-Identifier: MIT

package hub

import "syscall"

// openFiles is how many descriptors this process may have.
func openFiles() int64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1024 // the least that systems give
	}
	return int64(min(limit.Cur, 1<<20))
}

// freeBytes is what this user may still write to the disk of dir.
func freeBytes(dir string) (uint64, error) {
	var f syscall.Statfs_t
	if err := syscall.Statfs(dir, &f); err != nil {
		return 0, err
	}
	return f.Bavail * uint64(f.Bsize), nil
}
