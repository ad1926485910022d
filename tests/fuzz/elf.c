/* SPDX-License-Identifier: MIT */
/*
 * abi_elf_plan against any bytes: it must neither read outside the head nor
 * accept a plan that breaks a promise of abi.h. The first byte chooses how
 * much longer than the head the file is said to be, the second what the file
 * is to be: a program, a dynamic one, its loader, or a library that the guest
 * maps (also at addresses that cannot hold it).
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

static int is_inside(const struct abi_elf_plan *p, u64 start, u64 end)
{
	return p->start >= start && p->end <= end;
}

static void check_place(const struct abi_elf_plan *p, enum abi_elf_role role)
{
	if (role == ABI_ELF_LIBRARY)
		check_true(is_inside(p, SKEP_IMAGE_START, SKEP_IMAGE_END) ||
			   is_inside(p, SKEP_ARENA_START, SKEP_ARENA_END));
	else if (role == ABI_ELF_LOADER)
		check_true(p->bias == SKEP_MMAP_START &&
			   is_inside(p, p->bias, p->bias + (64 << 20)));
	else if (p->bias)
		check_true(p->bias == SKEP_PIE_START &&
			   is_inside(p, p->bias, p->bias + SKEP_PIE_SIZE - 1));
	else
		check_true(is_inside(p, SKEP_IMAGE_START, SKEP_IMAGE_END - 1));
}

/* Text that is mapped begins where a segment of the plan does. */
static int has_text(const struct abi_elf_plan *p, u64 addr)
{
	u32 i;

	for (i = 0; i < p->segments; i++)
		if ((p->segment[i].prot & 4) &&
		    (p->segment[i].addr & ~(SKEP_PAGE_SIZE - 1ull)) == addr)
			return 1;
	return 0;
}

static void check_plan(const struct abi_elf_plan *p, u64 file_size,
		       const struct abi_elf_use *use)
{
	u32 i;

	check_true(p->segments && p->segments <= ABI_ELF_SEGMENTS_MAX);
	check_true(!((p->start | p->end) & (SKEP_PAGE_SIZE - 1)));
	check_true(p->start < p->end);
	check_place(p, use->role);
	for (i = 0; i < p->segments; i++)
		check_segment(p, i, file_size);
	if (use->role == ABI_ELF_LIBRARY) {
		check_true(has_text(p, use->addr));
		return;
	}
	check_true(p->entry >= p->start && p->entry < p->end);
	check_true(p->phdr >= p->start &&
		   p->phdr + p->phnum * p->phent <= p->end);
	check_true(!*p->interp || use->role == ABI_ELF_PROGRAM);
	check_true(!p->interp[ABI_ELF_INTERP_MAX - 1]);
}

int LLVMFuzzerTestOneInput(const u8 *data, __SIZE_TYPE__ size)
{
	struct abi_elf_use use = {.role = ABI_ELF_STATIC};
	struct abi_elf_plan plan;
	u64 file_size;
	int rc;

	if (size < 2)
		return 0;
	file_size = size - 2 + (u64)data[0] * 4096;
	use.role = data[1] & 3;
	use.offset = (u64)(data[1] >> 2 & 3) * SKEP_PAGE_SIZE;
	use.addr = data[1] & 0x80
			   ? SKEP_MMAP_END - (data[1] & 0x70) * 0x1000ull
			   : SKEP_IMAGE_START + (data[1] & 0x70) * 0x1000ull;
	rc = abi_elf_plan(&use, data + 2, size - 2, file_size, &plan);
	check_true(rc == 0 || (rc == -8 && plan.why));
	if (!rc)
		check_plan(&plan, file_size, &use);
	return 0;
}
