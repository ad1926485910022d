/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: arbitrary bytes as the program headers, the dynamic section
 * and the tables of a file with a right head, in a buffer of its exact size.
 * The ranges found must be loaded bytes of the file.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "abi/include/elf.h"
#include "bee/core/core.h"

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t len);

enum { BIAS = 0x200000, HEAD = sizeof(struct elf_header) };

static void check_ranges(const struct abi_elf_plan *plan, const u8 *file,
			 u64 len)
{
	struct bee_range range[BEE_POINTERS_MAX];
	u32 n = bee_pointer_ranges(plan, file, len, range);
	static volatile u8 sum;
	u64 left;

	if (n > BEE_POINTERS_MAX)
		abort();
	for (u32 i = 0; i < n; i++) {
		const u8 *p =
			bee_file_loaded(plan, file, range[i].start, &left);

		if (!p || range[i].end <= range[i].start ||
		    range[i].end - range[i].start > left)
			abort();
		sum += *p + p[range[i].end - range[i].start - 1];
	}
}

/* The first half of the file is one segment, the rest another one, at addresses
 * that are small enough to be guessed. */
int LLVMFuzzerTestOneInput(const uint8_t *in, size_t len)
{
	u64 size = HEAD + len, half = size / 2;
	struct elf_header head = {.type = ELF_TYPE_DYN,
				  .phoff = HEAD,
				  .phentsize = sizeof(struct elf_phdr),
				  .phnum = len && in[0] & 1 ? 1 : 2};
	struct abi_elf_plan plan = {.bias = BIAS,
				    .segments = 2,
				    .segment = {{.addr = BIAS, .filesz = half},
						{.addr = BIAS + 0x1000,
						 .filesz = size - half,
						 .offset = half}}};
	u8 *file = malloc(size);

	memcpy(file, &head, HEAD);
	memcpy(file + HEAD, in, len);
	if (len < 4096)
		check_ranges(&plan, file, size);
	free(file);
	return 0;
}
