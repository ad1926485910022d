/* SPDX-License-Identifier: MIT */
/*
 * How a conformance program speaks: one deterministic line per check, without
 * addresses, ids or times. The same file runs on plain Linux first and must say
 * the same things there.
 */
#ifndef CONFORMANCE_SAY_H
#define CONFORMANCE_SAY_H

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int say_bad;

#define CHECK(condition) say_check(!!(condition), #condition)

/* True when `call` is -1 with errno `number`; resets errno before. */
#define FAILS(call, number) (errno = 0, (call) == -1 && errno == (number))

__attribute__((constructor)) static void say_start(void)
{
	setvbuf(stdout, NULL, _IOLBF, 4096);
}

__attribute__((unused)) static int say_check(int good, const char *text)
{
	int error = errno;

	if (good) {
		printf("ok %s\n", text);
	} else {
		__atomic_add_fetch(&say_bad, 1, __ATOMIC_RELAXED);
		printf("BAD %s (errno %d, %s)\n", text, error, strerror(error));
	}
	return good;
}

__attribute__((unused)) static int say_done(void)
{
	printf("%s\n", say_bad ? "BAD checks above" : "all good");
	return say_bad != 0;
}

__attribute__((unused)) static long long say_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

#endif
