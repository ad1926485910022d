// SPDX-License-Identifier: MIT
/*
 * Stops that nobody helps with, and what is left in memory. Runs as root on a
 * machine with CPUs 0 to 3, without init_on_alloc, so that Linux clears
 * nothing for us.
 *
 * usage: lend_force IMAGE
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../tap.h"
#include "lend.h"

#define MIB 1048576ull
#define CPUS 0xc
#define USER 1000
#define DIRECT_MAP 0xffff888000000000ull /* guests boot with nokaslr */

static const char *image;
static int id;

static int begin_image(struct lend *l)
{
	return !lend_open(l, id) && !lend_load(l, image) && !lend_start(l) &&
	       lend_alive(l);
}

static int count_nonzero(const u8 *at, u64 length)
{
	const u64 *word = (const u64 *)at;
	u64 i;
	int found = 0;

	for (i = 0; i < length / 8; i++)
		found += word[i] != 0;
	return found;
}

static int part_is_idle(void)
{
	struct shimos_info info;

	return !lend_info(id, &info) && info.state == SHIMOS_IDLE &&
	       !info.proxy;
}

static int check_idle(void *unused)
{
	(void)unused;
	return part_is_idle();
}

static void test_stops(void)
{
	static const struct {
		const char *name;
		enum slot_command command;
	} states[] = {{"runs", SLOT_WAIT},
		      {"spins with interrupts off", SLOT_SPIN},
		      {"is halted", SLOT_HALT},
		      {"takes interrupts", SLOT_INTERRUPT}};
	struct lend l;
	u64 alive;
	u32 i;

	for (i = 0; i < 4; i++) {
		if (!tap_ok(begin_image(&l), "stop: boots, %s", states[i].name))
			continue;
		lend_slot(&l, 0)->command = states[i].command;
		lend_slot(&l, 1)->command = states[i].command;
		tap_ok(!lend_stop(&l), "stop: a core that %s", states[i].name);
		alive = lend_slot(&l, 0)->alive;
		usleep(20000);
		tap_ok(alive == lend_slot(&l, 0)->alive,
		       "stop: no core of it runs, %s", states[i].name);
		lend_close(&l);
		tap_ok(part_is_idle(), "stop: idle again, %s", states[i].name);
	}
}

/* How far a proxy goes before it is killed. */
static void run_proxy(int stage, int out)
{
	struct lend l;
	u32 seen = 0;

	if (stage > 0 && lend_open(&l, id))
		_exit(1);
	if (stage > 1 && lend_load(&l, image))
		_exit(1);
	if (stage == 3 && write(out, "x", 1) == 1)
		lend_start(&l); /* killed somewhere in there */
	if (stage > 3 && (lend_start(&l) || !lend_alive(&l)))
		_exit(1);
	if (stage == 5)
		lend_slot(&l, 1)->command = SLOT_SPIN;
	if (stage == 6)
		lend_slot(&l, 0)->command = SLOT_FILL;
	if (write(out, "x", 1) != 1)
		_exit(1);
	if (stage == 4)
		lend_wait(&l, &seen, 600000);
	pause();
}

static void test_kills(void)
{
	static const char *const stages[] = {
		"before it opens",    "when it has opened",
		"with an image",      "as it starts",
		"while it waits",     "while a core spins",
		"while a core writes"};
	struct shimos_info info;
	char c;
	int i, pipes[2];
	pid_t pid;

	for (i = 0; i < 7; i++) {
		if (pipe(pipes))
			exit(1);
		pid = fork();
		if (!pid)
			run_proxy(i, pipes[1]);
		close(pipes[1]);
		tap_ok(read(pipes[0], &c, 1) == 1, "kill: a proxy %s",
		       stages[i]);
		close(pipes[0]);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		tap_ok(lend_until(check_idle, NULL), "kill: idle again, %s",
		       stages[i]);
	}
	tap_ok(!lend_info(id, &info) && strstr(info.end, "proxy ended"),
	       "kill: the list shows how the proxy ended");
}

/* A process that makes and releases dies wherever it may be just then. */
static void test_creators(void)
{
	int i, n, all = 1;
	pid_t pid;

	for (i = 0; i < 6; i++) {
		pid = fork();
		while (!pid) {
			n = lend_create(2, 32 * MIB, "");
			if (n < 0 || lend_release(n))
				_exit(1);
		}
		usleep(30000 + i * 45000);
		kill(pid, SIGKILL);
		all &= waitpid(pid, &n, 0) == pid && WIFSIGNALED(n);
		for (n = id + 1; n < id + 1000; n++)
			lend_release(n); /* what it had made */
	}
	tap_ok(all, "creators: are killed while they create and release");
	n = open("/sys/devices/system/cpu/cpu1/online", O_RDONLY);
	tap_ok(read(n, &all, 1) == 1 && (all & 0xff) == '1',
	       "creators: the CPU is back in Linux");
	close(n);
	n = lend_create(2, 32 * MIB, "");
	tap_ok(n > 0 && !lend_release(n), "creators: all CPUs can be lent");
}

/* One user's programs after one another: the image and the proxy find what is
 * promised to be clear, and the pool as it was left.
 */
static void test_memory(void)
{
	struct lend l;
	u32 run;

	for (run = 0; run < 2; run++) {
		tap_ok(begin_image(&l) && lend_command(&l, 0, SLOT_SUM) &&
			       lend_slot(&l, 0)->dirty <= l.open.pool / 8,
		       "memory: kernel region clear for run %u", run);
		tap_ok(lend_command(&l, 0, SLOT_FILL) &&
			       lend_command(&l, 0, SLOT_SUM) &&
			       lend_slot(&l, 0)->dirty > 5 * MIB,
		       "memory: run %u writes its pattern", run);
		lend_close(&l);
		tap_ok(!lend_open(&l, id) &&
			       !count_nonzero(l.mail, l.open.mail),
		       "memory: mail clear for the next proxy %u", run);
		memset(l.mail, 1, l.open.mail);
		lend_close(&l);
	}
	tap_ok(!lend_open(&l, id) && !count_nonzero(l.mail, l.open.mail),
	       "memory: mail clear after a proxy that started nothing");
	lend_close(&l);
}

/* What f gives as an ordinary user. */
static int as_user(int (*f)(void))
{
	int *got = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0),
	    result;
	pid_t pid = fork();

	if (!pid) {
		*got = -1;
		if (!setgroups(0, NULL) && !setgid(USER) && !setuid(USER))
			*got = f();
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	result = *got;
	munmap(got, 4096);
	return result;
}

static int create_own(void)
{
	return lend_create(CPUS, 64 * MIB, "shared");
}

/* 0: all is clear. Leaves traces, in some blocks only. */
static int look_and_leave(void)
{
	struct lend l;
	u64 at;
	int found;

	if (lend_open(&l, id))
		return -1;
	found = count_nonzero(l.mail, l.open.mail) +
		count_nonzero(l.pool, l.open.pool);
	memset(l.mail, 1, l.open.mail);
	for (at = 0; at < l.open.pool; at += 6 * MIB + 4096)
		*(u64 *)(l.pool + at) = SLOT_SECRET;
	lend_close(&l);
	return found;
}

/* How many words that this user left are there. */
static int look_again(void)
{
	struct lend l;
	int found = lend_open(&l, id) ? -1 : count_nonzero(l.pool, l.open.pool);

	lend_close(&l);
	return found;
}

/* Root and a user in turn on one partition. */
static void test_two_owners(void)
{
	struct lend l;
	u32 turn;

	tap_ok(!lend_release(id) && !lend_allow(USER, CPUS, 64 * MIB),
	       "owners: a user may have a partition");
	id = as_user(create_own);
	for (turn = 0; turn < 2; turn++) {
		tap_ok(begin_image(&l) && lend_command(&l, 0, SLOT_SUM) &&
			       lend_slot(&l, 0)->dirty == 0,
		       "owners: root's image finds no secret, turn %u", turn);
		tap_ok(lend_command(&l, 0, SLOT_FILL) && !lend_stop(&l),
		       "owners: root's image leaves secrets, turn %u", turn);
		memset(l.mail, 1, l.open.mail);
		lend_close(&l);
		tap_ok(as_user(look_and_leave) == 0,
		       "owners: the user finds no secret of root, turn %u",
		       turn);
		tap_ok(as_user(look_again) > 5,
		       "owners: the user finds only secrets of his own, "
		       "turn %u",
		       turn);
	}
	tap_ok(!lend_release(id) && !lend_allow(~0u, 0, 0), "owners: released");
	id = lend_create(CPUS, 64 * MIB, "force");
}

/* Words of the pattern in Linux's own view of so many bytes, or -1. */
static long count_pattern(u64 at, u64 length)
{
	static u64 words[65536];
	struct {
		u8 magic[16];
		u16 type, machine;
		u32 version;
		u64 entry, phoff, shoff;
		u32 flags;
		u16 ehsize, phentsize, phnum;
	} head;
	struct {
		u32 type, flags;
		u64 offset, virt, phys, filesz, memsz, align;
	} p;
	int fd = open("/proc/kcore", O_RDONLY), i;
	long n = 0;
	u64 w;

	if (pread(fd, &head, sizeof(head), 0) != sizeof(head))
		return -1;
	for (i = 0; i < head.phnum; i++) {
		if (pread(fd, &p, sizeof(p), head.phoff + i * sizeof(p)) !=
		    sizeof(p))
			return -1;
		if (p.virt <= at && at + length <= p.virt + p.memsz)
			break;
	}
	if (i == head.phnum || length > sizeof(words) ||
	    pread(fd, words, length, p.offset + (at - p.virt)) != (long)length)
		return -1;
	close(fd);
	for (w = 0; w < length / 8; w++)
		n += words[w] == SLOT_SECRET;
	return n;
}

/* What image and proxy leave cannot be read when Linux has the memory again. */
static void way_out(void)
{
	u64 pool, kernel, mail, length = 524288;
	struct lend l;
	long before, after;

	if (!tap_ok(begin_image(&l) && lend_command(&l, 0, SLOT_FILL),
		    "way out: an image leaves its secret"))
		return;
	pool = DIRECT_MAP + lend_slot(&l, 0)->pool;
	kernel = DIRECT_MAP + lend_slot(&l, 0)->kernel;
	mail = DIRECT_MAP + lend_slot(&l, 0)->mail + l.open.mail - 4096;
	memcpy(l.mail + l.open.mail - 4096, l.pool, 4096);
	before = count_pattern(pool, length) + count_pattern(kernel, length);
	before += count_pattern(mail, 4096);
	lend_close(&l);
	tap_ok(!lend_release(id), "way out: released");
	after = count_pattern(pool, length) + count_pattern(kernel, length);
	after += count_pattern(mail, 4096);
	if (!tap_ok(before == (long)(2 * length + 4096) / 8 && after == 0,
		    "way out: the secret of pool, kernel and mail is gone"))
		printf("# %ld words before, %ld after\n", before, after);
}

/* Most of what is free in Linux holds the secret, then is free again. */
static void fill_free_memory(void)
{
	char line[128];
	u64 kib = 0, i, *at;
	FILE *f = fopen("/proc/meminfo", "r");
	pid_t pid;

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "MemFree: %llu", &kib);
	if (f)
		fclose(f);
	pid = fork();
	if (!pid) {
		at = mmap(NULL, kib * 922, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (i = 0; i < kib * 922 / 8; i++)
			at[i] = SLOT_SECRET;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* Which of the places that were lent before this is, or -1. */
static int place_of(const u64 *place, int places, u64 at)
{
	int i;

	for (i = 0; i < places && place[i] != at; i++)
		;
	return i < places ? i : -1;
}

/* What Linux left in the memory is not seen: memory is lent twice, and soiled
 * in between. Linux gives one of a few places, mostly the last one.
 */
static void way_in(void)
{
	u64 place[10], at = 0, length = 524288;
	long dirt[10] = {0};
	struct lend l;
	int i, j, again = -1;

	for (i = 0; i < 10 && again < 0; i++) {
		if (i > 0) {
			lend_close(&l);
			lend_release(id);
			fill_free_memory();
			for (j = 0; j < i; j++)
				dirt[j] = count_pattern(DIRECT_MAP + place[j],
							length);
		}
		id = lend_create(CPUS, 64 * MIB, "in");
		at = begin_image(&l) ? lend_slot(&l, 0)->pool : 0;
		if (!at)
			break;
		again = place_of(place, i, at);
		if (again >= 0 && dirt[again] <= 1000)
			again = -1;
		place[i] = at;
	}
	if (!tap_ok(again >= 0, "way in: memory that Linux used is lent"))
		for (j = 0; j < i; j++)
			printf("# %llx: %ld words\n", place[j], dirt[j]);
	tap_ok(lend_command(&l, 0, SLOT_SUM) && lend_slot(&l, 0)->dirty == 0,
	       "way in: it is clear");
	lend_close(&l);
	tap_ok(!lend_release(id), "way in: released");
}

static void test_several(void)
{
	int a = lend_create(4, 32 * MIB, "a"),
	    b = lend_create(8, 32 * MIB, "b");
	struct lend one, two;
	u32 seen = 0;
	u64 nmis;

	id = a;
	tap_ok(a > 0 && begin_image(&one), "several: one runs");
	id = b;
	tap_ok(b > 0 && begin_image(&two), "several: another runs beside it");
	tap_ok(lend_slot(&one, 0)->apic_id == 2 &&
		       lend_slot(&two, 0)->apic_id == 3,
	       "several: each on its own core");
	lend_slot(&one, 0)->command = SLOT_RING;
	tap_ok(!lend_wait(&one, &seen, 60000), "several: one gets a doorbell");
	seen = 0;
	tap_ok(lend_wait(&two, &seen, 10) == -ETIMEDOUT,
	       "several: the other gets none");
	nmis = lend_slot(&two, 0)->nmis;
	lend_nmi(&one, 0, 1);
	while (!lend_slot(&one, 0)->nmis)
		usleep(1000);
	tap_ok(lend_slot(&two, 0)->nmis == nmis,
	       "several: an NMI reaches the one it is for");
	lend_close(&one);
	tap_ok(lend_command(&two, 0, SLOT_SUM), "several: the other runs on");
	lend_close(&two);
	tap_ok(!lend_release(a) && !lend_release(b),
	       "several: all CPUs are back");
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	image = argv[1];
	id = lend_create(CPUS, 64 * MIB, "force");
	tap_ok(id > 0, "a partition of two cores");
	test_stops();
	test_kills();
	test_creators();
	test_memory();
	test_two_owners();
	way_out();
	way_in();
	test_several();
	return tap_done();
}
