/* SPDX-License-Identifier: MIT */
/*
 * Declarations that only the files of the rewriter share.
 */
#ifndef BEE_REWRITE_INTERNAL_H
#define BEE_REWRITE_INTERNAL_H

#include "base/errno.h"
#include "bee/rewrite/rewrite.h"

/* Flags in bee_rewrite.marks, one byte per text byte. */
enum {
	MARK_START = 1,	    /* an instruction starts here */
	MARK_TARGET = 2,    /* control may arrive here from elsewhere */
	MARK_TAKEN = 4,	    /* this byte belongs to a patch */
	MARK_SITE = 8,	    /* the instruction must be rewritten */
	MARK_ENDS = 16,	    /* the instruction does not fall through */
	MARK_BRANCH = 32,   /* TARGET, by a direct branch: surely code */
	MARK_DIRTY = 64,    /* a gap starts here, and not all of it is code */
	MARK_POINTER = 128, /* TARGET, by an address taken: may be code */
};

static inline u32 bee_get_u32(const u8 *p)
{
	return (u32)p[0] | (u32)p[1] << 8 | (u32)p[2] << 16 | (u32)p[3] << 24;
}

static inline s32 bee_get_s32(const u8 *p)
{
	return (s32)bee_get_u32(p);
}

static inline u64 bee_get_u64(const u8 *p)
{
	return bee_get_u32(p) | (u64)bee_get_u32(p + 4) << 32;
}

static inline void bee_put_u32(u8 *p, u32 v)
{
	p[0] = v;
	p[1] = v >> 8;
	p[2] = v >> 16;
	p[3] = v >> 24;
}

/*
 * Returns whether a word contains a byte equal to `byte`. It may return true
 * although there is none, but rarely.
 */
static inline int bee_has_byte(u64 word, u8 byte)
{
	const u64 ones = 0x0101010101010101ull;
	u64 x = word ^ ones * byte;

	return ((x - ones) & ~x & ones << 7) != 0;
}

/* What must be done with an instruction. */
enum bee_need {
	BEE_NEED_NOTHING,
	BEE_NEED_ENTRY,	 /* syscall */
	BEE_NEED_CPU,	 /* cpuid, xgetbv */
	BEE_NEED_FS,	 /* the stub needs the thread pointer in a register */
	BEE_NEED_FSBASE, /* rdfsbase */
	BEE_NEED_SLOT,	 /* the prefix and the displacement change in place */
	BEE_NEED_REFUSAL,
};

struct bee_class {
	enum bee_need need;
	u8 kind;	 /* enum bee_site_kind */
	u8 slot;	 /* BEE_NEED_SLOT: which slot */
	u8 refresh;	 /* it may write the canary: copy that to its slot */
	const char *why; /* BEE_NEED_REFUSAL: the reason */
};

void bee_classify(const u8 *p, const struct bee_insn *insn,
		  struct bee_class *class);

/* A stub that is being written. The first error stays in `error`. */
struct bee_emitter {
	struct bee_rewrite *rw;
	int error;
	u8 scratch, scratch2, pushed; /* the fields of the next bee_stub_pc */
};

void bee_emit_note(struct bee_emitter *e, u64 guest);
void bee_emit_jmp(struct bee_emitter *e, u64 target);
/* Writes one instruction, rewritten or moved. Its guest address is addr. */
void bee_emit_insn(struct bee_emitter *e, const u8 *p,
		   const struct bee_insn *insn, u64 addr);
/* Returns whether the instruction can be moved at all. */
int bee_can_move(const struct bee_insn *insn);
/* Returns whether rsp is one of its explicit operands. */
int bee_uses_rsp(const struct bee_insn *insn);

/* Pass 1. */
struct bee_place {
	u32 text;
	u64 off;
};

#define BEE_TABLES 1024

struct bee_scan {
	struct bee_rewrite *rw;
	u64 mark_base[BEE_TEXTS_MAX]; /* start of the marks of a text */
	u64 first[BEE_TEXTS_MAX];     /* offset of the first code */
	u64 budget;	       /* jump table entries that may still be read */
	u64 table[BEE_TABLES]; /* addresses of the tables that were read */
	int error;
};

u8 *bee_scan_mark(struct bee_scan *s, u64 addr);
void bee_scan_targets(struct bee_scan *s, const u8 *p,
		      const struct bee_insn *insn, u64 addr);
void bee_scan_data(struct bee_scan *s);
int bee_scan_all(struct bee_scan *s);
int bee_refuse(struct bee_rewrite *rw, u64 addr, const char *why);

#endif
