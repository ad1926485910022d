/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CHAOS_H
#define TESTS_CHAOS_H

/* The table, and what a call adds to value[0]. */
#define CHAOS_TABLE 1000

static inline int chaos_answer(int number)
{
	return number * 7 + 3;
}

void chaos_initialize(int n, int *table);
void chaos_step(int number, int microseconds, int *value, char *log);
void chaos_add(int number, int n, int *data, char *log);

/* What chaos_add gets, and whether it did what it should; masters use them. */
static inline void chaos_number(int *data, int n)
{
	while (n--)
		data[n] = n;
}

static inline int chaos_is_added(const int *data, int n, int number)
{
	while (n-- && data[n] == n + number)
		;
	return n < 0;
}

#endif
