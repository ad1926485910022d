/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two pieces of code that are copied to where a core executes them.
 *
 * The first is copied to a page below 1 MiB, which is borrowed during a start:
 * it switches from real mode to 64-bit mode. The second stays with the
 * partition, below 4 GiB, so that the borrowed page is free as soon as a core
 * has answered. It answers and jumps to the image's entry, or halts (parks) if
 * there is no entry.
 */
#ifndef SHIMOS_KMOD_TRAMPOLINE_H
#define SHIMOS_KMOD_TRAMPOLINE_H

/* Selectors in the second piece's descriptor table. */
#define SHIMOS_CODE64 0x08

#ifndef __ASSEMBLER__
#include <linux/types.h>

struct shimos_low_data {
	u16 idt_limit;
	u32 idt_base;
	u16 gdt_limit;
	u32 gdt_base;
	u32 cr3;
	u32 jump_offset;
	u16 jump_selector;
} __packed;

struct shimos_stage_data {
	u64 gdt[2];
	u16 idt_limit;
	u64 idt_base;
	u16 gdt_limit;
	u64 gdt_base;
	u64 stack; /* of this core */
	u64 entry; /* 0: the core parks */
	u64 partition;
	u32 core;
	u32 answer; /* core + 1 when the core has started */
} __packed;

extern char shimos_low_begin[], shimos_low_end[], shimos_low_data[];
extern char shimos_low_return[];
extern char shimos_stage_begin[], shimos_stage_end[], shimos_stage_data[];
extern char shimos_stage_nmi[], shimos_stage_halt[];
#endif

#endif
