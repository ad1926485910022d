/* SPDX-License-Identifier: MIT */
/*
 * What Linux serves and abi does not. Each kind of refusal is told to the user
 * once, by name; the program gets an errno besides. An error that Linux would
 * return too, because of the program's arguments, is no refusal.
 */
#ifndef ABI_PROC_REFUSE_H
#define ABI_PROC_REFUSE_H

#include <skep/types.h>

struct abi_proc;

enum abi_refusal {
	ABI_REFUSE_SPLICE,
	ABI_REFUSE_VMSPLICE,
	ABI_REFUSE_FCNTL,
	ABI_REFUSE_MEMFD,
	ABI_REFUSE_PACKETS,
	ABI_REFUSE_CAPABILITY,
	ABI_REFUSE_IO_FLAGS,
	ABI_REFUSE_FALLOCATE,
	ABI_REFUSE_TERMINAL,
	ABI_REFUSE_INODE,
	ABI_REFUSE_EMPTY_PATH,
	ABI_REFUSE_RENAME,
	ABI_REFUSE_ADVICE,
	ABI_REFUSE_MREMAP,
	ABI_REFUSE_CLONE,
	ABI_REFUSE_PERSONALITY,
	ABI_REFUSE_PRCTL,
	ABI_REFUSE_CPU_CLOCK,
	ABI_REFUSE_VFORK_CHILD,
	ABI_REFUSE_FORK_SHARED,
	ABI_REFUSE_FORK,
	ABI_REFUSE_EXEC,
	ABI_REFUSE_VFORK,
	ABI_REFUSE_PASS,
	ABI_REFUSE_PAIR_OPTION,
	ABI_REFUSALS,
};

/* Logs this kind of refusal if it is the first, and returns `error`. */
s64 abi_refuse(struct abi_proc *p, enum abi_refusal what, s64 error);

#endif
