/* SPDX-License-Identifier: MIT */
/* The C library's heap over brk and mmap, also from many threads. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "say.h"

#define SLOTS 512

static int is_filled(const unsigned char *p, size_t size, unsigned char value)
{
	size_t i;

	for (i = 0; i < size; i++)
		if (p[i] != value)
			return 0;
	return 1;
}

static unsigned next_random(unsigned *seed)
{
	return *seed = *seed * 1664525u + 1013904223u;
}

static void *churn_heap(void *arg)
{
	unsigned char *slot[SLOTS] = {0};
	size_t size[SLOTS] = {0};
	unsigned seed = 1 + (uintptr_t)arg;
	intptr_t wrong = 0;
	int i, n;

	for (n = 0; n < 20000; n++) {
		i = (next_random(&seed) >> 8) % SLOTS;
		wrong += !is_filled(slot[i], size[i] > 64 ? 64 : size[i], i);
		size[i] = (next_random(&seed) >> 8) % (n % 50 ? 700 : 90000);
		slot[i] = n & 1 ? realloc(slot[i], size[i] + 1)
				: (free(slot[i]), malloc(size[i] + 1));
		memset(slot[i], i, size[i]);
	}
	for (i = 0; i < SLOTS; i++)
		free(slot[i]);
	return (void *)wrong;
}

static void check_sizes(void)
{
	volatile size_t huge = PTRDIFF_MAX;
	unsigned char *p;
	size_t size;
	int good = 1;

	for (size = 1; size <= 64u << 20; size = size * 3 + 1) {
		p = malloc(size);
		good &= p && ((uintptr_t)p & 15) == 0;
		memset(p, 0x5a, size);
		p = realloc(p, size * 2);
		good &= is_filled(p, size, 0x5a);
		p = realloc(p, size / 2 + 1);
		good &= is_filled(p, size / 2 + 1, 0x5a);
		free(p);
		p = calloc(size, 1);
		good &= is_filled(p, size, 0);
		free(p);
	}
	CHECK(good);
	errno = 0;
	p = malloc(huge);
	CHECK(!p && errno == ENOMEM);
}

static void check_aligned(void)
{
	size_t align;
	void *p = NULL;
	int good = 1;

	for (align = 16; align <= 1 << 20; align *= 2) {
		good &= posix_memalign(&p, align, 1000) == 0;
		good &= ((uintptr_t)p & (align - 1)) == 0;
		memset(p, 1, 1000);
		free(p);
	}
	CHECK(good);
	p = aligned_alloc(4096, 8192);
	CHECK(p && ((uintptr_t)p & 4095) == 0);
	free(p);
}

static void check_mremap(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, prot = PROT_READ | PROT_WRITE;
	unsigned char *p = mmap(NULL, 1 << 20, prot, flags, -1, 0);

	memset(p, 7, 1 << 20);
	p = mremap(p, 1 << 20, 32 << 20, MREMAP_MAYMOVE);
	CHECK(p != MAP_FAILED);
	CHECK(is_filled(p, 1 << 20, 7));
	CHECK(is_filled(p + (1 << 20), 31 << 20, 0));
	CHECK(mremap(p, 32 << 20, 4096, 0) == p);
	CHECK(is_filled(p, 4096, 7));
	CHECK(munmap(p, 4096) == 0);
	errno = 0;
	CHECK(mremap(p + 1, 4096, 8192, 0) == MAP_FAILED && errno == EINVAL);
}

int main(void)
{
	pthread_t threads[6];
	void *wrong;
	int i;

	check_sizes();
	check_aligned();
	check_mremap();
	for (i = 0; i < 6; i++)
		pthread_create(&threads[i], NULL, churn_heap,
			       (void *)(intptr_t)i);
	for (i = 0; i < 6; i++) {
		pthread_join(threads[i], &wrong);
		printf("thread %d wrong %d\n", i, (int)(intptr_t)wrong);
	}
	return say_done();
}
