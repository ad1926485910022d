/* SPDX-License-Identifier: MIT */
/* Text of libraries: mapped from a file and rewritten by the host. */
#ifndef ABI_TEXT_H
#define ABI_TEXT_H

#include "space.h"

/* Whether a new area is text that the host may want to rewrite. */
int abi_text_is_file(const struct abi_proc *p, const struct abi_area *a);

/*
 * Fills and enters the area, its stubs, and what the mapping has behind its
 * text. 1: the host does not know the file, so the area is code like other
 * code; nothing has changed. The caller has cleared the range.
 */
s64 abi_text_put(struct abi_proc *p, const struct abi_area *a);

/* mprotect of a part of such an area: it cannot become writable. */
s64 abi_text_protect(struct abi_proc *p, const struct abi_area *a, u32 prot);
s64 abi_text_refuse(struct abi_proc *p);
int abi_text_is_at(struct abi_proc *p, u64 addr);

/* Text in this part of an area is unmapped; then, with it cut out of the map,
 * stubs that nothing needs any more go. */
void abi_text_drop(struct abi_proc *p, const struct abi_area *a);
void abi_text_reap(struct abi_proc *p);

/* Stubs are the host's: the guest may neither unmap nor cover them. */
int abi_text_has_stubs(struct abi_proc *p, u64 start, u64 end);

#endif
