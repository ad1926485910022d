/* SPDX-License-Identifier: MIT */
/*
 * For programs that mean harm to the kernel engine: two endpoints that do
 * nothing wrong, talk before and after each wrong, and have to stay what they
 * were; and a look at what is left in the module.
 */
#ifndef TESTS_VM_O2G_GOOD_H
#define TESTS_VM_O2G_GOOD_H

#include "o2g_raw.h"

static uint64_t state = 88172645463325252ull; /* of random_bits(), never 0 */

__attribute__((unused)) static uint64_t random_bits(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* ---- the two that do nothing wrong ---- */

static struct raw good[2];
static uint8_t good_out[100000], good_in[100000];

__attribute__((unused)) static void begin_good(void)
{
	good[0] = raw_open();
	good[1] = raw_open();
	raw_join(&good[0], &good[1]);
}

static bool talk_of(struct raw *from, struct raw *to, uint64_t length)
{
	static unsigned seed;
	struct o2g_cqe cqe;

	raw_fill(good_out, length, ++seed);
	memset(good_in, 0, length);
	raw_do(to, O2G_OP_RECV, 1, seed, good_in, length);
	raw_do(from, O2G_OP_SEND, 1, seed, good_out, length);
	cqe = raw_event(to, good_in);
	return cqe.status == 0 && cqe.length == length &&
	       raw_check(good_in, length, seed) &&
	       raw_event(from, 0).status == 0;
}

__attribute__((unused)) static bool talk_good(void)
{
	return talk_of(&good[0], &good[1], 10) &&
	       talk_of(&good[1], &good[0], sizeof(good_in));
}

/* How much of one kind the module holds, over all programs; -1: it does not
 * say. */
static long count_held(const char *what)
{
	char path[100], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/module/o2g/parameters/%s", what);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return -1;
	close(fd);
	return atol(text);
}

static void nothing_left(void)
{
	static const char *const kinds[] = {"engines", "links", "memory",
					    "pages"};
	double end = raw_now() + RAW_TIMEOUT_S;

	for (int i = 0; i < 4; i++) {
		while (count_held(kinds[i]) > 0 && raw_now() < end)
			usleep(10000);
		tap_ok(count_held(kinds[i]) == 0,
		       "the module has no %s at the end (%ld)", kinds[i],
		       count_held(kinds[i]));
	}
}

__attribute__((unused)) static void finish_good(const char *what)
{
	tap_ok(talk_good(), "%s: others are served as before", what);
	raw_close(&good[0]);
	raw_close(&good[1]);
	nothing_left();
}

/* ---- one program, several ways to do harm ---- */

struct way {
	const char *name;
	void (*run)(void);
};

/* Goes the way that the command line names; a program's exit status. */
__attribute__((unused)) static int run_way(const struct way *way, size_t ways,
					   int argc, char **argv)
{
	if (argc != 2)
		return 2;
	alarm(scaled_timeout(600));
	for (size_t i = 0; i < ways; i++) {
		if (strcmp(argv[1], way[i].name))
			continue;
		begin_good();
		way[i].run();
		finish_good(argv[1]);
		return tap_done();
	}
	return 2;
}

#endif
