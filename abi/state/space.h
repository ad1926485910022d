/* SPDX-License-Identifier: MIT */
/* The address map; abi/mm/space.h says which lock guards what. */
#ifndef ABI_STATE_SPACE_H
#define ABI_STATE_SPACE_H

#include <skep/types.h>
#include "lock.h"

#define ABI_AREAS_MAX 16384 /* Linux: vm.max_map_count, 65530 */
#define ABI_BACKINGS_MAX 1024

/* Bits of an area. Areas that differ in one are not merged. */
#define ABI_AREA_COMMITTED 0x01 /* has memory; counted */
#define ABI_AREA_SHARED 0x02 /* MAP_SHARED: written back when it has a file */
#define ABI_AREA_NOWRITE                                                       \
	0x04		    /* shared, but the file is not open for writing    \
			     */
#define ABI_AREA_IMAGE 0x08 /* a segment or the stubs of the program */
#define ABI_AREA_BRK 0x10
#define ABI_AREA_STACK 0x20  /* the first thread's stack */
#define ABI_AREA_DIRECT 0x40 /* the host maps the file itself: mem_file */
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

/* A mapped file, referenced until the last of its areas is gone. */
struct abi_backing {
	u32 file;  /* number from abi_fd_pin */
	u32 areas; /* how many refer to it; 0: free */
};

struct abi_space {
	struct abi_lock change;
	struct abi_lock lock;
	u32 seq; /* odd while the array is edited */
	u32 areas;
	u32 said_copy; /* that shared mappings are copies here */
	u32 said_room, said_limit, said_kind; /* why mmap gave ENOMEM */
	u32 said_window, said_text, said_reach, said_stubs, said_alias;
	u32 said_fork; /* that advice about fork was refused; atomic */
	u32 orphans;   /* backings without areas, to be released */
	u64 brk;       /* current break; at least SKEP_BRK_START */
	u64 committed, committed_peak, mapped; /* bytes */
	u64 limit;			       /* most bytes committed */
	/* Where the host's window for shared files begins, or the end of the
	 * mmap range; written once. */
	u64 top;
	struct abi_backing backing[ABI_BACKINGS_MAX];
	struct abi_area area[ABI_AREAS_MAX];
};

#endif
