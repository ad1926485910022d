/* SPDX-License-Identifier: MIT */
/*
 * MPI's matching as the standard tells it: two lists, searched from the front.
 * Slow, plain, and what the core is compared with.
 */
#ifndef O2G_CORE_TEST_MODEL_H
#define O2G_CORE_TEST_MODEL_H

#include <skep/types.h>

#define MODEL_MAX 4096

struct model_message {
	u32 source, context; /* source: as the receiver knows it */
	u32 from;	     /* who it really was */
	u64 tag, length, id;
};

struct model_receive {
	u32 source, context;
	u64 tag, ignore, length, cookie;
	u64 filled, least_left;
	int multi;
};

struct model {
	struct model_message message[MODEL_MAX];
	struct model_receive receive[MODEL_MAX];
	u32 messages, receives;
	void *test;
	/* A pair was found: the body goes `offset` into the buffer. `last`: of
	 * this receive. */
	void (*matched)(void *test, u64 id, u64 cookie, u64 offset, int last);
};

void model_arrive(struct model *model, const struct model_message *message);
void model_post(struct model *model, const struct model_receive *receive);
/* The receiver learnt who `from` is. */
void model_name(struct model *model, u32 from, u32 source);
/* True when it was posted still. */
int model_cancel(struct model *model, u64 cookie);
/* The message that a receive like this would get: its place, or -1. */
int model_find(const struct model *model, const struct model_receive *receive);
void model_remove(struct model *model, int place);

#endif
