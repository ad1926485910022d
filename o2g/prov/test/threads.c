/* SPDX-License-Identifier: MIT */
/* Several threads on one endpoint and one queue. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "pair.h"

enum { THREADS = 4, MESSAGES = 500 };

static struct pair pair;
static atomic_int received, bad;

/* Takes whatever has completed at b, also for the other threads. */
static void take(void)
{
	struct fi_cq_tagged_entry e;
	ssize_t n = fi_cq_read(pair.b.cq, &e, 1);

	if (n == 1)
		atomic_fetch_add(&received, 1);
	else if (n != -FI_EAGAIN)
		atomic_fetch_add(&bad, 1);
}

static void *work(void *arg)
{
	static char in[THREADS][MESSAGES];
	int me = *(int *)arg;

	for (int i = 0; i < MESSAGES; i++) {
		char out = (char)i;
		ssize_t n;

		while ((n = fi_trecv(pair.b.ep, &in[me][i], 1, NULL,
				     pair.b.other, (uint64_t)me, 0,
				     &in[me][i])) == -FI_EAGAIN)
			take();
		atomic_fetch_add(&bad, n != 0);
		while ((n = fi_tinject(pair.a.ep, &out, 1, pair.a.other,
				       (uint64_t)me)) == -FI_EAGAIN)
			(void)fi_cq_read(pair.a.cq, NULL, 0);
		atomic_fetch_add(&bad, n != 0);
		take();
	}
	return in[me];
}

void test_threads(void)
{
	int64_t deadline = now_ms() + PATIENCE_MS;
	pthread_t thread[THREADS];
	int number[THREADS];
	void *in[THREADS];

	pair_open(&pair, NULL);
	for (int i = 0; i < THREADS; i++) {
		number[i] = i;
		pthread_create(&thread[i], NULL, work, &number[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], &in[i]);
	while (received < THREADS * MESSAGES && now_ms() < deadline) {
		(void)fi_cq_read(pair.a.cq, NULL, 0);
		take();
	}
	CHECK(received == THREADS * MESSAGES);
	for (int i = 0; i < THREADS; i++)
		for (int j = 0; j < MESSAGES; j++)
			bad += ((char *)in[i])[j] != (char)j;
	CHECK(!bad);
	pair_close(&pair);
}
