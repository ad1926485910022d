/* SPDX-License-Identifier: MIT */
/* errno belongs to each thread and holds the right numbers. */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "say.h"

#define THREADS 6

static pthread_barrier_t barrier;

static int provoke_errno(int which)
{
	switch (which % 4) {
	case 0:
		close(-1);
		return EBADF;
	case 1:
		open("no/such/file", O_RDONLY);
		return ENOENT;
	case 2:
		munmap((void *)1, 4096);
		return EINVAL;
	default:
		open("/dev/null/x", O_RDONLY);
		return ENOTDIR;
	}
}

static void *run_thread(void *arg)
{
	int id = (intptr_t)arg, round, expected;
	intptr_t wrong = 0;

	wrong += errno != 0;
	for (round = 0; round < 200; round++) {
		expected = provoke_errno(id + round);
		if (round % 20 == 0)
			pthread_barrier_wait(&barrier);
		wrong += errno != expected;
		errno = 0;
	}
	return (void *)wrong;
}

int main(void)
{
	pthread_t threads[THREADS];
	void *wrong;
	char byte;
	int i;

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run_thread,
			       (void *)(intptr_t)i);
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &wrong);
		printf("thread %d wrong %d\n", i, (int)(intptr_t)wrong);
	}
	CHECK(FAILS(read(99, &byte, 1), EBADF));
	CHECK(FAILS(write(99, &byte, 1), EBADF));
	CHECK(FAILS(mkdir(".", 0755), EEXIST));
	CHECK(FAILS(chdir("nowhere"), ENOENT));
	CHECK(FAILS(open("", O_RDONLY), ENOENT));
	CHECK(FAILS(open(".", O_WRONLY), EISDIR));
	CHECK(FAILS(read(open(".", O_RDONLY), &byte, 1), EISDIR));
	CHECK(FAILS(lseek(0, 0, 77), EINVAL) || errno == ESPIPE);
	CHECK(FAILS(open((char *)16, O_RDONLY), EFAULT));
	CHECK(FAILS(rmdir("nowhere"), ENOENT));
	CHECK(FAILS(unlink("nowhere"), ENOENT));
	CHECK(FAILS(dup2(99, 5), EBADF));
	CHECK(FAILS(ftruncate(-1, 0), EBADF));
	return say_done();
}
