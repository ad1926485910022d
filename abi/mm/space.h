/* SPDX-License-Identifier: MIT */
/*
 * The address map: which guest addresses are in use, for what, and how many
 * bytes are committed. An array of areas, sorted, never overlapping, page
 * aligned, merged where neighbours agree.
 *
 * Two locks. `change` is held for the whole of an operation that alters the
 * map, over host calls and file transfers; it comes first in the lock order,
 * so call these functions without any other lock. `lock` guards the array
 * itself for the moments in which it is edited; it comes last. Readers use
 * `seq` and need neither.
 */
#ifndef ABI_SPACE_H
#define ABI_SPACE_H

#include <skep/types.h>
#include <skep/guest.h>
#include "abi/state/space.h"

/* Whether the area needs its own memory; shared pages belong to the file. */
static inline int abi_area_counted(const struct abi_area *a)
{
	return (a->bits & ABI_AREA_COMMITTED) &&
	       !((a->bits & ABI_AREA_DIRECT) && (a->bits & ABI_AREA_SHARED));
}

/* Is [start, end) inside one of the two guest ranges? */
static inline int abi_space_range(u64 start, u64 end)
{
	return start <= end &&
	       ((start >= SKEP_IMAGE_START && end <= SKEP_IMAGE_END) ||
		(start >= SKEP_ARENA_START && end <= SKEP_ARENA_END));
}

/* The array (space.c). The caller holds `change` for the functions that search
 * or edit it; abi_space_index serves readers too. ---------------------------
 */

struct abi_proc;

int abi_space_init(struct abi_proc *p);

/* Index of the first area that ends after addr; `areas` when there is none. */
u32 abi_space_index(const struct abi_space *s, u64 addr);
/* Nothing mapped in [start, end)? */
int abi_space_free(const struct abi_space *s, u64 start, u64 end);
/* Everything mapped in [start, end)? */
int abi_space_full(const struct abi_space *s, u64 start, u64 end);
/* A free range for mmap, from the top down; 0 when there is none. */
u64 abi_space_find(const struct abi_space *s, u64 len);
/* Room in the array for one more operation? */
int abi_space_room(const struct abi_space *s);
/* Enter an area into a free range. Takes over one count of its backing. */
void abi_space_insert(struct abi_proc *p, const struct abi_area *area);
/* Forget everything in [start, end). */
void abi_space_cut(struct abi_proc *p, u64 start, u64 end);
/* Give the mapped range [start, end) this protection and set bits. */
void abi_space_mark(struct abi_proc *p, u64 start, u64 end, u32 prot, u32 bits);
/* Index of a free backing for `file`, counted once; 0 when all are in use. */
u32 abi_space_back(struct abi_space *s, u32 file);
/* Takes one count of a backing back; the end of the operation releases it. */
void abi_space_unback(struct abi_space *s, u32 backing);
/* NULL, or what is wrong with the map. For tests and snapshots. */
const char *abi_space_wrong(const struct abi_space *s);

/* Readers: no lock needed. ------------------------------------------------- */

int abi_space_check(struct abi_proc *p, u64 addr, u64 len, u32 prot);
/* A copy of the first area that ends after addr; 0 when there is none. */
int abi_space_next(struct abi_proc *p, u64 addr, struct abi_area *area);
/* Memory without a file that processes of one family share. */
int abi_space_is_common(const struct abi_proc *p, const struct abi_area *a);
void abi_space_count(struct abi_proc *p, u64 *committed, u64 *mapped);
/*
 * Text of /proc/self/maps: the lines of areas that end after *from, as many
 * whole ones as fit; *from moves on. 0 at the end. A line may be ABI_PATH_MAX
 * and 100 bytes long, so size must be at least that. Takes `change`.
 */
u64 abi_space_maps(struct abi_proc *p, char *buf, u64 size, u64 *from);

/* Operations (map.c): take `change` themselves. --------------------------- */

struct abi_map {
	u64 addr; /* hint, or the address when fixed */
	u64 len;  /* bytes, more than 0; rounded up */
	u32 prot;
	u32 flags; /* ABI_MAP_*; FIXED and FIXED_NOREPLACE matter here */
	u32 bits;  /* ABI_AREA_* of the new area */
	u32 has_file;
	u32 file; /* held; the count goes to the map, or is dropped on error */
	u64 offset;
};

/* Logs once why a mapping finds no space. */
void abi_space_say_room(struct abi_proc *p);
s64 abi_space_map(struct abi_proc *p, const struct abi_map *map);
s64 abi_space_unmap(struct abi_proc *p, u64 addr, u64 len);
s64 abi_space_protect(struct abi_proc *p, u64 addr, u64 len, u32 prot);
s64 abi_space_move(struct abi_proc *p, u64 old, u64 old_len, u64 len, u32 flags,
		   u64 to);
s64 abi_space_discard(struct abi_proc *p, u64 addr, u64 len);
/* Shared mappings are written back: the process ends. Others may still run. */
void abi_space_flush(struct abi_proc *p);
/* now: until it is on the disk, as MS_SYNC. */
s64 abi_space_sync(struct abi_proc *p, u64 addr, u64 len, int now);
u64 abi_space_brk(struct abi_proc *p, u64 brk);
/* A range that the substrate has filled already; exec only. */
s64 abi_space_enter(struct abi_proc *p, u64 start, u64 end, u32 prot);

#endif
