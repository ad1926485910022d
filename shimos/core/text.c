// SPDX-License-Identifier: MIT
#include "text.h"
#include <skep/assert.h>
#include "map.h"

void shimos_text_begin(struct shimos_text *t, char *at, u32 size)
{
	skep_assert(size);
	t->at = at;
	t->size = size;
	t->length = 0;
	at[0] = 0;
}

void shimos_text_add(struct shimos_text *t, const char *s)
{
	for (; *s && t->length + 1 < t->size; s++)
		t->at[t->length++] = *s;
	skep_assert(t->length < t->size);
	t->at[t->length] = 0;
}

void shimos_text_number(struct shimos_text *t, u64 n)
{
	char digits[24];
	u32 at = sizeof(digits) - 1;

	digits[at] = 0;
	do {
		digits[--at] = '0' + n % 10;
		n /= 10;
	} while (n);
	shimos_text_add(t, digits + at);
}

void shimos_text_bytes(struct shimos_text *t, u64 n)
{
	int mib = !(n & 0xfffff);

	shimos_text_number(t, mib ? n >> 20 : n);
	shimos_text_add(t, mib ? " MiB" : " bytes");
}

/* In the format of taskset: 1-3,6. */
void shimos_text_cpus(struct shimos_text *t, const u64 *map, u32 words)
{
	u32 cpus = words * 64, first, last, found = 0;

	for (first = 0; first < cpus; first = last + 1) {
		last = first;
		if (!shimos_map_has(map, first))
			continue;
		while (last + 1 < cpus && shimos_map_has(map, last + 1))
			last++;
		if (found++)
			shimos_text_add(t, ",");
		shimos_text_number(t, first);
		if (last > first) {
			shimos_text_add(t, "-");
			shimos_text_number(t, last);
		}
	}
	if (!found)
		shimos_text_add(t, "none");
}
