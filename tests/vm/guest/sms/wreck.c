// SPDX-License-Identifier: MIT
/* Ends badly, in the way that it is told. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile int go;
static int *volatile nowhere = (int *)8;

static void on_segv(int sig)
{
	(void)sig;
	puts("caught");
	fflush(stdout);
	_exit(3);
}

/* No processor can go to this handler, not even to fault there. */
static void set_wild_handler(void)
{
	signal(SIGTRAP, (void (*)(int))(1ul << 63));
	__asm__ volatile("int3");
}

static void on_user(int sig)
{
	(void)sig;
	go = 2;
}

static void *spin_thread(void *arg)
{
	(void)arg;
	go = 1;
	while (go != 2)
		;
	return NULL;
}

/* Takes a page away from a thread that writes to it on another core. */
static void *hammer_page(void *page)
{
	go = 1;
	while (go == 1)
		*(volatile int *)page = 1;
	return NULL;
}

static int run_kick(void)
{
	pthread_t t;

	signal(SIGUSR1, on_user);
	if (pthread_create(&t, NULL, spin_thread, NULL))
		return 1;
	while (!go)
		;
	pthread_kill(t, SIGUSR1);
	pthread_join(t, NULL);
	puts("kicked");
	return 0;
}

static int run_protect(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t t;

	signal(SIGSEGV, on_segv);
	if (page == MAP_FAILED || pthread_create(&t, NULL, hammer_page, page))
		return 1;
	while (!go)
		;
	mprotect(page, 4096, PROT_READ);
	pthread_join(t, NULL); /* the handler ends the process */
	return 1;
}

static int run_pipes(void)
{
	static char all[100000];
	int p[2], n;

	if (pipe(p) || write(p[1], "x", 1) != 1)
		return 1;
	n = (int)read(p[0], all, sizeof(all));
	printf("pipe %d\n", n);
	return 0;
}

static void *return_at_once(void *arg)
{
	return arg;
}

static int run_threads(void)
{
	pthread_t t;
	int i;

	for (i = 0; i < 200; i++) {
		if (pthread_create(&t, NULL, return_at_once, NULL) ||
		    pthread_join(t, NULL))
			return 1;
	}
	printf("threads %d\n", i);
	return 0;
}

static int run_memory(void)
{
	volatile char *p;
	unsigned long i;

	for (i = 0; i < 100000; i++) {
		p = malloc(1 << 20);
		if (!p)
			break;
		memset((void *)p, 1, 1 << 20);
	}
	printf("memory %d\n", (int)(i > 10));
	return 0;
}

/* Every page of so many MiB holds its number. */
static int fill_memory(unsigned long mib)
{
	unsigned long pages = mib << 8, i;
	unsigned long *at = mmap(NULL, mib << 20, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return 1;
	for (i = 0; i < pages; i++) {
		if (at[i * 512] || at[i * 512 + 511])
			return 2;
		at[i * 512] = at[i * 512 + 511] = ~i;
	}
	for (i = 0; i < pages; i++)
		if (at[i * 512] != ~i || at[i * 512 + 511] != ~i)
			return 3;
	printf("filled %lu MiB\n", mib);
	return 0;
}

/* Where the compute kernel is: docs/design/sms.md, and beyond. */
static const unsigned long kernel[] = {
	0xffff800000000000, /* the pool */
	0xffffffff80000000, /* text */
	0xffffffff80001000, 0xffffffff80040000, 0xffffffffc0000000, /* tables */
	0xffffffffd001f000,					    /* stacks */
	0xffffffffe0000000, /* the mailbox */
	0xfffffffffee00000, /* the local APIC */
	0x0000800000000000, /* no address at all */
};

static sigjmp_buf back;

static void on_kept(int sig)
{
	siglongjmp(back, sig);
}

/* 1: the instruction had no effect but SIGSEGV. */
static int is_kept(unsigned long at, int how)
{
	volatile char *byte = (volatile char *)at;

	if (sigsetjmp(back, 1))
		return 1;
	if (how == 0)
		(void)*byte;
	else if (how == 1)
		*byte = 0;
	else
		((void (*)(void))at)();
	return 0;
}

/* The program reads, writes and executes the kernel's memory, and has calls
 * read and write there. */
static int run_hostile(void)
{
	int zero = open("/etc/passwd", O_RDONLY), p[2], kept = 0, calls = 0;
	unsigned i, how;

	signal(SIGSEGV, on_kept);
	signal(SIGBUS, on_kept);
	if (zero < 0 || pipe(p))
		return 1;
	for (i = 0; i < sizeof(kernel) / sizeof(kernel[0]); i++) {
		for (how = 0; how < 3; how++)
			kept += is_kept(kernel[i], (int)how);
		calls += pread(zero, (void *)kernel[i], 8, 0) == -1 &&
			 errno == EFAULT;
		calls += write(p[1], (void *)kernel[i], 8) == -1 &&
			 errno == EFAULT;
		/* from the program's last page into the kernel's */
		calls += write(p[1], (void *)(kernel[i] - 4), 8) == -1 &&
			 errno == EFAULT;
	}
	printf("kept %d of %u, refused %d of %u\n", kept, 3 * i, calls, 3 * i);
	return 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	if (!strcmp(how, "fill"))
		return fill_memory(strtoul(argv[2], NULL, 10));
	if (!strcmp(how, "null"))
		*nowhere = 1;
	if (!strcmp(how, "catch")) {
		signal(SIGSEGV, on_segv);
		*nowhere = 1;
	}
	if (!strcmp(how, "privileged"))
		__asm__ volatile("cli");
	if (!strcmp(how, "trap"))
		__asm__ volatile("int3");
	if (!strcmp(how, "wild"))
		set_wild_handler();
	if (!strcmp(how, "kick"))
		return run_kick();
	if (!strcmp(how, "protect"))
		return run_protect();
	if (!strcmp(how, "hostile"))
		return run_hostile();
	if (!strcmp(how, "pipe"))
		return run_pipes();
	if (!strcmp(how, "threads"))
		return run_threads();
	if (!strcmp(how, "memory"))
		return run_memory();
	if (!strcmp(how, "spin"))
		for (;;)
			;
	return 0;
}
