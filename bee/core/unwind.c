/* SPDX-License-Identifier: MIT */
/*
 * Finds a file's unwind data (.eh_frame), and where its executable sections
 * begin and end. Owns nothing; runs while loading.
 *
 * PT_GNU_EH_FRAME refers to it, but linkers omit that from static programs that
 * are not position-independent; then the section headers are used. Both come
 * from the file and are not trusted. Results are always inside of the loaded
 * bytes; wrong data only finds less code.
 */
#include "abi/include/elf.h"
#include "bee/core/core.h"

#define PT_GNU_EH_FRAME 0x6474e550u
#define SHF_ALLOC 2
#define SHF_EXECINSTR 4
#define SHT_NOBITS 8

struct section {
	u32 name, type;
	u64 flags, addr, offset, size;
	u32 link, info;
	u64 align, entsize;
};
SKEP_ASSERT_SIZE(struct section, 64);

const u8 *bee_file_loaded(const struct abi_elf_plan *plan, const u8 *file,
			  u64 addr, u64 *len)
{
	const struct abi_elf_segment *s;
	u32 i;

	for (i = 0; i < plan->segments; i++) {
		s = &plan->segment[i];
		if (addr < s->addr || addr - s->addr >= s->filesz)
			continue;
		*len = s->filesz - (addr - s->addr);
		return file + s->offset + (addr - s->addr);
	}
	*len = 0;
	return 0;
}

int bee_file_phdr(const u8 *file, u64 len, u64 i, struct elf_phdr *ph)
{
	struct elf_header eh;
	u64 off;

	if (len < sizeof(eh))
		return 0;
	abi_memcpy(&eh, file, sizeof(eh));
	if (eh.phentsize != sizeof(*ph) || i >= eh.phnum ||
	    __builtin_add_overflow(eh.phoff, i * sizeof(*ph), &off) ||
	    off > len || len - off < sizeof(*ph))
		return 0;
	abi_memcpy(ph, file + off, sizeof(*ph));
	return 1;
}

static u64 by_header(const struct abi_elf_plan *plan, const u8 *file,
		     u64 file_len)
{
	struct elf_phdr ph;
	const u8 *hdr;
	u64 i, addr, len, frame;

	for (i = 0; bee_file_phdr(file, file_len, i, &ph); i++) {
		if (ph.type != PT_GNU_EH_FRAME)
			continue;
		addr = ph.vaddr + plan->bias;
		hdr = bee_file_loaded(plan, file, addr, &len);
		return hdr && !bee_eh_find(hdr, len, addr, &frame) ? frame : 0;
	}
	return 0;
}

/* Copies section i of the file, because the table need not be aligned. */
static int read_section(const u8 *file, u64 len, u64 i, struct section *s)
{
	struct elf_header eh;
	u64 off;

	if (len < sizeof(eh))
		return 0;
	abi_memcpy(&eh, file, sizeof(eh));
	if (eh.shentsize != sizeof(*s) || i >= eh.shnum ||
	    __builtin_add_overflow(eh.shoff, i * sizeof(*s), &off) ||
	    off > len || len - off < sizeof(*s))
		return 0;
	abi_memcpy(s, file + off, sizeof(*s));
	return 1;
}

static int is_named(const u8 *file, u64 len, const struct section *names,
		    u64 name)
{
	static const char want[] = ".eh_frame";
	u64 off;

	return names->type != SHT_NOBITS && names->size >= sizeof(want) &&
	       name <= names->size - sizeof(want) &&
	       !__builtin_add_overflow(names->offset, name, &off) &&
	       off <= len && len - off >= sizeof(want) &&
	       !abi_memcmp(file + off, want, sizeof(want));
}

static int by_sections(const u8 *file, u64 len, struct section *found)
{
	struct elf_header eh;
	struct section names;
	u64 i;

	if (len < sizeof(eh))
		return 0;
	abi_memcpy(&eh, file, sizeof(eh));
	if (!read_section(file, len, eh.shstrndx, &names))
		return 0;
	for (i = 0; read_section(file, len, i, found); i++)
		if (found->flags & SHF_ALLOC && found->type != SHT_NOBITS &&
		    is_named(file, len, &names, found->name))
			return 1;
	return 0;
}

u32 bee_unwind_ranges(const struct abi_elf_plan *plan, const u8 *file,
		      u64 file_len, struct bee_range *range, u32 max)
{
	u64 frame = by_header(plan, file, file_len), len;
	const u8 *bytes = bee_file_loaded(plan, file, frame, &len);
	struct section section;

	if (by_sections(file, file_len, &section)) {
		section.addr += plan->bias;
		if (!len) {
			frame = section.addr;
			bytes = bee_file_loaded(plan, file, frame, &len);
		}
		/* The rest of the segment is not unwind data. */
		if (section.addr == frame && section.size < len)
			len = section.size;
	}
	return len ? bee_eh_ranges(bytes, len, frame, range, max) : 0;
}

static void insert_edge(u64 *edge, u32 n, u64 addr)
{
	for (; n && edge[n - 1] > addr; n--)
		edge[n] = edge[n - 1];
	edge[n] = addr;
}

u32 bee_unwind_edges(const struct abi_elf_plan *plan, const u8 *file,
		     u64 file_len, u64 *edge, u32 max)
{
	struct section s;
	u32 n = 0;
	u64 i;

	for (i = 0; read_section(file, file_len, i, &s); i++) {
		if (!(s.flags & SHF_EXECINSTR) || max - n < 2)
			continue;
		insert_edge(edge, n++, s.addr + plan->bias);
		insert_edge(edge, n++, s.addr + s.size + plan->bias);
	}
	return n;
}
