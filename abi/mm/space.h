/* SPDX-License-Identifier: MIT */
/*
 * The address map: which guest addresses are in use, for what, and how many
 * bytes are committed. It is an array of areas, sorted, never overlapping, page
 * aligned; adjacent areas with equal attributes are merged.
 *
 * There are two locks. `change` is held during all of an operation that alters
 * the map, including host calls and file transfers. It is first in the lock
 * order, so call these functions without any other lock. `lock` guards the
 * array itself while it is edited, and is last in the order. Readers use `seq`
 * and need neither.
 */
#ifndef ABI_SPACE_H
#define ABI_SPACE_H

#include <skep/types.h>
#include <skep/guest.h>
#include "abi/include/page.h"
#include "abi/state/space.h"

/* Whether the area needs its own memory; shared pages are the file's. */
static inline int abi_area_counted(const struct abi_area *a)
{
	return (a->bits & ABI_AREA_COMMITTED) &&
	       !((a->bits & ABI_AREA_DIRECT) && (a->bits & ABI_AREA_SHARED) &&
		 a->backing);
}

/* The array (space.c). The caller holds `change` for the functions that search
 * or edit it; abi_space_index serves readers too. ---------------------------
 */

struct abi_proc;

int abi_space_init(struct abi_proc *p);

/* Index of the first area that ends after addr; `areas` if there is none. */
u32 abi_space_index(const struct abi_space *s, u64 addr);
/* Whether nothing is mapped in [start, end). */
int abi_space_free(const struct abi_space *s, u64 start, u64 end);
/* Whether all of [start, end) is mapped. */
int abi_space_full(const struct abi_space *s, u64 start, u64 end);
/* A free range for mmap, searched from the top down; 0 if there is none. */
u64 abi_space_find(const struct abi_space *s, u64 len);
/* Whether the array has room for one more operation. */
int abi_space_room(const struct abi_space *s);
/* Adds an area to a free range. Takes over one count of its backing. */
void abi_space_insert(struct abi_proc *p, const struct abi_area *area);
/* Removes everything in [start, end). */
void abi_space_cut(struct abi_proc *p, u64 start, u64 end);
/* Sets the protection of the mapped range [start, end), and adds `bits`. */
void abi_space_mark(struct abi_proc *p, u64 start, u64 end, u32 prot, u32 bits);
/* Index of a free backing for `file`, with a count of 1; 0 if all are in
 * use. */
u32 abi_space_back(struct abi_space *s, u32 file);
/* Drops one count of a backing; the end of the operation releases it. */
void abi_space_unback(struct abi_space *s, u32 backing);
/* NULL, or what is wrong with the map. For tests and snapshots. */
const char *abi_space_wrong(const struct abi_space *s);

/* Readers: no lock needed. ------------------------------------------------- */

int abi_space_check(struct abi_proc *p, u64 addr, u64 len, u32 prot);
/* Copies the first area that ends after addr; 0 if there is none. */
int abi_space_next(struct abi_proc *p, u64 addr, struct abi_area *area);
/* Whether it is memory without a file that processes of one family share. */
int abi_space_is_common(const struct abi_proc *p, const struct abi_area *a);
void abi_space_count(struct abi_proc *p, u64 *committed, u64 *mapped);
/*
 * Writes /proc/self/maps: the lines of areas that end after *from, as many
 * complete ones as fit; advances *from. 0 at the end. A line may have
 * ABI_PATH_MAX and 100 bytes, so size must be at least that. Locks `change`.
 */
u64 abi_space_maps(struct abi_proc *p, char *buf, u64 size, u64 *from);

/* Operations (map.c); they lock `change`.
 * ----------------------------------- */

struct abi_map {
	u64 addr; /* hint, or the address when fixed */
	u64 len;  /* bytes, more than 0; rounded up */
	u32 prot;
	u32 flags; /* ABI_MAP_*; FIXED and FIXED_NOREPLACE are used */
	u32 bits;  /* ABI_AREA_* of the new area */
	u32 has_file;
	/* with a reference, which the map takes over, or drops after an
	 * error */
	u32 file;
	u64 offset;
};

/* Logs once why there is no space for a mapping. */
void abi_space_say_room(struct abi_proc *p);
s64 abi_space_map(struct abi_proc *p, const struct abi_map *map);
s64 abi_space_unmap(struct abi_proc *p, u64 addr, u64 len);
s64 abi_space_protect(struct abi_proc *p, u64 addr, u64 len, u32 prot);
s64 abi_space_move(struct abi_proc *p, u64 old, u64 old_len, u64 len, u32 flags,
		   u64 to);
s64 abi_space_discard(struct abi_proc *p, u64 addr, u64 len);
/* Writes shared mappings back when the process ends. Other threads may still
 * run. */
void abi_space_flush(struct abi_proc *p);
/* now: until it is on the disk, as with MS_SYNC. */
s64 abi_space_sync(struct abi_proc *p, u64 addr, u64 len, int now);
u64 abi_space_brk(struct abi_proc *p, u64 brk);
/* Adds a range that the substrate has filled; only for exec. */
s64 abi_space_enter(struct abi_proc *p, u64 start, u64 end, u32 prot);

#endif
