/* SPDX-License-Identifier: MIT */
/*
 * One thread unmaps and maps a page again while another one hands it to calls
 * that read and write it. Each must succeed or answer EFAULT; none may hang.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1, FUTEX_CMP_REQUEUE = 4 };

static void *page;
static volatile int done;

static void map_page(void)
{
	mmap(page, 4096, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void *flip_page(void *arg)
{
	while (!done) {
		munmap(page, 4096);
		map_page();
	}
	return arg;
}

static int result_bad(long ret)
{
	return ret < 0 && errno != EFAULT && errno != EAGAIN &&
	       errno != ETIMEDOUT;
}

int main(void)
{
	struct timespec none = {0, 1};
	int i, wrong = 0, local = 0;
	pthread_t thread;

	page = mmap(0, 4096, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_create(&thread, 0, flip_page, 0);
	for (i = 0; i < 30000; i++) {
		wrong |= result_bad(
			syscall(SYS_futex, page, FUTEX_WAIT, 1, &none));
		wrong |= result_bad(syscall(SYS_futex, page, FUTEX_WAKE, 1));
		wrong |= result_bad(syscall(SYS_futex, &local,
					    FUTEX_CMP_REQUEUE, 1, 1, page, 0));
		wrong |= result_bad(syscall(SYS_clock_gettime, 1, page));
		wrong |= result_bad(syscall(SYS_uname, page));
	}
	done = 1;
	pthread_join(thread, 0);
	printf("wrong %d\n", wrong);
	return wrong;
}
