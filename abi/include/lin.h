/* SPDX-License-Identifier: MIT */
/*
 * Files, names and sockets of struct abi_host on Linux, for all substrates
 * that have a Linux process for them: bee's own, sms' proxy. Handles are file
 * descriptors of that process; 0, 1 and 2 are streams that others share.
 */
#ifndef ABI_LIN_H
#define ABI_LIN_H

#include "host.h"

struct iovec;

/* What the guest sees as "/", or NULL; written before the first call. */
extern const char *abi_lin_root;
/* The same without its last slash; "" for /. */
const char *abi_lin_root_text(void);

s64 abi_lin_file_open(struct abi_open *open);
s64 abi_lin_file_close(s32 handle);
s64 abi_lin_file_read(s32 handle, const struct abi_io *io);
s64 abi_lin_file_write(s32 handle, const struct abi_io *io);
/* Parts in one write, at ABI_CURRENT or ABI_APPEND; errno as all of these. */
s64 abi_lin_file_gather(s32 handle, const struct iovec *part, u32 parts,
			s64 offset);
s64 abi_lin_file(s32 handle, struct abi_file_op *op);

/* Are both one open file, as dup(2) makes them? 0 if unknown. */
int abi_lin_file_same(s32 a, s32 b);

/* WAIT returns -EAGAIN here; a host that can wait makes the call itself. */
s64 abi_lin_file_lock(s32 handle, struct abi_filelock *lock);
struct abi_lin_lock_call {
	u64 nr, arg[6]; /* the last three are 0 */
	u64 flock[6];	/* room for the kernel's struct, which arg points to */
};
void abi_lin_file_lock_call(struct abi_lin_lock_call *to, s32 handle,
			    const struct abi_filelock *lock);

s64 abi_lin_path(struct abi_path_op *op);
/*
 * The host's name of a guest's path, with the last component resolved too if
 * `follow`; it may be one that does not exist yet. 0, or an errno as of
 * open(2).
 */
s64 abi_lin_path_host(const char *guest, char *buf, u64 len, u32 follow);
/* open(2) of a guest's path: a descriptor, or a negative errno. */
s64 abi_lin_open(const char *guest, u32 flags, u32 mode);

/* Pointers to the libc's own structs. */
void abi_lin_stat_from(struct abi_stat *to, const void *st);
void abi_lin_statfs_from(struct abi_statfs *to, const void *sf);
void abi_lin_times_from(void *timespec2, const s64 times[2]);

s64 abi_lin_sock_open(u32 domain, u32 type, u32 protocol);
s64 abi_lin_sock(s32 handle, struct abi_sock_op *op);

#endif
