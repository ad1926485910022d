/* SPDX-License-Identifier: MIT */
/*
 * SHA-256 with the SHA extensions (Intel SDM volume 2, SHA256RNDS2). It uses
 * xmm registers, so it may only run before the guest starts or behind the gate.
 *
 * void bee_sha256_ni(u32 state[8], const u8 *blocks, u64 count)
 *
 * xmm0 is the instructions' implicit operand; xmm1 holds a, b, e, f and xmm2 c,
 * d, g, h; xmm3 to xmm6 the last sixteen words of the schedule.
 */
#include "bee/core/bee.h"

#ifdef _WIN32
#define STATE %rcx
#define BLOCKS %rdx
#define COUNT %r8
#else
#define STATE %rdi
#define BLOCKS %rsi
#define COUNT %rdx
#endif

/* Four rounds with the words in \m; their constants are at \i. */
.macro	rounds i, m
	movdqa	16 * (\i)(%r9), %xmm0
	paddd	\m, %xmm0
	sha256rnds2 %xmm0, %xmm1, %xmm2
	pshufd	$0x0e, %xmm0, %xmm0
	sha256rnds2 %xmm0, %xmm2, %xmm1
.endm

.macro	first i, m
	movdqu	16 * (\i)(BLOCKS), \m
	pshufb	%xmm10, \m
	rounds	\i, \m
.endm

/* \m has the words t - 16 to t - 13 and gets t to t + 3; m1 to m3 have the
 * words after it. */
.macro	next i, m, m1, m2, m3
	sha256msg1 \m1, \m
	movdqa	\m3, %xmm7
	palignr	$4, \m2, %xmm7
	paddd	%xmm7, \m
	sha256msg2 \m3, \m
	rounds	\i, \m
.endm

	.text
	.globl bee_sha256_ni
bee_sha256_ni:
#ifdef _WIN32
	sub	$88, %rsp
	movups	%xmm6, (%rsp)
	movups	%xmm7, 16(%rsp)
	movups	%xmm8, 32(%rsp)
	movups	%xmm9, 48(%rsp)
	movups	%xmm10, 64(%rsp)
#endif
	lea	skep_sha256_round(%rip), %r9
	movdqa	swap(%rip), %xmm10
	movdqu	(STATE), %xmm1
	movdqu	16(STATE), %xmm2
	pshufd	$0xb1, %xmm1, %xmm7
	pshufd	$0x1b, %xmm2, %xmm2
	movdqa	%xmm7, %xmm1
	palignr	$8, %xmm2, %xmm1
	pblendw	$0xf0, %xmm7, %xmm2
	test	COUNT, COUNT
	jz	2f
1:	movdqa	%xmm1, %xmm8
	movdqa	%xmm2, %xmm9
	first	0, %xmm3
	first	1, %xmm4
	first	2, %xmm5
	first	3, %xmm6
	.irp	i, 4, 8, 12
	next	\i, %xmm3, %xmm4, %xmm5, %xmm6
	next	"\i + 1", %xmm4, %xmm5, %xmm6, %xmm3
	next	"\i + 2", %xmm5, %xmm6, %xmm3, %xmm4
	next	"\i + 3", %xmm6, %xmm3, %xmm4, %xmm5
	.endr
	paddd	%xmm8, %xmm1
	paddd	%xmm9, %xmm2
	add	$64, BLOCKS
	dec	COUNT
	jnz	1b
2:	pshufd	$0x1b, %xmm1, %xmm7
	pshufd	$0xb1, %xmm2, %xmm2
	movdqa	%xmm7, %xmm1
	pblendw	$0xf0, %xmm2, %xmm1
	palignr	$8, %xmm7, %xmm2
	movdqu	%xmm1, (STATE)
	movdqu	%xmm2, 16(STATE)
#ifdef _WIN32
	movups	(%rsp), %xmm6
	movups	16(%rsp), %xmm7
	movups	32(%rsp), %xmm8
	movups	48(%rsp), %xmm9
	movups	64(%rsp), %xmm10
	add	$88, %rsp
#endif
	ret

	.balign 16
swap:	.quad	0x0405060700010203, 0x0c0d0e0f08090a0b

#ifndef _WIN32
	.section .note.GNU-stack, "", @progbits
#endif
