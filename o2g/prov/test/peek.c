/* SPDX-License-Identifier: MIT */
/* FI_PEEK, FI_CLAIM and FI_DISCARD. */
#include <stdlib.h>
#include <string.h>

#include "pair.h"

static struct fi_msg_tagged make_message(struct end *end, uint64_t tag,
					 struct fi_context *context)
{
	return (struct fi_msg_tagged){
		.addr = end->other, .tag = tag, .context = context};
}

/* Peeks until the message is there; a peek does not wait for one. */
static int peek_until(struct pair *p, uint64_t tag, uint64_t flags,
		      struct fi_context *context, struct fi_cq_tagged_entry *e)
{
	struct fi_msg_tagged msg = make_message(&p->b, tag, context);
	int64_t deadline = now_ms() + TIMEOUT_MS;
	struct fi_cq_err_entry error;

	do {
		ssize_t n = fi_trecvmsg(p->b.ep, &msg, FI_PEEK | flags);

		if (n)
			return (int)n;
		n = next_entry(p, &p->b, e);
		if (n != -FI_EAVAIL)
			return (int)n;
		if (fi_cq_readerr(p->b.cq, &error, 0) != 1 ||
		    error.err != FI_ENOMSG || error.op_context != context)
			return -FI_EOTHER;
	} while (now_ms() < deadline);
	return -FI_ETIMEDOUT;
}

static void test_nothing(struct pair *p)
{
	struct fi_context context;
	struct fi_msg_tagged msg = make_message(&p->b, 404, &context);
	struct fi_cq_err_entry error;

	CHECK(!fi_trecvmsg(p->b.ep, &msg, FI_PEEK));
	CHECK(next_error(p, &p->b, &error) == 1);
	CHECK(error.err == FI_ENOMSG && error.op_context == &context);
	CHECK(!fi_trecvmsg(p->b.ep, &msg, FI_PEEK | FI_CLAIM));
	CHECK(next_error(p, &p->b, &error) == 1 && error.err == FI_ENOMSG);
	/* Nothing was claimed. */
	CHECK(fi_trecvmsg(p->b.ep, &msg, FI_CLAIM) == -FI_EINVAL);
}

/* A look changes nothing. */
static void test_plain_peek(struct pair *p)
{
	struct fi_cq_tagged_entry e;
	struct fi_context context;
	char in[8] = {0};

	CHECK(!fi_tinjectdata(p->a.ep, "seen", 4, 44, p->a.other, 7));
	for (int i = 0; i < 2; i++) {
		CHECK(peek_until(p, 7, 0, &context, &e) == 1);
		CHECK(e.len == 4 && e.tag == 7 && e.data == 44);
		CHECK(e.flags & FI_REMOTE_CQ_DATA && e.flags & FI_TAGGED);
	}
	CHECK(!fi_trecv(p->b.ep, in, 8, NULL, p->b.other, 7, 0, in));
	CHECK(next_entry(p, &p->b, &e) == 1 && !memcmp(in, "seen", 4));
}

/* A claimed message is out of sight for other receives. */
static void test_claim(struct pair *p, size_t size)
{
	struct fi_context context = {0};
	struct fi_msg_tagged msg = make_message(&p->b, 8, &context);
	struct fi_cq_tagged_entry e;
	static char out[1 << 20], in[1 << 20];
	struct iovec iov = {.iov_base = in, .iov_len = size};
	char second = 0;

	fill_buffer(out, size, 5);
	CHECK(!fi_tsend(p->a.ep, out, size, NULL, p->a.other, 8, NULL));
	CHECK(!fi_tinject(p->a.ep, "2", 1, p->a.other, 8));
	CHECK(peek_until(p, 8, FI_CLAIM, &context, &e) == 1 && e.len == size);
	CHECK(!fi_trecv(p->b.ep, &second, 1, NULL, p->b.other, 8, 0, &second));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.op_context == &second);
	CHECK(second == '2');
	msg.msg_iov = &iov;
	msg.iov_count = 1;
	CHECK(!fi_trecvmsg(p->b.ep, &msg, FI_CLAIM));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.op_context == &context);
	CHECK(e.len == size && e.tag == 8 && buffer_filled(in, size, 5));
	CHECK(next_entry(p, &p->a, &e) == 1);
	CHECK(fi_trecvmsg(p->b.ep, &msg, FI_CLAIM) == -FI_EINVAL);
}

static void test_discard(struct pair *p)
{
	struct fi_context context = {0};
	struct fi_msg_tagged msg = make_message(&p->b, 9, &context);
	struct fi_cq_tagged_entry e;
	char in = 0;

	CHECK(!fi_tinject(p->a.ep, "1", 1, p->a.other, 9));
	CHECK(!fi_tinject(p->a.ep, "2", 1, p->a.other, 9));
	CHECK(!fi_tinject(p->a.ep, "3", 1, p->a.other, 9));
	CHECK(peek_until(p, 9, FI_DISCARD, &context, &e) == 1 && e.len == 1);
	CHECK(peek_until(p, 9, FI_CLAIM, &context, &e) == 1);
	CHECK(!fi_trecvmsg(p->b.ep, &msg, FI_CLAIM | FI_DISCARD));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.op_context == &context);
	CHECK(!fi_trecv(p->b.ep, &in, 1, NULL, p->b.other, 9, 0, &in));
	CHECK(next_entry(p, &p->b, &e) == 1 && in == '3');
	CHECK(fi_trecvmsg(p->b.ep, &msg, FI_PEEK | FI_CLAIM | FI_DISCARD) ==
	      -FI_EINVAL);
}

#define MANY 34000 /* above half of what a queue holds */

/* Messages that are claimed, and the contexts that hold them. */
static struct fi_context *claim_many(struct pair *p)
{
	struct fi_context *context = calloc(MANY, sizeof(*context));
	struct fi_cq_tagged_entry e;
	int claimed = 0;

	for (int i = 0; i < MANY; i++) {
		while (fi_tinject(p->a.ep, "x", 1, p->a.other, 10))
			(void)fi_cq_read(p->a.cq, NULL, 0);
		claimed += peek_until(p, 10, FI_CLAIM, &context[i], &e) == 1;
	}
	CHECK(claimed == MANY);
	return context;
}

/* Completions that nobody reads: more than half of what a queue holds. */
static void fill_queue(struct pair *p)
{
	int sent = 0;

	while (sent < MANY) {
		ssize_t n =
			fi_tsend(p->b.ep, "x", 1, NULL, p->b.other, 11, NULL);

		if (n && n != -FI_EAGAIN)
			break;
		sent += !n;
		(void)fi_cq_read(p->b.cq, NULL, 0);
	}
	CHECK(sent == MANY);
}

/* A discard that finds the queue full is not half done. */
static void discard_many(struct pair *p)
{
	struct fi_context *context = claim_many(p);
	struct fi_cq_tagged_entry e;
	int done = 0, received = 0, sent = 0, again = 0;

	fill_queue(p);
	while (done < MANY) {
		struct fi_msg_tagged msg =
			make_message(&p->b, 10, &context[done]);
		ssize_t n = fi_trecvmsg(p->b.ep, &msg, FI_CLAIM | FI_DISCARD);

		if (n && n != -FI_EAGAIN)
			break;
		done += !n;
		if (n && ++again && fi_cq_read(p->b.cq, &e, 1) == 1)
			(e.flags & FI_SEND) ? sent++ : received++;
	}
	CHECK(done == MANY && again > 0);
	while (sent + received < 2 * MANY && next_entry(p, &p->b, &e) == 1)
		(e.flags & FI_SEND) ? sent++ : received++;
	CHECK(sent == MANY && received == MANY);
	free(context);
}

static void test_untagged(struct pair *p)
{
	struct fi_context context;
	struct fi_msg msg = {.addr = p->b.other, .context = &context};
	struct fi_cq_tagged_entry e;
	char in = 0;

	CHECK(!fi_recv(p->b.ep, &in, 1, NULL, p->b.other, &in));
	CHECK(!fi_inject(p->a.ep, "1", 1, p->a.other));
	CHECK(!fi_inject(p->a.ep, "22", 2, p->a.other));
	CHECK(next_entry(p, &p->b, &e) == 1);
	do {
		struct fi_cq_err_entry error;

		CHECK(!fi_recvmsg(p->b.ep, &msg, FI_PEEK | FI_DISCARD));
		if (next_entry(p, &p->b, &e) == 1)
			break;
		CHECK(fi_cq_readerr(p->b.cq, &error, 0) == 1 &&
		      error.err == FI_ENOMSG);
	} while (1);
	CHECK(e.len == 2 && e.flags & FI_MSG);
}

void test_peek(void)
{
	struct pair p;

	pair_open(&p, NULL);
	test_nothing(&p);
	test_plain_peek(&p);
	test_claim(&p, 3);
	test_claim(&p, 1 << 20);
	test_discard(&p);
	test_untagged(&p);
	discard_many(&p);
	pair_close(&p);
}
