/* SPDX-License-Identifier: MIT */
/*
 * Where read-only data may hold addresses of code: in real programs, compared
 * with their section headers, and then with damaged headers, under the
 * sanitizers.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bee/core/core.h"
#include "tests/tap.h"

enum { BIAS = 0x2000000, LIES = 5000, KEEP = -1 };

static struct bee_range range[BEE_POINTERS_MAX];

static u8 *read_all(const char *path, u64 *len)
{
	FILE *f = fopen(path, "rb");
	u8 *bytes;

	if (!f || fseek(f, 0, SEEK_END))
		exit(2);
	*len = (u64)ftell(f);
	rewind(f);
	bytes = malloc(*len);
	if (!bytes || fread(bytes, 1, *len, f) != *len)
		exit(2);
	fclose(f);
	return bytes;
}

static Elf64_Phdr *program_header(u8 *file, u32 i)
{
	return (Elf64_Phdr *)(file + ((Elf64_Ehdr *)file)->e_phoff) + i;
}

static void plan_segments(u8 *file, u64 bias, struct abi_elf_plan *plan)
{
	memset(plan, 0, sizeof(*plan));
	plan->bias = bias;
	for (u32 i = 0; i < ((Elf64_Ehdr *)file)->e_phnum; i++) {
		const Elf64_Phdr *ph = program_header(file, i);

		if (ph->p_type == PT_LOAD)
			plan->segment[plan->segments++] =
				(struct abi_elf_segment){
					.addr = ph->p_vaddr + bias,
					.filesz = ph->p_filesz,
					.offset = ph->p_offset};
	}
}

static Elf64_Phdr *dynamic_header(u8 *file)
{
	for (u32 i = 0; i < ((Elf64_Ehdr *)file)->e_phnum; i++)
		if (program_header(file, i)->p_type == PT_DYNAMIC)
			return program_header(file, i);
	exit(2);
}

/* The entry with that tag. */
static Elf64_Dyn *find_entry(u8 *file, s64 tag)
{
	Elf64_Dyn *d = (void *)(file + dynamic_header(file)->p_offset);

	for (; d->d_tag != tag; d++)
		if (!d->d_tag)
			exit(2);
	return d;
}

static int is_covered(u32 n, u64 from, u64 to)
{
	for (u32 i = 0; i < n; i++)
		if (range[i].start <= from && to <= range[i].end)
			return 1;
	return 0;
}

static int is_apart(u32 n, u64 from, u64 to)
{
	for (u32 i = 0; i < n; i++)
		if (range[i].start < to && from < range[i].end)
			return 0;
	return 1;
}

static int holds_addresses(const Elf64_Shdr *s)
{
	return s->sh_type == SHT_RELA || s->sh_type == SHT_DYNSYM ||
	       s->sh_type == SHT_DYNAMIC;
}

static void test_program(const char *path)
{
	const char *name = strrchr(path, '/') + 1;
	int tables = 1, others = 1, seen = 0;
	struct abi_elf_plan plan;
	u64 len;
	u8 *file = read_all(path, &len);
	const Elf64_Shdr *s = (void *)(file + ((Elf64_Ehdr *)file)->e_shoff);
	u32 n;

	plan_segments(file, BIAS, &plan);
	n = bee_pointer_ranges(&plan, file, len, range);
	for (u32 i = 0; i < ((Elf64_Ehdr *)file)->e_shnum; i++) {
		u64 from = s[i].sh_addr + BIAS, to = from + s[i].sh_size;

		if (!(s[i].sh_flags & SHF_ALLOC) || !s[i].sh_size)
			continue;
		seen += holds_addresses(&s[i]);
		if (holds_addresses(&s[i]))
			tables &= is_covered(n, from, to);
		else if (s[i].sh_type == SHT_PROGBITS ||
			 s[i].sh_type == SHT_STRTAB)
			others &= is_apart(n, from, to);
	}
	tap_ok(n && tables && seen >= 3,
	       "%s: relocations, symbols and the dynamic section", name);
	tap_ok(others, "%s: no other data", name);
	((Elf64_Ehdr *)file)->e_shnum = 0;
	tap_ok(bee_pointer_ranges(&plan, file, len, range) == n,
	       "%s: the same without section headers", name);
	tap_ok(!bee_pointer_ranges(&plan, file, sizeof(Elf64_Ehdr) - 1, range),
	       "%s: nothing in a file cut short", name);
	plan_segments(file, 0, &plan);
	tap_ok(!bee_pointer_ranges(&plan, file, len, range),
	       "%s: any word where it is linked for", name);
	free(file);
}

static void test_fixed(const char *path)
{
	struct abi_elf_plan plan;
	u64 len;
	u8 *file = read_all(path, &len);

	plan_segments(file, BIAS, &plan);
	tap_ok(!bee_pointer_ranges(&plan, file, len, range),
	       "any word of a program at a fixed address");
	free(file);
}

static u64 value_of(const char *path, s64 tag)
{
	u64 len, value;
	u8 *file = read_all(path, &len);

	value = find_entry(file, tag)->d_un.d_val;
	free(file);
	return value;
}

/* A file whose dynamic section has one entry changed. */
static u32 find_changed(const char *path, s64 tag, s64 new_tag, u64 value)
{
	struct abi_elf_plan plan;
	u64 len;
	u8 *file = read_all(path, &len);
	Elf64_Dyn *entry = find_entry(file, tag);
	u32 n;

	plan_segments(file, BIAS, &plan);
	entry->d_tag = new_tag;
	if (value != (u64)KEEP)
		entry->d_un.d_val = value;
	n = bee_pointer_ranges(&plan, file, len, range);
	free(file);
	return n;
}

static void test_changes(const char *path, u64 symbols)
{
	const struct {
		const char *what;
		s64 tag, to;
		u64 value;
		u32 ranges;
	} cases[] = {
		{"as it is", DT_RELASZ, DT_RELASZ, (u64)KEEP, 4},
		{"no relocations", DT_RELASZ, DT_RELASZ, 0, 3},
		{"too many relocations", DT_RELASZ, DT_RELASZ, 1ull << 40, 0},
		{"more relocations than numbers", DT_RELASZ, DT_RELASZ,
		 ~0ull - 1, 0},
		{"relocations elsewhere", DT_RELA, DT_RELA, 1ull << 40, 0},
		{"others elsewhere", DT_JMPREL, DT_JMPREL, 1ull << 40, 0},
		{"symbols elsewhere", DT_SYMTAB, DT_SYMTAB, 1ull << 40, 0},
		{"no symbols", DT_SYMTAB, DT_DEBUG, (u64)KEEP, 3},
		{"relocations in text", DT_SYMENT, DT_TEXTREL, 0, 0},
		{"relocations in text, by a flag", DT_SYMENT, DT_FLAGS,
		 DF_TEXTREL | DF_BIND_NOW, 0},
		{"other flags", DT_SYMENT, DT_FLAGS, DF_BIND_NOW, 4},
		{"an unknown entry", DT_SYMENT, 0x6ffffdf0, 0, 4},
		{"an empty table before the symbols", DT_SYMENT, DT_HASH,
		 symbols, 4},
	};

	for (u32 i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		tap_ok(find_changed(path, cases[i].tag, cases[i].to,
				    cases[i].value) == cases[i].ranges,
		       "%s: %u ranges", cases[i].what, cases[i].ranges);
}

/* None, or two that are the same. */
static void test_sections(const char *path)
{
	struct abi_elf_plan plan;
	Elf64_Phdr *dynamic;
	u64 len;
	u8 *file = read_all(path, &len);

	plan_segments(file, BIAS, &plan);
	dynamic = dynamic_header(file);
	dynamic[1] = *dynamic;
	tap_ok(!bee_pointer_ranges(&plan, file, len, range),
	       "any word with two dynamic sections");
	dynamic[1].p_type = dynamic->p_type = PT_NOTE;
	tap_ok(!bee_pointer_ranges(&plan, file, len, range),
	       "any word without a dynamic section");
	free(file);
}

static int are_loaded(const struct abi_elf_plan *plan, const u8 *file, u32 n)
{
	u64 left;

	for (u32 i = 0; i < n; i++) {
		bee_file_loaded(plan, file, range[i].start, &left);
		if (range[i].end <= range[i].start ||
		    range[i].end - range[i].start > left)
			return 0;
	}
	return n <= BEE_POINTERS_MAX;
}

static void test_lies(const char *path)
{
	struct abi_elf_plan plan;
	u64 len, at, value;
	u8 *file = read_all(path, &len);
	Elf64_Phdr dynamic = *dynamic_header(file);
	u8 old[8];
	u32 n, found = 0;
	int ok = 1;

	plan_segments(file, BIAS, &plan);
	for (int i = 0; i < LIES; i++) {
		at = rand() % 2 ? 64 + (u64)rand() % 600
				: dynamic.p_offset +
					  (u64)rand() % dynamic.p_filesz;
		value = rand() % 2 ? ~0ull << rand() % 64
				   : (u64)rand() * 2654435761u;
		memcpy(old, file + at, 8);
		memcpy(file + at, &value, (size_t)(1 + rand() % 8));
		n = bee_pointer_ranges(&plan, file, len, range);
		ok &= are_loaded(&plan, file, n);
		found += n > 0;
		memcpy(file + at, old, 8);
	}
	tap_ok(ok && found > LIES / 2 && found < LIES,
	       "damaged headers do no harm");
	free(file);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	test_fixed(argv[1]);
	test_program(argv[2]);
	test_program(argv[3]);
	test_changes(argv[3], value_of(argv[3], DT_SYMTAB));
	test_sections(argv[3]);
	test_lies(argv[3]);
	return tap_done();
}
