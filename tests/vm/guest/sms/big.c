// SPDX-License-Identifier: MIT
/*
 * Has far more memory than its partition, and touches little of it, or all.
 *
 * usage: sms_big look|fill|touch|populate|lock|advise
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define MIB (1ul << 20)
#define GIB (1ul << 30)
#define SOME (32 * MIB)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static volatile char bss[1200 * MIB];

static volatile char *map_memory(unsigned long bytes, int flags)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Both ends of it, which are zero before. */
static int touch_ends(volatile char *at, unsigned long bytes)
{
	int was = !at || at[0] || at[bytes - 1];

	if (was)
		return 0;
	at[0] = at[bytes - 1] = 1;
	return 1;
}

static int print_memory(void)
{
	printf("bss %d\n", touch_ends(bss, sizeof(bss)));
	printf("8 GiB %d\n",
	       touch_ends(map_memory(8 * GIB, MAP_NORESERVE), 8 * GIB));
	printf("2 TiB %d\n",
	       touch_ends(map_memory(2048 * GIB, MAP_NORESERVE), 2048 * GIB));
	return 0;
}

static int use_memory(const char *how)
{
	volatile char *at =
		map_memory(SOME, strcmp(how, "populate") ? 0 : MAP_POPULATE);
	unsigned long i;
	int err = !at;

	if (!strcmp(how, "lock"))
		err |= mlock((void *)at, SOME);
	if (!strcmp(how, "advise"))
		err |= madvise((void *)at, SOME, MADV_POPULATE_WRITE);
	for (i = 0; !err && i < SOME; i += 4096)
		at[i] = 1;
	printf("used %d\n", err);
	return err;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "look"))
		return print_memory();
	if (strcmp(argv[1], "fill"))
		return use_memory(argv[1]);
	memset((void *)bss, 1, sizeof(bss));
	return 0;
}
