// SPDX-License-Identifier: MIT
/*
 * The printing functions of OmniRPC, for masters and for bodies of interface
 * files. Programs declare them themselves, or call them without a declaration,
 * so no header does. Owns the debug flag. Both libraries contain this file.
 */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

extern int omrpc_debug_flag;
void omrpc_prf(const char *format, ...);

int omrpc_debug_flag;

void omrpc_prf(const char *format, ...)
{
	char host[256] = "";
	va_list args;

	gethostname(host, sizeof(host) - 1);
	printf("[%s:%lx] ", host, (unsigned long)getpid());
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	fflush(stdout);
}
