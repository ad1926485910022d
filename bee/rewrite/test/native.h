/* SPDX-License-Identifier: MIT */
/*
 * A snippet of machine code at TEXT, its run in this process (native_asm.S),
 * and its rewriting in place, with FS at unmapped memory and GS at the slots.
 */
#ifndef BEE_REWRITE_TEST_NATIVE_H
#define BEE_REWRITE_TEST_NATIVE_H

#include <string.h>

#include "bee/rewrite/rewrite.h"

/* What a run starts from, and ends with. */
struct native_cpu {
	u64 gpr[16];
	u64 flags, fs, gs, code, rest[8];
};
extern struct native_cpu native_cpu;
extern u8 native_vectors[16384];
void native_run(void);
void native_exit(void);
void native_entry(void);
void native_cpu_entry(void);

#define TEXT 0x50000000ULL
#define STUBS 0x51000000ULL
#define STACK 0x10000000ULL
#define TP 0x20000000ULL
#define ARITH_FLAGS 0x8d5

static u8 teb[8192] __attribute__((aligned(4096)));

static u8 *host_pointer(u64 addr)
{
	return (u8 *)addr;
}

/* The thread's slots, as bee fills them; the canary is what TP has now. */
static void set_slots(void)
{
	u64 slot[SKEP_SLOT_COUNT] = {0};

	slot[SKEP_SLOT_TP] = TP;
	memcpy(&slot[SKEP_SLOT_CANARY], host_pointer(TP + 0x28), 8);
	slot[SKEP_SLOT_ENTRY] = (u64)native_entry;
	slot[SKEP_SLOT_CPU_ENTRY] = (u64)native_cpu_entry;
	memcpy(teb + SKEP_TEB_SLOT_BASE, slot, sizeof(slot));
}

/* [TEXT, TEXT + len); what rw points to is good until the next call. */
static int rewrite_text(u64 len, struct bee_rewrite *rw)
{
	static struct bee_site sites[64];
	static struct bee_stub_pc pcs[512];
	static u8 marks[4096];

	memset(marks, 0, sizeof(marks));
	*rw = (struct bee_rewrite){
		.text = {{host_pointer(TEXT), TEXT, len}},
		.texts = 1,
		.entry = TEXT,
		.stubs = host_pointer(STUBS),
		.stubs_addr = STUBS,
		.stubs_len = 4096,
		.site = sites,
		.sites_max = 64,
		.pc = pcs,
		.pcs_max = 512,
		.marks = marks,
	};
	for (int i = 0; i < SKEP_SLOT_COUNT; i++)
		rw->slot[i] = SKEP_TEB_SLOT_BASE + 8 * i;
	return bee_rewrite(rw);
}

#endif
