/* SPDX-License-Identifier: MIT */
/*
 * A bed for cores under test: endpoints in one process with rings, memory that
 * is counted, and pipes of bytes between them instead of sockets.
 */
#ifndef O2G_CORE_TEST_BED_H
#define O2G_CORE_TEST_BED_H

#include <stdlib.h>
#include <string.h>

#include "base/errno.h"
#include <o2g/core/tx.h>

#define BED_PIPE (1u << 21)

struct bed_pipe {
	u8 *byte;
	u32 head, tail; /* bytes in front and behind, from the start */
	int closed;
};

struct bed_end { /* of a connection */
	struct bed *bed;
	struct o2g_conn *conn;
	struct bed_pipe *in, *out;
	int wants;
	struct o2g_piece offer; /* where bed_offer() was told to put bytes */
	int offered;
	struct o2g_frame frame; /* the last header that came */
	/* Called when its message is matched or held, if set. */
	void (*arrived)(struct bed_end *end);
	void *test;
};

#define BED_LATER 64

struct bed {
	struct o2g_core *core;
	struct o2g_area *area;
	struct o2g_host host;
	struct o2g_limits limits;
	u64 size;
	u64 allocated, peak, fail_after; /* allocations left; 0: no limit */
	u64 wanted, completions;
	u64 whole;   /* messages that were received whole */
	int put_off; /* copies are done by bed_copies() */
	struct o2g_copy *later[BED_LATER];
	int laters;
	int atomics, unfit; /* put off; beside another one, or not aligned */
};

struct bed_options {
	u32 sq, cq, postings, peers, slab_message, batch;
	u64 outbox, slab, unexpected, write_off;
	int whole; /* what lies whole is received so */
	int light_hash;
};

void bed_open(struct bed *bed, const struct bed_options *options);
/* Frees it; returns the bytes that the core did not give back. */
u64 bed_close(struct bed *bed);
void bed_copies(struct bed *bed);

/* Two ends; peers O2G_NO_PEER: not named. */
void bed_join(struct bed *a, u32 peer_of_a, u32 credit_a, struct bed *b,
	      u32 peer_of_b, u32 credit_b, struct bed_end end[2]);
void bed_end(struct bed_end *end, int error);
void bed_part(struct bed_end end[2]);
/* Moves up to `most` bytes; returns how many, or -errno. */
int bed_write(struct bed_end *end, u64 most);
int bed_read(struct bed_end *end, u64 most);
/* Asks where bytes go; they come with the next bed_read(), whatever the core
 * is called for in between. */
void bed_offer(struct bed_end *end);
/* Moves both ways until nothing moves. Returns 0, or the first error. */
int bed_run(struct bed_end end[2]);

/* Submits and consumes. */
void bed_submit(struct bed *bed, const struct o2g_sqe *sqe);
void bed_send(struct bed *bed, u32 peer, u64 tag, const void *body, u64 length,
	      u64 cookie);
void bed_recv(struct bed *bed, u32 peer, u64 tag, u64 ignore, void *body,
	      u64 length, u64 cookie);
/* The next completion, its slab body copied to `buffer` and released. */
int bed_take(struct bed *bed, struct o2g_cqe *cqe);

#endif
