/* SPDX-License-Identifier: MIT */
/*
 * Load-time rewriting of guest text. Pure: bytes in, bytes and a map out.
 *
 * Every `syscall` becomes a jump to a stub that jumps to bee's entry; every
 * `fs:` access goes through thread slots in gs:; `cpuid` and `xgetbv` become
 * calls like system calls. No trap, nothing on the guest's stack (its red zone
 * is live). A site that cannot be decided is refused, never left.
 */
#ifndef BEE_REWRITE_H
#define BEE_REWRITE_H

#include <skep/types.h>
#include <skep/guest.h>

/*
 * What stubs hand to bee's entries (bee/core/entry_*.S reads it):
 *
 *   syscall        lea ret(%rip), %rcx; jmp *%gs:slot[ENTRY]
 *   cpuid, xgetbv  lea ret(%rip), %rdx; movl $kind, %gs:slot[SCRATCH];
 *                  jmp *%gs:slot[CPU_ENTRY]
 *
 * rdx is an output of both instructions; kind is BEE_SITE_CPUID or _XGETBV.
 * The CPU entry keeps the flags and every register that is no output.
 */
#define BEE_MAP_REVISION 1

enum bee_site_kind {
	BEE_SITE_SYSCALL,
	BEE_SITE_FS, /* fs: access through a stub */
	BEE_SITE_FS_INPLACE, /* same length, now gs:[slot] */
	BEE_SITE_CPUID,
	BEE_SITE_XGETBV,
	BEE_SITE_KINDS,
};

/* One rewritten site; the map is an array of these, sorted by addr. */
struct bee_site {
	u64 addr; /* first byte of the instruction itself */
	u64 patch; /* first byte overwritten */
	u64 stub; /* 0 for in place */
	u16 stub_len;
	u8 patch_len;
	u8 kind;
	u8 slot_at[2]; /* offsets in stub (or patch) of slot disp32 fields, 0: none */
	u8 pad[2];
};

/* A run of stub bytes that stands for one guest instruction. */
struct bee_stub_pc {
	u64 stub; /* address in the stub */
	u64 guest; /* the guest PC it stands for */
};

/* One executable range, and what is known to be code in it. */
struct bee_text {
	u8 *bytes; /* writable view of the text */
	u64 addr; /* guest address of bytes[0] */
	u64 len;
};

struct bee_range {
	u64 start, end;
};

struct bee_rewrite {
	/* in */
	struct bee_text text[16];
	u32 texts;
	const struct bee_range *code; /* function ranges from .eh_frame / symbols, sorted; 0: all is code */
	u32 codes;
	u64 entry; /* ELF entry point: a known branch target */
	s32 slot[SKEP_SLOT_COUNT]; /* gs: displacements */
	u8 *stubs; /* where stub bytes are written */
	u64 stubs_addr; /* their guest address */
	u64 stubs_len;
	/* working memory and results, caller's; sizes by bee_rewrite_sizes */
	struct bee_site *site;
	u32 sites, sites_max;
	struct bee_stub_pc *pc;
	u32 pcs, pcs_max;
	u8 *marks; /* one byte of flags per text byte of all ranges, zeroed */
	/* out */
	u64 stubs_used;
	u32 found[BEE_SITE_KINDS], patched[BEE_SITE_KINDS];
	u64 bad_addr; /* on error: where */
	char why[160]; /* on error: one sentence */
};

/*
 * 0, or -ENOEXEC with why and bad_addr (nothing was changed), -ENOMEM when the
 * stub space or an array is too small (nothing was changed).
 */
int bee_rewrite(struct bee_rewrite *rw);

/*
 * Code made at run time cannot be rewritten soundly: check every byte offset
 * for syscall, int 0x80, sysenter, fs:, gs:, cpuid, xgetbv, wrfsbase.
 * 0, or -EACCES with the offset in *bad and a sentence in why[160].
 */
int bee_text_check(const u8 *bytes, u64 len, u64 *bad, char *why);

/* Length of the instruction at p (at most `max` bytes), or negative: invalid. */
struct bee_insn {
	u8 len;
	u8 opcode_at; /* offset of the opcode */
	u8 modrm_at; /* 0: none */
	u8 disp_at, disp_len;
	u8 imm_at, imm_len;
	u8 seg; /* 0, 0x64, 0x65 */
	u8 rex;
	u8 map; /* 0: one byte, 1: 0f, 2: 0f38, 3: 0f3a, 4+: VEX/EVEX maps */
	u8 opcode;
	u8 modrm, sib;
	u8 rip_relative;
	u8 branch; /* BEE_BRANCH_* */
	s64 target; /* relative to the end of the instruction, for direct branches */
};
enum { BEE_BRANCH_NONE, BEE_BRANCH_JMP, BEE_BRANCH_JCC, BEE_BRANCH_CALL,
       BEE_BRANCH_RET, BEE_BRANCH_INDIRECT };
int bee_decode(const u8 *p, u64 max, struct bee_insn *insn);

#endif
