// SPDX-License-Identifier: MIT
/* Error messages. Each thread has its own. */
#include "error.h"
#include "o2g.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static __thread char text[512] = "no error";

const char *o2g_error(void)
{
	return text;
}

int o2g_error_set(int error, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	return error;
}

/* Of the process. The library's threads log while the program may be changing
 * its environment, so it is read only once. */
static int level = 1; /* atomic */

void o2g_error_read_level(void)
{
	const char *wanted = getenv("SKEP_O2G_LOG");

	__atomic_store_n(&level, wanted && *wanted ? atoi(wanted) : 1,
			 __ATOMIC_RELAXED);
}

static void print_line(const char *format, va_list ap)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "o2g[%d]: ", (int)getpid());

	n += vsnprintf(line + n, sizeof(line) - (size_t)n, format, ap);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nobody reads standard error */
}

void o2g_error_log(const char *format, ...)
{
	va_list ap;

	if (__atomic_load_n(&level, __ATOMIC_RELAXED) < 1)
		return;
	va_start(ap, format);
	print_line(format, ap);
	va_end(ap);
}

void o2g_error_log_more(const char *format, ...)
{
	va_list ap;

	if (__atomic_load_n(&level, __ATOMIC_RELAXED) < 2)
		return;
	va_start(ap, format);
	print_line(format, ap);
	va_end(ap);
}
