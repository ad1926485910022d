/* SPDX-License-Identifier: MIT */
/* Header and entry of the test image; see main.c. */
#include <skep/mark.h>

#define STACK 4096
#define ROUNDS 1000000

	.section .head, "a"
	.4byte	0x31534d53
	.4byte	2
	.4byte	3
	.4byte	image_entry
	.8byte	image_size
	.8byte	0x400000
	.4byte	0x10000
	.4byte	0
	.4byte	0
	.ascii	"test image 1"
	.zero	8

	.text
	.globl	start, on_nmi, on_interrupt
start:
	movl	%esi, %eax
	incl	%eax
	imull	$STACK, %eax
	leaq	stacks(%rip), %rsp
	addq	%rax, %rsp
	call	image_main
1:	cli
	hlt
	jmp	1b

/* Counters of this core; all registers are kept. Reasons are taken: else none
 * that comes later is sent.
 */
on_nmi:
	pushq	%rax
	pushq	%rcx
	movq	%gs:16, %rax
	xorl	%ecx, %ecx
	xchgl	%ecx, (%rax)
	movq	%gs:0, %rax
	lock incq 16(%rax)
	popq	%rcx
	popq	%rax
	iretq
on_interrupt:
	pushq	%rax
	movq	%gs:0, %rax
	lock incq 24(%rax)
	movq	%gs:8, %rax		/* end of interrupt */
	movl	$0, (%rax)
	popq	%rax
	iretq

/* Loops that are called where they lie in memory: they refer to nothing, and
 * go on until the word at rdi is not zero, or has changed.
 */
	.globl	quiet_loop, noisy_loop
	.balign 4096
quiet_loop:
	movl	$ROUNDS, %ecx
	SKEP_MARK_BEGIN(8)
1:	decl	%ecx
	jnz	1b
2:	cmpq	$0, (%rdi)
	je	2b
	SKEP_MARK_END(8)
	ret
noisy_loop:
	movl	$ROUNDS, %ecx
	movq	(%rdi), %rax
	SKEP_MARK_BEGIN(9)
1:	decl	%ecx
	jnz	1b
2:	cmpq	%rax, (%rdi)
	je	2b
	SKEP_MARK_END(9)
	ret
	.balign 4096

/* Ends in a halt that only INIT ends, and what is done after the next start:
 * what lies between is stop, idleness and start of a partition. Linux sends
 * INIT when it sees the word at rdi: an emulator does all from there to the
 * halt in one go, so that INIT finds the core halted.
 */
	.macro	idle number
	.globl	idle_begin_\number, idle_end_\number
idle_begin_\number:
	SKEP_MARK_BEGIN(\number)
	movq	$1, (%rdi)
1:	cli
	hlt
	jmp	1b
idle_end_\number:
	SKEP_MARK_END(\number)
	movq	$1, (%rdi)
	ret
	.endm
	idle	10
	idle	11
	idle	12

	.bss
	.balign 4096
stacks:	.zero	16 * STACK
