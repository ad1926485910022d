/* SPDX-License-Identifier: MIT */
/* Sleeping until something comes: sread, descriptors, signals. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "pair.h"

static void *send_later(void *arg)
{
	struct pair *p = arg;

	poll(NULL, 0, 100);
	CHECK(!fi_tinject(p->a.ep, "w", 1, p->a.other, 1));
	return NULL;
}

static void *signal_later(void *arg)
{
	struct pair *p = arg;

	poll(NULL, 0, 100);
	CHECK(!fi_cq_signal(p->b.cq));
	return NULL;
}

static void test_sread(struct pair *p)
{
	struct fi_cq_tagged_entry e;
	int64_t start = now_ms();
	pthread_t thread;
	fi_addr_t from;
	char in = 0;

	CHECK(fi_cq_sread(p->b.cq, &e, 1, NULL, 50) == -FI_EAGAIN);
	CHECK(now_ms() - start >= 49);
	CHECK(!fi_trecv(p->b.ep, &in, 1, NULL, p->b.other, 1, 0, &in));
	pthread_create(&thread, NULL, send_later, p);
	CHECK(fi_cq_sread(p->b.cq, &e, 1, NULL, TIMEOUT_MS) == 1);
	CHECK(e.op_context == &in && in == 'w');
	pthread_join(thread, NULL);
	CHECK(!fi_tinject(p->a.ep, "v", 1, p->a.other, 2));
	CHECK(!fi_trecv(p->b.ep, &in, 1, NULL, p->b.other, 2, 0, &in));
	CHECK(fi_cq_sreadfrom(p->b.cq, &e, 1, &from, NULL, -1) == 1);
	CHECK(in == 'v' && from == p->b.other);
}

static void test_signalled(struct pair *p)
{
	struct fi_cq_tagged_entry e;
	pthread_t thread;

	pthread_create(&thread, NULL, signal_later, p);
	CHECK(fi_cq_sread(p->b.cq, &e, 1, NULL, -1) == -FI_EAGAIN);
	pthread_join(thread, NULL);
}

static void test_descriptor(struct pair *p)
{
	struct fid *fids[1] = {&p->b.cq->fid};
	struct fi_cq_tagged_entry e;
	struct pollfd fd = {.events = POLLIN};
	int64_t deadline = now_ms() + TIMEOUT_MS;
	pthread_t thread;
	ssize_t n;
	char in = 0;

	CHECK(!fi_control(&p->b.cq->fid, FI_GETWAIT, &fd.fd) && fd.fd >= 0);
	CHECK(!fi_trecv(p->b.ep, &in, 1, NULL, p->b.other, 1, 0, &in));
	pthread_create(&thread, NULL, send_later, p);
	while ((n = fi_cq_read(p->b.cq, &e, 1)) == -FI_EAGAIN &&
	       now_ms() < deadline)
		if (!fi_trywait(p->fabric, fids, 1))
			poll(&fd, 1, TIMEOUT_MS);
	CHECK(n == 1 && in == 'w');
	pthread_join(thread, NULL);
	CHECK(!fi_tinject(p->b.ep, "s", 1, p->b.self, 3));
	CHECK(!fi_trecv(p->b.ep, &in, 1, NULL, p->b.self, 3, 0, &in));
	CHECK(fi_trywait(p->fabric, fids, 1) == -FI_EAGAIN);
	CHECK(fi_cq_read(p->b.cq, &e, 1) == 1 && in == 's');
}

/* Where the program has no standard input, 0 is a descriptor as others are. */
static void test_closed(struct pair *p)
{
	struct fi_cq_attr attr = {.wait_obj = FI_WAIT_FD,
				  .format = FI_CQ_FORMAT_TAGGED};
	struct fid_cq *cq = NULL;
	int kept = dup(STDIN_FILENO);

	close(STDIN_FILENO);
	CHECK(!fi_cq_open(p->domain, &attr, &cq, NULL));
	CHECK(fcntl(STDIN_FILENO, F_GETFD) >= 0);
	CHECK(cq && !fi_close(&cq->fid));
	CHECK(fcntl(STDIN_FILENO, F_GETFD) < 0);
	if (kept >= 0) {
		dup2(kept, STDIN_FILENO);
		close(kept);
	}
}

void test_wait(void)
{
	struct setup setup = {.wait = FI_WAIT_FD};
	struct pair p;

	pair_open(&p, &setup);
	test_sread(&p);
	test_signalled(&p);
	test_descriptor(&p);
	test_closed(&p);
	pair_close(&p);
}
