/* SPDX-License-Identifier: MIT */
/* Declarations shared by the files of the rewriter only. */
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
	MARK_DIRTY = 64,    /* a gap starts here that holds more than code */
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

/* Whether a word has a byte equal to `byte`; rarely says yes wrongly. */
static inline int bee_has_byte(u64 word, u8 byte)
{
	const u64 ones = 0x0101010101010101ull;
	u64 x = word ^ ones * byte;

	return ((x - ones) & ~x & ones << 7) != 0;
}

/* What an instruction needs. */
enum bee_need {
	BEE_NEED_NOTHING,
	BEE_NEED_ENTRY,	 /* syscall */
	BEE_NEED_CPU,	 /* cpuid, xgetbv */
	BEE_NEED_FS,	 /* a thread pointer in a register */
	BEE_NEED_FSBASE, /* rdfsbase */
	BEE_NEED_SLOT,	 /* another prefix and displacement in place */
	BEE_NEED_REFUSAL,
};

struct bee_class {
	enum bee_need need;
	u8 kind;	 /* enum bee_site_kind */
	u8 slot;	 /* BEE_NEED_SLOT: which */
	u8 refresh;	 /* writes the canary: copy it to its slot afterwards */
	const char *why; /* BEE_NEED_REFUSAL */
};

void bee_classify(const u8 *p, const struct bee_insn *insn,
		  struct bee_class *class);

/* A stub being written. Errors stick in `error`. */
struct bee_emitter {
	struct bee_rewrite *rw;
	int error;
	u8 scratch, scratch2, pushed; /* what the next bee_stub_pc says */
};

void bee_emit_note(struct bee_emitter *e, u64 guest);
void bee_emit_jmp(struct bee_emitter *e, u64 target);
/* One instruction at guest address addr, in its rewritten or moved form. */
void bee_emit_insn(struct bee_emitter *e, const u8 *p,
		   const struct bee_insn *insn, u64 addr);
/* Whether it can leave its place at all. */
int bee_can_move(const struct bee_insn *insn);
/* Whether rsp takes part in its operands (explicitly). */
int bee_uses_rsp(const struct bee_insn *insn);

/* Pass 1 and what it needs; target.c. */
struct bee_place {
	u32 text;
	u64 off;
};

#define BEE_TABLES 1024

struct bee_scan {
	struct bee_rewrite *rw;
	u64 mark_base[BEE_TEXTS_MAX]; /* where a text's marks begin */
	u64 first[BEE_TEXTS_MAX];     /* offset of the first code */
	u64 budget;		      /* jump table entries still to be read */
	u64 table[BEE_TABLES];	      /* tables that were read, by address */
	int error;
};

u8 *bee_scan_mark(struct bee_scan *s, u64 addr);
void bee_scan_targets(struct bee_scan *s, const u8 *p,
		      const struct bee_insn *insn, u64 addr);
void bee_scan_data(struct bee_scan *s);
int bee_scan_all(struct bee_scan *s);
int bee_refuse(struct bee_rewrite *rw, u64 addr, const char *why);

#endif
