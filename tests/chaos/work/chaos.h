/* SPDX-License-Identifier: MIT */
#ifndef TESTS_CHAOS_H
#define TESTS_CHAOS_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The table, and what a call adds to value[0]. */
#define CHAOS_TABLE 1000

static inline int chaos_answer(int number)
{
	return number * 7 + 3;
}

void chaos_initialize(int n, int *table);
void chaos_step(int number, int microseconds, int *value, char *log);
void chaos_add(int number, int n, int *data, char *log);
void chaos_turn(int n, char *log, int *sum, void (*tick)(int i, int *v));

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

/*
 * Appends "POINT I" to log, in one write. If log.stop has the same text, the
 * program then stands until that file is removed.
 */
static inline void chaos_pass(const char *log, const char *point, int i)
{
	char line[64], wanted[sizeof(line)] = "", name[4096];
	int fd = open(log, O_WRONLY | O_APPEND);

	snprintf(line, sizeof(line), "%s %d\n", point, i);
	snprintf(name, sizeof(name), "%s.stop", log);
	if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t)strlen(line))
		abort();
	close(fd);
	fd = open(name, O_RDONLY);
	if (fd < 0)
		return;
	if (read(fd, wanted, sizeof(wanted) - 1) > 0 && !strcmp(wanted, line)) {
		while (!access(name, F_OK))
			usleep(1000);
	}
	close(fd);
}

#endif
