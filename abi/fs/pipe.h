/* SPDX-License-Identifier: MIT */
/* Rings: the bytes between the two ends of a pipe or a socket pair. */
#ifndef ABI_PIPE_H
#define ABI_PIPE_H

#include "fd.h"
#include "abi/mm/span.h"

struct abi_desc_ops;

extern const struct abi_desc_ops abi_pipe_ops;
extern const struct abi_desc_ops abi_pair_ops;

/* `ring` is always index + 1, as descriptions keep it. */
struct abi_ring *abi_ring_at(struct abi_proc *p, u32 ring);
void abi_ring_leave(struct abi_proc *p, u32 ring, u32 writer);

/*
 * Into and out of the rings of a pipe or pair; waits as the flags say.
 * nonblock is added to the description's own flag. peek leaves the bytes.
 */
s64 abi_pipe_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		  u32 nonblock, u32 peek);
/* -EPIPE without the signal, which belongs to the caller. */
s64 abi_pipe_write(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		   u32 nonblock);

/* POLL* bits that are true now. */
u32 abi_pipe_ready(struct abi_proc *p, const struct abi_desc *d);
u64 abi_pipe_available(struct abi_proc *p, const struct abi_desc *d);
/* socketpair ends: SHUT_RD 0, SHUT_WR 1, SHUT_RDWR 2. */
s64 abi_pipe_shutdown(struct abi_proc *p, struct abi_desc *d, u32 how);
/* Makes a connected pair of stream sockets; 0 or -ENFILE. */
s64 abi_pipe_pair(struct abi_proc *p, u32 flags, struct abi_desc *pair[2]);

#endif
