// SPDX-License-Identifier: MIT
/* Errors in words. The text belongs to the thread that made it. */
#include "error.h"
#include "o2g.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

void o2g_error_log(const char *format, ...)
{
	const char *level = getenv("SKEP_O2G_LOG");
	char line[512];
	va_list ap;
	int n;

	if (level && strcmp(level, "0") == 0)
		return;
	n = snprintf(line, sizeof(line), "o2g[%d]: ", (int)getpid());
	va_start(ap, format);
	n += vsnprintf(line + n, sizeof(line) - (size_t)n, format, ap);
	va_end(ap);
	if (n > (int)sizeof(line) - 2)
		n = sizeof(line) - 2;
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nobody is listening */
}
