// SPDX-License-Identifier: MIT
/*
 * An NMI that nobody asked for: an image on one partition sends it to a
 * processor of another.
 *
 * usage: lend_stray PARTITION IMAGE APIC-ID
 */
#include <stdio.h>
#include <stdlib.h>

#include "lend.h"

int main(int argc, char **argv)
{
	struct lend l;

	if (argc != 4)
		return 2;
	if (lend_open(&l, (u32)lend_find(argv[1])) || lend_load(&l, argv[2]) ||
	    lend_start(&l) || !lend_alive(&l)) {
		printf("no image: %s\n", lend_why);
		return 1;
	}
	lend_slot(&l, 0)->target = strtoull(argv[3], NULL, 0);
	if (!lend_command(&l, 0, SLOT_STRAY))
		return 1;
	lend_close(&l);
	return 0;
}
