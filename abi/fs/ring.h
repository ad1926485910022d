/* SPDX-License-Identifier: MIT */
/* Rings: the bytes between the two ends of a pipe or a socket pair. */
#ifndef ABI_FS_RING_H
#define ABI_FS_RING_H

#include "abi/mm/span.h"
#include "abi/state/ring.h"

struct abi_call;
struct abi_desc;

/* `ring` is index + 1, as in descriptions. */
struct abi_ring *abi_ring_at(struct abi_proc *p, u32 ring);
/* Creates a ring with one reader and one writer; 0 if there is none free. */
u32 abi_ring_new(struct abi_proc *p);
void abi_ring_leave(struct abi_proc *p, u32 ring, u32 writer);
/* Frees both ends of a ring that no description has; or 0. */
void abi_ring_free(struct abi_proc *p, u32 ring);

/*
 * Reads from or writes to the rings of `d`; waits according to the flags.
 * nonblock is in addition to the description's own flag. peek does not remove
 * the bytes.
 */
s64 abi_ring_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		  u32 nonblock, u32 peek);
/* -EPIPE; the caller sends the signal. */
s64 abi_ring_write(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		   u32 nonblock);

#define ABI_RING_DATA 0x01 /* bytes can be read */
#define ABI_RING_ROOM 0x02 /* PIPE_BUF bytes fit */
#define ABI_RING_NO_WRITER 0x04
#define ABI_RING_NO_READER 0x08
#define ABI_RING_ENDED 0x10  /* no more will be written */
#define ABI_RING_BROKEN 0x20 /* no reader is left */
u32 abi_ring_state(struct abi_proc *p, u32 ring);

/* Bytes that can be read from `d`. */
u64 abi_ring_available(struct abi_proc *p, const struct abi_desc *d);
/*
 * fcntl F_SETPIPE_SZ: sets the capacity, at most ABI_RING_SIZE, rounded up to a
 * power of two pages; with 0 it only returns it. The result, or -EBUSY: it
 * contains more bytes.
 */
s64 abi_ring_resize(struct abi_proc *p, u32 ring, u64 bytes);
/*
 * Writes the bytes to a pipe or socket of the host, which has room for them and
 * replaces the ring: calls that use the ring start again. If nobody can read
 * them, they are dropped. 0, or an error.
 */
s64 abi_ring_move(struct abi_proc *p, u32 ring, s32 handle);
/* Undoes that: the ring is used again, with its bytes. */
void abi_ring_keep(struct abi_proc *p, u32 ring);
/* Shuts down socketpair ends: SHUT_RD 0, SHUT_WR 1, SHUT_RDWR 2. */
s64 abi_ring_shutdown(struct abi_proc *p, struct abi_desc *d, u32 how);

/* Operations that pipes and socket pairs share: see struct abi_desc_ops. */
s64 abi_ring_desc_read(struct abi_call *c, struct abi_desc *d,
		       struct abi_span *s, s64 offset);
s64 abi_ring_desc_write(struct abi_call *c, struct abi_desc *d,
			struct abi_span *s, s64 offset);
s64 abi_ring_desc_available(struct abi_call *c, struct abi_desc *d);
/* Detaches a description that nothing refers to any more from its rings; 1. */
int abi_ring_desc_release(struct abi_proc *p, struct abi_desc *d);

#endif
