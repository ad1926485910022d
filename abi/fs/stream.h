/* SPDX-License-Identifier: MIT */
/* Terminals, devices and pipes of the host. */
#ifndef ABI_FS_STREAM_H
#define ABI_FS_STREAM_H

#include "abi/mm/span.h"

struct abi_call;
struct abi_desc;

/*
 * Try, wait, try again. A write goes on until all is out, as Linux does for
 * blocking descriptions.
 */
s64 abi_stream_transfer(struct abi_call *c, struct abi_desc *d,
			struct abi_span *s, u32 writing);

#endif
