/* SPDX-License-Identifier: MIT */
/* What the files of core share, and what assembly calls or defines. */
#ifndef BEE_CORE_CORE_H
#define BEE_CORE_CORE_H

#include "bee/core/bee.h"

/* entry.S */
__attribute__((noreturn)) void bee_enter(struct bee_thread *t);
u32 bee_call(struct bee_thread *t, struct abi_regs *regs);
void bee_tick(struct bee_thread *t);
void bee_fault(struct bee_thread *t);
void bee_cpu_call(struct abi_regs *regs, u32 is_xgetbv);

/*
 * unwind.c: function ranges of a loaded image, sorted; 0 if none are known.
 * `file` is the complete file that the segments came from.
 */
u32 bee_unwind_ranges(const struct abi_elf_plan *plan, const u8 *file,
		      u64 file_len, struct bee_range *range, u32 max);
/* Starts and ends of executable sections, sorted. They are hints: any value is
 * safe. */
u32 bee_unwind_edges(const struct abi_elf_plan *plan, const u8 *file,
		     u64 file_len, u64 *edge, u32 max);
/* The file's bytes that are loaded at addr, and how many follow in the segment;
 * NULL and 0 if there are none. */
const u8 *bee_file_loaded(const struct abi_elf_plan *plan, const u8 *file,
			  u64 addr, u64 *len);
/* Copies program header i. 0: there is none. */
struct elf_phdr;
int bee_file_phdr(const u8 *file, u64 len, u64 i, struct elf_phdr *ph);

/*
 * pointers.c: where segments that are not writable may hold addresses of code.
 * 0: anywhere.
 */
u32 bee_pointer_ranges(const struct abi_elf_plan *plan, const u8 *file,
		       u64 file_len, struct bee_range range[BEE_POINTERS_MAX]);

/* gate.S */
extern void *bee_gate_real[BEE_GATE_OPS];
extern const u8 bee_gate_thunks[];
enum bee_vec_mode { BEE_VEC_FXSAVE, BEE_VEC_XSAVE, BEE_VEC_XSAVEC };
extern u32 bee_vec_mode, bee_vec_mask;
void bee_vec_xsave(void *buf, u32 mask);
void bee_vec_xrstor(const void *buf, u32 mask);
void bee_vec_fxsave(void *buf);
void bee_vec_fxrstor(const void *buf);
void bee_gate_init(const struct abi_host *os);
/* cpu.c: removes from a CPUID result what guests must not see. */
void bee_cpuid_hide(u32 leaf, u32 sub, u32 out[4]);
/* A host's function that reads REALTIME and MONOTONIC without the gate, or
 * NULL. Set before bee_load. */
extern s64 (*bee_clock_quick)(u32 clock);

/* Slots of the calling thread that its text uses: CANARY, SCRATCH, SCRATCH2. */
void bee_slots_read(u64 slot[3]);
void bee_slots_write(const u64 slot[3]);

/* The calling guest thread. */
struct bee_thread *bee_self(void);

/* sha256.c, sha256_ni.S. Starts a digest with the fastest implementation for
 * this CPU, which the first use chooses unless a test has set it; see
 * base/sha256.h. */
enum { BEE_SHA256_UNKNOWN, BEE_SHA256_PLAIN, BEE_SHA256_NI };
extern u32 bee_sha256_way;
void bee_sha256_init(struct skep_sha256 *s);
skep_sha256_blocks_fn bee_sha256_ni;

/* Prints one sentence: `before`, `subject`, `after`. */
void bee_say(const char *before, const char *subject, const char *after);

#endif
