/* SPDX-License-Identifier: MIT */
/*
 * How long a test waits for what must come. SKEP_SLOWNESS multiplies it: by
 * how much slower than Debian's kernel the guest's is.
 */
#ifndef TESTS_VM_O2G_TIMEOUT_H
#define TESTS_VM_O2G_TIMEOUT_H

#include <stdlib.h>

__attribute__((unused)) static unsigned scaled_timeout(unsigned seconds)
{
	const char *factor = getenv("SKEP_SLOWNESS");

	return factor ? seconds * (unsigned)atoi(factor) : seconds;
}

#endif
