/* SPDX-License-Identifier: MIT */
/* Buffers for many messages. */
#define _GNU_SOURCE /* RUSAGE_THREAD */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "pair.h"

static char room[4096];

static int post_multi(struct pair *p, size_t length, uint64_t flags)
{
	struct iovec iov = {.iov_base = room, .iov_len = length};
	struct fi_msg msg = {.msg_iov = &iov,
			     .iov_count = 1,
			     .addr = FI_ADDR_UNSPEC,
			     .context = room};

	return (int)fi_recvmsg(p->b.ep, &msg, FI_MULTI_RECV | flags);
}

static void set_min(struct pair *p, size_t min)
{
	CHECK(!fi_setopt(&p->b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
			 &min, sizeof(min)));
}

/* Messages lie one after the other until less than the minimum is left. */
static void test_packed(struct pair *p)
{
	struct fi_cq_tagged_entry e;
	char out[1000];
	char *at = room;

	set_min(p, 1000);
	CHECK(!post_multi(p, sizeof(room), 0));
	for (unsigned i = 0; i < 4; i++) {
		fill_buffer(out, 900, i);
		CHECK(!fi_inject(p->a.ep, out, 900, p->a.other));
	}
	for (unsigned i = 0; i < 4; i++) {
		bool last = i == 3;

		CHECK(next_entry(p, &p->b, &e) == 1);
		CHECK(e.op_context == room && e.len == 900 &&
		      e.buf >= (void *)at);
		CHECK((char *)e.buf + 900 <= room + sizeof(room));
		CHECK(buffer_filled(e.buf, 900, i));
		CHECK(!!(e.flags & FI_MULTI_RECV) == last);
		at = (char *)e.buf + 900;
	}
	CHECK(pair_quiet(p, &p->b));
}

/* What arrives without a buffer waits for the next. */
static void test_refilled(struct pair *p)
{
	struct fi_cq_tagged_entry e;
	int count = 0, bad = 0, posted = 1;

	set_min(p, 100);
	CHECK(!post_multi(p, 1000, 0));
	for (int i = 0; i < 50; i++) {
		char out[100];

		memset(out, i, sizeof(out));
		bad |= fi_inject(p->a.ep, out, sizeof(out), p->a.other) != 0;
	}
	while (count < 50 && !bad) {
		bad |= next_entry(p, &p->b, &e) != 1 || e.len != 100 ||
		       *(char *)e.buf != count;
		count++;
		if (e.flags & FI_MULTI_RECV && count < 50) {
			bad |= post_multi(p, 1000, 0) != 0;
			posted++;
		}
	}
	CHECK(!bad);
	CHECK(posted == 5 || posted == 6);
	if (!(e.flags & FI_MULTI_RECV)) {
		struct fi_cq_err_entry error;

		CHECK(!fi_cancel(&p->b.ep->fid, room));
		CHECK(next_error(p, &p->b, &error) == 1);
		CHECK(error.err == FI_ECANCELED && error.flags & FI_MULTI_RECV);
	}
}

static void test_cancelled(struct pair *p)
{
	struct fi_cq_err_entry error;

	CHECK(!post_multi(p, sizeof(room), 0));
	CHECK(!fi_cancel(&p->b.ep->fid, room));
	CHECK(next_error(p, &p->b, &error) == 1);
	CHECK(error.err == FI_ECANCELED && error.op_context == room);
	CHECK(error.flags & FI_MULTI_RECV);
}

static long sleeps_so_far(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

/* A program that polls naps while a receive waits. A buffer for many messages
 * is none that it waits for, and a used up one leaves nothing behind. */
static void test_naps(void)
{
	int64_t deadline = now_ms() + TIMEOUT_MS;
	struct fi_cq_tagged_entry e;
	struct pair p;
	bool bad = false;
	char in = 0;
	long before;

	CHECK(!setenv("FI_O2G_NAP_US", "2000", 1)); /* else nobody naps */
	pair_open(&p, NULL);
	CHECK(!post_multi(&p, 1, 0));
	CHECK(!fi_inject(p.a.ep, "m", 1, p.a.other));
	CHECK(next_entry(&p, &p.b, &e) == 1 && e.flags & FI_MULTI_RECV);
	CHECK(!fi_trecv(p.b.ep, &in, 1, NULL, p.b.other, 1, 0, &in));
	before = sleeps_so_far();
	while (sleeps_so_far() - before < 100 && now_ms() < deadline)
		bad |= fi_cq_read(p.b.cq, &e, 1) != -FI_EAGAIN;
	CHECK(!bad && sleeps_so_far() - before >= 100);
	CHECK(!fi_tinject(p.a.ep, "p", 1, p.a.other, 1));
	CHECK(next_entry(&p, &p.b, &e) == 1 && in == 'p');
	pair_close(&p);
	CHECK(!unsetenv("FI_O2G_NAP_US"));
}

void test_multi(void)
{
	struct pair p;

	pair_open(&p, NULL);
	test_packed(&p);
	test_refilled(&p);
	test_cancelled(&p);
	CHECK(post_multi(&p, 0, 0) == -FI_EINVAL);
	CHECK(post_multi(&p, 100, FI_PEEK) == -FI_EINVAL);
	pair_close(&p);
	test_naps();
}
