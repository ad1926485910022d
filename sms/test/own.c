// SPDX-License-Identifier: MIT
/*
 * The proxy's own descriptors: every number that the image may name, at and
 * beyond both ends of the map and of its words.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sms/proxy/proxy.h"
#include "tests/tap.h"

#define LAST 4095 /* the last number that the map has */
#define NONE INT_MIN

static int is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* A descriptor with exactly this number. */
static int open_at(int fd)
{
	return dup2(STDERR_FILENO, fd);
}

/* Only this number is the proxy's own, among all that a word of the map or a
 * mistake by one could confuse with it. */
static int owns_only(int fd)
{
	int i;

	for (i = -64; i <= LAST + 64; i++)
		if (sms_own_is(i) != (i == fd))
			return 0;
	return 1;
}

static void test_each(void)
{
	static const int numbers[] = {3,  31,  32,  63,	  64,
				      65, 127, 128, 4032, LAST};
	u32 i;

	for (i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		tap_ok(open_at(numbers[i]) == numbers[i] &&
			       sms_own_add(numbers[i]) == numbers[i] &&
			       is_open(numbers[i]) && owns_only(numbers[i]),
		       "each: descriptor %d and no other", numbers[i]);
		sms_own_close(numbers[i]);
		tap_ok(!is_open(numbers[i]) && owns_only(NONE),
		       "each: descriptor %d is closed and nobody's",
		       numbers[i]);
	}
}

static void test_several(void)
{
	int a = sms_own_add(open_at(70)), b = sms_own_add(open_at(71));

	sms_own_close(a);
	tap_ok(owns_only(b), "several: the neighbour stays");
	sms_own_close(b);
}

static void test_refused(void)
{
	tap_ok(sms_own_add(-1) == -1 && sms_own_add(-EMFILE) == -EMFILE &&
		       owns_only(NONE),
	       "refused: an error stays one");
	tap_ok(open_at(LAST + 1) == LAST + 1 && sms_own_add(LAST + 1) == -1 &&
		       !is_open(LAST + 1) && owns_only(NONE),
	       "refused: a number beyond the map is closed, not used unseen");
	tap_ok(!sms_own_is(INT_MIN) && !sms_own_is(INT_MAX),
	       "refused: numbers that no descriptor has");
}

int main(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_max < LAST + 2)
		return 1; /* no plan: the suite fails */
	l.rlim_cur = LAST + 2;
	if (setrlimit(RLIMIT_NOFILE, &l))
		return 1;
	test_each();
	test_several();
	test_refused();
	return tap_done();
}
