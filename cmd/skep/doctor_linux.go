// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"strings"
	"syscall"
)

const filesWanted = 1024

func checkSystem() []check {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return []check{good("system", "%v", err).but(checkBad, "mount /proc: the agent reads it")}
	}
	return []check{good("system", "Linux %s", strings.TrimSpace(string(release))), checkFiles()}
}

func checkFiles() check {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return good("open files", "%v", err).but(checkNote, "")
	}
	c := good("open files", "at most %d", limit.Max)
	if limit.Max < filesWanted {
		return c.but(checkBad, "raise it: ulimit -n 1024, or LimitNOFILE in the service")
	}
	return c
}

func freeSpace(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}
