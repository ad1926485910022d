/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Marks around a stretch of code whose instructions the lab's counter
 * (lab/count) adds up. A mark is one instruction, the 7 byte no-op
 * `nopl disp32(%rax)`, in user space, in a kernel or on a bare core; without
 * the counter nothing notices it. It takes no register and enters no kernel.
 *
 *	0f 1f 80  <disp32, little-endian>
 *	disp32 bits 31..16  0x5b4b
 *	       bits 15..5   0
 *	       bit  4       0 begin, 1 end
 *	       bits 3..0    the interval, 0 to 15
 *
 * Intervals may nest and overlap if their numbers differ. Counting is by
 * processor: a program that marks stays on one, or the end finds no begin.
 * What lies strictly between the two marks is counted, the marks are not.
 */
#ifndef SKEP_MARK_H
#define SKEP_MARK_H

#define SKEP_MARK_REVISION 1

#define SKEP_MARK_TAG 0x5b4b0000
#define SKEP_MARK_TAG_BITS 0xffffffe0
#define SKEP_MARK_END_BIT 0x10
#define SKEP_MARK_INTERVALS 16

#ifdef __ASSEMBLER__

/* For assembly that goes through the preprocessor. */
#define SKEP_MARK_BEGIN(n)                                                     \
	.byte 0x0f, 0x1f, 0x80;                                                \
	.4byte SKEP_MARK_TAG + (n)
#define SKEP_MARK_END(n)                                                       \
	.byte 0x0f, 0x1f, 0x80;                                                \
	.4byte SKEP_MARK_TAG + SKEP_MARK_END_BIT + (n)

#else

/* n is a constant. Memory accesses of C stay on their side of the mark. */
#define SKEP_MARK_(value)                                                      \
	__asm__ volatile(".byte 0x0f, 0x1f, 0x80\n\t.4byte %c0"                \
			 :                                                     \
			 : "i"(value)                                          \
			 : "memory")
#define SKEP_MARK_CHECK_(n)                                                    \
	_Static_assert((n) >= 0 && (n) < SKEP_MARK_INTERVALS,                  \
		       "a mark's interval is 0 to 15")
#define SKEP_MARK_BEGIN(n)                                                     \
	do {                                                                   \
		SKEP_MARK_CHECK_(n);                                           \
		SKEP_MARK_(SKEP_MARK_TAG + (n));                               \
	} while (0)
#define SKEP_MARK_END(n)                                                       \
	do {                                                                   \
		SKEP_MARK_CHECK_(n);                                           \
		SKEP_MARK_(SKEP_MARK_TAG + SKEP_MARK_END_BIT + (n));           \
	} while (0)

#endif

#endif
