/* SPDX-License-Identifier: MIT */
/*
 * The MPI job of a worker: `skep mpirun` and its ranks on this node. It stays
 * between calls, and is replaced if a call wants another number of ranks.
 */
#ifndef GRID_WORKER_JOB_H
#define GRID_WORKER_JOB_H

#include "ranks.h"

/*
 * Writes the program of the ranks into the current folder. `session` is the
 * descriptor of the session: its end ends what runs. To be called before other
 * threads are made, because they must not take SIGCHLD. A negative errno.
 */
int job_open(int session, const void *program, u64 length);

/* What each new job is given first; the bytes, of grid_memory_heap with at
 * least one byte, become the job's. */
void job_set_initial(u32 function, u8 *bytes, u64 length);

struct job_result {
	u8 *bytes; /* of grid_memory_heap, the caller's */
	u64 length, exec_ns;
	u32 code;		   /* not 0: the call was refused, */
	char text[RANKS_TEXT_MAX]; /* because of this; the job is gone */
};

/* How callbacks of rank 0 reach the master. 0; -ENOMEM; -EPIPE: the session is
 * over. */
struct job_way {
	int (*ask)(u64 call, const struct skep_callback *head,
		   const u8 *arguments);
	/*
	 * Waits for one frame of the session. If that is the callback's RETURN,
	 * *returned is its arguments, of malloc; else it stays NULL.
	 */
	int (*take)(u64 call, const struct skep_callback *head, u8 **returned,
		    u32 *length);
};

struct job_call {
	u32 ranks;
	struct ranks_order order;
	const u8 *bytes;
	u64 number; /* in the session */
	const struct job_way *way;
};

/*
 * Runs a call in a job of so many ranks. 0: see the result. -EPIPE: the session
 * is over.
 */
int job_call(const struct job_call *call, struct job_result *result);
/* Ends the job, and what it left. `soon`: without waiting for it. */
void job_end(int soon);

#endif
