/* SPDX-License-Identifier: MIT */
/*
 * What the tests of sms have in common: bytes that decide what happens, from
 * libFuzzer or from a generator, and a check that ends the process.
 */
#ifndef SMS_TEST_PLAY_H
#define SMS_TEST_PLAY_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <skep/types.h>

int LLVMFuzzerTestOneInput(const u8 *data, __SIZE_TYPE__ size);

#define must(condition)                                                        \
	((condition) ? (void)0 : must_not(__FILE__, __LINE__, #condition))

__attribute__((noreturn, unused)) static void
must_not(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
	abort();
}

struct bytes {
	const u8 *at;
	u64 left;
};

/* Up to len bytes; what is not there stays as it was. */
__attribute__((unused)) static void take_bytes(struct bytes *b, void *to,
					       u64 len)
{
	if (len > b->left)
		len = b->left;
	memcpy(to, b->at, len);
	b->at += len;
	b->left -= len;
}

__attribute__((unused)) static u32 take_one(struct bytes *b)
{
	u8 one = 0;

	take_bytes(b, &one, 1);
	return one;
}

/* The same inputs each time: how often, each of up to 4 KiB. */
__attribute__((unused)) static int play_random(u32 times)
{
	static u8 data[4096];
	u64 x = 88172645463325252ull, size, i;

	for (; times; times--) {
		for (i = 0; i < sizeof(data); i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			/* Small and large numbers both. */
			data[i] = x >> 40 & 1 ? (u8)(x >> 32) : x >> 41 & 1;
		}
		size = (x >> 8) % sizeof(data);
		LLVMFuzzerTestOneInput(data, size);
	}
	return 1;
}

#endif
