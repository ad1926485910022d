// SPDX-License-Identifier: MIT
/*
 * Prints failures to standard error, one line for each call, because OmniRPC
 * programs do not check return codes. A line is one write(2), so that lines of
 * threads and other programs do not mix.
 */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES (GRID_TEXT_MAX + 512)

/* The text comes from the hub or a worker, so control characters are
 * replaced. */
static void write_line(char *line, int len)
{
	int i, done = 0;
	ssize_t n;

	if (len < 0)
		return;
	if (len > LINE_BYTES - 2)
		len = LINE_BYTES - 2;
	for (i = 0; i < len; i++) {
		if ((u8)line[i] < ' ' || line[i] == 0x7f)
			line[i] = ' ';
	}
	line[len++] = '\n';
	/* If standard error cannot be written, the error cannot be reported. */
	while (done < len) {
		n = write(STDERR_FILENO, line + done, (size_t)(len - done));
		if (n > 0)
			done += (int)n;
		else if (!n || errno != EINTR)
			return;
	}
}

void grid_report_failed(const struct skep_request *r, const char *text)
{
	const struct grid_args *a = r->args;
	const char *node = r->info.node;
	int named = !*node || strstr(text, node);
	char line[LINE_BYTES];

	write_line(line,
		   snprintf(line, LINE_BYTES,
			    "skep: %s.%s, call %lu of this program, "
			    "failed%s%s: %s",
			    a->handle->name, a->call.function->name,
			    (unsigned long)r->number, named ? "" : " on node ",
			    named ? "" : node, text));
}

void grid_report_unsent(const char *module, const char *function)
{
	char line[LINE_BYTES];

	if (grid_error_reported())
		return;
	write_line(line, snprintf(line, LINE_BYTES, "skep: %s%s%s failed: %s",
				  module, *module ? "." : "", function,
				  OmniRpcLastErrorText()));
	grid_error_tell();
}

static int errors_return(void)
{
	const char *mode = getenv("SKEP_ERRORS");

	return mode && !strcmp(mode, "return");
}

int grid_errors_check(void)
{
	const char *mode = getenv("SKEP_ERRORS");

	return !mode || !*mode || !strcmp(mode, "exit") || errors_return()
		       ? 0
		       : -EINVAL;
}

int grid_end_failed(int code)
{
	char line[LINE_BYTES];

	if (!code || code == OMRPC_E_CANCELLED || errors_return())
		return code;
	if (!grid_error_reported())
		write_line(line, snprintf(line, LINE_BYTES, "skep: %s",
					  OmniRpcLastErrorText()));
	exit(1);
}
