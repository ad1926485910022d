// SPDX-License-Identifier: MIT
/*
 * Many processes make, open, start, close and release at once, also what is
 * another's: each call succeeds or says why not, and all comes back. Runs as
 * root on a machine with CPUs 0 to 3.
 *
 * usage: lend_race IMAGE ROUNDS
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tap.h"
#include "lend.h"

#define MIB 1048576ull
#define MAKERS 3
#define MEDDLERS 2

static struct {
	volatile u64 made, ran, refused, meddled, newest, over;
	volatile int wrong_line, wrong;
} * all;

static void count_one(volatile u64 *n)
{
	__atomic_add_fetch(n, 1, __ATOMIC_SEQ_CST);
}

/* What a call may answer while others use the same CPUs and partitions. */
static int error_allowed(int err)
{
	return err == -EBUSY || err == -ENOENT || err == -EINVAL ||
	       err == -ENOMEM;
}

static void check_error(int err, int line)
{
	if (err >= 0)
		return;
	if (error_allowed(err)) {
		count_one(&all->refused);
		return;
	}
	all->wrong = err;
	all->wrong_line = line;
}

/* Waits for others to let go of it; they may have released it. */
static void use_part(u32 id, const char *image)
{
	struct lend l;
	int err;

	do
		err = lend_open(&l, id);
	while (err == -EBUSY);
	check_error(err, __LINE__);
	if (err)
		return;
	if (!lend_load(&l, image) && !lend_start(&l) && lend_alive(&l))
		count_one(&all->ran);
	lend_close(&l);
}

static void make_parts(int who, int rounds, const char *image)
{
	int i, id, err;

	for (i = 0; i < rounds; i++) {
		id = lend_create(2 << (who + i) % 3, 16 * MIB, "");
		check_error(id, __LINE__);
		if (id < 0)
			continue;
		count_one(&all->made);
		all->newest = id;
		use_part(id, image);
		do
			err = lend_release(id);
		while (err == -EBUSY);
		check_error(err, __LINE__);
	}
}

/* Opens what is another's, and releases half of it. */
static void meddle_parts(void)
{
	struct lend l;
	int err;
	u32 id;

	while (!all->over) {
		id = all->newest;
		err = lend_open(&l, id);
		check_error(err, __LINE__);
		if (!err) {
			count_one(&all->meddled);
			lend_close(&l);
		}
		if (id % 2)
			check_error(lend_release(id), __LINE__);
	}
}

static pid_t start_process(int who, int rounds, const char *image)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (who < MAKERS)
		make_parts(who, rounds, image);
	else
		meddle_parts();
	exit(0);
}

int main(int argc, char **argv)
{
	static char before[8192], after[8192];
	pid_t pids[MAKERS + MEDDLERS];
	int i, status, good = 1;

	if (argc != 3)
		return 2;
	all = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	lend_look(before, sizeof(before));
	for (i = 0; i < MAKERS + MEDDLERS; i++)
		pids[i] = start_process(i, atoi(argv[2]), argv[1]);
	for (i = 0; i < MAKERS + MEDDLERS; i++) {
		if (i == MAKERS)
			all->over = 1;
		good &= waitpid(pids[i], &status, 0) == pids[i] && !status;
	}
	tap_ok(good, "race: every process came to its end");
	if (!tap_ok(!all->wrong,
		    "race: every call succeeded or gave its reason"))
		printf("# line %d: %d\n", all->wrong_line, all->wrong);
	tap_ok(all->made >= MAKERS && all->ran, "race: some partitions ran");
	printf("# %llu made, %llu ran, %llu refused, %llu opened by others\n",
	       all->made, all->ran, all->refused, all->meddled);
	lend_look(after, sizeof(after));
	if (!tap_ok(!strcmp(before, after),
		    "race: all CPUs and memory are back"))
		printf("# before:\n%s# after:\n%s", before, after);
	return tap_done();
}
