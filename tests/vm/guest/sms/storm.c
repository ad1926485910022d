// SPDX-License-Identifier: MIT
/*
 * storm FILE: interrupts between processors, for as long as FILE is there:
 * mappings of a process on two processors change, and membarrier reaches all.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MEMBARRIER_GLOBAL_EXPEDITED 2
#define MEMBARRIER_REGISTER_GLOBAL_EXPEDITED 4

static volatile int over;

static void *touch_page(void *page)
{
	while (!over)
		*(volatile char *)page;
	return NULL;
}

int main(int argc, char **argv)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long n = 0;
	pthread_t t;

	if (argc != 2 || page == MAP_FAILED ||
	    syscall(SYS_membarrier, MEMBARRIER_REGISTER_GLOBAL_EXPEDITED, 0, 0))
		return 1;
	if (pthread_create(&t, NULL, touch_page, page))
		return 1;
	while (!access(argv[1], F_OK)) {
		*(volatile char *)page = 1;
		mprotect(page, 4096, PROT_READ);
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
		if (syscall(SYS_membarrier, MEMBARRIER_GLOBAL_EXPEDITED, 0, 0))
			return 1;
		n++;
	}
	over = 1;
	pthread_join(t, NULL);
	printf("storms %lu\n", n);
	return 0;
}
