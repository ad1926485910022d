/* SPDX-License-Identifier: MIT */
/*
 * Reads `objdump -d -w` on stdin and compares where it and bee_decode see
 * instructions. Prints one line of counts; exits 1 on any difference.
 * With --every it writes every opcode to stdout, for objdump to read.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bee/rewrite/rewrite.h"

static unsigned long long insns, wrong, bad;
static u8 *run;
static u32 *starts;
static unsigned char *lens;
static size_t used, count, room;
static u64 run_addr;

static void compare_length(u32 at, unsigned len, int is_bad)
{
	struct bee_insn insn;
	int rc = bee_decode(run + at, used - at, &insn);

	insns++;
	if (is_bad) {
		bad++;
		return;
	}
	if (rc == (int)len)
		return;
	/* objdump prints a prefix it does not understand on its own line */
	if (wrong++ < 20)
		printf("# %llx: objdump %u, bee %d\n", run_addr + at, len, rc);
}

static void flush_batch(void)
{
	for (size_t i = 0; i < count; i++)
		compare_length(starts[i], lens[i] & 0x7f, lens[i] >> 7);
	used = count = 0;
}

static int read_bytes(const char **s)
{
	unsigned v;
	int n = 0;

	while (isxdigit((*s)[0]) && isxdigit((*s)[1]) && (*s)[2] == ' ' &&
	       sscanf(*s, "%2x", &v) == 1) {
		run[used + n++] = v;
		*s += 3;
	}
	return n;
}

static void add_line(const char *line)
{
	unsigned long long addr;
	const char *s;
	int at, n;

	if (sscanf(line, " %llx:%n", &addr, &at) != 1 || line[at] != '\t')
		return;
	if (addr != run_addr + used)
		flush_batch();
	if (!used)
		run_addr = addr;
	s = line + at + 1;
	n = read_bytes(&s);
	starts[count] = used;
	lens[count++] = n | (strstr(s, "(bad)") ? 0x80 : 0);
	used += n;
	if (used > room - 64)
		abort();
}

/* Every opcode with operands of each kind ---------------------------------- */

static const char *const operand[] = {
	"\xc0", "\xf8", "\0", "\x38", "\x05", "@", "\x80", "\x04%", "\x44\x24"};
static const char *const prefix[] = {"",     "\x66", "\x67", "H",
				     "\xf2", "\xf3", "\x64"};
static const char *const escape[] = {"", "\x0f", "\x0f\x38", "\x0f\x3a"};
static const char *const vector[] = {
	"\xc5\xf8",	    "\xc4\xe2\x79",	"\xc4\xe3\x79",
	"\x62\xf1\x7c\x48", "\x62\xf2\x7d\x48", "\x62\xf3\x7d\x48",
	"\x8f\xe8\x78",	    "\x8f\xe9\x78",	"\x8f\xea\x78"};
#define EACH(a)                                                                \
	(const char *const *p = (a); p < (a) + sizeof(a) / sizeof(*(a)); p++)

/* Nops follow, so that both decoders meet again. */
static void write_slot(const char *before, const char *map, int op,
		       const char *after)
{
	unsigned char bytes[24];
	size_t n;

	memset(bytes, 0x90, sizeof(bytes));
	n = (size_t)sprintf((char *)bytes, "%s%s", before, map);
	bytes[n++] = (unsigned char)op;
	bytes[n] = (unsigned char)after[0];
	if (after[0] && after[1])
		bytes[n + 1] = (unsigned char)after[1];
	else
		bytes[n + 1] = 0x90;
	fwrite(bytes, 1, sizeof(bytes), stdout);
}

/*
 * Left out: prefixes, and what begins another map; movs of control registers,
 * which have no memory form whatever ModRM.mod says, and end a program; fwait
 * behind a prefix, which objdump takes for two instructions; near branches with
 * 66, which bee refuses because processors differ about their length.
 */
static int is_compared(const char *before, const char *map, int op)
{
	static const char others[] = "\x0f\x26\x2e\x36\x3e\x62\x64\x65\x66\x67"
				     "\x8f\xc4\xc5\xf0\xf2\xf3";
	int small = *before == 0x66;

	if (!*map)
		return !memchr(others, op, sizeof(others) - 1) &&
		       (op & 0xf0) != 0x40 && !(*before && op == 0x9b) &&
		       !(small && (op == 0xe8 || op == 0xe9));
	if (!map[1])
		return op != 0x38 && op != 0x3a && (op & 0xfc) != 0x20 &&
		       !(small && (op & 0xf0) == 0x80);
	return 1;
}

static void write_opcode(int op, const char *after)
{
	for
		EACH(vector)
	write_slot("", *p, op, after);
	for (int i = 0; i < 4; i++)
		for
			EACH(prefix)
	if (is_compared(*p, escape[i], op))
		write_slot(*p, escape[i], op, after);
}

int main(int argc, char **argv)
{
	char line[4096];

	if (argc == 2 && !strcmp(argv[1], "--every")) {
		for (int op = 0; op < 256; op++)
			for
				EACH(operand)
		write_opcode(op, *p);
		return fflush(stdout) != 0;
	}

	room = 64 << 20;
	run = malloc(room);
	starts = malloc(room);
	lens = malloc(room / 4);
	while (fgets(line, sizeof(line), stdin))
		if (line[0] == ' ')
			add_line(line);
	flush_batch();
	printf("%llu instructions, %llu differ, %llu bad\n", insns, wrong, bad);
	return wrong || !insns;
}
