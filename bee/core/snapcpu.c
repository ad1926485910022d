/* SPDX-License-Identifier: MIT */
/*
 * Which features of a CPU a program may rely on, because it could see them.
 * Leaf and bit numbers: Intel SDM volume 2 and AMD APM volume 3, CPUID.
 * Features of the kernel's only are left out: another kernel may turn them off.
 */
#include "bee/core/core.h"
#include "bee/core/snapshot.h"

static const struct word {
	u32 leaf, sub, reg, mask;
} words[] = {
	{1, 0, 2, ~0x8126cdf4u},	 {1, 0, 3, 0x07888111u},
	{7, 0, 1, ~0x0250f4c6u},	 {7, 0, 2, 0x1a405f43u},
	{7, 0, 3, 0x0080411cu},		 {7, 1, 0, 0x00801cb7u},
	{7, 1, 3, 0x0008c430u},		 {0xd, 1, 0, 7},
	{0x80000001, 0, 2, 0x002109e1u}, {0x80000001, 0, 3, 0xe8400800u},
	{0x80000008, 0, 1, 0x11u},
};
#define WORDS (sizeof(words) / sizeof(words[0]))
_Static_assert(WORDS <= BEE_CPU_WORDS, "room for all words");

/* Those that compilers and C libraries choose code by. */
static const struct {
	u32 word, bit;
	const char *name;
} names[] = {
	{0, 0, "sse3"},	     {0, 1, "pclmulqdq"},   {0, 9, "ssse3"},
	{0, 12, "fma"},	     {0, 13, "cmpxchg16b"}, {0, 19, "sse4.1"},
	{0, 20, "sse4.2"},   {0, 22, "movbe"},	    {0, 23, "popcnt"},
	{0, 25, "aes"},	     {0, 26, "xsave"},	    {0, 27, "xsave"},
	{0, 28, "avx"},	     {0, 29, "f16c"},	    {0, 30, "rdrand"},
	{2, 3, "bmi1"},	     {2, 5, "avx2"},	    {2, 8, "bmi2"},
	{2, 9, "erms"},	     {2, 16, "avx512f"},    {2, 17, "avx512dq"},
	{2, 18, "rdseed"},   {2, 19, "adx"},	    {2, 29, "sha"},
	{2, 30, "avx512bw"}, {2, 31, "avx512vl"},   {7, 1, "xsavec"},
	{8, 5, "lzcnt"},     {9, 27, "rdtscp"},
};

void bee_snap_cpu_read(struct bee_snap_cpu *cpu)
{
	u32 r[4], i, highest[2];

	abi_memset(cpu, 0, sizeof(*cpu));
	bee_cpuid(0, 0, r);
	highest[0] = r[0];
	bee_cpuid(0x80000000, 0, r);
	highest[1] = r[0];
	for (i = 0; i < WORDS; i++) {
		if (words[i].leaf > highest[words[i].leaf >> 31])
			continue;
		bee_cpuid(words[i].leaf, words[i].sub, r);
		cpu->word[i] = r[words[i].reg] & words[i].mask;
	}
	cpu->xsave_mask = bee_xsave_mask();
	cpu->xsave_size = bee_xsave_size();
	for (i = 2; i < 8; i++) {
		if (!(cpu->xsave_mask >> i & 1))
			continue;
		bee_cpuid(0xd, i, r);
		cpu->offset[i] = r[1];
	}
}

static const char *name_feature(u32 word, u32 bit)
{
	static const char *const regs[] = {" eax", " ebx", " ecx", " edx"};
	static char text[64];
	struct abi_text t;
	u32 i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].word == word && names[i].bit == bit)
			return names[i].name;
	abi_text_init(&t, text, sizeof(text));
	abi_text_str(&t, "cpuid leaf 0x");
	abi_text_hex(&t, words[word].leaf, 1);
	abi_text_str(&t, regs[words[word].reg]);
	abi_text_str(&t, " bit ");
	abi_text_dec(&t, bit);
	return text;
}

const char *bee_snap_cpu_lacks(const struct bee_snap_cpu *had)
{
	struct bee_snap_cpu now;
	u32 i, lost;

	bee_snap_cpu_read(&now);
	for (i = 0; i < WORDS; i++) {
		lost = had->word[i] & ~now.word[i];
		if (lost)
			return name_feature(i, (u32)__builtin_ctz(lost));
	}
	if (had->xsave_mask & ~now.xsave_mask)
		return "vector registers";
	for (i = 2; i < 8; i++)
		if (had->xsave_mask >> i & 1 && had->offset[i] != now.offset[i])
			return "the same layout of vector registers";
	return 0;
}
