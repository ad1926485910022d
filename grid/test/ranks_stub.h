/* SPDX-License-Identifier: MIT */
/*
 * Ranks that have said all that they will ever say before the front reads it,
 * in place of `skep mpirun`: nothing waits, and each run is the same.
 */
#ifndef GRID_TEST_RANKS_STUB_H
#define GRID_TEST_RANKS_STUB_H

#include <grid/worker/job.h>

#define STUB_RANKS 3
#define STUB_BYTES 0x8000 /* of a rank, or to it: what a socket holds */

struct stub_text {
	u8 bytes[STUB_BYTES];
	u64 length;
};

extern struct stub {
	struct stub_text says[STUB_RANKS]; /* after its hello */
	/* What rank 0 says when RETURN is there, or the launcher is gone. */
	struct stub_text later;
	struct ranks_hello hello[STUB_RANKS];
	int stays; /* ranks do not end when they have said all */
	int ended; /* the launcher has */
	/* The master: what ask and take answer, and how often they were called.
	 */
	int ask_error, take_error;
	u32 silent; /* times that take finds no RETURN yet */
	u32 last;   /* the callback from which on take has no memory, or 0 */
	u32 asks, takes, returns;
	int left;     /* when take was called last, the job had been ended */
	u32 returned; /* bytes of RETURN */
	struct skep_callback head;
	u8 arguments[STUB_BYTES];
	u64 call; /* which ask was given */
} stub;

extern const struct job_way stub_way;

/* Works in a folder of its own; to be called once. 0: done. */
int stub_open(void);
/* Ranks that say nothing, and a master that returns 4 bytes. */
void stub_reset(void);
void stub_say(u32 rank, const void *bytes, u64 length);
/* From now on each run finds that the agent is gone. */
void stub_session_end(void);
/* What the front has sent to a rank. */
void stub_heard(u32 rank, struct stub_text *text);
/* Ends the ranks. */
void stub_close(void);

#endif
