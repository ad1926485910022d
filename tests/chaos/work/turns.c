// SPDX-License-Identifier: MIT
/* The function of turns.idl. */
#define _GNU_SOURCE
#include "chaos.h"

void chaos_turn(int n, char *log, int *sum, void (*tick)(int i, int *v))
{
	int i, v;

	*sum = 0;
	for (i = 1; i <= n; i++) {
		chaos_pass(log, "send", i);
		v = 0;
		tick(i, &v);
		*sum += v;
		chaos_pass(log, "back", i);
	}
}
