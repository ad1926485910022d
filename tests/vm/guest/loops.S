/* SPDX-License-Identifier: MIT */
/*
 * Loops whose instructions between the marks are known to the last one. Each
 * keeps to the registers that a C function may use up.
 */
#include <skep/mark.h>

	.text
	.globl	plain_loop, plain_head, plain_end
	.type	plain_loop, @function
/* Interval 4: 1 + 2 * 1000000 instructions. */
plain_loop:
	SKEP_MARK_BEGIN(4)
	mov	$1000000, %ecx
plain_head:
	dec	%ecx
	jnz	plain_head
	SKEP_MARK_END(4)
plain_end:
	ret
	.size	plain_loop, . - plain_loop

	.globl	string_copy, string_end
	.type	string_copy, @function
/* Interval 5: 4 instructions, one of which copies 1000 bytes. */
string_copy:
	SKEP_MARK_BEGIN(5)
	lea	buffer(%rip), %rsi
	mov	%rsi, %rdi
	mov	$1000, %ecx
	rep movsb
	SKEP_MARK_END(5)
string_end:
	ret
	.size	string_copy, . - string_copy

	.globl	atomic_loop, atomic_end
	.type	atomic_loop, @function
/*
 * Interval 6: 2 + 3 * 1000 instructions. The word lies across two cache
 * lines, where an emulator may have to repeat the addition alone.
 */
atomic_loop:
	lea	buffer+61(%rip), %rsi
	SKEP_MARK_BEGIN(6)
	mov	$1000, %ecx
	mov	$1, %eax
1:	lock addq %rax, (%rsi)
	dec	%ecx
	jnz	1b
	SKEP_MARK_END(6)
atomic_end:
	ret
	.size	atomic_loop, . - atomic_loop

	/* Written to by the loader, so that no page of it faults later. */
	.data
	.balign	64
buffer:
	.fill	1024, 1, 1

	.section .note.GNU-stack, "", @progbits
