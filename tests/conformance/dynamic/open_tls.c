/* SPDX-License-Identifier: MIT */
/*
 * Thread-local variables of a library that is opened while threads run: each
 * thread has its own, with its first value, also threads that are older than
 * the library.
 */
int *part_counter(void);
char *part_space(void);

#ifdef PART
static __thread int counter = 40;
static __thread char space[5000] = "first";

int *part_counter(void)
{
	return &counter;
}

char *part_space(void)
{
	return space;
}
#else
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include "../c/say.h"

enum { THREADS = 6 };

static pthread_barrier_t both;
static int *(*counter)(void);
static char *(*space)(void);
static int *seen[THREADS];
static int good[THREADS];

static void *run_thread(void *arg)
{
	long i = (long)arg;

	pthread_barrier_wait(&both); /* the thread is there, */
	pthread_barrier_wait(&both); /* and then the library */
	if (!counter || !space)
		return NULL;
	good[i] =
		*counter() == 40 && !strcmp(space(), "first") && !space()[4999];
	*counter() += (int)i;
	space()[4999] = (char)i;
	seen[i] = counter();
	pthread_barrier_wait(&both); /* all have written */
	good[i] &= *counter() == 40 + i && space()[4999] == (char)i;
	pthread_barrier_wait(&both); /* all have looked */
	return NULL;
}

static int all_good(void)
{
	int i, j, ok = 1;

	for (i = 0; i < THREADS; i++) {
		ok &= good[i];
		for (j = 0; j < i; j++)
			ok &= seen[i] != seen[j];
	}
	return ok;
}

static void try_library(const char *name)
{
	pthread_t thread[THREADS];
	void *library;
	long i;

	pthread_barrier_init(&both, NULL, THREADS + 1);
	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, run_thread, (void *)i));
	pthread_barrier_wait(&both);
	library = dlopen(name, RTLD_NOW);
	CHECK(library);
	counter = (int *(*)(void))dlsym(library, "part_counter");
	space = (char *(*)(void))dlsym(library, "part_space");
	pthread_barrier_wait(&both);
	pthread_barrier_wait(&both);
	pthread_barrier_wait(&both);
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	CHECK(all_good());
	CHECK(*counter() == 40);
	CHECK(!dlclose(library));
	pthread_barrier_destroy(&both);
}

int main(void)
{
	int i;

	for (i = 0; i < 5; i++)
		try_library("libopen_tls.so");
	try_library("libopen_tls-gnu2.so");
	return say_done();
}
#endif
