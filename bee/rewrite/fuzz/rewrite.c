/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: arbitrary bytes as text, unwind table, map and run-time
 * code, each in a buffer of its exact size. A rewrite that fails must leave
 * the text as it was.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bee/rewrite/rewrite.h"

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t len);

static void *copy_bytes(const void *p, size_t n)
{
	void *to = malloc(n ? n : 1);

	memcpy(to, p, n);
	return to;
}

static void fuzz_rewrite(const uint8_t *in, size_t len)
{
	static u8 stubs[1 << 16];
	static struct bee_site sites[1024];
	static struct bee_stub_pc pcs[8192];
	size_t half = len / 2;
	u8 *text = copy_bytes(in, half),
	   *data = copy_bytes(in + half, len - half);
	struct bee_rewrite rw = {
		.text = {{text, 0x401000, half}},
		.texts = 1,
		.data = {{data, 0x480000, len - half, len & 1}},
		.datas = 1,
		.pointer = {{0x480000 + half / 2, 0x480000 + len}},
		.pointers = 1,
		.stubs = stubs,
		.stubs_addr = 0x500000,
		.stubs_len = sizeof(stubs),
		.site = sites,
		.sites_max = 1024,
		.pc = pcs,
		.pcs_max = 8192,
		.marks = calloc(1, half + 1),
	};

	for (int i = 0; i < SKEP_SLOT_COUNT; i++)
		rw.slot[i] = SKEP_TEB_SLOT_BASE + 8 * i;
	if (bee_rewrite(&rw) && memcmp(text, in, half))
		abort();
	free(rw.marks);
	free(text);
	free(data);
}

static void fuzz_parsers(const uint8_t *in, size_t len)
{
	static struct bee_range range[256];
	static struct bee_site sites[64];
	static struct bee_stub_pc pcs[64];
	struct bee_map map;
	char why[160];
	u8 *p = copy_bytes(in, len);
	u64 bad;

	bee_eh_ranges(p, len, 0x600000, range, 256);
	bee_eh_find(p, len, 0x600000, &bad);
	bee_text_check(p, len, &bad, why);
	bee_map_read(&map, p, len, sites, 64, pcs, 64);
	free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t len)
{
	if (len > 4096)
		return 0;
	fuzz_rewrite(in, len);
	fuzz_parsers(in, len);
	return 0;
}
