/* SPDX-License-Identifier: MIT */
/*
 * Unwind data of a real program, found by section headers; then the same with
 * damaged headers, under the sanitizers: no read may leave the bytes.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/include/elf.h"
#include "bee/core/core.h"
#include "tests/tap.h"

enum { MAX = 1 << 16, EDGES = 64, LIES = 5000 };

static struct bee_range range[MAX];
static u64 edge[EDGES];

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

/* The segments as a loader places them, `bias` away from where they are linked
 * for. */
static void plan_segments(const u8 *file, u64 bias, struct abi_elf_plan *plan)
{
	const Elf64_Ehdr *eh = (const void *)file;
	const Elf64_Phdr *ph = (const void *)(file + eh->e_phoff);
	int i;

	memset(plan, 0, sizeof(*plan));
	plan->bias = bias;
	for (i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD)
			plan->segment[plan->segments++] =
				(struct abi_elf_segment){
					.addr = ph[i].p_vaddr + bias,
					.filesz = ph[i].p_filesz,
					.offset = ph[i].p_offset};
}

/* One field of the section table, or of the header that leads to it. */
static void corrupt_section(u8 *copy, u64 len, const u8 *file)
{
	const Elf64_Ehdr *eh = (const void *)file;
	u64 at = 40 + (u64)rand() % 24, value;

	if (rand() % 4)
		at = eh->e_shoff + (u64)rand() % (eh->e_shnum * 64u);
	value = rand() % 2 ? ~0ull << rand() % 64 : (u64)rand() * 2654435761u;
	if (at + 8 <= len)
		memcpy(copy + at, &value, (size_t)(1 + rand() % 8));
}

/* Only the names before `more` bytes behind the name ".eh_frame" are left. */
static u32 count_ranges(const struct abi_elf_plan *plan, const u8 *file,
			u64 len, u64 more)
{
	static const char want[] = ".eh_frame";
	u8 *copy = malloc(len);
	Elf64_Shdr *names, *s;
	u32 n = 0;

	memcpy(copy, file, len);
	s = (void *)(copy + ((Elf64_Ehdr *)copy)->e_shoff);
	names = &s[((Elf64_Ehdr *)copy)->e_shstrndx];
	for (int i = 0; i < ((Elf64_Ehdr *)copy)->e_shnum; i++) {
		if (strcmp((char *)copy + names->sh_offset + s[i].sh_name,
			   want) != 0)
			continue;
		names->sh_size = s[i].sh_name + more;
		n = bee_unwind_ranges(plan, copy, len, range, MAX);
		break;
	}
	free(copy);
	return n;
}

/* A stripped program at an address other than the one it was linked for. */
static void test_moved(const char *path)
{
	const u64 bias = 0x201000000000;
	struct abi_elf_plan plan;
	u64 len;
	u8 *file = read_all(path, &len);
	u32 n;

	plan_segments(file, bias, &plan);
	((Elf64_Ehdr *)file)->e_shnum = 0;
	n = bee_unwind_ranges(&plan, file, len, range, MAX);
	tap_ok(n > 100 && range[0].start - bias < len,
	       "functions are found by the program header of a moved program");
	free(file);
}

static int edges_sorted(u32 n)
{
	for (u32 i = 1; i < n; i++)
		if (edge[i] < edge[i - 1])
			return 0;
	return 1;
}

/* A file that is nothing but its header, whose end is a program header. */
static void test_last_bytes(void)
{
	Elf64_Ehdr eh = {.e_phentsize = sizeof(Elf64_Phdr),
			 .e_phoff = sizeof(eh) - sizeof(Elf64_Phdr),
			 .e_phnum = 2};
	u8 *file = malloc(sizeof(eh));
	struct elf_phdr ph;

	memcpy(file, &eh, sizeof(eh));
	tap_ok(bee_file_phdr(file, sizeof(eh), 0, &ph) &&
		       !memcmp(&ph, file + eh.e_phoff, sizeof(ph)),
	       "a program header may end with the file");
	tap_ok(!bee_file_phdr(file, sizeof(eh), 1, &ph) &&
		       !bee_file_phdr(file, sizeof(eh) - 1, 0, &ph),
	       "but not behind it");
	free(file);
}

int main(int argc, char **argv)
{
	struct abi_elf_plan plan;
	u64 len, cut;
	u32 n, edges, found = 0;
	u8 *file, *copy;
	int ok = 1;

	if (argc != 3)
		return 2;
	file = read_all(argv[1], &len);
	plan_segments(file, 0, &plan);
	n = bee_unwind_ranges(&plan, file, len, range, MAX);
	tap_ok(count_ranges(&plan, file, len, sizeof(".eh_frame")) == n &&
		       !count_ranges(&plan, file, len, sizeof(".eh_frame") - 1),
	       "a name that ends behind the names names no section");
	edges = bee_unwind_edges(&plan, file, len, edge, EDGES);
	tap_ok(n > 100, "functions are found by section headers");
	tap_ok(edges >= 4 && edges_sorted(edges),
	       "executable sections are found");
	tap_ok(bee_unwind_edges(&plan, file, len, edge, edges) == edges &&
		       bee_unwind_edges(&plan, file, len, edge, edges - 1) ==
			       edges - 2,
	       "as many sections as there is room for");
	copy = malloc(len);
	memcpy(copy, file, len);
	for (int i = 0; i < LIES; i++) {
		memcpy(copy, file, 64);
		cut = ((Elf64_Ehdr *)file)->e_shoff;
		memcpy(copy + cut, file + cut, len - cut);
		corrupt_section(copy, len, file);
		n = bee_unwind_ranges(&plan, copy, len, range, MAX);
		found += n > 100;
		n = bee_unwind_edges(&plan, copy, len, edge, EDGES);
		ok &= n <= EDGES && edges_sorted(n);
	}
	tap_ok(ok && found > LIES / 2 && found < LIES,
	       "damaged headers do no harm");
	free(copy);
	for (cut = 0; cut < 200; cut++) {
		copy = malloc(cut + 1);
		memcpy(copy, file, cut);
		ok &= bee_unwind_edges(&plan, copy, cut, edge, EDGES) == 0;
		free(copy);
	}
	tap_ok(ok, "a file cut short has no sections");
	test_moved(argv[2]);
	test_last_bytes();
	free(file);
	return tap_done();
}
