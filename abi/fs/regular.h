/* SPDX-License-Identifier: MIT */
/* Files, directories and block devices of the host. */
#ifndef ABI_FS_REGULAR_H
#define ABI_FS_REGULAR_H

#include "abi/mm/span.h"

struct abi_call;
struct abi_desc;

/* At the position, or at the offset that pread gives. */
s64 abi_regular_transfer(struct abi_call *c, struct abi_desc *d,
			 struct abi_span *s, s64 offset, u32 writing);
/* lseek(2) where the host keeps the position. */
s64 abi_regular_seek(struct abi_call *c, struct abi_desc *d, s64 offset,
		     u32 whence);

#endif
