// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"skep/internal/uapi"
)

const filesWanted = 1024

func checkSystem() []check {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return []check{passed("system", "%v", err).withState(checkBad, "mount /proc: the agent reads it")}
	}
	return []check{passed("system", "Linux %s", strings.TrimSpace(string(release))), checkFiles(), checkModule(o2gDevice), checkLending("/"), checkUpdates("/"), checkKeys()}
}

func checkFiles() check {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return passed("open files", "%v", err).withState(checkNote, "")
	}
	c := passed("open files", "at most %d", limit.Max)
	if limit.Max < filesWanted {
		return c.withState(checkBad, "raise it: ulimit -n 1024, or LimitNOFILE in the service")
	}
	return c
}

const o2gDevice = "/dev/o2g"

// checkModule creates and destroys an endpoint of O2G's kernel engine.
func checkModule(device string) check {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.ENODEV) {
		return passed("o2g", "no kernel module: a thread of each MPI program matches its messages").
			withState(checkNote, cureHere("o2g")+", if MPI programs run here")
	}
	if err != nil {
		return passed("o2g", "%v", err).withState(checkNote, "ask root for access to it, else MPI programs match messages in user space")
	}
	defer f.Close()
	open := uapi.O2GDeviceOpen{Revision: uapi.O2GDeviceRevision, SQEntries: 16, CQEntries: 16,
		Postings: 16, Peers: 1, SlabMessage: 1, Unexpected: 1 << 20}
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), uapi.O2GDeviceOpenCall, uintptr(unsafe.Pointer(&open)))
	return moduleAnswer(device, errno)
}

// moduleAnswer turns the module's answer to this into a check.
func moduleAnswer(device string, errno syscall.Errno) check {
	if errno == syscall.EPROTO {
		return passed("o2g", "the kernel module has another revision than this skep, which has %d", uapi.O2GDeviceRevision).
			withState(checkNote, "install module and skep of one version")
	}
	if errno != 0 {
		return passed("o2g", "%s: %v", device, errno).withState(checkNote, reloadCure(cureHere("o2g")))
	}
	return passed("o2g", "the kernel module matches MPI programs' messages")
}

// reloadCure is a command that loads O2G's module, or a sentence that there is none, for a
// module that is loaded already.
func reloadCure(load string) string {
	if strings.HasPrefix(load, "build ") {
		return "reload the module: " + load
	}
	return "reload the module: rmmod o2g && " + load
}

func freeSpace(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}
