/* SPDX-License-Identifier: MIT */
/*
 * What the rewriter decides about every opcode, in the form of the manual's
 * opcode maps (Intel SDM, volume 2, appendix A).
 */
#include <stdio.h>
#include <string.h>

#include "bee/rewrite/internal.h"
#include "tests/tap.h"

/* One letter for a decision. */
static char class_letter(const u8 *bytes)
{
	struct bee_insn insn;
	struct bee_class class;

	if (bee_decode(bytes, 16, &insn) < 0)
		return '-';
	bee_classify(bytes, &insn, &class);
	switch (class.need) {
	case BEE_NEED_NOTHING:
		return '.';
	case BEE_NEED_ENTRY:
		return class.kind == BEE_SITE_SYSCALL ? 'E' : '?';
	case BEE_NEED_CPU:
		return class.kind == BEE_SITE_CPUID    ? 'C'
		       : class.kind == BEE_SITE_XGETBV ? 'X'
						       : '?';
	case BEE_NEED_FS:
		if (class.kind != BEE_SITE_FS)
			return '?';
		return class.refresh ? 'w' : 'f';
	case BEE_NEED_FSBASE:
		return class.kind == BEE_SITE_FS ? 'B' : '?';
	case BEE_NEED_SLOT:
		if (class.kind != BEE_SITE_FS_INPLACE)
			return '?';
		return class.slot == SKEP_SLOT_CANARY ? 'c' : 't';
	case BEE_NEED_REFUSAL:
		return class.why && *class.why ? '!' : '?';
	}
	return '?';
}

/* The operands that each opcode is tried with: a register, [rax], [0],
 * [0x28], [rip + 0x28]. Each without a segment, with fs:, with gs:, and with
 * the eight values of ModRM.reg. */
static const u8 operand[5][6] = {
	{0xc0}, {0}, {4, 0x25}, {4, 0x25, 0x28}, {5, 0x28}};

/* What an opcode may do, as 15 groups of 8 letters. Each letter stands for
 * itself in the maps below. */
#define NONE "........ "
#define FS "ffffffff "
#define BAD "!!!!!!!! "
static const struct {
	char letter;
	const char *decisions;
} behaviours[] = {
	/* touches no memory that a segment could move */
	{'.', NONE NONE NONE NONE NONE NONE NONE NONE NONE NONE NONE NONE NONE
		      NONE NONE},
	/* only reads its memory operand */
	{'r', NONE NONE NONE NONE FS BAD NONE "tttttttt " BAD NONE
					      "cccccccc " BAD NONE FS BAD},
	/* may write it */
	{'w', NONE NONE NONE NONE FS BAD NONE "wwwwwwww " BAD NONE
					      "wwwwwwww " BAD NONE FS BAD},
	/* its memory operand is implicit */
	{'i', NONE BAD BAD NONE BAD BAD NONE BAD BAD NONE BAD BAD NONE BAD BAD},
	/* its memory operand is an address without ModRM */
	{'o', NONE FS BAD NONE FS BAD NONE FS BAD NONE FS BAD NONE FS BAD},
	/* so is its, which it writes; [0] with ModRM.reg 5 is offset 0x28 */
	{'O',
	 NONE FS BAD NONE "fffffwff " BAD NONE FS BAD NONE FS BAD NONE FS BAD},
	/* group 1: only cmp reads */
	{'1', NONE NONE NONE NONE FS BAD NONE "wwwwwwwt " BAD NONE
					      "wwwwwwwc " BAD NONE FS BAD},
	/* group 1a: pop */
	{'a', ".------- .------- .------- .------- f------- !------- .------- "
	      "w------- !------- .------- w------- !------- .------- f------- "
	      "!------- "},
	/* group 3: only not and neg write */
	{'3', NONE NONE NONE NONE FS BAD NONE "ttwwtttt " BAD NONE
					      "ccwwcccc " BAD NONE FS BAD},
	/* group 4: inc, dec */
	{'4', "..------ ..------ ..------ ..------ ff------ !!------ ..------ "
	      "ww------ !!------ ..------ ww------ !!------ ..------ ff------ "
	      "!!------ "},
	/* group 5: inc, dec, calls, jumps, push; a far one has no register */
	{'5', "...-.-.- ...-.-.- ...-.-.- .......- fff!f!f- !!!!!!!- .......- "
	      "www!w!t- !!!!!!!- .......- www!w!c- !!!!!!!- .......- !!!!!!!- "
	      "!!!!!!!- "},
	/* group 11: mov; xabort and xbegin */
	{'b', ".------. .------. .------. .------- f------- !------- .------- "
	      "w------- !------- .------- w------- !------- .------- f------- "
	      "!------- "},
	/* mov of a selector */
	{'s', "....!!.. ....!!.. ....!!.. ....!!.. ffff!!ff !!!!!!!! ....!!.. "
	      "wwww!!ww !!!!!!!! ....!!.. wwww!!ww !!!!!!!! ....!!.. ffff!!ff "
	      "!!!!!!!! "},
	/* lea has no register form */
	{'l', "-------- -------- -------- " NONE NONE NONE NONE NONE NONE NONE
		      NONE NONE NONE NONE NONE},
	/* group 7 has xgetbv */
	{'7', "..X..... ..X..... ..X..... " NONE FS BAD NONE
	      "wwwwwwww " BAD NONE "wwwwwwww " BAD NONE FS BAD},
	/* maskmovq */
	{'m', NONE BAD BAD NONE FS BAD NONE "wwwwwwww " BAD NONE
					    "wwwwwwww " BAD NONE FS BAD},
};

/* As above, or: '-' is no instruction; '!', 'E' and 'C' for every operand;
 * 'p' is a prefix or begins another map. */
static const char *const maps[4][16] = {
	{"wwrr..--wwrr..-p", "wwrr..--wwrr..--", "wwrr..p-wwrr..p-",
	 "wwrr..p-rrrr..p-", "pppppppppppppppp", "................",
	 "--prpppp.r.r..ii", "................", "11-1rrwwwwrrslsa",
	 "..........-.....", "ooOOiiii....ii..", "................",
	 "ww..ppbb......-.", "wwww---iwwwwwwww", "..........-.....",
	 "p.pp..33......45"},
	{"w7ww-E....-.-w.w", "wwwwwwwww.......", "wwww----wwwwwwww",
	 "....!.-.p-p-----", "rrrrrrrrrrrrrrrr", "wwwwwwwwwwwwwwww",
	 "wwwwwwwwwwwwwwww", "wwwwwww.ww--wwww", "................",
	 "wwwwwwwwwwwwwwww", "!!Cwwwww!!.wwwwr", "wwww!!rr-wwwwwrr",
	 "wwwwwwww........", "wwwwwwwwwwwwwwww", "wwwwwwwwwwwwwwww",
	 "wwwwwwwmwwwwwwww"},
};

static u32 put_opcode(u8 *bytes, int map, int op)
{
	static const u8 escape[4][2] = {
		{0}, {0x0f}, {0x0f, 0x38}, {0x0f, 0x3a}};
	u32 n = 0;

	bytes[n++] = 0x48; /* REX.W */
	for (int i = 0; i < 2 && escape[map][i]; i++)
		bytes[n++] = escape[map][i];
	bytes[n++] = (u8)op;
	return n;
}

/* Writes 15 groups of 8 letters. */
static void decide_opcode(int map, int op, char *out)
{
	static const u8 segment[3] = {0, 0x64, 0x65};

	for (int i = 0; i < 15 * 8; i++) {
		u8 bytes[16] = {segment[i / 8 % 3]};
		u32 n = bytes[0] != 0;

		n += put_opcode(bytes + n, map, op);
		memcpy(bytes + n, operand[i / 24], sizeof(operand[0]));
		bytes[n] |= (u8)(i % 8 << 3);
		*out++ = class_letter(bytes);
		if (i % 8 == 7)
			*out++ = ' ';
	}
	*out = 0;
}

static char wanted_letter(int map, int op)
{
	return map < 2 ? maps[map][op / 16][op % 16] : 'w';
}

/* Whether what was decided is what the letter stands for. */
static int is_behaviour(char letter, const char *got)
{
	for (u32 i = 0; i < sizeof(behaviours) / sizeof(behaviours[0]); i++)
		if (behaviours[i].letter == letter)
			return !strcmp(behaviours[i].decisions, got);
	for (const char *c = got; *c; c++)
		if (*c != ' ' && *c != letter)
			return 0;
	return 1;
}

static void test_maps(void)
{
	static const char *const name[] = {"one byte", "0f", "0f 38", "0f 3a"};
	char got[256], text[80];
	int bad;

	for (int map = 0; map < 4; map++) {
		bad = 0;
		for (int op = 0; op < 256; op++) {
			char letter = wanted_letter(map, op);

			if (letter == 'p')
				continue;
			decide_opcode(map, op, got);
			if (is_behaviour(letter, got))
				continue;
			printf("# %02x, not '%c': %s\n", op, letter, got);
			bad++;
		}
		snprintf(text, sizeof(text),
			 "every opcode of %s is decided as the manual has it",
			 name[map]);
		tap_ok(!bad, text);
	}
}

static int decision_is(char letter, const char *bytes, u32 n)
{
	u8 room[16] = {0};

	memcpy(room, bytes, n);
	if (class_letter(room) == letter)
		return 1;
	printf("# '%c', not '%c'\n", class_letter(room), letter);
	return 0;
}
#define DECIDES(letter, s) decision_is(letter, s, sizeof(s) - 1)

/* The reason, or NULL. */
static const char *refusal_of(const char *bytes, u32 n)
{
	struct bee_insn insn;
	struct bee_class class;
	u8 room[16] = {0};

	memcpy(room, bytes, n);
	if (bee_decode(room, sizeof(room), &insn) < 0)
		return NULL;
	bee_classify(room, &insn, &class);
	return class.need == BEE_NEED_REFUSAL ? class.why : NULL;
}
#define REFUSES(word, s)                                                       \
	(refusal_of(s, sizeof(s) - 1) &&                                       \
	 strstr(refusal_of(s, sizeof(s) - 1), word))

static void test_reasons(void)
{
	tap_ok(REFUSES("int 0x80", "\xcd\x80") && DECIDES('.', "\xcd\x03") &&
		       DECIDES('.', "\xcc\x80"),
	       "int 0x80 is refused, other interrupts are not");
	tap_ok(REFUSES("32-bit addresses", "\x67\x64\x8b\x00") &&
		       REFUSES("32-bit addresses", "\x64\x67\x8b\x00") &&
		       DECIDES('.', "\x67\x8b\x00"),
	       "a 32-bit address is refused with fs: alone");
	tap_ok(REFUSES("fs: and gs:", "\x65\x64\x8b\x00") &&
		       REFUSES("gs:", "\x64\x65\x8b\x00"),
	       "both segments on one instruction are refused");
	tap_ok(REFUSES("far branch", "\x64\xff\x18") &&
		       REFUSES("far branch", "\x64\xff\x28") &&
		       REFUSES("rip-relative", "\x64\xff\x25\0\0\0\0") &&
		       REFUSES("rip-relative", "\x64\xff\x35\0\0\0\0"),
	       "branches through fs: that have no stub are refused");
	tap_ok(REFUSES("stack pointer", "\x64\x8f\x04\x24") &&
		       REFUSES("stack pointer", "\x64\x8f\x44\x24\x08") &&
		       DECIDES('f', "\x64\x8f\x04\x03") &&
		       DECIDES('f', "\x64\x89\x04\x24"),
	       "a pop to fs: relative to the stack pointer is refused");
	tap_ok(REFUSES("sysenter", "\x0f\x34") &&
		       REFUSES("fs or gs", "\x0f\xa0") &&
		       REFUSES("fs or gs", "\x0f\xa9") &&
		       REFUSES("lfs", "\x0f\xb4\x00") &&
		       REFUSES("selector", "\x8e\xe8") &&
		       REFUSES("string", "\x64\xa5") &&
		       REFUSES("gs:", "\x65\x8b\x00"),
	       "each other refusal has its own reason");
}

/* 0f ae: only with f3 and a register it is fsgsbase. */
static void test_fsgsbase(void)
{
	static const char want[] = "B!!!....";
	int good = 1;

	for (int reg = 0; reg < 8; reg++) {
		char with[] = {'\xf3', '\x0f', '\xae', (char)(0xc0 | reg << 3)};
		char memory[] = {'\xf3', '\x0f', '\xae', (char)(reg << 3)};

		good &= decision_is(want[reg], with, 4) &
			decision_is('.', with + 1, 3) &
			decision_is('.', memory, 4);
	}
	tap_ok(good, "0f ae is fsgsbase with f3 and a register alone");
	tap_ok(REFUSES("wrfsbase", "\xf3\x0f\xae\xd0") &&
		       REFUSES("rdgsbase", "\xf3\x0f\xae\xc8") &&
		       REFUSES("wrgsbase", "\xf3\x0f\xae\xd8"),
	       "the three that have no stub are refused by name");
}

/* mov %eax, fs:disp or mov fs:disp, %eax, with a REX prefix or without. */
static char rex_letter(u8 op, u8 rex, s32 disp)
{
	u8 bytes[16] = {0x64, rex, op, 4, 0x25};

	bee_put_u32(bytes + 5, (u32)disp);
	if (rex)
		return class_letter(bytes);
	memmove(bytes + 1, bytes + 2, 8);
	return class_letter(bytes);
}

static char absolute_letter(u8 op, int wide, s32 disp)
{
	return rex_letter(op, wide ? 0x48 : 0, disp);
}

static void test_absolute(void)
{
	tap_ok(absolute_letter(0x8b, 1, 0) == 't' &&
		       absolute_letter(0x8b, 0, 0) == 'f',
	       "the thread pointer is read in place, but not a part of it");
	/* W says that all of it is read, X that r12 is added. */
	for (u8 rex = 0x40; rex < 0x50; rex++)
		tap_ok(rex_letter(0x8b, rex, 0) ==
			       ((rex & 10) == 8 ? 't' : 'f'),
		       "with prefix %#x too", rex);
	tap_ok(absolute_letter(0x8b, 1, 0x28) == 'c' &&
		       absolute_letter(0x8b, 0, 0x28) == 'c' &&
		       absolute_letter(0x8b, 1, 0x27) == 'f' &&
		       absolute_letter(0x8b, 1, 0x29) == 'f',
	       "the canary is read in place, and nothing beside it");
	tap_ok(absolute_letter(0x89, 1, -24) == 'f' &&
		       absolute_letter(0x89, 1, -23) == 'w' &&
		       absolute_letter(0x89, 1, 0x2f) == 'w' &&
		       absolute_letter(0x89, 1, 0x30) == 'f',
	       "a write of at most 64 bytes that reaches the canary copies it");
	tap_ok(DECIDES('w', "\x64\x48\xa3\x28\0\0\0\0\0\0\0") &&
		       DECIDES('w', "\x64\x48\xa3\x21\0\0\0\0\0\0\0") &&
		       DECIDES('w', "\x64\xa2\x2f\0\0\0\0\0\0\0") &&
		       DECIDES('f', "\x64\x48\xa3\x20\0\0\0\0\0\0\0") &&
		       DECIDES('f', "\x64\xa2\x30\0\0\0\0\0\0\0") &&
		       DECIDES('f', "\x64\x48\xa1\x28\0\0\0\0\0\0\0") &&
		       DECIDES('f', "\x64\xa3\x28\0\0\0\1\0\0\0"),
	       "a write by a 64-bit offset that reaches the canary copies it");
	tap_ok(DECIDES('!', "\x65\x48\xa3\x28\0\0\0\0\0\0\0") &&
		       DECIDES('!', "\x65\xa0\x28\0\0\0\0\0\0\0"),
	       "gs: with a 64-bit offset is refused");
	tap_ok(DECIDES('f', "\x64\x4a\x8b\x04\x25\0\0\0\0") &&
		       DECIDES('t', "\x64\x49\x8b\x04\x25\0\0\0\0") &&
		       DECIDES('t', "\x64\x4c\x8b\x04\x25\0\0\0\0"),
	       "an index is no absolute address, other registers are free");
}

int main(void)
{
	test_maps();
	test_reasons();
	test_fsgsbase();
	test_absolute();
	return tap_done();
}
