/* SPDX-License-Identifier: MIT */
/* The address map; abi/mm/space.h describes its locks. */
#ifndef ABI_STATE_SPACE_H
#define ABI_STATE_SPACE_H

#include <skep/types.h>
#include "lock.h"

#define ABI_AREAS_MAX 16384 /* Linux's default, vm.max_map_count, is 65530 */
#define ABI_BACKINGS_MAX 1024

/* Bits of an area. Areas with different bits are not merged. */
#define ABI_AREA_COMMITTED 0x01 /* has memory; counted */
#define ABI_AREA_SHARED 0x02	/* MAP_SHARED: a file's is written back */
/* Shared, but the file is not open for writing. */
#define ABI_AREA_NOWRITE 0x04
#define ABI_AREA_IMAGE 0x08 /* a segment or the stubs of the program */
#define ABI_AREA_BRK 0x10
#define ABI_AREA_STACK 0x20 /* the first thread's stack */
/* The host maps the file, or memory without a file that a child shares
 * (mem_file). */
#define ABI_AREA_DIRECT 0x40
/* Text of a library that the host has rewritten; with IMAGE: its stubs. */
#define ABI_AREA_TEXT 0x80

struct abi_area {
	u64 start, end;
	u64 offset;  /* in the file or segment, of start */
	u16 backing; /* index into backing[], 0: none */
	u8 prot;     /* ABI_PROT_* */
	u8 bits;
	u32 segment; /* System V: the number of shmget and 1; 0: none */
};

/* A mapped file, with a reference until the last of its areas is gone. */
struct abi_backing {
	u32 file;  /* number from abi_fd_pin */
	u32 areas; /* number of areas; 0: free */
};

struct abi_space {
	struct abi_lock change;
	struct abi_lock lock;
	u32 seq; /* odd during an edit of the array */
	u32 areas;
	u32 said_copy; /* shared mappings are copies here, which was logged */
	/* reasons of ENOMEM that were logged */
	u32 said_room, said_limit, said_kind;
	u32 said_window, said_text, said_reach, said_stubs, said_alias;
	u32 said_grows;
	u32 said_fork; /* advice about fork was refused; atomic */
	u32 orphans;   /* backings without areas, which must be released */
	u64 brk;       /* current break; at least SKEP_BRK_START */
	u64 committed, committed_peak, mapped; /* bytes */
	u64 limit;			       /* maximum of committed bytes */
	/* The start of the host's window for shared files, or the end of the
	 * mmap range; written once. */
	u64 top;
	struct abi_backing backing[ABI_BACKINGS_MAX];
	struct abi_area area[ABI_AREAS_MAX];
};

#endif
