/* SPDX-License-Identifier: MIT */
/*
 * SHA-256 with the instructions that the CPU has. Owns bee_sha256_way, which
 * the first use sets. It uses xmm registers, so it may only run before the
 * guest starts or behind the gate.
 */
#include "bee/core/core.h"

u32 bee_sha256_way;

/* SSSE3, SSE4.1 and the SHA extensions (Intel SDM volume 2, CPUID). */
static u32 choose_way(void)
{
	u32 a = 0, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	if (a < 7)
		return BEE_SHA256_PLAIN;
	a = 1, c = 0;
	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	if (!(c >> 9 & 1) || !(c >> 19 & 1))
		return BEE_SHA256_PLAIN;
	a = 7, c = 0;
	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	return b >> 29 & 1 ? BEE_SHA256_NI : BEE_SHA256_PLAIN;
}

void bee_sha256_init(struct skep_sha256 *s)
{
	if (!bee_sha256_way)
		bee_sha256_way = choose_way();
	skep_sha256_init(s);
	if (bee_sha256_way == BEE_SHA256_NI)
		s->blocks = bee_sha256_ni;
}
