/* SPDX-License-Identifier: MIT */
/* Reading and writing of descriptions of every kind. */
#ifndef ABI_FILE_H
#define ABI_FILE_H

#include "abi/mm/span.h"

struct abi_call;
struct abi_desc;
struct abi_proc;

/* offset: ABI_FILE_CURRENT uses and advances the position. */
s64 abi_file_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		  s64 offset);
s64 abi_file_write(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		   s64 offset);

#endif
