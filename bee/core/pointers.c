/* SPDX-License-Identifier: MIT */
/*
 * Finds where the read-only data of a file may hold addresses of code. Owns
 * nothing; runs while loading.
 *
 * A position-independent file is linked for an address at which it does not
 * run, so the loader must relocate each address in its data, and can only write
 * to the segments that are writable at first. Addresses in the others are those
 * that the loader reads: in the dynamic section and the tables that it names
 * (System V ABI, chapter 5). Every other word there is a number, even if it
 * looks like an address of code. All fields come from the file and are not
 * trusted: what cannot be understood gives no ranges, and then every word may
 * be an address.
 */
#include "abi/include/elf.h"
#include "bee/core/core.h"

enum { PT_DYNAMIC = 2, DF_TEXTREL = 4 };
enum {
	DT_NULL = 0,
	DT_PLTRELSZ = 2,
	DT_HASH = 4,
	DT_STRTAB = 5,
	DT_SYMTAB = 6,
	DT_RELA = 7,
	DT_RELASZ = 8,
	DT_TEXTREL = 22,
	DT_JMPREL = 23,
	DT_FLAGS = 30,
	DT_SMALL = 31, /* the tags above, by number */
	DT_GNU_HASH = 0x6ffffef5,
	DT_VERSYM = 0x6ffffff0,
	DT_VERDEF = 0x6ffffffc,
	DT_VERNEED = 0x6ffffffe,
};

struct search {
	const struct abi_elf_plan *plan;
	const u8 *file;
	u64 value[DT_SMALL]; /* of the dynamic section */
	u64 present;	     /* bit i: value[i] is there */
	struct bee_range *range;
	u32 ranges;
};

/* Adds `len` bytes that are linked for `addr`. 0: they are not in the file. */
static int add_range(struct search *s, u64 addr, u64 len)
{
	u64 left;

	if (!len)
		return 1;
	addr += s->plan->bias;
	bee_file_loaded(s->plan, s->file, addr, &left);
	if (len > left)
		return 0;
	s->range[s->ranges++] = (struct bee_range){addr, addr + len};
	return 1;
}

/* The only dynamic section. 0: there is none, or there are several. */
static int find_dynamic(struct search *s, u64 file_len, struct elf_phdr *found)
{
	struct elf_phdr ph;
	u32 i, n = 0;

	for (i = 0; bee_file_phdr(s->file, file_len, i, &ph); i++) {
		if (ph.type != PT_DYNAMIC)
			continue;
		*found = ph;
		n++;
	}
	return n == 1 && add_range(s, found->vaddr, found->filesz);
}

/* Reads entry i of the section, until its last one. */
static int read_entry(const struct search *s, const struct elf_phdr *ph, u64 i,
		      u64 entry[2])
{
	const u8 *bytes;
	u64 left;

	if (i >= ph->filesz / 16)
		return 0;
	bytes = bee_file_loaded(s->plan, s->file,
				ph->vaddr + s->plan->bias + 16 * i, &left);
	abi_memcpy(entry, bytes, 16);
	return entry[0] != DT_NULL;
}

static void read_values(struct search *s, const struct elf_phdr *ph)
{
	u64 i, entry[2];

	for (i = 0; read_entry(s, ph, i, entry); i++) {
		if (entry[0] >= DT_SMALL)
			continue;
		s->value[entry[0]] = entry[1];
		s->present |= 1ull << entry[0];
	}
}

static int names_table(u64 tag)
{
	return tag == DT_HASH || tag == DT_STRTAB || tag == DT_RELA ||
	       tag == DT_JMPREL || tag == DT_GNU_HASH || tag == DT_VERSYM ||
	       tag == DT_VERDEF || tag == DT_VERNEED;
}

/* No entry has the length of the symbols: they end at the next table, or with
 * their segment. */
static int add_symbols(struct search *s, const struct elf_phdr *ph)
{
	u64 start = s->value[DT_SYMTAB], i, entry[2], len;

	if (!(s->present >> DT_SYMTAB & 1))
		return 1;
	if (!bee_file_loaded(s->plan, s->file, start + s->plan->bias, &len))
		return 0;
	for (i = 0; read_entry(s, ph, i, entry); i++)
		if (names_table(entry[0]) && entry[1] > start &&
		    entry[1] - start < len)
			len = entry[1] - start;
	return add_range(s, start, len);
}

static int is_relocatable(const struct abi_elf_plan *plan, const u8 *file,
			  u64 file_len)
{
	struct elf_header eh;

	if (!plan->bias || file_len < sizeof(eh))
		return 0;
	abi_memcpy(&eh, file, sizeof(eh));
	return eh.type == ELF_TYPE_DYN;
}

u32 bee_pointer_ranges(const struct abi_elf_plan *plan, const u8 *file,
		       u64 file_len, struct bee_range range[BEE_POINTERS_MAX])
{
	struct search s = {.plan = plan, .file = file, .range = range};
	struct elf_phdr ph = {0};

	if (!is_relocatable(plan, file, file_len) ||
	    !find_dynamic(&s, file_len, &ph))
		return 0;
	read_values(&s, &ph);
	/* Such relocations are in segments that are not writable. */
	if (s.present >> DT_TEXTREL & 1 || s.value[DT_FLAGS] & DF_TEXTREL)
		return 0;
	if (!add_range(&s, s.value[DT_RELA], s.value[DT_RELASZ]) ||
	    !add_range(&s, s.value[DT_JMPREL], s.value[DT_PLTRELSZ]) ||
	    !add_symbols(&s, &ph))
		return 0;
	return s.ranges;
}
