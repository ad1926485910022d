/* SPDX-License-Identifier: MIT */
/*
 * The operations of a description, by its kind: what struct file_operations is
 * in Linux. A description contains a kind and no pointer, so that it is plain
 * data; the table from kinds to operations is in kinds.c. If an operation is
 * missing, calls fail with the error that its comment names, as on Linux.
 */
#ifndef ABI_FS_OPS_H
#define ABI_FS_OPS_H

#include "abi/state/desc.h"

struct abi_call;
struct abi_dirent;
struct abi_file_op;
struct abi_proc;
struct abi_set;
struct abi_sock_op;
struct abi_sock_transfer;
struct abi_span;
struct abi_stat;

/* File systems of objects inside abi, for fstatfs. */
#define ABI_FS_ANON_INODE 0x09041934
#define ABI_FS_PIPE 0x50495045
#define ABI_FS_SOCK 0x534f434b
#define ABI_FS_PROC 0x9fa0
#define ABI_FS_TMP 0x01021994 /* /dev is in a tmpfs */

/* As an offset: the current position, which is then advanced. */
#define ABI_FILE_CURRENT (-1ll)

struct abi_desc_ops {
	u8 handle; /* `handle` is a handle of the host */
	u8 polled; /* poll.c asks the host for its readiness */
	u8 timed;  /* it becomes ready only by time, in `ready` */
	/* a regular file of the host: can be mapped and truncated */
	u8 regular;
	u8 unmoved;  /* without `seek`: lseek succeeds and returns 0 */
	u8 placed;   /* abi keeps its position; after a fork the host does */
	u8 unpassed; /* execve cannot pass it on */
	u32 fs_type; /* fstatfs without `control`: ABI_FS_*. ENOSYS */

	/* offset: ABI_FILE_CURRENT uses and advances the position. EINVAL. */
	s64 (*read)(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		    s64 offset);
	s64 (*write)(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		     s64 offset);
	/* The caller holds d->lock. ESPIPE, also for pread and pwrite. */
	s64 (*seek)(struct abi_call *c, struct abi_desc *d, s64 offset,
		    u32 whence);
	/* stat(2). If it is missing: an inode without a name. */
	s64 (*stat)(struct abi_call *c, struct abi_desc *d,
		    struct abi_stat *st);
	/* The entry after e->next: 1, or 0 at the end. ENOTDIR. */
	s64 (*list)(struct abi_call *c, struct abi_desc *d,
		    struct abi_dirent *e);
	/* fsync(2). EINVAL. */
	s64 (*sync)(struct abi_call *c, struct abi_desc *d);
	/* Modes, times and the file system, by the host. Optional. */
	s64 (*control)(struct abi_call *c, struct abi_desc *d,
		       struct abi_file_op *op);
	/* ioctl FIONREAD: bytes that a read would return now. ENOTTY. */
	s64 (*available)(struct abi_call *c, struct abi_desc *d);
	/* ioctl TIOCGWINSZ: rows << 16 | columns. ENOTTY. */
	s64 (*window)(struct abi_call *c, struct abi_desc *d);
	/* fcntl F_SETPIPE_SZ, or F_GETPIPE_SZ if bytes is 0: the pipe's
	 * capacity. EBADF. */
	s64 (*capacity)(struct abi_proc *p, struct abi_desc *d, u64 bytes);
	/*
	 * Only sockets have these three; for other kinds ENOTSOCK. sock is
	 * host->sock for all verbs but SEND and RECV.
	 */
	s64 (*sock)(struct abi_call *c, struct abi_desc *d,
		    struct abi_sock_op *op);
	s64 (*send)(struct abi_call *c, struct abi_sock_transfer *t);
	s64 (*receive)(struct abi_call *c, struct abi_sock_transfer *t);
	/*
	 * POLL* bits that are set now, as far as abi knows; if the next change
	 * is before *due, sets *due to its time. A kind without this, `collect`
	 * and `polled` is always ready, and epoll refuses it (EPERM).
	 */
	u32 (*ready)(struct abi_proc *p, struct abi_desc *d, u64 *due);
	/* For a kind that is a list of descriptions (epoll); see
	 * abi_set_add. */
	u32 (*collect)(struct abi_call *c, struct abi_set *set,
		       struct abi_desc *d, u32 tag, u32 nested, u32 depth);
	/*
	 * Called when nothing refers to the description any more: releases what
	 * it uses. 0: it is kept for now, and freed later.
	 */
	int (*release)(struct abi_proc *p, struct abi_desc *d);
};

extern const struct abi_desc_ops *const abi_desc_kinds[ABI_DESC_KINDS];

static inline const struct abi_desc_ops *abi_desc_ops(const struct abi_desc *d)
{
	return abi_desc_kinds[d->kind];
}

#endif
