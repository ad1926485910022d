// SPDX-License-Identifier: MIT
/*
 * Leaves a secret wherever a program can leave one, and ends, or waits for
 * somebody who kills it. The second argument and the environment hold it too.
 *
 * usage: sms_secret end|wait TEXT
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* "SECRETS!" in memory. */
#define SECRET 0x2153544552434553ul
#define MIB (1ul << 20)

static unsigned long in_data[1024] = {SECRET};
static unsigned long in_bss[1024];

static void put_secret(volatile unsigned long *at, unsigned long bytes)
{
	unsigned long i;

	for (i = 0; i < bytes / 8; i++)
		at[i] = SECRET;
}

static void *on_stack(void *arg)
{
	unsigned long deep[8192];

	put_secret(deep, sizeof(deep));
	__asm__ volatile("" : : "r"(deep) : "memory");
	return arg;
}

static void *map_pages(unsigned long bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		exit(1);
	put_secret(at, bytes);
	return at;
}

/* What memory is called is in tables of the kernel's: at an address that
 * spells half of the secret.
 */
static void map_at_secret(void)
{
	unsigned long at = 0x200000000000ul | (SECRET & 0xfffffff000ul);

	mmap((void *)at, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void on_signal(int sig)
{
	(void)sig;
}

/* In vector registers, as a signal comes: they are saved on both sides. */
static void keep_in_vector(void)
{
	unsigned long two[2] = {SECRET, SECRET};

	signal(SIGUSR1, on_signal);
	__asm__ volatile("movdqu %0, %%xmm7\n\t"
			 "syscall"
			 :
			 : "m"(two), "a"(39)
			 : "rcx", "r11", "xmm7", "memory");
	raise(SIGUSR1);
}

static int write_streams(void)
{
	FILE *f = tmpfile();
	int p[2];

	put_secret(in_bss, sizeof(in_bss));
	if (pipe(p) || write(p[1], in_bss, 4096) != 4096)
		return 1;
	return !f || fwrite(in_bss, sizeof(in_bss), 1, f) != 1 || fflush(f);
}

int main(int argc, char **argv)
{
	pthread_t t;
	void *gone;
	int i;

	if (argc != 3 || setenv("AGAIN", argv[2], 1))
		return 2;
	in_data[1] = in_data[0];
	put_secret(malloc(MIB), MIB);
	gone = map_pages(4 * MIB);
	put_secret(malloc(100), 100);
	for (i = 0; i < 20; i++)
		map_pages(4096);
	munmap(gone, 4 * MIB);
	on_stack(NULL);
	if (!pthread_create(&t, NULL, on_stack, NULL))
		pthread_join(t, NULL);
	map_at_secret();
	keep_in_vector();
	if (write_streams())
		return 1;
	puts("planted");
	fflush(stdout);
	if (!strcmp(argv[1], "wait"))
		pause();
	return 0;
}
