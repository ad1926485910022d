/* SPDX-License-Identifier: MIT */
/*
 * Writes stubs: instructions in their moved or rewritten form.
 *
 * Nothing here touches the guest's stack (except where the guest's own call
 * pushes) or its flags: registers are saved in slots and changed by mov and
 * lea alone. Every stretch of a stub says, through bee_emit_note, which guest
 * state a thread in it has. The emitter belongs to one bee_rewrite call.
 */
#include "bee/rewrite/internal.h"

enum { RCX = 1, RSP = 4, RBP = 5, RSI = 6, RDI = 7, R11 = 11 };
#define NO_REG 0xff
#define REX_W 8
#define REX_R 4
#define REX_X 2
#define REX_B 1

/* The parts of a memory operand. */
struct operand {
	u8 mod;		/* 1: disp8, 2: disp32 */
	u8 base, index; /* NO_REG: none; a vector index keeps its number */
	u8 scale;
	s32 disp;
};

static u64 stub_address(const struct bee_emitter *e)
{
	return e->rw->stubs_addr + e->rw->stubs_used;
}

static void put_byte(struct bee_emitter *e, u8 byte)
{
	if (e->rw->stubs_used >= e->rw->stubs_len) {
		e->error = -LINUX_ENOMEM;
		return;
	}
	e->rw->stubs[e->rw->stubs_used++] = byte;
}

static void put_bytes(struct bee_emitter *e, const u8 *p, u32 n)
{
	for (u32 i = 0; i < n; i++)
		put_byte(e, p[i]);
}

static void put_s32(struct bee_emitter *e, s32 v)
{
	u8 bytes[4];

	bee_put_u32(bytes, (u32)v);
	put_bytes(e, bytes, 4);
}

/*
 * Stores the last field, which is followed by `rest` more bytes of the
 * instruction.
 */
static void put_rel32(struct bee_emitter *e, u64 target, u32 rest)
{
	s64 rel = (s64)(target - (stub_address(e) + 4 + rest));

	if (rel != (s32)rel && !e->error)
		e->error = -LINUX_ENOEXEC;
	put_s32(e, (s32)rel);
}

void bee_emit_note(struct bee_emitter *e, u64 guest)
{
	struct bee_rewrite *rw = e->rw;

	if (rw->pcs >= rw->pcs_max) {
		e->error = -LINUX_ENOMEM;
		return;
	}
	rw->pc[rw->pcs++] = (struct bee_stub_pc){
		.stub = stub_address(e),
		.guest = guest,
		.scratch = e->scratch,
		.scratch2 = e->scratch2,
		.pushed = e->pushed,
	};
}

void bee_emit_jmp(struct bee_emitter *e, u64 target)
{
	put_byte(e, 0xe9);
	put_rel32(e, target, 0);
}

/* op reg, gs:[slot]; op is 8b to load, 89 to store */
static void put_slot_op(struct bee_emitter *e, u8 op, u8 reg, u32 slot)
{
	put_byte(e, 0x65);
	put_byte(e, 0x40 | REX_W | (reg & 8 ? REX_R : 0));
	put_byte(e, op);
	put_byte(e, (reg & 7) << 3 | 4);
	put_byte(e, 0x25);
	put_s32(e, e->rw->slot[slot]);
}

static void put_jmp_slot(struct bee_emitter *e, u32 slot)
{
	put_byte(e, 0x65);
	put_byte(e, 0xff);
	put_byte(e, 0x24);
	put_byte(e, 0x25);
	put_s32(e, e->rw->slot[slot]);
}

static void save_register(struct bee_emitter *e, u8 reg, u32 slot, u64 guest)
{
	put_slot_op(e, 0x89, reg, slot);
	if (slot == SKEP_SLOT_SCRATCH)
		e->scratch = reg + 1;
	else
		e->scratch2 = reg + 1;
	bee_emit_note(e, guest);
}

static void restore_register(struct bee_emitter *e, u8 reg, u32 slot, u64 guest)
{
	put_slot_op(e, 0x8b, reg, slot);
	if (slot == SKEP_SLOT_SCRATCH)
		e->scratch = 0;
	else
		e->scratch2 = 0;
	bee_emit_note(e, guest);
}

/* lea rel(%rip), reg */
static void put_lea_rip(struct bee_emitter *e, u8 reg, u64 target)
{
	put_byte(e, 0x40 | REX_W | (reg & 8 ? REX_R : 0));
	put_byte(e, 0x8d);
	put_byte(e, (reg & 7) << 3 | 5);
	put_rel32(e, target, 0);
}

/* lea (base, index), reg, where index is not rsp */
static void put_lea_sum(struct bee_emitter *e, u8 reg, u8 base, u8 index)
{
	put_byte(e, 0x40 | REX_W | (reg & 8 ? REX_R : 0) |
			    (index & 8 ? REX_X : 0) | (base & 8 ? REX_B : 0));
	put_byte(e, 0x8d);
	put_byte(e, 0x40 | (reg & 7) << 3 | 4);
	put_byte(e, (index & 7) << 3 | (base & 7));
	put_byte(e, 0);
}

/* Decoding what an instruction names ---------------------------------- */

static u8 vex_byte(const u8 *p, const struct bee_insn *insn, u32 at)
{
	return p[insn->vex_at + at];
}

/* Returns the extension bits R, X and B in the places that they have in REX. */
static u8 extension_bits(const u8 *p, const struct bee_insn *insn)
{
	if (!insn->vex)
		return insn->rex & 7;
	if (insn->vex == 0xc5)
		return vex_byte(p, insn, 1) & 0x80 ? 0 : REX_R;
	return ~vex_byte(p, insn, 1) >> 5 & 7;
}

static u8 vex_operand(const u8 *p, const struct bee_insn *insn)
{
	if (!insn->vex)
		return NO_REG;
	return ~vex_byte(p, insn, insn->vex == 0xc5 ? 1 : 2) >> 3 & 15;
}

/* In gathers and scatters the index is a vector register. */
static int has_vector_index(const struct bee_insn *insn)
{
	u8 op = insn->opcode;

	if (insn->map != BEE_MAP_VEX + 2 && insn->map != BEE_MAP_EVEX + 2)
		return 0;
	return (op >= 0x90 && op <= 0x93) || (op >= 0xa0 && op <= 0xa3) ||
	       op == 0xc6 || op == 0xc7;
}

static void read_operand(const u8 *p, const struct bee_insn *insn,
			 struct operand *o)
{
	u8 ext = extension_bits(p, insn), mod = insn->modrm >> 6;
	u8 rm = insn->modrm & 7;

	*o = (struct operand){mod == 1 ? 1 : 2, NO_REG, NO_REG, 0, 0};
	if (insn->disp_len == 1)
		o->disp = (s8)p[insn->disp_at];
	else if (insn->disp_len == 4)
		o->disp = bee_get_s32(p + insn->disp_at);
	if (insn->rip_relative)
		return;
	if (!insn->has_sib) {
		o->base = rm | (ext & REX_B ? 8 : 0);
	} else {
		o->scale = insn->sib >> 6;
		o->index = (insn->sib >> 3 & 7) | (ext & REX_X ? 8 : 0);
		if (o->index == RSP && !has_vector_index(insn))
			o->index = NO_REG;
		if (mod || (insn->sib & 7) != 5)
			o->base = (insn->sib & 7) | (ext & REX_B ? 8 : 0);
	}
	if (!mod && o->base != NO_REG)
		o->mod = 1;
}

/*
 * Returns whether the instruction uses a legacy byte register (ah, ch, dh, bh).
 * A REX prefix would change its meaning.
 */
static int has_high_byte(const struct bee_insn *insn)
{
	u8 op = insn->opcode;

	if (insn->rex || insn->vex || (insn->modrm >> 3 & 7) < 4)
		return 0;
	if (insn->map == 1)
		return op == 0xb0 || op == 0xc0;
	if (insn->map)
		return 0;
	return (op < 0x40 && (op & 5) == 0) || op == 0x84 || op == 0x86 ||
	       op == 0x88 || op == 0x8a;
}

int bee_uses_rsp(const struct bee_insn *insn)
{
	u8 op = insn->opcode, reg = insn->modrm >> 3 & 7;

	if (insn->has_sib && (insn->sib & 7) == 4 && !(insn->rex & REX_B))
		return 1;
	if (insn->vex && insn->has_sib && (insn->sib & 7) == 4)
		return 1;
	if (insn->modrm_at && reg == 4 && !(insn->rex & REX_R))
		return 1;
	return !insn->map && (op == 0x8f || (op == 0xff && reg == 6));
}

/*
 * Returns a register that the instruction does not use, explicitly or
 * implicitly.
 */
static u8 free_reg(const u8 *p, const struct bee_insn *insn,
		   const struct operand *o, u8 other)
{
	u8 reg = insn->modrm >> 3 & 7;
	u8 first = has_high_byte(insn) ? RBP : 8;

	reg |= extension_bits(p, insn) & REX_R ? 8 : 0;
	if (has_high_byte(insn))
		reg = NO_REG; /* part of rax to rbx, which are never chosen */
	for (u8 r = first;; r++)
		if (r != reg && r != o->base && r != o->index && r != other &&
		    r != vex_operand(p, insn))
			return r;
}

/* Writing an instruction with another operand ------------------------- */

static void put_legacy_prefixes(struct bee_emitter *e,
				const struct bee_insn *insn)
{
	if (insn->prefixes & BEE_PREFIX_LOCK)
		put_byte(e, 0xf0);
	if (insn->prefixes & BEE_PREFIX_66)
		put_byte(e, 0x66);
	if (insn->prefixes & BEE_PREFIX_F2)
		put_byte(e, 0xf2);
	if (insn->prefixes & BEE_PREFIX_F3)
		put_byte(e, 0xf3);
}

static u8 operand_extension(const struct operand *o)
{
	u8 ext = 0;

	if (o->base != NO_REG && o->base & 8)
		ext |= REX_B;
	if (o->index != NO_REG && o->index & 8)
		ext |= REX_X;
	return ext;
}

static void put_legacy_opcode(struct bee_emitter *e,
			      const struct bee_insn *insn,
			      const struct operand *o)
{
	u8 rex = (insn->rex & ~3) | operand_extension(o);

	put_legacy_prefixes(e, insn);
	if (rex)
		put_byte(e, rex | 0x40);
	if (insn->map)
		put_byte(e, 0x0f);
	if (insn->map >= 2)
		put_byte(e, insn->map == 2 ? 0x38 : 0x3a);
	put_byte(e, insn->opcode);
}

/*
 * A two-byte VEX prefix becomes one of three bytes, because it has no X and B.
 */
static void put_vector_opcode(struct bee_emitter *e, const u8 *p,
			      const struct bee_insn *insn,
			      const struct operand *o)
{
	u8 bits = (~operand_extension(o) & 3) << 5;
	u8 first = vex_byte(p, insn, 1);

	if (insn->vex == 0xc5) {
		put_byte(e, 0xc4);
		put_byte(e, (first & 0x80) | bits | 1);
		put_byte(e, first & 0x7f);
	} else {
		put_byte(e, insn->vex);
		put_byte(e, (first & 0x9f) | bits);
		put_byte(e, vex_byte(p, insn, 2));
	}
	if (insn->vex == 0x62)
		put_byte(e, vex_byte(p, insn, 3));
	put_byte(e, insn->opcode);
}

static void put_operand(struct bee_emitter *e, u8 reg, const struct operand *o)
{
	u8 index = o->index == NO_REG ? RSP : o->index & 7;

	put_byte(e, o->mod << 6 | (reg & 7) << 3 | 4);
	put_byte(e, o->scale << 6 | index << 3 | (o->base & 7));
	if (o->mod == 1)
		put_byte(e, (u8)o->disp);
	else
		put_s32(e, o->disp);
}

static void put_with_operand(struct bee_emitter *e, const u8 *p,
			     const struct bee_insn *insn,
			     const struct operand *o)
{
	if (insn->vex)
		put_vector_opcode(e, p, insn, o);
	else
		put_legacy_opcode(e, insn, o);
	put_operand(e, insn->modrm >> 3 & 7, o);
	if (insn->imm_len)
		put_bytes(e, p + insn->imm_at, insn->imm_len);
}

/*
 * Adds the thread pointer (in tp) to the operand. If the base is rsp, it stays
 * the base, because rsp cannot be an index.
 */
static void add_thread_pointer(struct bee_emitter *e, struct operand *o, u8 tp)
{
	if (o->base == NO_REG) {
		o->base = tp;
	} else if (o->index != NO_REG) {
		put_lea_sum(e, tp, o->base, tp);
		o->base = tp;
	} else if (o->base == RSP) {
		o->index = tp;
		o->scale = 0;
	} else {
		o->index = o->base;
		o->base = tp;
		o->scale = 0;
	}
}

/* A mov with a 64-bit offset becomes a mov with ModRM if the offset fits. */
static void offset_to_modrm(struct bee_emitter *e, const u8 *p,
			    struct bee_insn *insn, struct operand *o)
{
	s64 disp = (s64)bee_get_u64(p + insn->disp_at);

	if (disp != (s32)disp)
		e->error = -LINUX_ENOEXEC;
	*o = (struct operand){2, NO_REG, NO_REG, 0, (s32)disp};
	insn->opcode =
		insn->opcode - 0xa0 + (insn->opcode < 0xa2 ? 0x8a : 0x86);
}

static void refresh_canary(struct bee_emitter *e, u8 tp)
{
	struct bee_insn load = {.rex = REX_W | (tp & 8 ? REX_R : 0),
				.opcode = 0x8b,
				.modrm = (tp & 7) << 3};
	struct operand o = {1, tp, NO_REG, 0, 0x28};

	put_slot_op(e, 0x8b, tp, SKEP_SLOT_TP);
	put_with_operand(e, 0, &load, &o);
	put_slot_op(e, 0x89, tp, SKEP_SLOT_CANARY);
}

/*
 * A call or jmp through fs: memory. tp holds the target; then the register is
 * restored.
 */
static void emit_fs_branch(struct bee_emitter *e, const struct bee_insn *insn,
			   struct operand *o, u8 tp, u64 addr)
{
	struct bee_insn load = {.rex = REX_W | (tp & 8 ? REX_R : 0),
				.opcode = 0x8b,
				.modrm = (tp & 7) << 3};

	put_with_operand(e, 0, &load, o);
	put_slot_op(e, 0x89, tp, SKEP_SLOT_SCRATCH2);
	if ((insn->modrm >> 3 & 7) == 2) {
		put_lea_rip(e, tp, addr + insn->len);
		put_byte(e, 0x40 | (tp & 8 ? REX_B : 0));
		put_byte(e, 0x50 | (tp & 7));
		e->pushed = 1;
		bee_emit_note(e, addr);
	}
	restore_register(e, tp, SKEP_SLOT_SCRATCH, addr);
	put_jmp_slot(e, SKEP_SLOT_SCRATCH2);
	e->pushed = 0;
}

static int is_fs_branch(const struct bee_insn *insn)
{
	u8 reg = insn->modrm >> 3 & 7;

	return !insn->map && insn->opcode == 0xff && (reg == 2 || reg == 4);
}

static void emit_fs(struct bee_emitter *e, const u8 *p,
		    const struct bee_insn *given, u64 addr, int refresh)
{
	struct bee_insn insn = *given;
	u64 next = addr + insn.len;
	struct operand o;
	u8 tp, rip = NO_REG;

	if (insn.modrm_at)
		read_operand(p, &insn, &o);
	else
		offset_to_modrm(e, p, &insn, &o);
	tp = free_reg(p, &insn, &o, NO_REG);
	save_register(e, tp, SKEP_SLOT_SCRATCH, addr);
	if (insn.rip_relative) {
		rip = free_reg(p, &insn, &o, tp);
		save_register(e, rip, SKEP_SLOT_SCRATCH2, addr);
		put_lea_rip(e, rip, next + o.disp);
		o = (struct operand){1, rip, NO_REG, 0, 0};
	}
	put_slot_op(e, 0x8b, tp, SKEP_SLOT_TP);
	add_thread_pointer(e, &o, tp);
	if (is_fs_branch(&insn)) {
		if (rip != NO_REG)
			e->error = -LINUX_ENOEXEC;
		emit_fs_branch(e, &insn, &o, tp, addr);
		return;
	}
	put_with_operand(e, p, &insn, &o);
	bee_emit_note(e, next);
	if (refresh)
		refresh_canary(e, tp);
	if (rip != NO_REG)
		restore_register(e, rip, SKEP_SLOT_SCRATCH2, next);
	restore_register(e, tp, SKEP_SLOT_SCRATCH, next);
}

/* The other kinds ------------------------------------------------------ */

/*
 * The kernel leaves rcx and r11 undefined, so rcx can hold the return address.
 */
static void emit_syscall(struct bee_emitter *e, const struct bee_insn *insn,
			 u64 addr)
{
	put_lea_rip(e, RCX, stub_address(e) + 7 + 8);
	put_jmp_slot(e, SKEP_SLOT_ENTRY);
	bee_emit_note(e, addr + insn->len);
}

/*
 * The entry finds r11 and rcx in the slots; r11 tells which instruction it was.
 */
static void emit_cpu(struct bee_emitter *e, const struct bee_insn *insn,
		     u64 addr, int xgetbv)
{
	save_register(e, R11, SKEP_SLOT_SCRATCH2, addr);
	put_byte(e, 0x41);
	put_byte(e, 0xbb);
	put_s32(e, xgetbv);
	save_register(e, RCX, SKEP_SLOT_SCRATCH, addr);
	put_lea_rip(e, RCX, stub_address(e) + 7 + 8);
	put_jmp_slot(e, SKEP_SLOT_CPU_ENTRY);
	e->scratch = e->scratch2 = 0;
	bee_emit_note(e, addr + insn->len);
}

/*
 * rdfsbase reg becomes a load of the thread pointer, of 32 bits without REX.W.
 */
static void emit_rdfsbase(struct bee_emitter *e, const struct bee_insn *insn)
{
	u8 rm = insn->modrm & 7;

	put_byte(e, 0x65);
	put_byte(e,
		 0x40 | (insn->rex & REX_W) | (insn->rex & REX_B ? REX_R : 0));
	put_byte(e, 0x8b);
	put_byte(e, rm << 3 | 4);
	put_byte(e, 0x25);
	put_s32(e, e->rw->slot[SKEP_SLOT_TP]);
}

/* The same bytes, but with gs: instead of fs: and the slot as displacement. */
static void emit_slot(struct bee_emitter *e, const u8 *p,
		      const struct bee_insn *insn, u32 slot)
{
	put_byte(e, 0x65);
	put_legacy_prefixes(e, insn);
	if (insn->rex)
		put_byte(e, insn->rex);
	put_bytes(e, p + insn->opcode_at, insn->disp_at - insn->opcode_at);
	put_s32(e, e->rw->slot[slot]);
	put_bytes(e, p + insn->imm_at, insn->imm_len);
}

int bee_can_move(const struct bee_insn *insn)
{
	u8 op = insn->opcode, reg = insn->modrm >> 3 & 7;

	if (insn->map)
		return 1;
	if (op >= 0xe0 && op <= 0xe3) /* loop, jrcxz: rel8 only */
		return 0;
	if (op == 0xc7 && insn->modrm == 0xf8) /* xbegin */
		return 0;
	if (op == 0xff && (reg == 2 || reg == 3)) /* call */
		return 0;
	return op != 0xe8;
}

static void emit_branch(struct bee_emitter *e, const struct bee_insn *insn,
			u64 target)
{
	if (insn->branch == BEE_BRANCH_JCC) {
		put_byte(e, 0x0f);
		put_byte(e, 0x80 | (insn->opcode & 15));
	} else {
		put_byte(e, 0xe9);
	}
	put_rel32(e, target, 0);
}

static void emit_moved(struct bee_emitter *e, const u8 *p,
		       const struct bee_insn *insn, u64 addr)
{
	u64 next = addr + insn->len;

	if (insn->branch == BEE_BRANCH_JCC || insn->branch == BEE_BRANCH_JMP) {
		emit_branch(e, insn, next + (u64)insn->target);
	} else if (insn->rip_relative) {
		put_bytes(e, p, insn->disp_at);
		put_rel32(e, next + (s64)bee_get_s32(p + insn->disp_at),
			  insn->imm_len);
		put_bytes(e, p + insn->imm_at, insn->imm_len);
	} else {
		put_bytes(e, p, insn->len);
	}
}

void bee_emit_insn(struct bee_emitter *e, const u8 *p,
		   const struct bee_insn *insn, u64 addr)
{
	struct bee_class class;

	bee_classify(p, insn, &class);
	bee_emit_note(e, addr);
	switch (class.need) {
	case BEE_NEED_NOTHING:
		emit_moved(e, p, insn, addr);
		break;
	case BEE_NEED_ENTRY:
		emit_syscall(e, insn, addr);
		break;
	case BEE_NEED_CPU:
		emit_cpu(e, insn, addr, class.kind == BEE_SITE_XGETBV);
		break;
	case BEE_NEED_FS:
		emit_fs(e, p, insn, addr, class.refresh);
		break;
	case BEE_NEED_FSBASE:
		emit_rdfsbase(e, insn);
		break;
	case BEE_NEED_SLOT:
		emit_slot(e, p, insn, class.slot);
		break;
	case BEE_NEED_REFUSAL:
		e->error = -LINUX_ENOEXEC;
		break;
	}
}
