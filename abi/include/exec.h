/* SPDX-License-Identifier: MIT */
/*
 * execve: the substrate executes itself with the new program. abi writes a file
 * with the head, its state, the argc and envc strings with their NULs, and the
 * signals that are pending.
 */
#ifndef ABI_INCLUDE_EXEC_H
#define ABI_INCLUDE_EXEC_H

#include "abi.h"

struct abi_exec_head {
	u32 size;  /* of the state up to the strings, this head included */
	u32 child; /* the process is a child of fork */
	u32 argc, envc;
	u32 numbers; /* number of descriptors */
	u32 strings; /* bytes of all strings */
	u32 signals; /* pending, behind the strings */
	u32 zero;
};

/*
 * Called after abi_exec instead of abi_fd_attach: restores descriptors,
 * signals, limits and the working directory of the process that called execve.
 * `file` is all of the file. 0, or -EINVAL.
 */
int abi_exec_resume(struct abi_proc *p, const void *file, u64 len);
/* The length of the file, as its head says. */
u64 abi_exec_len(const struct abi_exec_head *head);

/* The descriptor number and the handle of record `i`; -1: it has none. */
s32 abi_exec_number(const void *state, u32 i);
s32 abi_exec_handle(const void *state, u32 i);
const char *abi_exec_cwd(const void *state);

/*
 * The same file, all of it, for a host that starts the program outside of abi
 * and does not trust what wrote it.
 */
#define ABI_EXEC_NUMBERS 1024 /* the most descriptors */
struct abi_exec_view {
	const void *at;
	u32 numbers, argc, envc;
	const char *strings; /* argc + envc, each with its NUL */
	const char *cwd;
	u64 blocked, ignored; /* signals: bits 1 << (signo - 1) */
	u32 umask, death_signal;
	s32 nice; /* added since the start */
};

struct abi_exec_number {
	u32 fd;	    /* smaller than that of the next one */
	s32 handle; /* -1: none */
	u32 flags;  /* O_ACCMODE, O_APPEND, O_NONBLOCK as the program set them
		     */
	/* of a device that abi itself is, else NULL; if both are missing, it
	 * cannot be passed on */
	const char *path;
};

/* `at` is aligned to 8 bytes and remains as it is as long as the view. -EINVAL:
 * abi did not write this. */
int abi_exec_read(const void *at, u64 len, struct abi_exec_view *to);
void abi_exec_view_number(const struct abi_exec_view *v, u32 i,
			  struct abi_exec_number *to);
/* 0: the program has not changed this limit. */
int abi_exec_view_limit(const struct abi_exec_view *v, u32 which, u64 *cur,
			u64 *max);

#endif
