/* SPDX-License-Identifier: MIT */
/*
 * What the front of an MPI job and its ranks say to each other, over a stream
 * socket in the worker's folder. The front is the process that has the session
 * with the agent. The rank says hello; then the front sends orders, and gets an
 * answer to each from every rank. Both are the same build of one program.
 */
#ifndef GRID_WORKER_RANKS_H
#define GRID_WORKER_RANKS_H

#include <skep/module.h>
#include <skep/session.h>

#define RANKS_SOCKET "skep-ranks.socket"
#define RANKS_MAGIC 0x534b4e4152ull

struct ranks_hello {
	u64 magic;
	u32 rank, size;
};
SKEP_ASSERT_SIZE(struct ranks_hello, 16);

/* RETURN is no order: it has what a callback of rank 0 returned, `function` is
 * the parameter. */
enum ranks_kind { RANKS_INIT = 1, RANKS_CALL, RANKS_END, RANKS_RETURN };

/* Followed by the arguments, as they are in the session. */
struct ranks_order {
	u32 kind, function;
	u64 length;
	u64 most; /* bytes of the result */
};
SKEP_ASSERT_SIZE(struct ranks_order, 24);

/*
 * Followed by the result, which rank 0 alone has, or, if code is not 0, by why
 * the order was not carried out. RANKS_TEXT_MAX bounds that. With `asks` it is
 * no answer yet but a callback of rank 0, with the payload of CALLBACK.
 */
struct ranks_answer {
	u32 code, asks;
	u64 length, exec_ns;
};
SKEP_ASSERT_SIZE(struct ranks_answer, 24);
#define RANKS_TEXT_MAX 1024

#endif
