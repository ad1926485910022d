/* SPDX-License-Identifier: MIT */
/* Untagged messages, and that tagged ones are not among them. */
#include <string.h>

#include "pair.h"

static void test_calls(struct pair *p)
{
	struct iovec iov = {.iov_base = "three", .iov_len = 5};
	struct fi_msg msg = {.msg_iov = &iov,
			     .iov_count = 1,
			     .addr = p->a.other,
			     .context = &iov,
			     .data = 33};
	struct fi_cq_tagged_entry e;
	char in[6][8] = {0};

	for (int i = 0; i < 4; i++)
		CHECK(!fi_recv(p->b.ep, in[i], 8, NULL, FI_ADDR_UNSPEC, in[i]));
	iov = (struct iovec){.iov_base = in[4], .iov_len = 8};
	CHECK(!fi_recvv(p->b.ep, &iov, NULL, 1, p->b.other, in[4]));
	msg.addr = p->b.other;
	iov.iov_base = in[5];
	CHECK(!fi_recvmsg(p->b.ep, &msg, FI_COMPLETION));
	iov = (struct iovec){.iov_base = "three", .iov_len = 5};
	msg.addr = p->a.other;
	CHECK(!fi_send(p->a.ep, "one", 3, NULL, p->a.other, in));
	CHECK(!fi_sendv(p->a.ep, &iov, NULL, 1, p->a.other, in));
	CHECK(!fi_sendmsg(p->a.ep, &msg, FI_REMOTE_CQ_DATA | FI_MORE));
	CHECK(!fi_inject(p->a.ep, "four", 4, p->a.other));
	CHECK(!fi_senddata(p->a.ep, "five", 4, NULL, 55, p->a.other, in));
	CHECK(!fi_injectdata(p->a.ep, "six", 3, 66, p->a.other));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.flags == (FI_MSG | FI_RECV));
	CHECK(e.op_context == in[0] && e.len == 3 && !memcmp(in[0], "one", 3));
	CHECK(next_entry(p, &p->b, &e) == 1 && !memcmp(in[1], "three", 5));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.data == 33);
	CHECK(e.flags == (FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA));
	CHECK(next_entry(p, &p->b, &e) == 1 && !memcmp(in[3], "four", 4));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.data == 55);
	CHECK(next_entry(p, &p->b, &e) == 1 && e.data == 66 &&
	      e.op_context == &iov && !memcmp(in[5], "six", 3));
	for (int i = 0; i < 4; i++)
		CHECK(next_entry(p, &p->a, &e) == 1 &&
		      e.flags == (FI_MSG | FI_SEND));
	CHECK(pair_quiet(p, &p->a));
}

/* Tag 0 is a tag; no tag is something else. */
static void test_apart(struct pair *p)
{
	struct fi_cq_tagged_entry e;
	char tagged = 0, plain = 0;

	CHECK(!fi_trecv(p->b.ep, &tagged, 1, NULL, FI_ADDR_UNSPEC, 0, ~0ull,
			&tagged));
	CHECK(!fi_inject(p->a.ep, "p", 1, p->a.other));
	CHECK(pair_quiet(p, &p->b));
	CHECK(!fi_recv(p->b.ep, &plain, 1, NULL, FI_ADDR_UNSPEC, &plain));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.op_context == &plain);
	CHECK(!fi_tinject(p->a.ep, "t", 1, p->a.other, 0));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.op_context == &tagged);
	CHECK(plain == 'p' && tagged == 't');
}

/* A buffer that was injected may change at once. */
static void test_injected(struct pair *p)
{
	struct fi_cq_tagged_entry e;
	static char out[16384], in[8][16384];
	int bad = 0;

	for (int i = 0; i < 8; i++) {
		int n;

		fill_buffer(out, sizeof(out), (unsigned)i);
		while ((n = (int)fi_inject(p->a.ep, out, sizeof(out),
					   p->a.other)) == -FI_EAGAIN)
			(void)fi_cq_read(p->a.cq, NULL, 0);
		bad |= n != 0;
		memset(out, 0, sizeof(out));
	}
	for (int i = 0; i < 8; i++)
		bad |= fi_recv(p->b.ep, in[i], sizeof(in[i]), NULL, p->b.other,
			       in[i]) != 0;
	for (int i = 0; i < 8; i++)
		bad |= next_entry(p, &p->b, &e) != 1 || e.op_context != in[i] ||
		       !buffer_filled(in[i], sizeof(in[i]), (unsigned)i);
	CHECK(!bad);
	CHECK(pair_quiet(p, &p->a));
}

/* A message with FI_INJECT has as many bytes as fi_getinfo() offers. */
static void inject_limit(struct pair *p)
{
	static char out[16385], in[16385];
	struct iovec iov = {.iov_base = out, .iov_len = sizeof(out) - 1};
	struct fi_msg msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = p->a.other};
	struct fi_cq_tagged_entry e;

	CHECK(p->info->tx_attr->inject_size == iov.iov_len);
	CHECK(!fi_recv(p->b.ep, in, sizeof(in), NULL, p->b.other, in));
	fill_buffer(out, iov.iov_len, 9);
	CHECK(!fi_sendmsg(p->a.ep, &msg, FI_INJECT));
	memset(out, 0, sizeof(out));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.len == iov.iov_len &&
	      buffer_filled(in, iov.iov_len, 9));
	CHECK(next_entry(p, &p->a, &e) == 1);
	iov.iov_len++;
	CHECK(fi_sendmsg(p->a.ep, &msg, FI_INJECT) == -FI_EINVAL);
	CHECK(pair_quiet(p, &p->a) && pair_quiet(p, &p->b));
}

/* Who only tries again gets somewhere, without reading the sender's queue. */
static void test_insistent(struct pair *p)
{
	enum { COUNT = 20000 };
	int64_t deadline = now_ms() + TIMEOUT_MS;
	struct fi_cq_tagged_entry e;
	int sent = 0, received = 0, in = 0;

	while (received < COUNT && now_ms() < deadline) {
		if (sent == received &&
		    fi_recv(p->b.ep, &in, sizeof(in), NULL, p->b.other, &in))
			break;
		while (sent == received && now_ms() < deadline)
			sent += !fi_inject(p->a.ep, &sent, sizeof(sent),
					   p->a.other);
		if (fi_cq_read(p->b.cq, &e, 1) == 1 && in == received)
			received++;
	}
	CHECK(received == COUNT);
}

/* Without FI_DIRECTED_RECV the source of a receive is ignored. */
static void test_undirected(void)
{
	struct setup setup = {.caps = FI_MSG};
	struct fi_cq_tagged_entry e;
	struct pair p;
	char in = 0;

	pair_open(&p, &setup);
	CHECK(!fi_recv(p.b.ep, &in, 1, NULL, p.b.self, &in));
	CHECK(!fi_inject(p.a.ep, "u", 1, p.a.other));
	CHECK(next_entry(&p, &p.b, &e) == 1 && in == 'u');
	pair_close(&p);
}

void test_msg(void)
{
	struct pair p;

	pair_open(&p, NULL);
	test_calls(&p);
	test_apart(&p);
	test_injected(&p);
	inject_limit(&p);
	test_insistent(&p);
	pair_close(&p);
	test_undirected();
}
