/* SPDX-License-Identifier: MIT */
/* Threads that map, protect and unmap at the same time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include "say.h"

#define THREADS 6
#define PAGE 4096

static void *run_thread(void *arg)
{
	intptr_t id = (intptr_t)arg, wrong = 0;
	int round, pages, i;

	for (round = 0; round < 400; round++) {
		char *p;

		pages = 2 + (round * 7 + id) % 40;
		p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		wrong += p == MAP_FAILED;
		for (i = 0; i < pages; i++) {
			wrong += p[i * PAGE] != 0;
			p[i * PAGE] = id + i;
		}
		wrong += !!mprotect(p + PAGE, PAGE, PROT_READ);
		for (i = 0; i < pages; i++)
			wrong += p[i * PAGE] != (char)(id + i);
		/*
		 * The middle first, then both sides of it: the hole belongs to
		 * the next mapping.
		 */
		wrong += !!munmap(p + PAGE, PAGE);
		wrong += !!munmap(p, PAGE);
		if (pages > 2)
			wrong += !!munmap(p + 2 * PAGE, (pages - 2) * PAGE);
	}
	return (void *)wrong;
}

int main(void)
{
	pthread_t threads[THREADS];
	void *wrong;
	intptr_t i;

	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run_thread, (void *)i);
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &wrong);
		printf("thread %d wrong %d\n", (int)i, (int)(intptr_t)wrong);
	}
	return say_done();
}
