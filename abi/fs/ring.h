/* SPDX-License-Identifier: MIT */
/* Rings: the bytes between the two ends of a pipe or a socket pair. */
#ifndef ABI_FS_RING_H
#define ABI_FS_RING_H

#include "abi/mm/span.h"
#include "abi/state/ring.h"

struct abi_call;
struct abi_desc;

/* `ring` is always index + 1, as descriptions keep it. */
struct abi_ring *abi_ring_at(struct abi_proc *p, u32 ring);
/* A ring with a reader and a writer, or 0. */
u32 abi_ring_new(struct abi_proc *p);
void abi_ring_leave(struct abi_proc *p, u32 ring, u32 writer);
/* Both ends, of a ring that no description holds; or 0. */
void abi_ring_free(struct abi_proc *p, u32 ring);

/*
 * Reads from and writes to the rings of `d`; waits according to the flags.
 * nonblock is added to the description's own flag. peek leaves the bytes.
 */
s64 abi_ring_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		  u32 nonblock, u32 peek);
/* -EPIPE without the signal, which belongs to the caller. */
s64 abi_ring_write(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		   u32 nonblock);

#define ABI_RING_DATA 0x01 /* there is something to read */
#define ABI_RING_ROOM 0x02 /* PIPE_BUF bytes fit */
#define ABI_RING_NO_WRITER 0x04
#define ABI_RING_NO_READER 0x08
#define ABI_RING_ENDED 0x10  /* no more will be written */
#define ABI_RING_BROKEN 0x20 /* no reader is left */
u32 abi_ring_state(struct abi_proc *p, u32 ring);

/* Bytes that can be read from `d`. */
u64 abi_ring_available(struct abi_proc *p, const struct abi_desc *d);
/*
 * fcntl F_SETPIPE_SZ: bytes that fit from now on, at most ABI_RING_SIZE,
 * rounded up to a power of two pages; 0 only asks. The result, or -EBUSY: more
 * bytes are inside.
 */
s64 abi_ring_resize(struct abi_proc *p, u32 ring, u64 bytes);
/* socketpair ends: SHUT_RD 0, SHUT_WR 1, SHUT_RDWR 2. */
s64 abi_ring_shutdown(struct abi_proc *p, struct abi_desc *d, u32 how);

/* Operations that pipes and socket pairs share: see struct abi_desc_ops. */
s64 abi_ring_desc_read(struct abi_call *c, struct abi_desc *d,
		       struct abi_span *s, s64 offset);
s64 abi_ring_desc_write(struct abi_call *c, struct abi_desc *d,
			struct abi_span *s, s64 offset);
s64 abi_ring_desc_available(struct abi_call *c, struct abi_desc *d);
/* Leaves the rings of a description that nothing refers to any more; 1. */
int abi_ring_desc_release(struct abi_proc *p, struct abi_desc *d);

#endif
