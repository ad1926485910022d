// SPDX-License-Identifier: MIT
/*
 * Threads that share a few files call the device at random, with arguments
 * good and bad: whatever each call says, the machine is whole afterwards, and
 * lends as before. Runs as root on a machine with CPUs 0 to 3.
 *
 * usage: lend_wild IMAGE ROUNDS [SEED]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../../tap.h"
#include "lend.h"

#define MIB 1048576ull
#define THREADS 4
#define FILES 3
#define CALLS 12

static int files[FILES];
static int rounds;
static u64 seed;
static void *image;
static u64 image_length;
static u32 newest;	   /* the last number; atomic */
static u32 done[CALLS][2]; /* calls that failed, and that did not; atomic */
static __thread u64 state;

static u64 random_below(u64 sides)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % sides;
}

static u64 pick_value(const u64 *from, u64 count)
{
	return from[random_below(count)];
}

#define PICK(...)                                                              \
	pick_value((u64[]){__VA_ARGS__},                                       \
		   sizeof((u64[]){__VA_ARGS__}) / sizeof(u64))

static u32 some_id(void)
{
	u32 last = __atomic_load_n(&newest, __ATOMIC_RELAXED);

	return random_below(16) ? last - (u32)random_below(3)
				: (u32)PICK(0, 1u << 31, ~0u);
}

static int create_random(int fd)
{
	struct shimos_create c = {
		.revision = random_below(16) ? SHIMOS_REVISION
					     : (u32)random_below(4),
		.flags = (u32)PICK(0, 0, 0, SHIMOS_SPLIT, ~0u)};
	int err;

	c.cpus[random_below(8) ? 0 : random_below(SHIMOS_CPU_WORDS)] =
		random_below(4) ? PICK(2, 4, 8, 0xc)
				: PICK(0xe, 1, 0, 1ull << 40, ~0ull);
	c.bytes[random_below(4) ? random_below(2)
				: random_below(SHIMOS_NODES)] =
		random_below(4) ? 16 * MIB
				: PICK(32 * MIB, 2 * MIB, 0, 4096, 1, ~0ull,
				       1ull << 63);
	memset(c.name, (int)PICK(0, 0, 'x', 0xff),
	       (size_t)random_below(64) % 32);
	err = ioctl(fd, SHIMOS_IOC_CREATE, &c);
	if (!err)
		__atomic_store_n(&newest, c.id, __ATOMIC_RELAXED);
	return err;
}

static int load_random(int fd)
{
	struct shimos_load l = {.address = (u64)image, .length = image_length};

	if (!random_below(4))
		l.address = PICK(0, 1, ~0ull, (u64)image + 8);
	if (!random_below(4))
		l.length = PICK(0, 1, 64, image_length - 1, 1ull << 40, ~0ull);
	return ioctl(fd, SHIMOS_IOC_LOAD, &l);
}

static int map_random(int fd)
{
	u64 length = PICK(4096, 4096, 8192, 1 * MIB, 64 * MIB);
	u64 offset = PICK(SHIMOS_MAP_MAIL, SHIMOS_MAP_POOL, SHIMOS_MAP_POOL,
			  4096, SHIMOS_MAP_POOL - 4096, 1ull << 62);
	u8 *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		      (off_t)offset);

	if (at == MAP_FAILED)
		return -1;
	at[random_below(length)] = 0x5e;
	return munmap(at, length);
}

/* What was open there is closed, whoever is in a call on it. */
static int reopen_file(int fd)
{
	int fresh = lend_device(), err = dup3(fresh, fd, O_CLOEXEC);

	close(fresh);
	return err;
}

static int call_random(int fd)
{
	static u8 junk[65536];

	return ioctl(fd,
		     _IOC(random_below(4), SHIMOS_IOC_STOP >> 8 & 0xff,
			  random_below(32), random_below(1 << 14)),
		     PICK((u64)junk, 0, 8, ~0ull));
}

static int make_call(u32 call, int fd)
{
	struct shimos_release r = {.id = some_id()};
	struct shimos_open o = {.id = some_id()};
	struct shimos_info i = {.id = some_id()};
	struct shimos_wait w = {.seen = (u32)random_below(4),
				.ms = (u32)random_below(4),
				.core = (u32)PICK(0, 1, 300, ~0u, ~1u),
				.reasons = (u32)PICK(0, 1, 0x8000)};
	struct shimos_start s = {{0}};
	struct shimos_nmi n = {.core = (u32)PICK(0, 1, 2, ~0u),
			       .reasons = (u32)PICK(1, 0, 0x7fff, ~0u)};

	switch (call) {
	case 0:
		return create_random(fd);
	case 1:
		return ioctl(fd, SHIMOS_IOC_RELEASE, &r);
	case 2:
		return ioctl(fd, SHIMOS_IOC_OPEN, &o);
	case 3:
		return load_random(fd);
	case 4:
		return ioctl(fd, SHIMOS_IOC_START, &s);
	case 5:
		return ioctl(fd, SHIMOS_IOC_STOP);
	case 6:
		return ioctl(fd, SHIMOS_IOC_NMI, &n);
	case 7:
		return ioctl(fd, SHIMOS_IOC_WAIT, &w);
	case 8:
		return map_random(fd);
	case 9:
		return reopen_file(fd);
	case 10:
		return ioctl(fd, SHIMOS_IOC_INFO, &i);
	}
	return call_random(fd);
}

/* What leads somewhere comes more often. */
static u32 some_call(void)
{
	return (u32)PICK(0, 0, 1, 2, 2, 2, 2, 3, 3, 4, 4, 4, 5, 6, 7, 8, 8, 8,
			 9, 10, 11);
}

static void *run_calls(void *who)
{
	int i, err;
	u32 n;

	state = (seed + (u64)who) * 0x9e3779b97f4a7c15ull | 1;
	for (i = 0; i < rounds; i++) {
		n = some_call();
		err = make_call(n, files[random_below(FILES)]);
		__atomic_add_fetch(&done[n][err >= 0], 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int read_image(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t length = lseek(fd, 0, SEEK_END);

	image = mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, fd, 0);
	image_length = (u64)length;
	close(fd);
	return image != MAP_FAILED;
}

/* Everything is closed, then released; what was made has a number up to the
 * newest and those that were made beside it.
 */
static void release_all(void)
{
	u32 id;
	int i;

	for (i = 0; i < FILES; i++)
		close(files[i]);
	for (id = 1; id < newest + 2 * THREADS; id++)
		lend_release(id);
}

int main(int argc, char **argv)
{
	static char before[8192], after[8192];
	pthread_t threads[THREADS];
	struct lend l;
	u64 i;
	int id;

	if (argc < 3 || !read_image(argv[1]))
		return 2;
	rounds = atoi(argv[2]);
	seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (u64)time(NULL);
	printf("# seed %llu\n", seed);
	fflush(stdout);
	lend_look(before, sizeof(before));
	for (i = 0; i < FILES; i++)
		files[i] = lend_device();
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run_calls, (void *)i);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < CALLS; i++)
		printf("# call %llu: %u refused, %u done\n", i, done[i][0],
		       done[i][1]);
	tap_ok(done[0][1] && done[2][1] && done[4][1] && done[8][1],
	       "wild: some partitions were created, opened, started and "
	       "mapped");
	release_all();
	lend_look(after, sizeof(after));
	if (!tap_ok(!strcmp(before, after),
		    "wild: all CPUs and memory are back"))
		printf("# before:\n%s# after:\n%s", before, after);
	id = lend_create(0xe, 64 * MIB, "after");
	tap_ok(id > 0 && !lend_open(&l, id) && !lend_load(&l, argv[1]) &&
		       !lend_start(&l) && lend_alive(&l),
	       "wild: all CPUs can be lent and run");
	lend_close(&l);
	tap_ok(!lend_release(id), "wild: all CPUs come back");
	return tap_done();
}
