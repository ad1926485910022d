/* SPDX-License-Identifier: MIT */
/*
 * File descriptors: numbers, and the open file descriptions that they refer to.
 *
 * A description ("desc") is reference counted: one reference for each number
 * and one for each call that uses it. So close in one thread never frees it
 * during a call of another thread, which then completes, as on Linux. All links
 * are indexes, so that a snapshot is a plain copy.
 *
 * Locks, outer first: fds->epoll_lock (all interest lists); desc->lock
 * (position and other fields; also held during one host transfer of a regular
 * file, which never waits for the guest); fds->lock (numbers and counts) and
 * ring->lock, both leaves. No lock is held while a thread waits.
 */
#ifndef ABI_FD_H
#define ABI_FD_H

#include <skep/types.h>

struct abi_proc;
struct abi_call;
struct abi_desc;
struct abi_right;

int abi_fds_init(struct abi_proc *p);

/* Installs both ends and writes their numbers to s32[2] at gaddr; all or
 * nothing. */
s64 abi_desc_install_two(struct abi_proc *p, struct abi_desc *end[2],
			 u32 cloexec, u64 gaddr);
/* Logs once that no SIGIO is sent: FIOASYNC, O_ASYNC. */
void abi_fd_refuse_async(struct abi_proc *p);
/* Makes a description of a handle that another process opened, without a
 * number. 0, or an error after closing the handle. */
s64 abi_fd_describe(struct abi_proc *p, const struct abi_right *r,
		    struct abi_desc **out);
/* Asks the host for the name of what a description refers to. 0, or for a
 * folder an error. */
s64 abi_fd_name(struct abi_proc *p, struct abi_desc *d);
int abi_fd_close(struct abi_proc *p, u32 fd); /* 0 or -EBADF */
/* Closes every number; for exec and for reports. */
void abi_fd_close_all(struct abi_proc *p);
/* Called at the end of the process. Closing suffices, because abi buffers no
 * output. */
void abi_fds_exit(struct abi_proc *p);

/*
 * A regular file for a mapping is named by number only once, then by
 * description, which outlives the number. abi_fd_pin returns an index (>= 0),
 * or -EBADF, -ENODEV, or -EACCES if the file is not open for what `prot` and
 * `shared` need.
 */
s64 abi_fd_pin(struct abi_proc *p, u32 fd, u32 prot, u32 shared);
void abi_fd_release(struct abi_proc *p, u32 desc);
s64 abi_fd_pinned_pread(struct abi_proc *p, u32 desc, void *buf, u64 len,
			u64 offset);
s64 abi_fd_pinned_pwrite(struct abi_proc *p, u32 desc, const void *buf, u64 len,
			 u64 offset);
const char *abi_fd_pinned_path(struct abi_proc *p, u32 desc);

/* Reads by number; all of `len` unless the file ends. Buffers are not
 * checked. */
s64 abi_fd_pread(struct abi_proc *p, u32 fd, void *buf, u64 len, u64 offset);
s64 abi_fd_pwrite(struct abi_proc *p, u32 fd, const void *buf, u64 len,
		  u64 offset);

#endif
