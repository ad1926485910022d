/* SPDX-License-Identifier: MIT */
/*
 * Rewrites the guest's text when it is loaded. Pure: it changes the bytes of
 * the text and returns a map.
 *
 * Every `syscall` becomes a jump to a stub, which jumps to bee's entry. Every
 * `fs:` access uses thread slots in gs:. `cpuid` and `xgetbv` enter bee like
 * system calls. Stubs do not trap, and do not use the guest's stack, because
 * its red zone may be in use. A site that cannot be rewritten is refused, and
 * never left unchanged.
 */
#ifndef BEE_REWRITE_H
#define BEE_REWRITE_H

#include <skep/types.h>
#include <skep/guest.h>

/*
 * What stubs hand to bee's entries (bee/core/entry_*.S reads it):
 *
 *   syscall        lea ret(%rip), %rcx; jmp *%gs:slot[ENTRY]
 *   cpuid, xgetbv  r11 to slot SCRATCH2, rcx to slot SCRATCH; r11 = 1 for
 *                  xgetbv, else 0; lea ret(%rip), %rcx;
 *                  jmp *%gs:slot[CPU_ENTRY]
 *
 * The CPU entry keeps the flags and every register that is no output.
 */
#define BEE_MAP_REVISION 2

enum bee_site_kind {
	BEE_SITE_SYSCALL,
	BEE_SITE_FS,	     /* fs: access through a stub */
	BEE_SITE_FS_INPLACE, /* same length, becomes gs:[slot] */
	BEE_SITE_CPUID,
	BEE_SITE_XGETBV,
	BEE_SITE_MOVED, /* others, moved so that a jump has room */
	BEE_SITE_KINDS,
};

/* How control goes from the text to the stub. */
enum bee_site_form {
	BEE_FORM_INPLACE,
	BEE_FORM_JMP,  /* jmp rel32 at `patch` */
	BEE_FORM_CALL, /* nops, then the guest's call, through the stub */
	BEE_FORM_CAVE, /* jmp rel8 at `patch` to a jmp rel32 at `cave` */
};

/* One rewritten site; the map is an array of these, sorted by addr. */
struct bee_site {
	u64 addr;  /* first byte of the instruction itself */
	u64 patch; /* first byte overwritten */
	u64 stub;  /* 0: changed in place; sites of one patch share it */
	u64 cave;  /* BEE_FORM_CAVE: 5 bytes of padding made a jump; else 0 */
	u16 stub_len;
	u8 patch_len;
	u8 kind;
	u8 form;
	u8 pad[3];
};
SKEP_ASSERT_SIZE(struct bee_site, 40);

/*
 * From `stub` up to the next entry, a thread has the guest's state at `guest`,
 * except for what the last three fields say. So the exact state of the guest is
 * known at every PC (for signals, snapshots and crash reports).
 */
struct bee_stub_pc {
	u64 stub;    /* address in the stub */
	u64 guest;   /* the guest PC it stands for */
	u8 scratch;  /* 1 + number of the register saved in SCRATCH, 0: none */
	u8 scratch2; /* the same for SCRATCH2 */
	u8 pushed;   /* a return address was pushed: add 8 to rsp */
	u8 pad[5];
};
SKEP_ASSERT_SIZE(struct bee_stub_pc, 24);

/* One executable range. */
struct bee_text {
	u8 *bytes; /* writable view of the text */
	u64 addr;  /* guest address of bytes[0] */
	u64 len;
};

struct bee_range {
	u64 start, end;
};

/*
 * One loaded range that is not code. The rewriter searches it for pointers into
 * code; if it is constant, only where bee_rewrite.pointer says.
 */
struct bee_data {
	const u8 *bytes;
	u64 addr;
	u64 len;
	u32 constant;
};

#define BEE_TEXTS_MAX 16
#define BEE_DATAS_MAX 48
#define BEE_POINTERS_MAX 4

struct bee_rewrite {
	/* in */
	struct bee_text text[BEE_TEXTS_MAX];
	u32 texts;
	/* Function ranges from .eh_frame or symbols, sorted; 0: all is code. */
	const struct bee_range *code;
	u32 codes;
	/*
	 * Sorted addresses where something new begins (sections). Decoding of
	 * the bytes between functions starts again there. There may be none.
	 */
	const u64 *edge;
	u32 edges;
	u64 entry; /* ELF entry point: a known branch target */
	struct bee_data data[BEE_DATAS_MAX];
	u32 datas;
	/* Where constant data may hold pointers into code. */
	struct bee_range pointer[BEE_POINTERS_MAX];
	u32 pointers;
	u64 bias; /* load address minus link address (static-PIE) */
	s32 slot[SKEP_SLOT_COUNT]; /* gs: displacements */
	u8 *stubs;		   /* the buffer for the stubs */
	u64 stubs_addr;		   /* their guest address */
	u64 stubs_len;
	/*
	 * Buffers of the caller for work and results; bee_rewrite_sizes returns
	 * their sizes.
	 */
	struct bee_site *site;
	u32 sites, sites_max;
	struct bee_stub_pc *pc;
	u32 pcs, pcs_max;
	u8 *marks; /* one byte of flags per text byte of all ranges, zeroed */
	/* out */
	u64 stubs_used;
	u32 found[BEE_SITE_KINDS], patched[BEE_SITE_KINDS];
	u64 insns;     /* instructions seen */
	u64 skipped;   /* bytes of the text that were not decoded as code */
	u32 forms[4];  /* sites by enum bee_site_form */
	u64 bad_addr;  /* on error: the address */
	char why[160]; /* on error: a message */
};

/*
 * Upper bounds for sites_max, pcs_max and stubs_len (rounded up to pages), from
 * a scan of the bytes. marks_len is the sum of the lengths of all texts.
 */
struct bee_rewrite_need {
	u32 sites, pcs;
	u64 stubs_len, marks_len;
};
void bee_rewrite_sizes(const struct bee_rewrite *rw,
		       struct bee_rewrite_need *need);

/*
 * Returns 0, -ENOEXEC with why and bad_addr, or -ENOMEM if the space for stubs
 * or an array is too small. On an error nothing was changed.
 */
int bee_rewrite(struct bee_rewrite *rw);

/*
 * Code that is made at run time cannot be rewritten reliably. So every byte
 * offset is checked for syscall, int 0x80, sysenter, fs:, gs:, cpuid, xgetbv
 * and wrfsbase. Returns 0, or -EACCES with the offset in *bad and a message in
 * why[160].
 */
int bee_text_check(const u8 *bytes, u64 len, u64 *bad, char *why);

/* A decoded instruction. */
struct bee_insn {
	u8 len;
	u8 opcode_at; /* offset of the opcode */
	u8 modrm_at;  /* 0: none */
	u8 disp_at, disp_len;
	u8 imm_at, imm_len;
	u8 seg;	     /* 0, 0x64, 0x65 */
	u8 prefixes; /* BEE_PREFIX_* */
	u8 rex;
	u8 vex; /* first byte of a VEX, EVEX or XOP prefix, 0: none */
	u8 vex_at;
	u8 map; /* 0: one byte, 1: 0f, 2: 0f38, 3: 0f3a, BEE_MAP_* + map */
	u8 opcode;
	u8 modrm, sib, has_sib;
	u8 memory; /* has a memory operand (ModRM or 64-bit offset) */
	u8 rip_relative;
	u8 branch;  /* BEE_BRANCH_* */
	s64 target; /* relative to the end of the instruction, for direct
		       branches */
};
enum {
	BEE_BRANCH_NONE,
	BEE_BRANCH_JMP,
	BEE_BRANCH_JCC,
	BEE_BRANCH_CALL,
	BEE_BRANCH_RET,
	BEE_BRANCH_INDIRECT
};
enum { BEE_MAP_VEX = 0x10, BEE_MAP_EVEX = 0x20, BEE_MAP_XOP = 0x40 };
enum {
	BEE_PREFIX_66 = 1,
	BEE_PREFIX_67 = 2,
	BEE_PREFIX_F2 = 4,
	BEE_PREFIX_F3 = 8,
	BEE_PREFIX_LOCK = 16,
	BEE_PREFIX_SEGS = 32
};
/*
 * Decodes the instruction at p, of which `max` bytes are readable. Returns its
 * length, or -ENOEXEC: it is invalid, or -EFAULT: it ends after `max`.
 */
int bee_decode(const u8 *p, u64 max, struct bee_insn *insn);

/*
 * The map of one image: the result of bee_rewrite, without its buffers for
 * work. The arrays belong to the creator of the map.
 */
struct bee_map {
	const struct bee_site *site;
	const struct bee_stub_pc *pc;
	u32 sites, pcs;
	u64 stubs_addr, stubs_used;
};

void bee_map_from(struct bee_map *map, const struct bee_rewrite *rw);
/*
 * Finds the state of a thread at `pc`. Returns 0 if pc is not in code of the
 * rewriter.
 */
int bee_map_find(const struct bee_map *map, u64 pc, struct bee_stub_pc *state);
/*
 * Returns the guest's PC that corresponds to pc; outside stubs and patches that
 * is pc itself.
 */
u64 bee_map_guest_pc(const struct bee_map *map, u64 pc);
/*
 * The serialised form, for the image cache and snapshots. Returns its length,
 * or a negative errno.
 */
u64 bee_map_size(const struct bee_map *map);
s64 bee_map_write(const struct bee_map *map, u8 *out, u64 len);
/*
 * Checks every field. The arrays site and pc have sites_max and pcs_max
 * entries.
 */
int bee_map_read(struct bee_map *map, const u8 *in, u64 len,
		 struct bee_site *site, u32 sites_max, struct bee_stub_pc *pc,
		 u32 pcs_max);

/*
 * Returns the function ranges of .eh_frame (System V ABI AMD64 4.2.4, LSB
 * 10.6), sorted and without overlaps. addr is the address of the section in
 * memory. The walk ends at a malformed entry; the function then returns the
 * number of ranges found before, and never an error. The rest is decoded as a
 * gap.
 */
u32 bee_eh_ranges(const u8 *eh_frame, u64 len, u64 addr,
		  struct bee_range *range, u32 max);
/* Finds .eh_frame by .eh_frame_hdr. Returns 0 or -ENOEXEC. */
int bee_eh_find(const u8 *hdr, u64 len, u64 addr, u64 *eh_frame);

#endif
