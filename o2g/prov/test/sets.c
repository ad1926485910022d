/* SPDX-License-Identifier: MIT */
/* Poll sets and wait sets. */
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

static struct pair p;

/* Polls until something is ready: the context, or NULL when nothing came. */
static void *poll_ready(struct fid_poll *set)
{
	int64_t deadline = now_ms() + TIMEOUT_MS;
	void *context = NULL;
	int n;

	do
		n = fi_poll(set, &context, 1);
	while (!n && now_ms() < deadline);
	return n == 1 ? context : NULL;
}

static void poll_queues(void)
{
	struct fi_poll_attr attr = {0};
	struct fi_cq_tagged_entry entry;
	struct fid_poll *set;
	void *context[2];
	char in = 0;

	pair_open(&p, NULL);
	CHECK(!fi_poll_open(p.domain, &attr, &set));
	CHECK(!fi_poll_add(set, &p.a.cq->fid, 0));
	CHECK(!fi_poll_add(set, &p.b.cq->fid, 0));
	CHECK(!fi_poll_add(set, &p.b.cq->fid, 0));
	CHECK(fi_poll_add(set, &p.a.ep->fid, 0) == -FI_EINVAL);
	CHECK(fi_poll_add(set, &p.a.cq->fid, 1) == -FI_EINVAL);
	CHECK(fi_poll(set, context, 2) == 0);
	CHECK(!fi_trecv(p.b.ep, &in, 1, NULL, p.b.other, 1, 0, &in));
	CHECK(!fi_tinject(p.a.ep, "p", 1, p.a.other, 1));
	CHECK(poll_ready(set) == &p.b && in == 'p');
	CHECK(fi_poll(set, context, 2) == 1 && context[0] == &p.b);
	CHECK(fi_cq_read(p.b.cq, &entry, 1) == 1);
	CHECK(fi_poll(set, context, 2) == 0);
	CHECK(!fi_poll_del(set, &p.b.cq->fid, 0));
	CHECK(fi_poll_del(set, &p.b.cq->fid, 0) == -FI_EINVAL);
	CHECK(fi_close(&p.domain->fid) == -FI_EBUSY);
	CHECK(!fi_close(&set->fid));
	pair_close(&p);
}

static void poll_counters(void)
{
	const struct setup setup = {.counters = true};
	struct fi_poll_attr attr = {0};
	struct fid_poll *set;
	void *context;
	char in = 0;

	pair_open(&p, &setup);
	CHECK(!fi_poll_open(p.domain, &attr, &set));
	CHECK(!fi_poll_add(set, &p.b.received->fid, 0));
	CHECK(!fi_trecv(p.b.ep, &in, 1, NULL, p.b.other, 1, 0, &in));
	CHECK(!fi_tinject(p.a.ep, "c", 1, p.a.other, 1));
	CHECK(poll_ready(set) == &p.b);
	CHECK(fi_poll(set, &context, 1) == 0); /* it was told */
	CHECK(fi_cntr_read(p.b.received) == 1);
	CHECK(!fi_cntr_add(p.b.received, 1));
	CHECK(poll_ready(set) == &p.b);
	CHECK(fi_close(&p.b.received->fid) == -FI_EBUSY);
	CHECK(!fi_close(&set->fid));
	pair_close(&p);
}

static void *send_later(void *arg)
{
	(void)arg;
	poll(NULL, 0, 100);
	CHECK(!fi_tinject(p.a.ep, "w", 1, p.a.other, 1));
	return NULL;
}

/* `b` with a queue of the wait set instead of its own. */
static void join_set(struct fid_wait *wait, struct fid_ep **ep,
		     struct fid_cq **cq, struct fid_cntr **cntr)
{
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED,
				     .wait_obj = FI_WAIT_SET,
				     .wait_set = wait};
	struct fi_cntr_attr cntr_attr = {.wait_obj = FI_WAIT_SET,
					 .wait_set = wait};
	enum fi_wait_obj object;

	CHECK(!fi_endpoint(p.domain, p.info, ep, NULL));
	CHECK(!fi_cq_open(p.domain, &cq_attr, cq, NULL));
	CHECK(!fi_cntr_open(p.domain, &cntr_attr, cntr, NULL));
	CHECK(!fi_ep_bind(*ep, &p.b.av->fid, 0));
	CHECK(!fi_ep_bind(*ep, &(*cq)->fid, FI_TRANSMIT | FI_RECV));
	CHECK(!fi_ep_bind(*ep, &(*cntr)->fid, FI_RECV));
	CHECK(!fi_enable(*ep));
	CHECK(!fi_control(&(*cq)->fid, FI_GETWAITOBJ, &object) &&
	      object == FI_WAIT_SET);
	cq_attr.wait_set = NULL;
	CHECK(fi_cq_open(p.domain, &cq_attr, cq + 1, NULL) == -FI_EINVAL);
	cntr_attr.wait_set = (void *)p.a.ep;
	CHECK(fi_cntr_open(p.domain, &cntr_attr, cntr + 1, NULL) == -FI_EINVAL);
}

static void sleep_in_set(struct fid_wait *wait, struct fid_ep *ep,
			 struct fid_cq *cq, struct fid_cntr *cntr)
{
	struct fi_cq_tagged_entry entry;
	pthread_t thread;
	int64_t start = now_ms();
	char in = 0;
	ssize_t n;

	CHECK(fi_wait(wait, 50) == -FI_ETIMEDOUT && now_ms() - start >= 49);
	CHECK(!fi_trecv(ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, &in));
	pthread_create(&thread, NULL, send_later, NULL);
	do
		n = fi_wait(wait, TIMEOUT_MS) ? -FI_ETIMEDOUT
					      : fi_cq_read(cq, &entry, 1);
	while (n == -FI_EAGAIN);
	CHECK(n == 1 && in == 'w');
	pthread_join(thread, NULL);
	CHECK(fi_cntr_read(cntr) == 1);
	CHECK(!fi_cntr_add(cntr, 1));
	CHECK(!fi_wait(wait, TIMEOUT_MS));
	CHECK(fi_wait(wait, 0) == -FI_ETIMEDOUT);
}

static void wait_set(void)
{
	struct fi_wait_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	uint8_t name[NAME_SIZE];
	struct fid_cntr *cntr[2];
	struct fid_wait *wait;
	struct fid_cq *cq[2];
	struct fid_ep *ep;
	size_t length = sizeof(name);
	int fd = -1;

	pair_open(&p, NULL);
	attr.wait_obj = FI_WAIT_MUTEX_COND;
	CHECK(fi_wait_open(p.fabric, &attr, &wait) == -FI_ENOSYS);
	attr.wait_obj = FI_WAIT_UNSPEC;
	CHECK(!fi_wait_open(p.fabric, &attr, &wait));
	CHECK(!fi_control(&wait->fid, FI_GETWAIT, &fd) && fd >= 0);
	join_set(wait, &ep, cq, cntr);
	CHECK(!fi_getname(&ep->fid, name, &length));
	p.a.other = end_insert(&p.a, name);
	sleep_in_set(wait, ep, cq[0], cntr[0]);
	CHECK(fi_close(&wait->fid) == -FI_EBUSY);
	CHECK(!fi_close(&ep->fid));
	CHECK(!fi_close(&cq[0]->fid));
	CHECK(!fi_close(&cntr[0]->fid));
	CHECK(!fi_close(&wait->fid));
	pair_close(&p);
}

static void *count_later(void *arg)
{
	poll(NULL, 0, 100);
	CHECK(!fi_cntr_add(arg, 1));
	return NULL;
}

/* A child of fork() shares the set's epoll: what it closes stays a member. */
static void wait_set_forked(void)
{
	struct fi_wait_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_cntr_attr member = {.wait_obj = FI_WAIT_SET};
	struct fid_cntr *cntr = NULL;
	int status = -1;
	pthread_t thread;
	int64_t start;
	pid_t pid;

	pair_open(&p, NULL);
	CHECK(!fi_wait_open(p.fabric, &attr, &member.wait_set));
	CHECK(!fi_cntr_open(p.domain, &member, &cntr, NULL));
	pid = fork();
	if (!pid)
		_exit(fi_close(&cntr->fid) ? 1 : 0);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	start = now_ms();
	pthread_create(&thread, NULL, count_later, cntr);
	/* woken by the event, not by the time limit */
	CHECK(!fi_wait(member.wait_set, TIMEOUT_MS) &&
	      now_ms() - start < TIMEOUT_MS);
	pthread_join(thread, NULL);
	CHECK(!fi_close(&cntr->fid));
	CHECK(!fi_close(&member.wait_set->fid));
	pair_close(&p);
}

void test_sets(void)
{
	poll_queues();
	poll_counters();
	wait_set();
	wait_set_forked();
}
