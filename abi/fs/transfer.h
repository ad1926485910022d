/* SPDX-License-Identifier: MIT */
/* Bytes to and from a handle of the host. */
#ifndef ABI_FS_TRANSFER_H
#define ABI_FS_TRANSFER_H

#include "abi/mm/span.h"

struct abi_desc;

/* Transfers one chunk at `offset`, or ABI_STREAM, ABI_CURRENT, ABI_APPEND. */
s64 abi_transfer_part(struct abi_proc *p, struct abi_desc *d, void *at, u64 len,
		      s64 offset, u32 writing);
/*
 * Transfers the chunks of the span, until one is short. `offset` advances
 * unless it is one of the special values.
 */
s64 abi_transfer_span(struct abi_proc *p, struct abi_desc *d,
		      struct abi_span *s, s64 offset, u32 writing);

#endif
