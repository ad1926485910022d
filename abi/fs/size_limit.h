/* SPDX-License-Identifier: MIT */
/*
 * RLIMIT_FSIZE: the largest size of a file that this process may write, as in
 * setrlimit(2) and write(2).
 */
#ifndef ABI_FS_SIZE_LIMIT_H
#define ABI_FS_SIZE_LIMIT_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_span;

/*
 * Shortens a write to regular file `d` at `at`, which may be ABI_APPEND or
 * ABI_CURRENT, to what the limit allows; -EFBIG: nothing. The caller holds
 * d->lock if `at` depends on the position.
 */
s64 abi_size_limit_write(struct abi_call *c, struct abi_desc *d,
			 struct abi_span *s, s64 at);
/* Whether a file of `size` bytes may grow to `end`: 0, or -EFBIG after
 * SIGXFSZ. */
s64 abi_size_limit_grow(struct abi_call *c, u64 size, u64 end);
/* Whether a size of `end` is within the limit. */
int abi_size_limit_allows(struct abi_call *c, u64 end);
/* Call it when a write returned -EFBIG: sends SIGXFSZ if the limit was the
 * cause. */
void abi_size_limit_signal(struct abi_call *c);

#endif
