/* SPDX-License-Identifier: MIT */
/* Text of libraries: mapped from a file and rewritten by the host. */
#ifndef ABI_TEXT_H
#define ABI_TEXT_H

#include "space.h"

/* Whether a new area is text that the host may want to rewrite. */
int abi_text_is_file(const struct abi_proc *p, const struct abi_area *a);

/*
 * Fills and adds the area, its stubs, and what the mapping has after its text.
 * 1: the host does not know the file, so the area is ordinary code; nothing has
 * changed. The caller has unmapped the range.
 */
s64 abi_text_put(struct abi_proc *p, const struct abi_area *a);

/* mprotect of a part of such an area, which cannot become writable. */
s64 abi_text_protect(struct abi_proc *p, const struct abi_area *a, u32 prot);
s64 abi_text_refuse(struct abi_proc *p);
int abi_text_is_at(struct abi_proc *p, u64 addr);

/* Call it when text in this part of an area is unmapped and cut from the map:
 * drops the text, and stubs that are not needed any more. */
void abi_text_drop(struct abi_proc *p, const struct abi_area *a);
void abi_text_reap(struct abi_proc *p);

/* Whether there are stubs, which are the host's: the guest may neither unmap
 * nor cover them. */
int abi_text_has_stubs(struct abi_proc *p, u64 start, u64 end);

#endif
