/* SPDX-License-Identifier: MIT */
/*
 * Decides how one instruction runs under bee: unchanged, with a slot, or in a
 * stub; or refuses it with a reason. Pure; no state, no lock.
 */
#include "bee/rewrite/internal.h"

static u8 modrm_reg(const struct bee_insn *insn)
{
	return insn->modrm >> 3 & 7;
}

static void refuse_instruction(struct bee_class *class, const char *why)
{
	class->need = BEE_NEED_REFUSAL;
	class->why = why;
}

/*
 * String instructions and similar ones read ds:rsi; the prefix fs: overrides
 * ds.
 */
static int is_implicit_source(const struct bee_insn *insn)
{
	u8 op = insn->opcode;

	if (!insn->map)
		return (op >= 0xa4 && op <= 0xa7) || op == 0xac || op == 0xad ||
		       op == 0x6e || op == 0x6f || op == 0xd7;
	if (insn->map == 1 || insn->map == BEE_MAP_VEX + 1)
		return op == 0xf7 && !insn->memory;
	return 0;
}

/* Instructions that have a ModRM memory operand and do not access it. */
static int is_address_only(const struct bee_insn *insn)
{
	if (!insn->map)
		return insn->opcode == 0x8d;
	return insn->map == 1 && insn->opcode >= 0x19 && insn->opcode <= 0x1f;
}

static int is_absolute(const struct bee_insn *insn)
{
	return insn->modrm_at && !(insn->modrm & 0xc0) && insn->has_sib &&
	       insn->sib == 0x25 && !(insn->rex & 2);
}

/* Integer instructions that only read their memory operand. */
static int is_integer_load(const struct bee_insn *insn)
{
	u8 op = insn->opcode, reg = modrm_reg(insn);

	if (insn->map == 1)
		return op == 0xaf || (op & 0xf0) == 0x40 || op == 0xb6 ||
		       op == 0xb7 || op == 0xbe || op == 0xbf;
	if (insn->map)
		return 0;
	switch (op) {
	case 0x02: /* add, or, adc, sbb, and, sub, xor, cmp: r <- m */
	case 0x03:
	case 0x0a:
	case 0x0b:
	case 0x12:
	case 0x13:
	case 0x1a:
	case 0x1b:
	case 0x22:
	case 0x23:
	case 0x2a:
	case 0x2b:
	case 0x32:
	case 0x33:
	case 0x3a:
	case 0x3b:
	case 0x38: /* cmp m, r */
	case 0x39:
	case 0x63:
	case 0x69:
	case 0x6b:
	case 0x84: /* test */
	case 0x85:
	case 0x8a:
	case 0x8b:
		return 1;
	case 0x80: /* cmp m, imm */
	case 0x81:
	case 0x83:
		return reg == 7;
	case 0xf6:
	case 0xf7:
		return reg < 2 || reg > 3;
	case 0xff:
		return reg == 6;
	}
	return 0;
}

/*
 * An access that starts here has at most 64 bytes, so it may reach [tp + 0x28].
 */
static int may_write_canary(const struct bee_insn *insn, s32 disp)
{
	return disp > 0x28 - 64 && disp < 0x30 && !is_integer_load(insn);
}

static void classify_absolute(const u8 *p, const struct bee_insn *insn,
			      struct bee_class *class)
{
	s32 disp = bee_get_s32(p + insn->disp_at);
	int wide = insn->rex & 8;

	if (disp == 0x28 && is_integer_load(insn))
		class->slot = SKEP_SLOT_CANARY;
	else if (disp == 0 && wide && is_integer_load(insn))
		class->slot = SKEP_SLOT_TP;
	else {
		class->refresh = may_write_canary(insn, disp);
		return;
	}
	class->need = BEE_NEED_SLOT;
	class->kind = BEE_SITE_FS_INPLACE;
}

/* mov between rax and a 64-bit offset, a0 to a3: at most 8 bytes. */
static int offset_writes_canary(const u8 *p, const struct bee_insn *insn)
{
	u64 offset = bee_get_u64(p + insn->disp_at);

	return insn->opcode >= 0xa2 && offset > 0x20 && offset < 0x30;
}

static void classify_fs(const u8 *p, const struct bee_insn *insn,
			struct bee_class *class)
{
	u8 reg = modrm_reg(insn);

	if (is_implicit_source(insn)) {
		refuse_instruction(class, "a string instruction with fs:");
		return;
	}
	if (!insn->memory || is_address_only(insn))
		return;
	class->need = BEE_NEED_FS;
	class->kind = BEE_SITE_FS;
	if (insn->prefixes & BEE_PREFIX_67)
		refuse_instruction(class, "fs: with 32-bit addresses");
	else if (insn->prefixes & BEE_PREFIX_SEGS)
		refuse_instruction(class, "fs: and gs: on one instruction");
	else if (!insn->map && insn->opcode == 0xff && (reg == 3 || reg == 5))
		refuse_instruction(class, "a far branch through fs:");
	else if (!insn->map && insn->opcode == 0xff && insn->rip_relative)
		refuse_instruction(class,
				   "a branch or push through rip-relative fs:");
	else if (insn->map & BEE_MAP_XOP)
		refuse_instruction(class, "an XOP instruction with fs:");
	else if (!insn->map && insn->opcode == 0x8f && insn->has_sib &&
		 (insn->sib & 7) == 4)
		refuse_instruction(class,
				   "pop to fs: relative to the stack pointer");
	else if (!insn->modrm_at)
		class->refresh = offset_writes_canary(p, insn);
	else if (is_absolute(insn))
		classify_absolute(p, insn, class);
}

static void classify_0f01(const struct bee_insn *insn, struct bee_class *class)
{
	if (insn->modrm == 0xd0) {
		class->need = BEE_NEED_CPU;
		class->kind = BEE_SITE_XGETBV;
	}
}

/*
 * 0f ae with prefix f3 and a register operand is one of the fsgsbase
 * instructions.
 */
static void classify_0fae(const struct bee_insn *insn, struct bee_class *class)
{
	u8 reg = modrm_reg(insn);

	if (insn->memory || !(insn->prefixes & BEE_PREFIX_F3) || reg > 3)
		return;
	if (reg == 0) {
		class->need = BEE_NEED_FSBASE;
		class->kind = BEE_SITE_FS;
	} else if (reg == 2) {
		refuse_instruction(class, "wrfsbase");
	} else {
		refuse_instruction(class, reg == 1 ? "rdgsbase" : "wrgsbase");
	}
}

static void classify_two_byte(const struct bee_insn *insn,
			      struct bee_class *class)
{
	switch (insn->opcode) {
	case 0x01:
		classify_0f01(insn, class);
		break;
	case 0x05:
		class->need = BEE_NEED_ENTRY;
		class->kind = BEE_SITE_SYSCALL;
		break;
	case 0x34:
		refuse_instruction(class, "sysenter");
		break;
	case 0xa2:
		class->need = BEE_NEED_CPU;
		class->kind = BEE_SITE_CPUID;
		break;
	case 0xae:
		classify_0fae(insn, class);
		break;
	case 0xa0:
	case 0xa1:
	case 0xa8:
	case 0xa9:
		refuse_instruction(class, "push or pop of fs or gs");
		break;
	case 0xb4:
	case 0xb5:
		refuse_instruction(class, "lfs or lgs");
		break;
	}
}

static void classify_one_byte(const u8 *p, const struct bee_insn *insn,
			      struct bee_class *class)
{
	u8 reg = modrm_reg(insn);

	if (insn->opcode == 0xcd && p[insn->imm_at] == 0x80)
		refuse_instruction(class, "int 0x80 (the 32-bit system call)");
	if ((insn->opcode == 0x8c || insn->opcode == 0x8e) &&
	    (reg == 4 || reg == 5))
		refuse_instruction(class, "a move of the fs or gs selector");
}

void bee_classify(const u8 *p, const struct bee_insn *insn,
		  struct bee_class *class)
{
	*class = (struct bee_class){.need = BEE_NEED_NOTHING};
	if (insn->map == 0)
		classify_one_byte(p, insn, class);
	else if (insn->map == 1)
		classify_two_byte(insn, class);
	if (class->need != BEE_NEED_NOTHING)
		return;
	if (insn->seg == 0x64)
		classify_fs(p, insn, class);
	else if (insn->seg == 0x65 &&
		 (is_implicit_source(insn) ||
		  (insn->memory && !is_address_only(insn))))
		refuse_instruction(class, "an access through gs:");
}
