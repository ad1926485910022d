/* SPDX-License-Identifier: MIT */
/*
 * A core for fuzzers: its peers, and if wanted its program, do what the input
 * says. Places in the program's memory are judged, never touched.
 */
#ifndef O2G_CORE_TEST_FUZZ_STAND_H
#define O2G_CORE_TEST_FUZZ_STAND_H

#include <o2g/core/atomic.h>
#include <o2g/core/connection.h>
#include "base/errno.h"

#define STAND_CONNS 2
#define STAND_LATER 16

struct stand {
	struct o2g_core *core;
	struct o2g_area *area;
	struct o2g_host host;
	struct o2g_limits limits;
	struct o2g_conn *conn[STAND_CONNS];
	const u8 *input;
	u64 left;
	u64 allocated;
	/* Where the program's buffers lie; 0, 0: anywhere. */
	u64 program, program_end;
	struct o2g_copy *later[STAND_LATER];
	u32 laters;
	struct o2g_copy *atomic; /* the one of these that is such an access */
	u32 sum;		 /* of bytes that were read */
	u32 fail;		 /* one in so many allocations fails; 0: none */
	u8 put_off;
};

extern struct stand stand;

u8 stand_byte(void);
u32 stand_word(void);
u64 stand_long(void);
void stand_open(const u8 *input, u64 length);
/* Ends all and aborts if anything is left. */
void stand_close(void);
/* The peer says raw bytes of the input, or a frame made of it. */
void stand_feed(u32 conn, u32 length);
void stand_frame(u32 conn);
/* The peer reads something. */
void stand_drain(u32 conn);
void stand_copies(void);
void stand_take(u32 most);
void stand_end(u32 conn, int error);
void stand_attach(u32 conn);
/* What must hold at any time. */
void stand_check(void);

#endif
