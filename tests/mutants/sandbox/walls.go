// SPDX-License-Identifier: MIT

// Package sandbox runs suites on mutated code, which may delete files and kill processes. So
// each mutant runs in its own namespaces: it sees no other process, the file system is
// read-only except an overlay in memory above the copy of the tree, and the network has only
// a loopback interface. Process 1 of the sandbox is this program. When it ends, all
// processes of the sandbox end and all files that they wrote are removed.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"
)

// A Box describes the sandbox to its process 1.
type Box struct {
	Tree  string // the copy: a layer is put above it
	Cache string // the user's Go cache, read-only below a layer
	Warm  string // what the run without mutants added to the cache
	Keep  bool   // the run without mutants: write to Tree and Warm
}

func sandboxAttr() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	}
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

type step struct {
	what string
	run  func() error
}

// build sets up the namespaces' mounts, network and capabilities. It runs as process 1.
func (b Box) build() error {
	held := map[string]int{}
	steps := []step{
		{"make mounts private", func() error {
			return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
		}},
		{"hold what stays", func() error { return b.openFolders(held) }},
		{"make all read-only", allReadOnly},
		{"mount /proc", func() error { return syscall.Mount("proc", "/proc", "proc", 0, "") }},
		{"mount /tmp", func() error { return mountMemory("/tmp", "8g") }}, // the lab requires 5 GB of free space
		{"mount /var/tmp", func() error { return mountMemory("/var/tmp", "1g") }},
		{"mount /dev/shm", func() error { return mountMemory("/dev/shm", "1g") }},
		{"mount the tree", func() error { return b.mountTree(held) }},
		{"mount the cache", func() error { return b.mountCache(held) }},
		{"make a home", func() error { return os.MkdirAll("/tmp/home", 0o700) }},
		{"raise the loopback", loopbackUp},
		{"drop capabilities", dropCapabilities},
	}
	for _, s := range steps {
		if err := s.run(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// openFolders opens the folders before anything is mounted above them.
func (b Box) openFolders(held map[string]int) error {
	for _, path := range []string{b.Tree, b.Cache, b.Warm} {
		fd, err := syscall.Open(path, syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		held[path] = fd
	}
	return nil
}

func descriptorPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

func mountMemory(path, size string) error {
	return syscall.Mount("tmpfs", path, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=1777,size="+size)
}

// bindFolder mounts an open folder at its old path, read-only or writable.
func bindFolder(fd int, path string, writable bool) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount(descriptorPath(fd), path, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	flags, err := lockedFlags(path)
	if err != nil {
		return err
	}
	if !writable {
		flags |= syscall.MS_RDONLY
	}
	return syscall.Mount("", path, "", flags|syscall.MS_BIND|syscall.MS_REMOUNT, "")
}

// lockedFlags returns the flags of a mount that an unprivileged user must not remove.
func lockedFlags(path string) (uintptr, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return 0, err
	}
	flags := uintptr(s.Flags) & (syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC |
		syscall.MS_NOATIME | syscall.MS_NODIRATIME)
	const relatime = 0x1000 // ST_RELATIME of statfs(2)
	if s.Flags&relatime != 0 {
		flags |= syscall.MS_RELATIME
	}
	return flags, nil
}

func (b Box) mountTree(held map[string]int) error {
	if b.Keep {
		return bindFolder(held[b.Tree], b.Tree, true)
	}
	if err := bindFolder(held[b.Tree], b.Tree, false); err != nil {
		return err
	}
	return mountLayer(b.Tree, []string{b.Tree}, "/tmp/layer/tree")
}

// mountCache mounts a layer above the user's Go cache, in Warm or in memory.
func (b Box) mountCache(held map[string]int) error {
	if err := bindFolder(held[b.Cache], b.Cache, false); err != nil {
		return err
	}
	if err := bindFolder(held[b.Warm], b.Warm, b.Keep); err != nil {
		return err
	}
	if !b.Keep {
		return mountLayer(b.Cache, []string{b.Warm + "/upper", b.Cache}, "/tmp/layer/cache")
	}
	return mountOverlay(b.Cache, []string{b.Cache}, b.Warm+"/upper", b.Warm+"/work")
}

// mountLayer mounts an overlay whose upper layer is in memory.
func mountLayer(path string, lower []string, upper string) error {
	if err := errors.Join(os.MkdirAll(upper+"/upper", 0o755), os.MkdirAll(upper+"/work", 0o755)); err != nil {
		return err
	}
	return mountOverlay(path, lower, upper+"/upper", upper+"/work")
}

func mountOverlay(path string, lower []string, upper, work string) error {
	for _, p := range append(lower, upper) {
		if strings.ContainsAny(p, ":,\\") {
			return fmt.Errorf("%s: a path with ':', ',' or '\\' cannot be a layer", p)
		}
	}
	data := "lowerdir=" + strings.Join(lower, ":") + ",upperdir=" + upper + ",workdir=" + work
	if os.Getenv(envUser) != "" {
		data += ",userxattr"
	}
	return syscall.Mount("overlay", path, "overlay", 0, data)
}

// allReadOnly makes all mounts read-only by mount_setattr(2).
func allReadOnly() error {
	const mountSetattr, recursive, readOnly = 442, 0x8000, 1
	attr := [4]uint64{readOnly, 0, 0, 0}
	root := []byte("/\x00")
	const currentDir = ^uintptr(99) // AT_FDCWD
	_, _, errno := syscall.RawSyscall6(mountSetattr, currentDir, uintptr(unsafe.Pointer(&root[0])),
		recursive, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func loopbackUp() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var req [40]byte // struct ifreq: name, flags
	copy(req[:], "lo")
	req[16] = syscall.IFF_UP
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS,
		uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return errno
	}
	return nil
}

// dropCapabilities drops capabilities for things that namespaces do not isolate: the clock,
// modules, I/O ports.
func dropCapabilities() error {
	const capbsetDrop = 24
	// CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_BOOT, CAP_SYS_TIME, CAP_MKNOD
	for _, number := range []uintptr{16, 17, 22, 25, 27} {
		_, _, errno := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, capbsetDrop, number, 0, 0, 0, 0)
		if errno != 0 {
			return errno
		}
	}
	return nil
}

// envUser is set in a sandbox that was created by a user other than root.
const envUser = "SKEP_MUTANTS_USER"

// endAll ends every process of the sandbox but this one.
func endAll() {
	if os.Getpid() == 1 { // otherwise it would kill the user's processes
		syscall.Kill(-1, syscall.SIGKILL)
	}
}

// CleanEnv returns the environment without the variables of an outer make.
func CleanEnv(env []string) []string {
	var out []string
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ROOM", "N", "SEED":
			continue
		}
		out = append(out, v)
	}
	return out
}

// memoryUsed returns the memory of all processes of the sandbox, and their number.
func memoryUsed() (bytes int64, processes int) {
	list, _ := filepath.Glob("/proc/[0-9]*/statm")
	for _, path := range list {
		var size, resident int64
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if n, _ := fmt.Sscan(string(text), &size, &resident); n == 2 {
			bytes += resident * int64(os.Getpagesize())
		}
		processes++
	}
	return bytes, processes
}
