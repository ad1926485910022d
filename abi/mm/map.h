/* SPDX-License-Identifier: MIT */
/* Operations on the address map that map.c and remap.c share. */
#ifndef ABI_MAP_H
#define ABI_MAP_H

#include "space.h"

/* Called around each operation: begin locks space.change; end unlocks it and
 * releases files. */
void abi_map_begin(struct abi_proc *p);
void abi_map_end(struct abi_proc *p);

/* The part of area `i` inside [start, end); 0 if there is none. */
int abi_map_part(const struct abi_space *s, u32 i, u64 start, u64 end,
		 struct abi_area *part);

/*
 * Finds a place for an area of `len` bytes with the bits and the file of `a`:
 * at `addr`, or anywhere if that is 0. Returns the address, or a negative
 * errno.
 */
s64 abi_map_place(struct abi_proc *p, const struct abi_area *a, u64 len,
		  u64 addr);

/* Chooses the address of a new mapping, whose bits and file are those of `a`;
 * place.c. */
s64 abi_map_choose(struct abi_proc *p, const struct abi_map *m, u64 len,
		   const struct abi_area *a);
int abi_map_is_sharable(const struct abi_proc *p, const struct abi_map *m);

/* Bytes that may still be committed and mapped (--memory, RLIMIT_AS). */
u64 abi_map_left(struct abi_proc *p);
/* Logs once that the limit was reached. */
void abi_map_say_limit(struct abi_proc *p);

/* Adds an area, with memory and contents, and replaces what was there. */
s64 abi_map_put(struct abi_proc *p, struct abi_area *a);
s64 abi_map_clear(struct abi_proc *p, u64 start, u64 end);

#endif
