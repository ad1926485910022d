// SPDX-License-Identifier: MIT

package gang

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// remoteSpan is struct iovec with an address of another process, which is no pointer here.
type remoteSpan struct{ base, length uint64 }

// adviseSpans tells the kernel that a process will need these parts of its memory soon: it reads
// them from swap (process_madvise(2), MADV_WILLNEED). Parts that are not mapped any more are
// passed over.
func adviseSpans(pidfd int, spans []span) error {
	list := make([]remoteSpan, len(spans))
	for i, s := range spans {
		list[i] = remoteSpan{s.begin, s.end - s.begin}
	}
	for len(list) > 0 {
		n, _, errno := unix.Syscall6(unix.SYS_PROCESS_MADVISE, uintptr(pidfd), uintptr(unsafe.Pointer(&list[0])),
			uintptr(len(list)), unix.MADV_WILLNEED, 0, 0)
		runtime.KeepAlive(list)
		switch {
		case errors.Is(errno, unix.ENOMEM) || errors.Is(errno, unix.EBADF) || errors.Is(errno, unix.EINVAL):
			list = list[1:]
		case errors.Is(errno, unix.EINTR):
		case errno == unix.EPERM:
			return refusef("this user may not have pages of other processes read (CAP_SYS_NICE): --paging adaptive is for root")
		case errno != 0:
			return errno
		default:
			list = dropBytes(list, uint64(n))
		}
	}
	return nil
}

// dropBytes returns what is left of a list of which the kernel has done so many bytes, and at
// least one entry less: it stops at one that it cannot do.
func dropBytes(list []remoteSpan, n uint64) []remoteSpan {
	for len(list) > 0 && n >= list[0].length {
		n -= list[0].length
		list = list[1:]
	}
	if len(list) > 0 {
		return list[1:]
	}
	return list
}
