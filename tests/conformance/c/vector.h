/* SPDX-License-Identifier: MIT */
/*
 * Vector registers across one raw system call: all are loaded from `in`, the
 * call is made, all are stored to `out`. Nothing between is compiled code.
 */
#ifndef CONFORMANCE_VECTOR_H
#define CONFORMANCE_VECTOR_H

#include <string.h>

struct vector_call {
	const char *name;
	long nr, a, b, c;
};

#define VECTOR_LOW "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15"
#define VECTOR_HIGH                                                            \
	VECTOR_LOW ",16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"

#define VECTOR_FUNCTION(name, list, move, reg, size)                           \
	__attribute__((noinline)) static long name(                            \
		const struct vector_call *call, const void *in, void *out)     \
	{                                                                      \
		long rax = call->nr;                                           \
                                                                               \
		__asm__ volatile(".irp i," list "\n\t" move " (\\i*" size      \
				 ")(%[in]), %%" reg "\\i\n\t"                  \
				 ".endr\n\tsyscall\n\t.irp i," list            \
				 "\n\t" move " %%" reg "\\i, (\\i*" size       \
				 ")(%[out])"                                   \
				 "\n\t.endr"                                   \
				 : "+a"(rax)                                   \
				 : "D"(call->a), "S"(call->b),                 \
				   "d"(call->c), [in] "r"(in), [out] "r"(out)  \
				 : "rcx", "r11", "memory", "xmm0", "xmm1",     \
				   "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",     \
				   "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",   \
				   "xmm12", "xmm13", "xmm14", "xmm15");        \
		return rax;                                                    \
	}

VECTOR_FUNCTION(vector_xmm, VECTOR_LOW, "movdqu", "xmm", "16")
VECTOR_FUNCTION(vector_ymm, VECTOR_LOW, "vmovdqu", "ymm", "32")
VECTOR_FUNCTION(vector_zmm, VECTOR_HIGH, "vmovdqu64", "zmm", "64")

/* Mask registers of AVX-512; 16 bits are enough for AVX512F alone. */
VECTOR_FUNCTION(vector_mask, "1,2,3,4,5,6,7", "kmovw", "k", "8")

struct vector_kind {
	const char *name;
	long (*function)(const struct vector_call *, const void *, void *);
	int registers, size, usable;
};

/* True when every register has the pattern after the call. */
static int vector_kept(const struct vector_kind *kind,
		       const struct vector_call *call, long *result)
{
	unsigned char in[32 * 64], out[32 * 64];
	int i, n = kind->registers * kind->size;

	for (i = 0; i < n; i++)
		in[i] = i * 37 + (i >> 6) * 11 + call->nr;
	if (kind->function == vector_mask)
		for (i = 0; i < n; i++)
			in[i] = (i & 7) < 2 && i > 7 ? in[i] : 0;
	memset(out, 0, sizeof(out));
	*result = kind->function(call, in, out);
	return !memcmp(in, out, n);
}

#endif
