// SPDX-License-Identifier: MIT
/*
 * Partitions come, run and go; the machine is whole afterwards.
 *
 * usage: lend_cycle IMAGE CYCLES RUNS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../tap.h"
#include "lend.h"

#define MIB 1048576ull
#define CPUS 0xc /* 2 and 3 */

/* 0, or the line of what went wrong. */
static int run_image(u32 id, const char *image)
{
	struct lend l;
	u32 seen = 0, i;
	int line = 0;

	if (lend_open(&l, id))
		return __LINE__;
	if (lend_load(&l, image) || lend_start(&l))
		line = __LINE__;
	else if (!lend_alive(&l))
		line = __LINE__;
	for (i = 0; i < l.open.cores && !line; i++) {
		lend_slot(&l, i)->command = SLOT_RING;
		if (lend_wait(&l, &seen, 60000))
			line = __LINE__;
	}
	if (!line && lend_stop(&l))
		line = __LINE__;
	lend_close(&l);
	return line;
}

static int run_cycle(const char *image)
{
	int id = lend_create(CPUS, 64 * MIB, ""), line;

	if (id < 0)
		return __LINE__;
	line = run_image(id, image);
	if (lend_release(id))
		line = line ? line : __LINE__;
	return line;
}

int main(int argc, char **argv)
{
	static char before[8192], after[8192];
	int i, id, line = 0, cycles, runs;

	if (argc != 4)
		return 2;
	cycles = atoi(argv[2]);
	runs = atoi(argv[3]);
	lend_look(before, sizeof(before));
	for (i = 0; i < cycles && !line; i++) {
		line = run_cycle(argv[1]);
		if (i % 100 != 99)
			continue;
		lend_look(after, sizeof(after));
		printf("# %d cycles: the machine is %s\n", i + 1,
		       strcmp(before, after) ? "CPUs or memory are missing"
					     : "whole");
		fflush(stdout);
	}
	if (!tap_ok(!line, "cycles of create, run and release"))
		printf("# cycle %d, line %d: %s\n", i, line, lend_why);
	id = lend_create(CPUS, 64 * MIB, "often");
	line = id < 0 ? __LINE__ : 0;
	for (i = 0; i < runs && !line; i++)
		line = run_image(id, argv[1]);
	if (!tap_ok(!line, "runs on one partition"))
		printf("# run %d, line %d: %s\n", i, line, lend_why);
	tap_ok(!lend_release(id), "the partition that ran is released");
	lend_look(after, sizeof(after));
	if (!tap_ok(!strcmp(before, after), "all CPUs and memory are back"))
		printf("# before:\n%s# after:\n%s", before, after);
	return tap_done();
}
