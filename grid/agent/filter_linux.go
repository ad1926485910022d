// SPDX-License-Identifier: MIT

package agent

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data.
const (
	callNumber   = 0
	callArch     = 4
	callArgument = 16
)

// x32Bit marks system calls of a second numbering.
const x32Bit = 0x40000000

// refusedCalls are the system calls that Landlock does not cover: files are
// changed by name without being opened, and a ring makes sockets that no filter
// sees. Descriptors are open only where Landlock let it be, so that fchmod and
// its like are harmless. System V and POSIX queues, semaphores and shared
// memory have no path that Landlock could check.
var refusedCalls = []uint32{
	unix.SYS_CHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2,
	unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_FCHOWNAT,
	unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
	unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTRAT,
	unix.SYS_IO_URING_SETUP, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
	unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
}

// A filter is a program of seccomp under construction.
type filter []unix.SockFilter

func (f *filter) add(code uint16, k uint32, yes, no uint8) {
	*f = append(*f, unix.SockFilter{Code: code, K: k, Jt: yes, Jf: no})
}

func (f *filter) load(offset uint32) { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset, 0, 0) }

// returnErrno returns errno, or with 0 permits the call.
func (f *filter) returnErrno(errno unix.Errno) {
	if errno == 0 {
		f.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW, 0, 0)
		return
	}
	f.add(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ERRNO|uint32(errno), 0, 0)
}

// jumpUnless skips the next n instructions if the value is not k.
func (f *filter) jumpUnless(k uint32, n uint8) { f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, k, 0, n) }

// filterCalls refuses what Landlock leaves open, where there are no namespaces.
func filterCalls(b *bounds) error {
	if b.Kind != ConfinedLandlock {
		return nil
	}
	f := makeFilter(b.Network)
	p := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return fmt.Errorf("system calls cannot be filtered: %w", errno)
	}
	return nil
}

func makeFilter(network bool) filter {
	var f filter
	f.load(callArch)
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, unix.AUDIT_ARCH_X86_64, 1, 0)
	f.returnErrno(unix.ENOSYS)
	f.load(callNumber)
	f.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, x32Bit, 0, 1)
	f.returnErrno(unix.ENOSYS)
	for _, n := range refusedCalls {
		f.jumpUnless(n, 1)
		f.returnErrno(unix.EPERM)
	}
	// Without a name it changes the times of an open file.
	f.jumpUnless(unix.SYS_UTIMENSAT, 6)
	f.load(callArgument + 8)
	f.jumpUnless(0, 3)
	f.load(callArgument + 12)
	f.jumpUnless(0, 1)
	f.returnErrno(0)
	f.returnErrno(unix.EPERM)
	// Its own limits, not those of another process.
	f.jumpUnless(unix.SYS_PRLIMIT64, 4)
	f.load(callArgument)
	f.jumpUnless(0, 1)
	f.returnErrno(0)
	f.returnErrno(unix.EPERM)
	// Landlock does not check the names of local sockets.
	if network {
		f.jumpUnless(unix.SYS_SOCKET, 3)
		f.load(callArgument)
		f.jumpUnless(unix.AF_UNIX, 1)
	} else {
		f.jumpUnless(unix.SYS_SOCKET, 1)
	}
	f.returnErrno(unix.EACCES)
	f.returnErrno(0)
	return f
}
