// SPDX-License-Identifier: MIT
/*
 * Memory that lies scattered: huge pages hold every other block of 2 MiB while
 * a partition named "scattered" is made of what lies between them. It stays.
 *
 * usage: lend_scatter IMAGE
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../tap.h"
#include "lend.h"

#define MIB 1048576ull
#define BLOCK (2 * MIB)
#define CPUS 0xc   /* 2 and 3 */
#define PIECES 260 /* more than a list once had */

static const char pages[] = "/proc/sys/vm/nr_hugepages";

static u64 number_in(const char *path, const char *word)
{
	char line[128];
	u64 n = 0;
	FILE *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, word, strlen(word)))
			sscanf(line + strlen(word), "%llu", &n);
	if (f)
		fclose(f);
	return n;
}

/* Which block of the machine's memory lies at an address of ours. */
static u64 block_of(const void *at)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	u64 entry = 0;

	if (pread(fd, &entry, 8, (u64)at / 4096 * 8) != 8)
		entry = 0;
	close(fd);
	return (entry & ((1ull << 55) - 1)) / 512;
}

static int write_number(const char *path, u64 n)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", n);
	return lend_write(path, text);
}

/* Nine tenths of what is free as huge pages, then every other one free again;
 * how many are left.
 */
static u64 scatter_memory(void)
{
	u64 want = number_in("/proc/meminfo", "MemFree:") / 2048 * 9 / 10, i;
	u64 kept = 0;
	u8 *at;

	lend_write("/proc/sys/vm/compact_memory", "1");
	write_number(pages, want);
	want = number_in("/proc/meminfo", "HugePages_Total:");
	at = mmap(NULL, want * BLOCK, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_POPULATE, -1,
		  0);
	if (at == MAP_FAILED)
		return 0;
	for (i = 0; i < want; i++) {
		if (block_of(at + i * BLOCK) % 2)
			kept++;
		else
			munmap(at + i * BLOCK, BLOCK);
	}
	write_number(pages, kept);
	return kept;
}

/* A word in each block by the proxy; the image counts them. */
static void test_scattered(u32 id, const char *image)
{
	struct lend l;
	u64 at;

	if (!tap_ok(!lend_open(&l, id), "scattered: a proxy maps it"))
		return;
	for (at = 0; at < l.open.pool; at += BLOCK)
		*(u64 *)(l.pool + at + at / BLOCK % 512 * 4096) = 1;
	tap_ok(!lend_load(&l, image) && !lend_start(&l) && lend_alive(&l) &&
		       lend_command(&l, 0, SLOT_SUM) &&
		       lend_slot(&l, 0)->dirty == l.open.pool / BLOCK,
	       "scattered: the image finds what the proxy wrote");
	printf("# %llu words, %llu blocks\n", lend_slot(&l, 0)->dirty,
	       l.open.pool / BLOCK);
	if (!tap_ok(lend_slot(&l, 0)->ranges > PIECES,
		    "scattered: it lies in hundreds of pieces"))
		printf("# %llu ranges\n", lend_slot(&l, 0)->ranges);
	tap_ok(lend_command(&l, 0, SLOT_FILL) && !lend_stop(&l),
	       "scattered: the image writes to all of it");
	for (at = 0; at < l.open.pool && *(u64 *)(l.pool + at) == SLOT_SECRET;)
		at += 4096;
	tap_ok(at == l.open.pool,
	       "scattered: the proxy finds what the image wrote");
	lend_close(&l);
}

int main(int argc, char **argv)
{
	u64 kept, bytes;
	int id;

	if (argc != 2)
		return 2;
	kept = scatter_memory();
	if (!tap_ok(kept > PIECES + 20, "scattered: every other block is held"))
		printf("# %llu huge pages\n", kept);
	bytes = (kept - 10) * BLOCK;
	id = lend_create(CPUS, bytes, "scattered");
	if (tap_ok(id > 0, "scattered: the blocks between them are lent"))
		test_scattered((u32)id, argv[1]);
	else
		printf("# %llu MiB: %s\n", bytes / MIB, lend_why);
	write_number(pages, 0);
	return tap_done();
}
