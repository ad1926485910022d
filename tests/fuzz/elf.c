/* SPDX-License-Identifier: MIT */
/*
 * abi_elf_plan against any bytes: it must neither read outside the head nor
 * accept a plan that breaks a promise of abi.h. The first byte chooses how
 * much longer than the head the file is said to be.
 */
#include "abi/include/abi.h"

int LLVMFuzzerTestOneInput(const u8 *data, __SIZE_TYPE__ size);

static void check_true(int ok)
{
	if (!ok)
		__builtin_trap();
}

static void check_segment(const struct abi_elf_plan *p, u32 i, u64 file_size)
{
	const struct abi_elf_segment *s = &p->segment[i];
	u64 page = SKEP_PAGE_SIZE - 1;

	check_true(s->filesz <= s->memsz && s->memsz);
	check_true(s->offset <= file_size &&
		   s->filesz <= file_size - s->offset);
	check_true(s->addr >= p->start && s->addr + s->memsz > s->addr);
	check_true(s->addr + s->memsz <= p->end);
	check_true(!((s->addr ^ s->offset) & page));
	check_true((s->prot & 6) != 6);
	if (i)
		check_true((s->addr & ~page) >= s[-1].addr + s[-1].memsz);
}

static void check_plan(const struct abi_elf_plan *p, u64 file_size)
{
	u32 i;

	check_true(p->segments && p->segments <= ABI_ELF_SEGMENTS_MAX);
	check_true(!((p->start | p->end) & (SKEP_PAGE_SIZE - 1)));
	check_true(p->start < p->end && p->entry >= p->start &&
		   p->entry < p->end);
	check_true(p->phdr >= p->start &&
		   p->phdr + p->phnum * p->phent <= p->end);
	if (p->bias)
		check_true(p->bias == SKEP_PIE_START &&
			   p->start >= SKEP_PIE_START &&
			   p->end < SKEP_PIE_START + SKEP_PIE_SIZE);
	else
		check_true(p->start >= SKEP_IMAGE_START &&
			   p->end < SKEP_IMAGE_END);
	for (i = 0; i < p->segments; i++)
		check_segment(p, i, file_size);
}

int LLVMFuzzerTestOneInput(const u8 *data, __SIZE_TYPE__ size)
{
	struct abi_elf_plan plan;
	u64 file_size;
	int rc;

	if (!size)
		return 0;
	file_size = size - 1 + (u64)data[0] * 4096;
	rc = abi_elf_plan(data + 1, size - 1, file_size, &plan);
	check_true(rc == 0 || (rc == -8 && plan.why));
	if (!rc)
		check_plan(&plan, file_size);
	return 0;
}
