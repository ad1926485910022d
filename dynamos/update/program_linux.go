// SPDX-License-Identifier: MIT

package update

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"skep/internal/uapi"
)

// BPF programs as terms of a policy (bpf(2)). A Policy has the kernel's number of a program;
// the module takes a descriptor, and gives the number back.

// bpfInfo is the head of struct bpf_prog_info.
type bpfInfo struct {
	Type, ID uint32
	_        [56]byte
	Name     [16]byte
}

// bpf makes a system call; only tests replace it.
var bpf = func(command uintptr, attr unsafe.Pointer, size uintptr) (int, unix.Errno) {
	n, _, e := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size)
	return int(n), e
}

// PinnedProgram returns the number of the program that is pinned at a path of a BPF file
// system, such as /sys/fs/bpf/choose.
func PinnedProgram(path string) (uint32, error) {
	name, err := unix.BytePtrFromString(path)
	if err != nil {
		return 0, refusef("a path has no NUL")
	}
	attr := struct {
		path      *byte
		fd, flags uint32
	}{path: name}
	fd, e := bpf(unix.BPF_OBJ_GET, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if e != 0 {
		return 0, refusef("no program is pinned there (%v): 'bpftool prog load FILE.o /sys/fs/bpf/NAME type raw_tracepoint' pins one, for root", e)
	}
	defer unix.Close(fd)
	info, err := programInfo(fd)
	if err != nil {
		return 0, err
	}
	if info.Type != unix.BPF_PROG_TYPE_RAW_TRACEPOINT {
		return 0, refusef("its program is not of type raw_tracepoint, the only one that a policy can ask")
	}
	return info.ID, nil
}

// programInfo refuses descriptors of maps and links, which have numbers of their own.
func programInfo(fd int) (info bpfInfo, err error) {
	if name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil || name != "anon_inode:bpf-prog" {
		return info, refusef("a map or a link is pinned there, not a program")
	}
	attr := struct {
		fd, size uint32
		info     *bpfInfo
	}{uint32(fd), uint32(unsafe.Sizeof(info)), &info}
	if _, e := bpf(unix.BPF_OBJ_GET_INFO_BY_FD, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); e != 0 {
		return info, refusef("the kernel does not describe the program: %v", e)
	}
	return info, nil
}

func programByID(id uint32) (fd int, err error) {
	attr := [4]uint32{id} // and three words that are zero
	fd, e := bpf(unix.BPF_PROG_GET_FD_BY_ID, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if e != 0 {
		return -1, refusef("the kernel has no BPF program %d any more (%v): give the policy again", id, e)
	}
	return fd, nil
}

// ProgramName returns the name and number of a loaded program, or "".
func ProgramName(id uint32) string {
	fd, err := programByID(id)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	info, err := programInfo(fd)
	name := uapi.Text(info.Name[:])
	if err != nil || name == "" {
		return ""
	}
	return fmt.Sprintf("%s (number %d)", name, id)
}

// withPrograms calls do with a policy that has descriptors in place of numbers.
func withPrograms(p *uapi.DynamosPolicy, do func() error) error {
	given := *p
	defer func() { *p = given }()
	for i := range p.Used() {
		r := &p.Rule[i]
		if r.Terms&uapi.DynamosProgram == 0 {
			continue
		}
		fd, err := programByID(uint32(r.PID))
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		r.PID = int32(fd)
	}
	return do()
}
