// SPDX-License-Identifier: MIT

package agent

import (
	"testing"

	"golang.org/x/sys/unix"
)

// runCall returns the filter's decision about a system call; 0 permits it.
func (f filter) runCall(t *testing.T, arch uint32, number uint32, args ...uint64) unix.Errno {
	t.Helper()
	var a uint32
	for at := 0; at < len(f); at++ {
		i := f[at]
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			switch k := i.K; {
			case k == 0:
				a = number
			case k == 4:
				a = arch
			case k >= 16 && k < 64 && k%4 == 0:
				a = 0
				if n := int(k-16) / 8; n < len(args) {
					a = uint32(args[n] >> (8 * (k % 8)))
				}
			default:
				t.Fatalf("instruction %d reads at %d", at, k)
			}
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			at += jumpLength(a == i.K, i)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			at += jumpLength(a >= i.K, i)
		case unix.BPF_RET | unix.BPF_K:
			if i.K == unix.SECCOMP_RET_ALLOW {
				return 0
			}
			if i.K&^0xffff != unix.SECCOMP_RET_ERRNO {
				t.Fatalf("it returns %#x", i.K)
			}
			return unix.Errno(i.K & 0xffff)
		default:
			t.Fatalf("instruction %d is %#x", at, i.Code)
		}
	}
	t.Fatal("the filter does not end")
	return 0
}

func jumpLength(yes bool, i unix.SockFilter) int {
	if yes {
		return int(i.Jt)
	}
	return int(i.Jf)
}

// The filter refuses exactly the calls that Landlock does not cover.
func TestFilterOfCalls(t *testing.T) {
	const native, foreign = unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_I386
	here := ^uint64(99) // AT_FDCWD
	for _, network := range []bool{false, true} {
		f := makeFilter(network)
		online := unix.EACCES
		if network {
			online = 0
		}
		for _, c := range []struct {
			name         string
			arch, number uint32
			args         []uint64
			want         unix.Errno
		}{
			{"read", native, unix.SYS_READ, nil, 0}, {"execve", native, unix.SYS_EXECVE, nil, 0},
			{"openat", native, unix.SYS_OPENAT, []uint64{here, 1}, 0}, {"fchmod", native, unix.SYS_FCHMOD, nil, 0},
			{"fork of 32 bits", foreign, 2, nil, unix.ENOSYS}, {"open of x32", native, x32Bit | 2, nil, unix.ENOSYS},
			{"the last call before x32", native, x32Bit - 1, nil, 0}, {"the first of x32", native, x32Bit, nil, unix.ENOSYS},
			{"time of a name", native, unix.SYS_UTIMENSAT, []uint64{here, 0x7fff00001000}, unix.EPERM},
			{"time of a low name", native, unix.SYS_UTIMENSAT, []uint64{here, 0x1000}, unix.EPERM},
			{"time of a round name", native, unix.SYS_UTIMENSAT, []uint64{here, 1 << 40}, unix.EPERM},
			{"time of an open file", native, unix.SYS_UTIMENSAT, []uint64{3, 0}, 0},
			{"its own limits", native, unix.SYS_PRLIMIT64, []uint64{0}, 0},
			{"another's limits", native, unix.SYS_PRLIMIT64, []uint64{1}, unix.EPERM},
			{"a socket of the machine", native, unix.SYS_SOCKET, []uint64{unix.AF_UNIX}, unix.EACCES},
			{"a socket of the network", native, unix.SYS_SOCKET, []uint64{unix.AF_INET}, online},
			{"a pair of sockets", native, unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX}, 0},
		} {
			if got := f.runCall(t, c.arch, c.number, c.args...); got != c.want {
				t.Errorf("%s, network %v: %d, want %d", c.name, network, got, c.want)
			}
		}
		for _, n := range refusedCalls {
			if got := f.runCall(t, native, n); got != unix.EPERM {
				t.Errorf("call %d: %d", n, got)
			}
		}
	}
}
