/* SPDX-License-Identifier: MIT */
/*
 * The clock without the gate. The kernel's own clock function in the vDSO
 * (vdso(7)) is called with the guest's vector state live and FS at the guard.
 * So it is decoded first: it may use only general registers, no fs:, and no
 * jump out of the vDSO. If that cannot be shown, the gate is used. Owns
 * `read_clock`, written before the first guest thread exists. Built for general
 * registers only.
 */
#include <elf.h>
#include <sys/auxv.h>

#include "base/errno.h"
#include "bee/core/core.h"
#include "host.h"

#define VDSO_MAX 0x4000u

struct kernel_time {
	s64 sec, nsec;
};
static int (*read_clock)(s32 id, struct kernel_time *now);

struct symbols {
	const u8 *base;
	u64 len; /* loaded bytes, at most VDSO_MAX */
	const Elf64_Sym *symbol;
	const char *names;
};

/* Whether a one-byte opcode is allowed: all but x87. */
static int is_general(const u8 *p, const struct bee_insn *insn)
{
	u8 op = insn->opcode;

	if (insn->vex || insn->map > 1 || (insn->memory && insn->seg))
		return 0;
	if (!insn->map)
		return op < 0xd8 || op > 0xdf;
	/* SSE and MMX by the opcode map of the Intel SDM, 0f 77 included */
	return !((op >= 0x10 && op <= 0x17) || (op >= 0x28 && op <= 0x2f) ||
		 (op >= 0x50 && op <= 0x7f) || op == 0xc2 ||
		 (op >= 0xc4 && op <= 0xc6) || op >= 0xd0 ||
		 (op == 0xae && p[insn->modrm_at] < 0xc0));
}

/* Instructions of the vDSO's pages that were reached, and those still to be
 * decoded. */
struct walk {
	const u8 *base;
	u64 len;
	u32 todo, list[128];
	u8 seen[VDSO_MAX];
};

static int reach_code(struct walk *w, u64 off)
{
	if (off >= w->len || w->todo == sizeof(w->list) / sizeof(w->list[0]))
		return 0;
	if (!w->seen[off])
		w->list[w->todo++] = (u32)off;
	return 1;
}

/* Decodes one path, until control does not fall through. */
static int walk_path(struct walk *w, u64 off)
{
	struct bee_insn insn;

	for (; off < w->len && !w->seen[off]; off += insn.len) {
		if (bee_decode(w->base + off, w->len - off, &insn) < 0 ||
		    !is_general(w->base + off, &insn) ||
		    insn.branch == BEE_BRANCH_INDIRECT)
			return 0;
		w->seen[off] = 1;
		if (insn.branch == BEE_BRANCH_RET)
			return 1;
		if (insn.branch == BEE_BRANCH_NONE)
			continue;
		if (!reach_code(w, off + insn.len + (u64)insn.target))
			return 0;
		if (insn.branch == BEE_BRANCH_JMP)
			return 1;
	}
	return off < w->len;
}

/* Decodes all code that is reachable from `code`. */
static int is_safe(const struct symbols *s, const u8 *code)
{
	static struct walk w;

	w.base = s->base;
	w.len = s->len;
	if (!reach_code(&w, (u64)(code - s->base)))
		return 0;
	while (w.todo)
		if (!walk_path(&w, w.list[--w.todo]))
			return 0;
	return 1;
}

static void read_dynamic(struct symbols *s, const Elf64_Phdr *ph, u64 bias)
{
	const Elf64_Dyn *d = (const void *)(s->base + ph->p_offset);

	for (; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			s->symbol = (const void *)(d->d_un.d_ptr + bias);
		if (d->d_tag == DT_STRTAB)
			s->names = (const void *)(d->d_un.d_ptr + bias);
	}
}

/* The string table follows the symbol table, where every linker places it. */
static const u8 *find_symbol(struct symbols *s, const char *name)
{
	const Elf64_Ehdr *eh = (const void *)s->base;
	const Elf64_Phdr *ph = (const void *)(s->base + eh->e_phoff);
	const Elf64_Sym *symbol;
	u64 bias = 0;
	u32 i;

	for (i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type != PT_LOAD || ph[i].p_offset)
			continue;
		bias = (u64)(__UINTPTR_TYPE__)s->base - ph[i].p_vaddr;
		s->len = ph[i].p_filesz < VDSO_MAX ? ph[i].p_filesz : VDSO_MAX;
	}
	for (i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_DYNAMIC)
			read_dynamic(s, &ph[i], bias);
	if (!s->symbol || (const char *)s->symbol > s->names)
		return 0;
	for (symbol = s->symbol; (const char *)(symbol + 1) <= s->names;
	     symbol++) {
		if (abi_streq(s->names + symbol->st_name, name))
			return (const u8 *)(__UINTPTR_TYPE__)(symbol->st_value +
							      bias);
	}
	return 0;
}

/* Reads the two most frequent clocks without the gate. */
static s64 quick_clock(u32 clock)
{
	struct kernel_time now;

	/* CLOCK_REALTIME 0, CLOCK_MONOTONIC 1: abi's numbers are the same. */
	if (read_clock((s32)clock, &now))
		return -LINUX_EINVAL;
	return now.sec * 1000000000ll + now.nsec +
	       (clock == ABI_CLOCK_MONOTONIC ? lin_clock_ahead : 0);
}

_Static_assert(ABI_CLOCK_REALTIME == 0 && ABI_CLOCK_MONOTONIC == 1,
	       "as clock_gettime(2) numbers them");

void lin_vdso_init(void)
{
	struct symbols s = {
		.base = (const u8 *)(__UINTPTR_TYPE__)getauxval(
			AT_SYSINFO_EHDR),
	};
	const u8 *code;

	if (!s.base)
		return;
	code = find_symbol(&s, "__vdso_clock_gettime");
	if (!code || !is_safe(&s, code))
		return;
	read_clock = (int (*)(s32, struct kernel_time *))(__UINTPTR_TYPE__)code;
	bee_clock_quick = quick_clock;
}
