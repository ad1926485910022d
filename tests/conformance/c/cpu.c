/* SPDX-License-Identifier: MIT */
/* cpuid and xgetbv: consistent, repeatable, and nothing else changes. */
#include <cpuid.h>
#include <stdint.h>
#include "say.h"

struct leaf {
	uint32_t a, b, c, d;
};

static struct leaf read_cpuid(uint32_t leaf, uint32_t sub)
{
	struct leaf out;

	__cpuid_count(leaf, sub, out.a, out.b, out.c, out.d);
	return out;
}

static uint64_t read_xcr0(void)
{
	uint32_t low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (uint64_t)high << 32 | low;
}

/* Carry, r8..r11, rsi, rdi and the red zone's neighbour all live across. */
static int nothing_else_changes(void)
{
	uint64_t before[6] = {11, 22, 33, 44, 55, 66}, after[6];
	uint8_t carry;

	__asm__ volatile("mov 0(%2), %%r8\n\tmov 8(%2), %%r9\n\t"
			 "mov 16(%2), %%r10\n\tmov 24(%2), %%r11\n\t"
			 "mov 32(%2), %%rsi\n\tmov 40(%2), %%rdi\n\t"
			 "xor %%ecx, %%ecx\n\tmov $1, %%eax\n\tstc\n\t"
			 "cpuid\n\t"
			 "setc %0\n\t"
			 "mov %%r8, 0(%3)\n\tmov %%r9, 8(%3)\n\t"
			 "mov %%r10, 16(%3)\n\tmov %%r11, 24(%3)\n\t"
			 "mov %%rsi, 32(%3)\n\tmov %%rdi, 40(%3)"
			 : "=m"(carry), "=m"(after)
			 : "r"(before), "r"(after), "m"(before)
			 : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9",
			   "r10", "r11", "cc", "memory");
	return carry == 1 && !memcmp(before, after, sizeof(before));
}

static double vectors_live(double x, double y)
{
	struct leaf l = read_cpuid(0, 0);

	return x * y + (l.a ? 0.25 : 0);
}

/* What /proc/cpuinfo lists is what cpuid says: its first processor's line. */
static int flags_agree(void)
{
	static const struct {
		const char *name;
		uint32_t leaf, reg, bit;
	} known[] = {
		{"fpu", 1, 3, 0},
		{"tsc", 1, 3, 4},
		{"cx8", 1, 3, 8},
		{"cmov", 1, 3, 15},
		{"mmx", 1, 3, 23},
		{"fxsr", 1, 3, 24},
		{"sse", 1, 3, 25},
		{"sse2", 1, 3, 26},
		{"pni", 1, 2, 0},
		{"ssse3", 1, 2, 9},
		{"fma", 1, 2, 12},
		{"avx", 1, 2, 28},
		{"fsgsbase", 7, 1, 0},
		{"hle", 7, 1, 4},
		{"avx2", 7, 1, 5},
		{"rtm", 7, 1, 11},
		{"avx512f", 7, 1, 16},
		{"pku", 7, 2, 3},
		{"syscall", 0x80000001, 3, 11},
		{"lm", 0x80000001, 3, 29},
	};
	char line[8192], word[32];
	FILE *f = fopen("/proc/cpuinfo", "r");
	int found = 0, good = 1;

	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, "flags", 5);
	if (!found)
		return 0;
	fclose(f);
	line[strcspn(line, "\n")] = ' ';
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct leaf l = read_cpuid(known[i].leaf, 0);
		uint32_t r[4] = {l.a, l.b, l.c, l.d};

		snprintf(word, sizeof(word), " %s ", known[i].name);
		if (strstr(line, word) &&
		    !(r[known[i].reg] >> known[i].bit & 1))
			good = 0;
	}
	return good;
}

int main(void)
{
	struct leaf zero = read_cpuid(0, 0), one = read_cpuid(1, 0),
		    again = read_cpuid(1, 0);
	struct leaf top = read_cpuid(0x80000000, 0),
		    none = read_cpuid(0x5fffffff, 0);
	int avx = one.c >> 28 & 1, osxsave = one.c >> 27 & 1;
	int avx512 = zero.a >= 7 ? read_cpuid(7, 0).b >> 16 & 1 : 0;

	CHECK(zero.a >= 1 && zero.b && zero.c && zero.d);
	CHECK(top.a >= 0x80000001);
	CHECK(one.a == again.a && one.c == again.c && one.d == again.d);
	CHECK((one.d >> 25 & 3) == 3);			     /* SSE and SSE2 */
	CHECK((read_cpuid(0x80000001, 0).d >> 29 & 1) == 1); /* long mode */
	CHECK(!avx || osxsave);
	CHECK(!osxsave || (read_xcr0() & 3) == 3);
	CHECK(!avx || (read_xcr0() & 6) == 6);
	CHECK(!avx512 || (read_xcr0() & 0xe6) == 0xe6);
	CHECK(!osxsave || read_cpuid(13, 0).b >= 576);
	CHECK(none.a == read_cpuid(0x5fffffff, 0).a);
	CHECK(flags_agree());
	CHECK(nothing_else_changes());
	CHECK(vectors_live(1.5, 2.5) == 4.0);
	return say_done();
}
