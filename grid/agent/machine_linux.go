// SPDX-License-Identifier: MIT

package agent

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	systemIsWindows = false
	streamNumber    = "3" // as the guard hands it on
)

func systemText() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "Linux"
	}
	return "Linux " + unix.ByteSliceToString(u.Release[:])
}

// memoryInfo returns the total bytes, and those available without swapping.
func memoryInfo() (total, free uint64) {
	text, _ := os.ReadFile("/proc/meminfo")
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "MemTotal:":
			total = parseKiB(f[1])
		case "MemAvailable:":
			free = parseKiB(f[1])
		}
	}
	return total, free
}

// freeBytes is the free space of a directory's file system.
func freeBytes(dir string) uint64 {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return 0
	}
	return fs.Bavail * uint64(fs.Bsize)
}

func parseKiB(s string) (n uint64) {
	for _, c := range s {
		if c < '0' || c > '9' || n > 1<<50 {
			return 0
		}
		n = n*10 + uint64(c-'0')
	}
	return n << 10
}

// guestPath is a file's name as a worker sees it.
func guestPath(_, path string) (string, error) { return path, nil }

func protectAgent() error { return nil } // the guards do it
