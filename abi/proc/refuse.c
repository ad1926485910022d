// SPDX-License-Identifier: MIT
/* Owns the sentences about what is refused; abi_proc.said_refused is atomic. */
#include "refuse.h"
#include "log.h"
#include "abi/state/proc.h"

static const char *const sentences[ABI_REFUSALS] = {
	[ABI_REFUSE_SPLICE] =
		"splice and tee refused (EINVAL): this host moves no bytes "
		"between these descriptors; use read and write",
	[ABI_REFUSE_VMSPLICE] =
		"vmsplice refused (EINVAL): SPLICE_F_NONBLOCK needs a pipe "
		"that is set to O_NONBLOCK",
	[ABI_REFUSE_FCNTL] =
		"fcntl refused (EINVAL): signals to owners, seals and write "
		"hints are not supported",
	[ABI_REFUSE_MEMFD] =
		"memfd_create refused (EINVAL): huge pages are not available",
	[ABI_REFUSE_PACKETS] =
		"pipe2 refused (EINVAL): pipes of packets (O_DIRECT) are not "
		"supported",
	[ABI_REFUSE_CAPABILITY] =
		"a change of user, group or owner refused (EPERM): programs "
		"have no capabilities here, and one group",
	[ABI_REFUSE_IO_FLAGS] =
		"preadv2 and pwritev2 refused (EOPNOTSUPP): flags are not "
		"supported",
	[ABI_REFUSE_FALLOCATE] =
		"fallocate refused (EOPNOTSUPP): holes and ranges that move "
		"are not supported; space can only be added",
	[ABI_REFUSE_TERMINAL] =
		"an ioctl of a terminal refused (EINVAL): attributes and "
		"process groups of terminals do not change on this host",
	[ABI_REFUSE_INODE] =
		"an ioctl of a file refused (ENOTTY): flags and extents of "
		"files are not shown",
	[ABI_REFUSE_EMPTY_PATH] =
		"linkat or faccessat2 refused: AT_EMPTY_PATH is not "
		"supported, and a file without a name gets none",
	[ABI_REFUSE_RENAME] =
		"renameat2 refused (EINVAL): this host has no such flag",
	[ABI_REFUSE_ADVICE] =
		"madvise refused (EINVAL): pages are not removed from files, "
		"collapsed or poisoned, and the program's own data are not "
		"dropped",
	[ABI_REFUSE_MREMAP] =
		"mremap refused (EINVAL): MREMAP_DONTUNMAP is not supported",
	[ABI_REFUSE_CLONE] =
		"clone refused (EINVAL): of namespaces, tracing, pidfds and "
		"the sharing of single resources nothing is supported",
	[ABI_REFUSE_PERSONALITY] =
		"personality refused (EINVAL): only that of Linux is "
		"supported",
	[ABI_REFUSE_PRCTL] =
		"prctl refused (EINVAL): an option that is not supported; "
		"names, parent-death signals and dumpable are",
	[ABI_REFUSE_CPU_CLOCK] =
		"the CPU clock of another thread or process refused: a thread "
		"reads and sleeps on its own only",
	[ABI_REFUSE_VFORK_CHILD] =
		"fork or vfork refused (EAGAIN): a child of vfork starts no "
		"process on this host before it executes a program",
	[ABI_REFUSE_FORK_SHARED] =
		"fork refused (ENOSYS): memory of MAP_SHARED without a file "
		"was mapped at a fixed address, without access or to execute, "
		"so this host cannot share it with a child",
	[ABI_REFUSE_FORK] =
		"fork refused (ENOSYS): this host copies no process; start "
		"programs with posix_spawn, system, popen, or vfork and execve",
	[ABI_REFUSE_EXEC] =
		"execve refused (ENOSYS): this host replaces no program; start "
		"it with posix_spawn, system, popen, or vfork and execve",
	[ABI_REFUSE_VFORK] =
		"a signal to itself refused (EPERM): a child of vfork has only "
		"the default actions before it executes a program",
	[ABI_REFUSE_PASS] =
		"a descriptor is closed in the program that is started: "
		"sockets of AF_UNIX, timers, signalfd and epoll are "
		"not passed on by this host",
	[ABI_REFUSE_PAIR_OPTION] =
		"an option of a socket of AF_UNIX refused (ENOPROTOOPT): "
		"messages carry no credentials (SO_PASSCRED) here; known are "
		"SO_PEERCRED, SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ERROR, "
		"timeouts and sizes of buffers",
};

s64 abi_refuse(struct abi_proc *p, enum abi_refusal what, s64 error)
{
	abi_log_once(p, &p->said_refused[what], sentences[what]);
	return error;
}
