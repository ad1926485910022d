/* SPDX-License-Identifier: MIT */
/* 64 threads at once, then a thousand one after another. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "say.h"

#define THREADS 64

static pthread_barrier_t barrier;
static long ids[THREADS];

static void *run_thread(void *arg)
{
	ids[(intptr_t)arg] = syscall(SYS_gettid);
	pthread_barrier_wait(&barrier);
	sched_yield();
	pthread_barrier_wait(&barrier);
	return arg;
}

static void *add_one(void *arg)
{
	*(int *)arg += 1;
	return NULL;
}

int main(void)
{
	int i, j, same = 0, joined = 0, count = 0;
	pthread_t threads[THREADS];
	void *result;

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, run_thread,
				      (void *)(intptr_t)i));
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		joined += (intptr_t)result == i;
	}
	for (i = 0; i < THREADS; i++)
		for (j = 0; j < i; j++)
			same += ids[i] == ids[j];
	CHECK(joined == THREADS && same == 0);
	CHECK(syscall(SYS_gettid) == getpid());
	for (i = 0; i < 1000; i++) {
		if (pthread_create(&threads[0], NULL, add_one, &count))
			break;
		pthread_join(threads[0], NULL);
	}
	CHECK(i == 1000 && count == 1000);
	return say_done();
}
