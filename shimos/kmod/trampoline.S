/* SPDX-License-Identifier: GPL-2.0-only */
/* See trampoline.h. The offsets of the data are those of the structures
 * there. */
#include <linux/linkage.h>
#include "trampoline.h"

	.section .rodata, "a", @progbits
	.balign 16

/*
 * CS contains the page, IP is 0, and all else is as after INIT. Interrupts are
 * off, but an NMI may arrive, so the stack and the interrupt table are set up
 * first.
 */
	.code16
SYM_DATA_START(shimos_low_begin)
	cli
	movw	%cs, %ax
	movw	%ax, %ss
	movw	$0x1000, %sp
	movw	%ax, %ds
	lidtl	low_idt - shimos_low_begin
	lgdtl	low_gdt - shimos_low_begin
	movl	$0x20, %eax		/* PAE */
	movl	%eax, %cr4
	movl	low_cr3 - shimos_low_begin, %eax
	movl	%eax, %cr3
	movl	$0xc0000080, %ecx	/* EFER: LME */
	movl	$0x100, %eax
	xorl	%edx, %edx
	wrmsr
	movl	$0x80010031, %eax	/* PG, WP, NE, ET, PE; caches on */
	movl	%eax, %cr0
	ljmpl	*(low_jump - shimos_low_begin)
	.globl	shimos_low_return
shimos_low_return:
	iretw
	.globl	shimos_low_data
shimos_low_data:
low_idt:
	.2byte	0
	.4byte	0
low_gdt:
	.2byte	0
	.4byte	0
low_cr3:
	.4byte	0
low_jump:
	.4byte	0
	.2byte	0
SYM_DATA_END_LABEL(shimos_low_begin, SYM_L_GLOBAL, shimos_low_end)

	.code64
	.balign 16
SYM_DATA_START(shimos_stage_begin)
	xorl	%eax, %eax
	movl	%eax, %ss
	movq	stage_stack(%rip), %rsp
	lgdt	stage_gdt(%rip)
	lidt	stage_idt(%rip)
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %fs
	movl	%eax, %gs
	movl	$15, %eax
	movq	%rax, %cr8		/* only NMIs interrupt the core */
	movq	stage_entry(%rip), %rax
	movq	stage_partition(%rip), %rdi
	movl	stage_core(%rip), %esi
	leal	1(%rsi), %edx
	xchgl	%edx, stage_answer(%rip)
	testq	%rax, %rax
	jz	shimos_stage_halt
	cld
	jmp	*%rax
	.globl	shimos_stage_halt
shimos_stage_halt:
	cli
1:	hlt
	jmp	1b
	.globl	shimos_stage_nmi
shimos_stage_nmi:
	iretq
	.balign 16
	.globl	shimos_stage_data
shimos_stage_data:
	.8byte	0
	.8byte	0x00209b0000000000	/* 64-bit code */
stage_idt:
	.2byte	0
	.8byte	0
stage_gdt:
	.2byte	0
	.8byte	0
stage_stack:
	.8byte	0
stage_entry:
	.8byte	0
stage_partition:
	.8byte	0
stage_core:
	.4byte	0
stage_answer:
	.4byte	0
SYM_DATA_END_LABEL(shimos_stage_begin, SYM_L_GLOBAL, shimos_stage_end)
