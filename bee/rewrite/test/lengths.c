/* SPDX-License-Identifier: MIT */
/*
 * Reads `objdump -d -w` on stdin and compares where it and bee_decode see
 * instructions. Prints one line of counts; exits 1 on any difference.
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

int main(void)
{
	char line[4096];

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
