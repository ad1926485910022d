/* SPDX-License-Identifier: MIT */
/*
 * A program that is saved while it runs. It fills MB MiB with bytes that do not
 * compress, then every millisecond sums up 64 KiB of them, writes into 16 pages
 * and prints a line: the line's number, the time of day, and the processor time
 * of the process so far, both in ns. usage: snapshot MB
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MIB 1048576UL
#define WORDS_READ 8192UL
#define PAGES_WRITTEN 16
#define PAGE_WORDS 512UL

static volatile uint64_t sum; /* keeps the reads */

static uint64_t clock_read(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* xorshift64 of Marsaglia, "Xorshift RNGs", 2003 */
static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void do_work(uint64_t *memory, uint64_t words, uint64_t *state)
{
	const uint64_t from = random_next(state) % (words - WORDS_READ);
	uint64_t s = 0, i;
	int k;

	for (i = from; i < from + WORDS_READ; i++)
		s += memory[i];
	sum = s;
	for (k = 0; k < PAGES_WRITTEN; k++)
		memory[random_next(state) % (words / PAGE_WORDS) * PAGE_WORDS] =
			random_next(state);
}

int main(int argc, char **argv)
{
	const uint64_t megabytes = argc > 1 ? strtoul(argv[1], 0, 10) : 0;
	const uint64_t words = megabytes * MIB / sizeof(uint64_t);
	const struct timespec pause = {0, 1000000};
	uint64_t *memory = malloc(words * sizeof(*memory));
	uint64_t state = 88172645463325252, i;
	char line[100];

	if (megabytes < 1 || megabytes > 65536 || !memory) {
		fprintf(stderr, "usage: snapshot MB\n");
		return 2;
	}
	for (i = 0; i < words; i++)
		memory[i] = random_next(&state);
	for (i = 0;; i++) {
		const int n =
			snprintf(line, sizeof(line), "%llu %llu %llu\n",
				 (unsigned long long)i,
				 (unsigned long long)clock_read(CLOCK_REALTIME),
				 (unsigned long long)clock_read(
					 CLOCK_PROCESS_CPUTIME_ID));

		do_work(memory, words, &state);
		if (write(1, line, (size_t)n) != n)
			return 1;
		nanosleep(&pause, 0);
	}
}
