/* SPDX-License-Identifier: MIT */
/* Several threads on one endpoint and one queue, and a fork() amid of it. */
#include <stdlib.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

enum { THREADS = 4, MESSAGES = 500 };

static struct pair pair;
static atomic_int received, bad;

/* Takes whatever has completed at b, also for the other threads. */
static void read_completion(void)
{
	struct fi_cq_tagged_entry e;
	ssize_t n = fi_cq_read(pair.b.cq, &e, 1);

	if (n == 1)
		atomic_fetch_add(&received, 1);
	else if (n != -FI_EAGAIN)
		atomic_fetch_add(&bad, 1);
}

static void *run_pair(void *arg)
{
	static char in[THREADS][MESSAGES];
	int me = *(int *)arg;

	for (int i = 0; i < MESSAGES; i++) {
		char out = (char)i;
		ssize_t n;

		while ((n = fi_trecv(pair.b.ep, &in[me][i], 1, NULL,
				     pair.b.other, (uint64_t)me, 0,
				     &in[me][i])) == -FI_EAGAIN)
			read_completion();
		atomic_fetch_add(&bad, n != 0);
		while ((n = fi_tinject(pair.a.ep, &out, 1, pair.a.other,
				       (uint64_t)me)) == -FI_EAGAIN)
			(void)fi_cq_read(pair.a.cq, NULL, 0);
		atomic_fetch_add(&bad, n != 0);
		read_completion();
	}
	return in[me];
}

static atomic_bool enough;
static atomic_int reads;

/* Naps most of the time, with locks that a child would wait for. */
static void *read_on(void *arg)
{
	struct fi_cq_tagged_entry e;

	while (!atomic_load(&enough)) {
		if (fi_cq_read(pair.a.cq, &e, 1) != -FI_EAGAIN)
			atomic_fetch_add(&bad, 1);
		atomic_fetch_add(&reads, 1);
	}
	return arg;
}

/* In a child of fork(): every call says so, and none waits. */
static int calls_refused(void)
{
	struct fi_cq_tagged_entry e;
	struct end *end = &pair.a;
	fi_addr_t address = end->self;
	char byte = 0;
	int wrong;

	alarm(TIMEOUT_MS / 1000);
	wrong = fi_cq_read(end->cq, &e, 1) != -FI_EBADF;
	wrong |= (fi_tinject(end->ep, &byte, 1, end->self, 1) != -FI_EBADF)
		 << 1;
	wrong |= (fi_trecv(end->ep, &byte, 1, NULL, end->self, 1, 0, &e) !=
		  -FI_EBADF)
		 << 2;
	wrong |= (fi_cancel(&end->ep->fid, &e) != -FI_EBADF) << 3;
	wrong |= (fi_av_remove(end->av, &address, 1, 0) != -FI_EBADF) << 4;
	wrong |= !!fi_close(&end->ep->fid) << 5;
	wrong |= !!fi_close(&end->cq->fid) << 6;
	wrong |= !!fi_close(&end->av->fid) << 7;
	return wrong;
}

static void test_forked(void)
{
	struct fi_cq_tagged_entry e;
	pthread_t thread;
	char in = 0;

	CHECK(!setenv("FI_O2G_NAP_US", "2000", 1)); /* else nobody naps */
	pair_open(&pair, NULL);
	CHECK(!fi_trecv(pair.a.ep, &in, 1, NULL, pair.a.self, 1, 0, &in));
	bad = 0;
	pthread_create(&thread, NULL, read_on, NULL);
	while (atomic_load(&reads) < 250) /* then it naps */
		sched_yield();
	for (int i = 0; i < 5; i++) {
		pid_t pid;
		int status = -1;

		pid = fork();
		if (!pid)
			_exit(calls_refused());
		CHECK(waitpid(pid, &status, 0) == pid && !status);
	}
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	CHECK(!bad);
	CHECK(!fi_tinject(pair.a.ep, "p", 1, pair.a.self, 1));
	CHECK(next_entry(&pair, &pair.a, &e) == 1 && in == 'p');
	pair_close(&pair);
}

static void test_together(void)
{
	int64_t deadline = now_ms() + TIMEOUT_MS;
	pthread_t thread[THREADS];
	int number[THREADS];
	void *in[THREADS];

	pair_open(&pair, NULL);
	for (int i = 0; i < THREADS; i++) {
		number[i] = i;
		pthread_create(&thread[i], NULL, run_pair, &number[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], &in[i]);
	while (received < THREADS * MESSAGES && now_ms() < deadline) {
		(void)fi_cq_read(pair.a.cq, NULL, 0);
		read_completion();
	}
	CHECK(received == THREADS * MESSAGES);
	for (int i = 0; i < THREADS; i++)
		for (int j = 0; j < MESSAGES; j++)
			bad += ((char *)in[i])[j] != (char)j;
	CHECK(!bad);
	pair_close(&pair);
}

void test_threads(void)
{
	test_together();
	test_forked();
}
