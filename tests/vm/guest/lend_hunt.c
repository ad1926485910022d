// SPDX-License-Identifier: MIT
/*
 * Looks for what others left in a partition: the words of a secret in the pool
 * and in the mail, and all words of pool and kernel region that are not zero,
 * which an image counts.
 *
 * usage: lend_hunt PARTITION [IMAGE]
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "lend.h"

/* "SECRETS!", wherever it begins. */
static u64 count_secrets(const u8 *at, u64 length)
{
	const u8 *end = at + length;
	u64 found = 0;

	while (at < end) {
		at = memmem(at, (size_t)(end - at), "SECRETS!", 8);
		if (!at)
			break;
		found++;
		at += 8;
	}
	return found;
}

int main(int argc, char **argv)
{
	struct lend l;

	if (argc < 2 || lend_open(&l, (u32)lend_find(argv[1]))) {
		printf("cannot open: %s\n", lend_why);
		return 2;
	}
	printf("mail %llu\n", count_secrets(l.mail, l.open.mail));
	printf("pool %llu\n", count_secrets(l.pool, l.open.pool));
	if (argc > 2) {
		if (lend_load(&l, argv[2]) || lend_start(&l) ||
		    !lend_alive(&l) || !lend_command(&l, 0, SLOT_SUM)) {
			printf("no image: %s\n", lend_why);
			return 2;
		}
		printf("words %llu\n", lend_slot(&l, 0)->dirty);
	}
	lend_close(&l);
	return 0;
}
