/* SPDX-License-Identifier: MIT */
/*
 * The length decoder: the fields of one x86-64 instruction.
 *
 * Owns the opcode tables; no state, no lock. Tables follow the opcode maps of
 * the Intel SDM (volume 2, appendix A) and the AMD APM (volume 3) in 64-bit
 * mode. An encoding that Intel and AMD processors read differently (a near
 * branch with an operand size prefix) counts as invalid.
 */
#include "bee/rewrite/internal.h"

/*
 * One letter per opcode, sixteen per row.
 *   .  no operand bytes        m  ModRM                 M  ModRM, imm8
 *   Z  ModRM, imm16/32         b  imm8                  z  imm16/32
 *   v  imm16/32/64             w  imm16                 e  imm16, imm8
 *   j  rel8                    J  rel32                 o  64-bit offset
 *   g  ModRM, imm when /0 /1   p  prefix                r  REX
 *   s  own case                !  invalid
 */
static const char one_byte[] = "mmmmbz!!mmmmbz!s"
			       "mmmmbz!!mmmmbz!!"
			       "mmmmbzp!mmmmbzp!"
			       "mmmmbzp!mmmmbzp!"
			       "rrrrrrrrrrrrrrrr"
			       "................"
			       "!!smppppzZbM...."
			       "jjjjjjjjjjjjjjjj"
			       "MZ!Mmmmmmmmmmmms"
			       "..........!....."
			       "oooo....bz......"
			       "bbbbbbbbvvvvvvvv"
			       "MMw.ssMZe.w..b!."
			       "mmmm!!!.mmmmmmmm"
			       "jjjjbbbbJJ!j...."
			       "p.pp..gg......mm";

static const char two_byte[] = "mmmm!.....!.!m.M"
			       "mmmmmmmmmmmmmmmm"
			       "mmmm!!!!mmmmmmmm"
			       "......!.s!s!!!!!"
			       "mmmmmmmmmmmmmmmm"
			       "mmmmmmmmmmmmmmmm"
			       "mmmmmmmmmmmmmmmm"
			       "MMMMmmm.mm!!mmmm"
			       "JJJJJJJJJJJJJJJJ"
			       "mmmmmmmmmmmmmmmm"
			       "...mMmmm...mMmmm"
			       "mmmmmmmmmmMmmmmm"
			       "mmMmMMMm........"
			       "mmmmmmmmmmmmmmmm"
			       "mmmmmmmmmmmmmmmm"
			       "mmmmmmmmmmmmmmmm";

_Static_assert(sizeof(one_byte) == 257, "one letter per opcode");
_Static_assert(sizeof(two_byte) == 257, "one letter per opcode");

struct cursor {
	const u8 *p;
	u32 at, max;
};

static int take_bytes(struct cursor *c, u32 n)
{
	if (c->max - c->at < n)
		return -LINUX_EFAULT;
	c->at += n;
	return 0;
}

static int take_legacy_prefix(struct bee_insn *insn, u8 byte)
{
	switch (byte) {
	case 0x64:
	case 0x65:
		if (insn->seg && insn->seg != byte)
			insn->prefixes |= BEE_PREFIX_SEGS;
		insn->seg = byte;
		return 1;
	case 0x66:
		insn->prefixes |= BEE_PREFIX_66;
		return 1;
	case 0x67:
		insn->prefixes |= BEE_PREFIX_67;
		return 1;
	case 0xf0:
		insn->prefixes |= BEE_PREFIX_LOCK;
		return 1;
	case 0xf2:
	case 0xf3:
		insn->prefixes &= ~(BEE_PREFIX_F2 | BEE_PREFIX_F3);
		insn->prefixes |= byte == 0xf2 ? BEE_PREFIX_F2 : BEE_PREFIX_F3;
		return 1;
	default: /* the processor ignores cs, ds, es and ss in 64-bit mode */
		return byte == 0x26 || byte == 0x2e || byte == 0x36 ||
		       byte == 0x3e;
	}
}

/* A REX prefix has an effect only directly before the opcode. */
static int take_prefixes(struct cursor *c, struct bee_insn *insn)
{
	while (c->at < c->max) {
		u8 byte = c->p[c->at];
		char letter = one_byte[byte];

		if (letter == 'r') {
			insn->rex = byte;
		} else if (letter == 'p') {
			take_legacy_prefix(insn, byte);
			insn->rex = 0;
		} else {
			return 0;
		}
		c->at++;
	}
	return -LINUX_EFAULT;
}

static int take_modrm(struct cursor *c, struct bee_insn *insn)
{
	u8 mod, rm;

	insn->modrm_at = c->at;
	if (take_bytes(c, 1))
		return -LINUX_EFAULT;
	insn->modrm = c->p[c->at - 1];
	mod = insn->modrm >> 6;
	rm = insn->modrm & 7;
	if (mod == 3)
		return 0;
	insn->memory = 1;
	if (rm == 4) {
		if (take_bytes(c, 1))
			return -LINUX_EFAULT;
		insn->sib = c->p[c->at - 1];
		insn->has_sib = 1;
	}
	insn->disp_len = mod == 1 ? 1 : mod == 2 ? 4 : 0;
	if (!mod && rm == 5) {
		insn->rip_relative = 1;
		insn->disp_len = 4;
	} else if (!mod && rm == 4 && (insn->sib & 7) == 5) {
		insn->disp_len = 4;
	}
	if (insn->disp_len)
		insn->disp_at = c->at;
	return take_bytes(c, insn->disp_len);
}

static int take_imm(struct cursor *c, struct bee_insn *insn, u32 n)
{
	if (n) {
		insn->imm_at = c->at;
		insn->imm_len = n;
	}
	return take_bytes(c, n);
}

static int is_wide(const struct bee_insn *insn)
{
	return insn->rex & 8;
}

static u32 imm_z(const struct bee_insn *insn)
{
	return insn->prefixes & BEE_PREFIX_66 && !is_wide(insn) ? 2 : 4;
}

static int take_rel(struct cursor *c, struct bee_insn *insn, u32 n)
{
	if (n == 4 && insn->prefixes & BEE_PREFIX_66 && !is_wide(insn))
		return -LINUX_ENOEXEC;
	if (take_imm(c, insn, n))
		return -LINUX_EFAULT;
	insn->target = n == 1 ? (s8)c->p[insn->imm_at]
			      : bee_get_s32(c->p + insn->imm_at);
	return 0;
}

static u32 imm_v(const struct bee_insn *insn)
{
	return is_wide(insn) ? 8 : imm_z(insn);
}

static int take_operands(struct cursor *c, struct bee_insn *insn, char letter)
{
	int rc;

	switch (letter) {
	case '.':
		return 0;
	case 'm':
		return take_modrm(c, insn);
	case 'M':
		rc = take_modrm(c, insn);
		return rc ? rc : take_imm(c, insn, 1);
	case 'Z':
		rc = take_modrm(c, insn);
		return rc ? rc : take_imm(c, insn, imm_z(insn));
	case 'g':
		rc = take_modrm(c, insn);
		if (rc || insn->modrm & 0x30)
			return rc;
		return take_imm(c, insn,
				insn->opcode == 0xf6 ? 1 : imm_z(insn));
	case 'b':
		return take_imm(c, insn, 1);
	case 'z':
		return take_imm(c, insn, imm_z(insn));
	case 'v':
		return take_imm(c, insn, imm_v(insn));
	case 'w':
		return take_imm(c, insn, 2);
	case 'e':
		return take_imm(c, insn, 3);
	case 'o':
		insn->memory = 1;
		insn->disp_at = c->at;
		insn->disp_len = insn->prefixes & BEE_PREFIX_67 ? 4 : 8;
		return take_bytes(c, insn->disp_len);
	case 'j':
		return take_rel(c, insn, 1);
	case 'J':
		return take_rel(c, insn, 4);
	default:
		return -LINUX_ENOEXEC;
	}
}

static int take_opcode(struct cursor *c, struct bee_insn *insn)
{
	insn->opcode_at = c->at;
	if (take_bytes(c, 1))
		return -LINUX_EFAULT;
	insn->opcode = c->p[c->at - 1];
	return 0;
}

/*
 * The opcode, ModRM and immediate of a vector instruction. In map 1 the same
 * opcodes have an immediate as in the two-byte table.
 */
static int take_vector_operands(struct cursor *c, struct bee_insn *insn,
				u32 map, int evex)
{
	int rc = take_opcode(c, insn);
	char letter = 'm';

	if (rc)
		return rc;
	if (map == 1) {
		letter = two_byte[insn->opcode];
		if (letter == '.' && (evex || insn->opcode != 0x77))
			return -LINUX_ENOEXEC;
		if (letter != '.' && letter != 'M')
			letter = 'm';
	} else if (map == 3) {
		letter = 'M';
	}
	return take_operands(c, insn, letter);
}

static int has_bad_vex_prefix(const struct bee_insn *insn)
{
	return insn->rex || insn->prefixes & (BEE_PREFIX_66 | BEE_PREFIX_F2 |
					      BEE_PREFIX_F3 | BEE_PREFIX_LOCK);
}

static int decode_vex(struct cursor *c, struct bee_insn *insn, u8 first)
{
	u32 map = 1;

	insn->vex_at = c->at - 1;
	insn->vex = first;
	if (has_bad_vex_prefix(insn))
		return -LINUX_ENOEXEC;
	if (take_bytes(c, first == 0xc4 ? 2 : 1))
		return -LINUX_EFAULT;
	if (first == 0xc4)
		map = c->p[c->at - 2] & 0x1f;
	if (!map || map > 3)
		return -LINUX_ENOEXEC;
	insn->map = BEE_MAP_VEX + map;
	return take_vector_operands(c, insn, map, 0);
}

static int decode_evex(struct cursor *c, struct bee_insn *insn)
{
	u32 map;

	insn->vex_at = c->at - 1;
	insn->vex = 0x62;
	if (has_bad_vex_prefix(insn))
		return -LINUX_ENOEXEC;
	if (take_bytes(c, 3))
		return -LINUX_EFAULT;
	map = c->p[c->at - 3] & 7;
	if (c->p[c->at - 3] & 8 || !(c->p[c->at - 2] & 4))
		return -LINUX_ENOEXEC;
	if (!map || map == 4 || map == 7)
		return -LINUX_ENOEXEC;
	insn->map = BEE_MAP_EVEX + map;
	return take_vector_operands(c, insn, map, 1);
}

static int decode_xop(struct cursor *c, struct bee_insn *insn)
{
	u32 map;
	int rc;

	insn->vex_at = c->at - 1;
	insn->vex = 0x8f;
	if (has_bad_vex_prefix(insn))
		return -LINUX_ENOEXEC;
	if (take_bytes(c, 2))
		return -LINUX_EFAULT;
	map = c->p[c->at - 2] & 0x1f;
	if (map > 10)
		return -LINUX_ENOEXEC;
	insn->map = BEE_MAP_XOP + map;
	rc = take_opcode(c, insn);
	if (!rc)
		rc = take_operands(c, insn, map == 8 ? 'M' : 'm');
	if (!rc && map == 10)
		rc = take_imm(c, insn, 4);
	return rc;
}

static int decode_two_byte(struct cursor *c, struct bee_insn *insn)
{
	int rc = take_opcode(c, insn);
	u8 op = insn->opcode;

	if (rc)
		return rc;
	insn->map = 1;
	if (op == 0x38 || op == 0x3a) {
		insn->map = op == 0x38 ? 2 : 3;
		rc = take_opcode(c, insn);
		if (rc)
			return rc;
		return take_operands(c, insn, op == 0x38 ? 'm' : 'M');
	}
	if (op == 0xb8 && !(insn->prefixes & BEE_PREFIX_F3))
		return -LINUX_ENOEXEC;
	if (op == 0x78 && insn->prefixes & (BEE_PREFIX_66 | BEE_PREFIX_F2)) {
		rc = take_modrm(c, insn);
		return rc ? rc : take_imm(c, insn, 2);
	}
	return take_operands(c, insn, two_byte[op]);
}

/*
 * Encodings that the tables accept although they are invalid: members of groups
 * that are not defined.
 */
static int check_group(const struct bee_insn *insn)
{
	u8 reg = insn->modrm >> 3 & 7;

	switch (insn->opcode) {
	case 0x8f:
		return reg ? -LINUX_ENOEXEC : 0;
	case 0xc6:
	case 0xc7:
		return reg && insn->modrm != 0xf8 ? -LINUX_ENOEXEC : 0;
	case 0xfe:
		return reg > 1 ? -LINUX_ENOEXEC : 0;
	case 0xff:
		if (reg == 7 || (!insn->memory && (reg == 3 || reg == 5)))
			return -LINUX_ENOEXEC;
		return 0;
	case 0x8d:
		return insn->memory ? 0 : -LINUX_ENOEXEC;
	}
	return 0;
}

static int decode_one_byte(struct cursor *c, struct bee_insn *insn)
{
	u8 op = c->p[c->at];
	int rc = take_opcode(c, insn);

	if (rc)
		return rc;
	switch (op) {
	case 0x0f:
		return decode_two_byte(c, insn);
	case 0x62:
		return decode_evex(c, insn);
	case 0xc4:
	case 0xc5:
		return decode_vex(c, insn, op);
	case 0x8f:
		if (c->at < c->max && (c->p[c->at] & 0x1f) >= 8)
			return decode_xop(c, insn);
		rc = take_modrm(c, insn);
		break;
	default:
		rc = take_operands(c, insn, one_byte[op]);
	}
	return rc ? rc : check_group(insn);
}

static void set_branch(struct bee_insn *insn)
{
	u8 op = insn->opcode, reg = insn->modrm >> 3 & 7;

	if (insn->map == 1 && (op & 0xf0) == 0x80)
		insn->branch = BEE_BRANCH_JCC;
	if (insn->map)
		return;
	if ((op & 0xf0) == 0x70 || (op >= 0xe0 && op <= 0xe3))
		insn->branch = BEE_BRANCH_JCC;
	else if (op == 0xe8)
		insn->branch = BEE_BRANCH_CALL;
	else if (op == 0xe9 || op == 0xeb)
		insn->branch = BEE_BRANCH_JMP;
	else if (op == 0xc2 || op == 0xc3 || op == 0xca || op == 0xcb ||
		 op == 0xcf)
		insn->branch = BEE_BRANCH_RET;
	else if (op == 0xff && reg >= 2 && reg <= 5)
		insn->branch = BEE_BRANCH_INDIRECT;
}

/*
 * Decodes the common forms in one step: at most a REX prefix, an opcode of one
 * or two bytes, ModRM, and an immediate whose size depends on nothing else. The
 * full decoder decodes everything else, and everything invalid. 15 bytes must
 * be readable.
 */
enum { QUICK_MODRM = 8, QUICK_REL = 16, QUICK_YES = 32, QUICK_IMM = 7 };

/* The form by the letters of the opcode tables; 0: it is not a common one. */
static const u8 quick_shape[128] = {
	['.'] = QUICK_YES,
	['m'] = QUICK_YES | QUICK_MODRM,
	['M'] = QUICK_YES | QUICK_MODRM | 1,
	['Z'] = QUICK_YES | QUICK_MODRM | 4,
	['b'] = QUICK_YES | 1,
	['z'] = QUICK_YES | 4,
	['j'] = QUICK_YES | QUICK_REL | 1,
	['J'] = QUICK_YES | QUICK_REL | 4,
};

static inline u32 quick_modrm(const u8 *p, u32 at, struct bee_insn *insn)
{
	static const u8 disp_len[4] = {0, 1, 4, 0};
	u8 modrm = p[at], mod = modrm >> 6, rm = modrm & 7;

	insn->modrm_at = (u8)at++;
	insn->modrm = modrm;
	if (mod == 3)
		return at;
	insn->memory = 1;
	insn->disp_len = disp_len[mod];
	if (rm == 4) {
		insn->sib = p[at++];
		insn->has_sib = 1;
		if (!mod && (insn->sib & 7) == 5)
			insn->disp_len = 4;
	} else if (!mod && rm == 5) {
		insn->rip_relative = 1;
		insn->disp_len = 4;
	}
	if (insn->disp_len)
		insn->disp_at = (u8)at;
	return at + insn->disp_len;
}

static inline int decode_quick(const u8 *p, struct bee_insn *insn)
{
	u32 at = 0;
	u8 shape, op = *p;

	if ((op & 0xf0) == 0x40) {
		insn->rex = op;
		op = p[++at];
	}
	shape = quick_shape[(u8)one_byte[op]];
	if (op == 0x0f) {
		op = p[++at];
		insn->map = 1;
		shape = op == 0xb8 ? 0 : quick_shape[(u8)two_byte[op]];
	}
	if (!shape)
		return 0;
	insn->opcode_at = (u8)at++;
	insn->opcode = op;
	if (shape & QUICK_MODRM)
		at = quick_modrm(p, at, insn);
	if (shape & QUICK_IMM) {
		insn->imm_at = (u8)at;
		insn->imm_len = shape & QUICK_IMM;
		if (shape & QUICK_REL)
			insn->target = insn->imm_len == 1 ? (s8)p[at]
							  : bee_get_s32(p + at);
		at += insn->imm_len;
	}
	if (shape & QUICK_REL || op >= 0x8d) {
		if (!insn->map && check_group(insn))
			return 0;
		set_branch(insn);
	}
	insn->len = (u8)at;
	return (int)at;
}

int bee_decode(const u8 *p, u64 max, struct bee_insn *insn)
{
	struct cursor c = {p, 0, max < 15 ? (u32)max : 15};
	int rc;

	*insn = (struct bee_insn){0};
	if (max >= 15) {
		rc = decode_quick(p, insn);
		if (rc)
			return rc;
		*insn = (struct bee_insn){0};
	}
	rc = take_prefixes(&c, insn);
	if (!rc)
		rc = decode_one_byte(&c, insn);
	if (rc)
		return rc;
	insn->len = c.at;
	set_branch(insn);
	return c.at;
}
