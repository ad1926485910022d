/* SPDX-License-Identifier: MIT */
/* Deep recursion: on the first stack, and on a thread's of 256 MB. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/resource.h>
#include "say.h"

__attribute__((noinline)) static unsigned recurse_down(unsigned n)
{
	volatile unsigned char frame[1000];

	frame[0] = n;
	frame[999] = n >> 8;
	if (n == 0)
		return 0;
	return recurse_down(n - 1) + frame[0] + frame[999];
}

static void *run_thread(void *arg)
{
	return (void *)(uintptr_t)recurse_down((uintptr_t)arg);
}

int main(void)
{
	pthread_attr_t attr;
	struct rlimit limit;
	pthread_t id;
	void *sum = NULL;

	CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
	CHECK(limit.rlim_cur >= 8 << 20);
	printf("%u\n", recurse_down(7000));
	pthread_attr_init(&attr);
	CHECK(pthread_attr_setstacksize(&attr, 256 << 20) == 0);
	CHECK(!pthread_create(&id, &attr, run_thread, (void *)200000ul));
	CHECK(!pthread_join(id, &sum));
	printf("%u\n", (unsigned)(uintptr_t)sum);
	return say_done();
}
