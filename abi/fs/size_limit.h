/* SPDX-License-Identifier: MIT */
/*
 * RLIMIT_FSIZE: most bytes of a file that this process may write, as
 * setrlimit(2) and write(2) describe.
 */
#ifndef ABI_FS_SIZE_LIMIT_H
#define ABI_FS_SIZE_LIMIT_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;
struct abi_span;

/*
 * Shortens a write to regular file `d` at `at`, which may be ABI_APPEND or
 * ABI_CURRENT, to what the limit leaves; -EFBIG: nothing. d->lock is held if
 * `at` depends on the position.
 */
s64 abi_size_limit_write(struct abi_call *c, struct abi_desc *d,
			 struct abi_span *s, s64 at);
/* A file of `size` bytes shall have `end`: 0, or -EFBIG after SIGXFSZ. */
s64 abi_size_limit_grow(struct abi_call *c, u64 size, u64 end);
/* No limit that a size of `end` would break. */
int abi_size_limit_allows(struct abi_call *c, u64 end);
/* A write gave -EFBIG: sends SIGXFSZ if that came of the limit. */
void abi_size_limit_signal(struct abi_call *c);

#endif
