/* SPDX-License-Identifier: MIT */
/* Tagged messages: sizes, order, masks, sources, data, truncation, cancel. */
#include <stdlib.h>
#include <string.h>

#include "pair.h"

#define LONG (4u << 20)

static const size_t sizes[] = {0, 1, 100, 4096, 16384, 65537, LONG};

static bool sent_ok(const struct fi_cq_tagged_entry *e, void *context)
{
	return e->op_context == context && e->flags == (FI_TAGGED | FI_SEND);
}

/* One message from a to b, the receive before or after it. */
static void test_one(struct pair *p, size_t size, bool early)
{
	struct fi_cq_tagged_entry e;
	char *out = malloc(size + 1), *in = calloc(1, size + 1);
	int x, y;

	fill_buffer(out, size, 3);
	if (early)
		CHECK(!fi_trecv(p->b.ep, in, size, NULL, p->b.other, 5, 0, &y));
	CHECK(!fi_tsend(p->a.ep, out, size, NULL, p->a.other, 5, &x));
	if (!early)
		CHECK(!fi_trecv(p->b.ep, in, size, NULL, p->b.other, 5, 0, &y));
	CHECK(next_entry(p, &p->b, &e) == 1);
	CHECK(e.op_context == &y && e.flags == (FI_TAGGED | FI_RECV));
	CHECK(e.len == size && e.tag == 5 && buffer_filled(in, size, 3));
	CHECK(next_entry(p, &p->a, &e) == 1 && sent_ok(&e, &x));
	free(out);
	free(in);
}

/* Messages with the same tag match in the order in which they were sent. */
static void test_order(struct pair *p)
{
	struct fi_cq_tagged_entry e;
	int in[50], out[50], wrong = 0;

	for (int i = 0; i < 50; i++) {
		out[i] = i;
		wrong |= fi_tinject(p->a.ep, &out[i], sizeof(*out), p->a.other,
				    9) != 0;
	}
	for (int i = 0; i < 50; i++)
		wrong |= fi_trecv(p->b.ep, &in[i], sizeof(*in), NULL,
				  FI_ADDR_UNSPEC, 9, 0, &in[i]) != 0;
	for (int i = 0; i < 50; i++)
		wrong |= next_entry(p, &p->b, &e) != 1 ||
			 e.op_context != &in[i] || in[i] != i;
	CHECK(!wrong);
	CHECK(pair_quiet(p, &p->a));
}

static void test_masks(struct pair *p)
{
	struct fi_cq_tagged_entry e;
	int in[3] = {0}, out[3] = {10, 20, 30};

	CHECK(!fi_tinject(p->a.ep, &out[0], 4, p->a.other, 0xff00000000000001));
	CHECK(!fi_tinject(p->a.ep, &out[1], 4, p->a.other, 0xff00000000000002));
	CHECK(!fi_tinject(p->a.ep, &out[2], 4, p->a.other, 0x0f00000000000002));
	CHECK(!fi_trecv(p->b.ep, &in[0], 4, NULL, p->b.other,
			0x0f00000000000000, 0xff, &in[0]));
	CHECK(next_entry(p, &p->b, &e) == 1 && in[0] == 30 &&
	      e.tag == 0x0f00000000000002);
	CHECK(!fi_trecv(p->b.ep, &in[1], 4, NULL, p->b.other, 2,
			0xff00000000000000, &in[1]));
	CHECK(next_entry(p, &p->b, &e) == 1 && in[1] == 20);
	CHECK(!fi_trecv(p->b.ep, &in[2], 4, NULL, p->b.other, 0, ~0ull,
			&in[2]));
	CHECK(next_entry(p, &p->b, &e) == 1 && in[2] == 10 &&
	      e.tag == 0xff00000000000001);
}

/* A receive from a peer takes no other's message; one from anybody does. */
static void test_sources(struct pair *p)
{
	struct fi_cq_tagged_entry e = {0};
	fi_addr_t from = 0;
	int in[2] = {0}, own = 1, other = 2;
	int64_t deadline = now_ms() + TIMEOUT_MS;

	CHECK(!fi_trecv(p->b.ep, &in[0], 4, NULL, p->b.other, 1, 0, &in[0]));
	CHECK(!fi_tinject(p->b.ep, &own, 4, p->b.self, 1));
	CHECK(pair_quiet(p, &p->b));
	CHECK(!fi_trecv(p->b.ep, &in[1], 4, NULL, FI_ADDR_UNSPEC, 1, 0,
			&in[1]));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.op_context == &in[1]);
	CHECK(in[1] == 1);
	CHECK(!fi_tinject(p->a.ep, &other, 4, p->a.other, 1));
	while (fi_cq_readfrom(p->b.cq, &e, 1, &from) == -FI_EAGAIN &&
	       now_ms() < deadline)
		(void)fi_cq_read(p->a.cq, NULL, 0);
	CHECK(e.op_context == &in[0] && in[0] == 2 && from == p->b.other);
}

static void test_data(struct pair *p)
{
	struct iovec iov = {.iov_base = "x", .iov_len = 1};
	struct fi_msg_tagged msg = {.msg_iov = &iov,
				    .iov_count = 1,
				    .addr = p->a.other,
				    .tag = 4,
				    .data = ~0ull};
	struct fi_cq_tagged_entry e;
	char in[4];

	for (int i = 0; i < 4; i++)
		CHECK(!fi_trecv(p->b.ep, &in[i], 1, NULL, p->b.other, 4, 0,
				NULL));
	CHECK(!fi_tsenddata(p->a.ep, "a", 1, NULL, 0x123456789abcdef0,
			    p->a.other, 4, NULL));
	CHECK(!fi_tinjectdata(p->a.ep, "b", 1, 77, p->a.other, 4));
	CHECK(!fi_tsendmsg(p->a.ep, &msg, FI_REMOTE_CQ_DATA | FI_INJECT));
	CHECK(!fi_tsend(p->a.ep, "d", 1, NULL, p->a.other, 4, NULL));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.data == 0x123456789abcdef0);
	CHECK(e.flags == (FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.data == 77);
	CHECK(next_entry(p, &p->b, &e) == 1 && e.data == ~0ull);
	CHECK(next_entry(p, &p->b, &e) == 1 &&
	      e.flags == (FI_TAGGED | FI_RECV));
	for (int i = 0; i < 3; i++)
		CHECK(next_entry(p, &p->a, &e) == 1);
	CHECK(pair_quiet(p, &p->a));
}

/* A message longer than the buffer fills it and says how much was cut. */
static void test_truncation(struct pair *p, size_t size, bool early)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry error;
	char *out = malloc(size), in[64] = {0}, text[80];

	fill_buffer(out, size, 1);
	if (early)
		CHECK(!fi_trecv(p->b.ep, in, 16, NULL, p->b.other, 1, 0, in));
	CHECK(!fi_tsend(p->a.ep, out, size, NULL, p->a.other, 1, NULL));
	if (!early)
		CHECK(!fi_trecv(p->b.ep, in, 16, NULL, p->b.other, 1, 0, in));
	CHECK(next_error(p, &p->b, &error) == 1);
	CHECK(error.err == FI_ETRUNC && error.op_context == in);
	CHECK(error.len == 16 && error.olen == size - 16 && error.tag == 1);
	CHECK(buffer_filled(in, 16, 1) && !in[16]);
	CHECK(fi_cq_strerror(p->b.cq, error.prov_errno, NULL, text,
			     sizeof(text)) &&
	      text[0]);
	CHECK(next_entry(p, &p->a, &e) == 1);
	free(out);
}

static void test_cancels(struct pair *p)
{
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry error;
	int in[2] = {0}, out = 7;

	CHECK(!fi_trecv(p->b.ep, &in[0], 4, NULL, p->b.other, 1, 0, &in[0]));
	CHECK(!fi_trecv(p->b.ep, &in[1], 4, NULL, p->b.other, 1, 0, &in[1]));
	CHECK(!fi_cancel(&p->b.ep->fid, &in[0]));
	CHECK(next_error(p, &p->b, &error) == 1);
	CHECK(error.err == FI_ECANCELED && error.op_context == &in[0]);
	CHECK(fi_cancel(&p->b.ep->fid, &out) == -FI_ENOENT);
	CHECK(!fi_tinject(p->a.ep, &out, 4, p->a.other, 1));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.op_context == &in[1]);
	CHECK(!in[0] && in[1] == 7);
}

/* A long message that nobody wants must not keep a short one waiting. */
static void test_overtaking(struct pair *p)
{
	struct fi_cq_tagged_entry e;
	size_t size = 8 * LONG;
	char *out = malloc(size), *in = calloc(1, size);
	int small = 0, x;

	fill_buffer(out, size, 8);
	CHECK(!fi_tsend(p->a.ep, out, size, NULL, p->a.other, 1, out));
	CHECK(!fi_tsend(p->a.ep, "four", 4, NULL, p->a.other, 2, &x));
	CHECK(!fi_trecv(p->b.ep, &small, 4, NULL, p->b.other, 2, 0, &small));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.op_context == &small);
	CHECK(!memcmp(&small, "four", 4));
	CHECK(!fi_trecv(p->b.ep, in, size, NULL, p->b.other, 1, 0, in));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.op_context == in &&
	      e.len == size);
	CHECK(buffer_filled(in, size, 8));
	CHECK(next_entry(p, &p->a, &e) == 1 && next_entry(p, &p->a, &e) == 1);
	free(out);
	free(in);
}

static void test_wrong(struct pair *p)
{
	struct iovec two[2] = {{"a", 1}, {"b", 1}};
	struct fi_msg_tagged msg = {.msg_iov = two, .iov_count = 2};
	static char room[16385];

	CHECK(fi_tsend(p->a.ep, room, 1, NULL, 999, 0, NULL) == -FI_EINVAL);
	CHECK(fi_tsend(p->a.ep, room, 1, NULL, FI_ADDR_UNSPEC, 0, NULL) ==
	      -FI_EINVAL);
	CHECK(fi_trecv(p->a.ep, room, 1, NULL, 999, 0, 0, NULL) == -FI_EINVAL);
	CHECK(fi_tsend(p->a.ep, NULL, 1, NULL, p->a.other, 0, NULL) ==
	      -FI_EINVAL);
	CHECK(fi_trecv(p->a.ep, NULL, 1, NULL, p->a.other, 0, 0, NULL) ==
	      -FI_EINVAL);
	CHECK(fi_tinject(p->a.ep, room, sizeof(room), p->a.other, 0) ==
	      -FI_EINVAL);
	CHECK(fi_tsendmsg(p->a.ep, &msg, 0) == -FI_EINVAL);
	CHECK(fi_tsendv(p->a.ep, two, NULL, 2, p->a.other, 0, NULL) ==
	      -FI_EINVAL);
	CHECK(fi_trecvv(p->a.ep, two, NULL, 2, p->a.other, 0, 0, NULL) ==
	      -FI_EINVAL);
	msg.iov_count = 1;
	CHECK(fi_tsendmsg(p->a.ep, &msg, FI_FENCE) == -FI_EINVAL);
	CHECK(fi_trecvmsg(p->a.ep, &msg, FI_DISCARD) == -FI_EINVAL);
	CHECK(fi_trecvmsg(p->a.ep, &msg, FI_MULTI_RECV) == -FI_EINVAL);
	CHECK(fi_trecvmsg(p->a.ep, &msg, FI_CLAIM) == -FI_EINVAL);
}

static void test_all(const struct setup *setup)
{
	struct pair p;

	pair_open(&p, setup);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		test_one(&p, sizes[i], true);
		test_one(&p, sizes[i], false);
	}
	test_order(&p);
	test_masks(&p);
	test_sources(&p);
	test_data(&p);
	test_truncation(&p, 1000, true);
	test_truncation(&p, 1000, false);
	test_truncation(&p, LONG, true);
	test_truncation(&p, LONG, false);
	test_cancels(&p);
	test_overtaking(&p);
	test_wrong(&p);
	pair_close(&p);
}

void test_tagged(void)
{
	/* Without the provider's locks, as MPICH asks. */
	const struct setup serial = {.threading = FI_THREAD_DOMAIN};

	test_all(NULL);
	test_all(&serial);
}
