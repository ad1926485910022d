/* SPDX-License-Identifier: MIT */
/*
 * TAP output for C tests: include it in one file, call tap_ok for each check
 * and return tap_done() from main. A test that ends early has no plan line,
 * and a missing plan is a failure.
 */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <stdarg.h>
#include <stdio.h>

static int tap_count, tap_failed;

__attribute__((format(printf, 2, 3), unused)) static int
tap_ok(int ok, const char *format, ...)
{
	va_list ap;

	printf("%sok %d - ", ok ? "" : "not ", ++tap_count);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	tap_failed += !ok;
	return ok;
}

__attribute__((unused)) static void tap_skip(const char *name,
					     const char *reason)
{
	printf("ok %d - %s # SKIP %s\n", ++tap_count, name, reason);
}

__attribute__((unused)) static int tap_done(void)
{
	printf("1..%d\n", tap_count);
	return tap_failed ? 1 : 0;
}

/* The condition with its text and line as the name of the check. */
#define TAP(condition)                                                         \
	tap_ok(!!(condition), "%s:%d %s", __func__, __LINE__, #condition)

#endif
