/* SPDX-License-Identifier: MIT */
/* A gigabyte of static zeros, as Fortran programs have; used in places. */
#include <stdint.h>
#include "say.h"

#define SIZE (1u << 30)

static unsigned char big[SIZE];
static int initialised = 5;

int main(void)
{
	uint64_t i, sum = 0, step = 3 * 1024 * 1024 + 17;

	for (i = 0; i < SIZE; i += step)
		sum += big[i];
	CHECK(sum == 0);
	for (i = 0; i < SIZE; i += step)
		big[i] = i >> 20;
	big[SIZE - 1] = 9;
	for (i = 0; i < SIZE; i += step)
		sum += big[i];
	printf("sum %llu\n", (unsigned long long)sum);
	CHECK(big[SIZE - 1] == 9 && initialised == 5);
	return say_done();
}
