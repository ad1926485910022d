/* SPDX-License-Identifier: MIT */
/* Completion queues: formats, batches, errors in line, selective completion. */
#include <string.h>

#include "pair.h"

/* Reads one entry of any format; the rest of the space must stay untouched. */
static void test_format(enum fi_cq_format which, size_t size)
{
	struct setup setup = {.format = which};
	union {
		struct fi_cq_tagged_entry e;
		uint8_t byte[sizeof(struct fi_cq_tagged_entry)];
	} u;
	int64_t deadline = now_ms() + TIMEOUT_MS;
	struct pair p;
	ssize_t n;
	char in;

	pair_open(&p, &setup);
	memset(&u, 0xa5, sizeof(u));
	CHECK(!fi_trecv(p.b.ep, &in, 1, NULL, FI_ADDR_UNSPEC, 42, 0, &in));
	CHECK(!fi_tinjectdata(p.a.ep, "x", 1, 99, p.a.other, 42));
	while ((n = fi_cq_read(p.b.cq, &u, 1)) == -FI_EAGAIN &&
	       now_ms() < deadline)
		(void)fi_cq_read(p.a.cq, NULL, 0);
	CHECK(n == 1 && u.e.op_context == &in);
	CHECK(size == sizeof(u) || u.byte[size] == 0xa5);
	if (which >= FI_CQ_FORMAT_MSG)
		CHECK(u.e.len == 1 &&
		      u.e.flags == (FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA));
	if (which >= FI_CQ_FORMAT_DATA)
		CHECK(u.e.data == 99);
	if (which == FI_CQ_FORMAT_TAGGED)
		CHECK(u.e.tag == 42);
	pair_close(&p);
}

/* An error comes between the completions that came before and after it. */
static void errors_in_line(struct pair *p)
{
	struct fi_cq_tagged_entry e[4];
	struct fi_cq_err_entry error;
	int64_t deadline = now_ms() + TIMEOUT_MS;
	char in[3][4], last;

	for (int i = 0; i < 3; i++)
		CHECK(!fi_trecv(p->b.ep, in[i], 4, NULL, p->b.other, 1, 0,
				in[i]));
	CHECK(!fi_trecv(p->b.ep, &last, 1, NULL, p->b.other, 2, 0, &last));
	CHECK(!fi_tinject(p->a.ep, "1", 1, p->a.other, 1));
	CHECK(!fi_tinject(p->a.ep, "too long", 8, p->a.other, 1));
	CHECK(!fi_tinject(p->a.ep, "3", 1, p->a.other, 1));
	CHECK(fi_cq_readerr(p->b.cq, &error, 0) == -FI_EAGAIN);
	while (fi_cq_read(p->b.cq, e, 4) == -FI_EAGAIN && now_ms() < deadline)
		(void)fi_cq_read(p->a.cq, NULL, 0);
	CHECK(e[0].op_context == in[0]);
	CHECK(next_error(p, &p->b, &error) == 1);
	CHECK(error.err == FI_ETRUNC && error.op_context == in[1]);
	CHECK(next_entry(p, &p->b, e) == 1 && e[0].op_context == in[2]);
	CHECK(!fi_tinject(p->a.ep, "4", 1, p->a.other, 2));
	CHECK(next_entry(p, &p->b, e) == 1 && e[0].op_context == &last);
	CHECK(fi_cq_readerr(p->b.cq, NULL, 0) == -FI_EINVAL);
}

static void test_selective(void)
{
	struct setup setup = {.selective = FI_SELECTIVE_COMPLETION};
	struct iovec iov = {.iov_base = "b", .iov_len = 1};
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .tag = 1, .context = &iov};
	struct fi_cq_tagged_entry e;
	struct fi_cq_err_entry error;
	struct pair p;
	char in[4];

	pair_open(&p, &setup);
	msg.addr = p.a.other;
	CHECK(!fi_tsend(p.a.ep, "a", 1, NULL, p.a.other, 1, in));
	CHECK(!fi_tsendmsg(p.a.ep, &msg, FI_COMPLETION));
	CHECK(!fi_tsendmsg(p.a.ep, &msg, FI_INJECT));
	CHECK(!fi_trecv(p.b.ep, &in[0], 1, NULL, p.b.other, 1, 0, &in[0]));
	msg.addr = p.b.other;
	msg.context = &in[1];
	iov.iov_base = &in[1];
	CHECK(!fi_trecvmsg(p.b.ep, &msg, FI_COMPLETION));
	CHECK(next_entry(&p, &p.b, &e) == 1 && e.op_context == &in[1]);
	CHECK(in[0] == 'a' && in[1] == 'b' && pair_quiet(&p, &p.b));
	CHECK(next_entry(&p, &p.a, &e) == 1 && e.op_context == &iov);
	CHECK(pair_quiet(&p, &p.a));
	/* Errors are reported always. */
	CHECK(!fi_trecv(p.b.ep, in, 1, NULL, p.b.other, 3, 0, &in[2]));
	CHECK(!fi_tinject(p.a.ep, "long", 4, p.a.other, 3));
	CHECK(next_error(&p, &p.b, &error) == 1 && error.err == FI_ETRUNC);
	pair_close(&p);
}

/* More completions than anybody reads: none is lost. */
static void test_flood(struct pair *p)
{
	enum { COUNT = 20000 };
	struct fi_cq_tagged_entry e;
	static int in[COUNT];
	int bad = 0;

	for (int i = 0; i < COUNT; i++) {
		ssize_t n;

		while ((n = fi_trecv(p->b.ep, &in[i], 4, NULL, p->b.other, 6, 0,
				     &in[i])) == -FI_EAGAIN)
			(void)fi_cq_read(p->b.cq, NULL, 0);
		bad |= n != 0;
		while ((n = fi_tinject(p->a.ep, &i, 4, p->a.other, 6)) ==
		       -FI_EAGAIN) {
			(void)fi_cq_read(p->a.cq, NULL, 0);
			(void)fi_cq_read(p->b.cq, NULL, 0);
		}
		bad |= n != 0;
	}
	for (int i = 0; i < COUNT && !bad; i++)
		bad |= next_entry(p, &p->b, &e) != 1 ||
		       e.op_context != &in[i] || in[i] != i;
	CHECK(!bad);
}

/* Two endpoints report to one queue. */
static void test_shared(struct pair *p)
{
	struct fi_av_attr attr = {.type = FI_AV_TABLE};
	struct fi_cq_tagged_entry e;
	struct end c = {0};
	uint8_t name[NAME_SIZE];
	fi_addr_t at_a, at_c;
	char in[2] = {0};

	CHECK(!fi_endpoint(p->domain, p->info, &c.ep, NULL));
	CHECK(!fi_av_open(p->domain, &attr, &c.av, NULL));
	CHECK(!fi_ep_bind(c.ep, &c.av->fid, 0));
	CHECK(!fi_ep_bind(c.ep, &p->b.cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(!fi_enable(c.ep));
	end_name(&c, name);
	at_a = end_insert(&p->a, name);
	end_name(&p->a, name);
	at_c = end_insert(&c, name);
	CHECK(!fi_trecv(c.ep, &in[0], 1, NULL, at_c, 1, 0, &in[0]));
	CHECK(!fi_trecv(p->b.ep, &in[1], 1, NULL, p->b.other, 1, 0, &in[1]));
	CHECK(!fi_tinject(p->a.ep, "c", 1, at_a, 1));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.op_context == &in[0]);
	CHECK(!fi_tinject(p->a.ep, "b", 1, p->a.other, 1));
	CHECK(next_entry(p, &p->b, &e) == 1 && e.op_context == &in[1]);
	CHECK(in[0] == 'c' && in[1] == 'b');
	CHECK(!fi_close(&c.ep->fid));
	CHECK(!fi_close(&c.av->fid));
	CHECK(pair_quiet(p, &p->b));
}

/* Peeks that find nothing, each an error in the queue that nobody reads. */
static bool leave_unread(struct fid_ep *ep, struct fid_cq *cq, int count)
{
	struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC};

	for (int i = 0; i < count; i++) {
		ssize_t n;

		while ((n = fi_trecvmsg(ep, &msg, FI_PEEK)) == -FI_EAGAIN)
			(void)fi_cq_read(cq, NULL, 0);
		if (n)
			return false;
		if (i % 16 == 0)
			(void)fi_cq_read(cq, NULL, 0);
	}
	return true;
}

/* A queue holds what it was asked to, and meanwhile the other one goes on. */
static void test_large(struct pair *p)
{
	enum { UNREAD = 33000, SIZE = 40000 };
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	int64_t deadline = now_ms() + TIMEOUT_MS;
	struct fi_cq_err_entry error;
	struct fi_cq_tagged_entry e;
	struct fid_cq *sent, *received;
	struct end c = {0};
	uint8_t name[NAME_SIZE];
	int unread = 0;
	ssize_t n;

	CHECK(!fi_endpoint(p->domain, p->info, &c.ep, NULL));
	CHECK(!fi_av_open(p->domain, &av_attr, &c.av, NULL));
	CHECK(!fi_cq_open(p->domain, &attr, &sent, NULL));
	attr.size = SIZE;
	CHECK(!fi_cq_open(p->domain, &attr, &received, NULL));
	CHECK(!fi_ep_bind(c.ep, &c.av->fid, 0));
	CHECK(!fi_ep_bind(c.ep, &sent->fid, FI_TRANSMIT));
	CHECK(!fi_ep_bind(c.ep, &received->fid, FI_RECV));
	CHECK(!fi_enable(c.ep));
	end_name(&c, name);
	c.self = end_insert(&c, name);
	CHECK(leave_unread(c.ep, received, UNREAD));
	CHECK(!fi_tsend(c.ep, "x", 1, NULL, c.self, 1, &c));
	while ((n = fi_cq_read(sent, &e, 1)) == -FI_EAGAIN &&
	       now_ms() < deadline)
		;
	CHECK(n == 1 && e.op_context == &c);
	while (fi_cq_readerr(received, &error, 0) == 1)
		unread += error.err == FI_ENOMSG;
	CHECK(unread == UNREAD);
	CHECK(!fi_close(&c.ep->fid));
	CHECK(!fi_close(&received->fid));
	CHECK(!fi_close(&sent->fid));
	CHECK(!fi_close(&c.av->fid));
}

static void test_wrong(struct pair *p)
{
	struct fi_cq_attr attr = {.wait_obj = FI_WAIT_MUTEX_COND};
	struct fi_cq_tagged_entry e;
	struct fid_cq *cq;
	int fd;

	CHECK(fi_cq_open(p->domain, &attr, &cq, NULL) == -FI_ENOSYS);
	attr.wait_obj = FI_WAIT_NONE;
	attr.format = 99;
	CHECK(fi_cq_open(p->domain, &attr, &cq, NULL) == -FI_EINVAL);
	attr.format = FI_CQ_FORMAT_TAGGED;
	attr.size = SIZE_MAX;
	CHECK(fi_cq_open(p->domain, &attr, &cq, NULL) == -FI_EINVAL);
	CHECK(fi_cq_sread(p->a.cq, &e, 1, NULL, 0) == -FI_EINVAL);
	CHECK(fi_cq_signal(p->a.cq) == -FI_EINVAL);
	CHECK(fi_control(&p->a.cq->fid, FI_GETWAIT, &fd) == -FI_ENODATA);
	CHECK(fi_cq_read(p->a.cq, &e, 1) == -FI_EAGAIN);
}

void test_queue(void)
{
	struct pair p;

	test_format(FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry));
	test_format(FI_CQ_FORMAT_MSG, sizeof(struct fi_cq_msg_entry));
	test_format(FI_CQ_FORMAT_DATA, sizeof(struct fi_cq_data_entry));
	test_format(FI_CQ_FORMAT_TAGGED, sizeof(struct fi_cq_tagged_entry));
	pair_open(&p, NULL);
	errors_in_line(&p);
	test_wrong(&p);
	test_shared(&p);
	test_large(&p);
	test_flood(&p);
	pair_close(&p);
	test_selective();
}
