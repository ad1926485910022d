/* SPDX-License-Identifier: MIT */
/*
 * File descriptors: numbers, and the open file descriptions behind them.
 *
 * A description ("desc") is counted: one reference for each number and one for
 * each call that works on it, so that close by one thread never frees it during
 * a call of another (which then finishes, as on Linux). All links are indexes,
 * so a snapshot is a plain copy.
 *
 * Locks, outer first: fds->epoll_lock (all interest lists), desc->lock (the
 * position and the like; also during one host transfer of a regular file, which
 * never waits for the guest), fds->lock (numbers and counts) and ring->lock,
 * both leaves. None is held while a thread waits.
 */
#ifndef ABI_FD_H
#define ABI_FD_H

#include <skep/types.h>

struct abi_proc;
struct abi_call;
struct abi_desc;

int abi_fds_init(struct abi_proc *p);

/* Both ends, their numbers written to s32[2] at gaddr; all or nothing. */
s64 abi_desc_install_two(struct abi_proc *p, struct abi_desc *end[2],
			 u32 cloexec, u64 gaddr);
/* Says once that no SIGIO is sent: FIOASYNC, O_ASYNC. */
void abi_fd_refuse_async(struct abi_proc *p);
int abi_fd_close(struct abi_proc *p, u32 fd); /* 0 or -EBADF */
/* For exec and for reports: closes every number. */
void abi_fd_close_all(struct abi_proc *p);
/* At the end of the process: the same, because abi has no pending output. */
void abi_fds_exit(struct abi_proc *p);

/*
 * A regular file for a mapping: by number once, then by description, which
 * outlives the number. abi_fd_pin gives an index (>= 0) or -EBADF, -ENODEV,
 * -EACCES when the file is not open for what `prot` and `shared` need.
 */
s64 abi_fd_pin(struct abi_proc *p, u32 fd, u32 prot, u32 shared);
void abi_fd_release(struct abi_proc *p, u32 desc);
s64 abi_fd_pinned_pread(struct abi_proc *p, u32 desc, void *buf, u64 len,
			u64 offset);
s64 abi_fd_pinned_pwrite(struct abi_proc *p, u32 desc, const void *buf, u64 len,
			 u64 offset);
const char *abi_fd_pinned_path(struct abi_proc *p, u32 desc);

/* By number. All of `len` unless the file ends; buffers are not checked. */
s64 abi_fd_pread(struct abi_proc *p, u32 fd, void *buf, u64 len, u64 offset);
s64 abi_fd_pwrite(struct abi_proc *p, u32 fd, const void *buf, u64 len,
		  u64 offset);

#endif
