/* SPDX-License-Identifier: MIT */
/* The file position of a description. */
#ifndef ABI_FS_POSITION_H
#define ABI_FS_POSITION_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_proc;
struct abi_span;

/* Moves the host's position of an inherited regular file; returns the new
 * one. */
s64 abi_position_host(struct abi_proc *p, struct abi_desc *d, s64 offset,
		      u32 whence);
s64 abi_position_get(struct abi_proc *p, struct abi_desc *d);
void abi_position_set(struct abi_proc *p, struct abi_desc *d, u64 at);
/* The size of the file of `d`: 0 and *size, or an error. */
s64 abi_position_end(struct abi_call *c, struct abi_desc *d, u64 *size);
/* lseek(2) of a position that abi keeps. The caller holds d->lock. */
s64 abi_position_seek(struct abi_call *c, struct abi_desc *d, s64 offset,
		      u32 whence);
/* Reads with `read` at pread's offset, or at the position that abi keeps, which
 * then moves. The caller does not hold d->lock. */
s64 abi_position_read(struct abi_call *c, struct abi_desc *d,
		      struct abi_span *s, s64 offset,
		      s64 (*read)(struct abi_call *c, struct abi_desc *d,
				  struct abi_span *s, u64 at));
/* SEEK_DATA and SEEK_HOLE: all of the file is data, and the only hole is at its
 * end. */
s64 abi_position_hole(u64 size, s64 offset, u32 whence);

#endif
