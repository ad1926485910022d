/* SPDX-License-Identifier: MIT */
/*
 * From guest code into abi and back, for both calling conventions.
 *
 * Nothing is written below the guest's stack pointer, because its red zone is
 * in use. Vector registers are not changed: code between entry and exit uses
 * general registers only, and everything else is called through gate.S.
 *
 * The frame (struct abi_regs) is at the end of the thread's host stack, so rsp
 * is the frame's address whenever C is not running.
 */
#include "bee/core/bee.h"

#ifdef _WIN32
#define ARG1 %rcx
#define ARG2 %rdx
#define ARG2D %edx
#define SHADOW 32
#else
#define ARG1 %rdi
#define ARG2 %rsi
#define ARG2D %esi
#define SHADOW 0
#endif

#define THREAD %gs:BEE_SLOT(SKEP_SLOT_THREAD)

/* Flags that user code may set; NT would make iretq fault. */
#define FLAGS_USER 0x40dd5
#define FLAGS_FIXED 0x202

	.text

/* rcx: return address; r11 may be used. All other registers are the guest's. */
	.globl bee_entry_syscall
bee_entry_syscall:
	mov	THREAD, %r11
	mov	BEE_T_FRAME(%r11), %r11
	mov	%rax, BEE_R_RAX(%r11)
	mov	%rbx, BEE_R_RBX(%r11)
	mov	%rcx, BEE_R_RCX(%r11)
	mov	%rdx, BEE_R_RDX(%r11)
	mov	%rsi, BEE_R_RSI(%r11)
	mov	%rdi, BEE_R_RDI(%r11)
	mov	%rbp, BEE_R_RBP(%r11)
	mov	%rsp, BEE_R_RSP(%r11)
	mov	%r8, BEE_R_R8(%r11)
	mov	%r9, BEE_R_R9(%r11)
	mov	%r10, BEE_R_R10(%r11)
	mov	%r12, BEE_R_R12(%r11)
	mov	%r13, BEE_R_R13(%r11)
	mov	%r14, BEE_R_R14(%r11)
	mov	%r15, BEE_R_R15(%r11)
	mov	%rcx, BEE_R_RIP(%r11)
	mov	%r11, %rsp
	pushfq
	pop	%rcx
	/* as the instruction does: r11 is rflags, rcx the return address */
	mov	%rcx, BEE_R_RFLAGS(%rsp)
	mov	%rcx, BEE_R_R11(%rsp)
	cld
	mov	THREAD, ARG1
	mov	%rsp, ARG2
	sub	$SHADOW, %rsp
	call	bee_call
	add	$SHADOW, %rsp

/*
 * eax: enum abi_return; rsp: the complete frame. From here to bee_exit_end a
 * kick restarts at bee_resume_tick, so no kick after the check of `kicked` is
 * missed.
 */
	.globl bee_exit_begin
bee_exit_begin:
	mov	THREAD, %r11
	cmpl	$0, BEE_T_KICKED(%r11)
	jne	bee_resume_tick
	test	%eax, %eax
	jnz	1f

	/* FAST: C has preserved the callee-saved registers. */
	mov	BEE_R_RAX(%rsp), %rax
	mov	BEE_R_RDX(%rsp), %rdx
	mov	BEE_R_RSI(%rsp), %rsi
	mov	BEE_R_RDI(%rsp), %rdi
	mov	BEE_R_R8(%rsp), %r8
	mov	BEE_R_R9(%rsp), %r9
	mov	BEE_R_R10(%rsp), %r10
	mov	BEE_R_R11(%rsp), %r11
	mov	BEE_R_RIP(%rsp), %rcx
	mov	BEE_R_RSP(%rsp), %rsp
	jmp	*%rcx

	/* FULL: iretq loads rip, rflags and rsp together, from the host
	 * stack. */
1:	mov	%ss, %eax
	mov	%cs, %ecx
	mov	BEE_R_RFLAGS(%rsp), %rdx
	and	$FLAGS_USER, %edx
	or	$FLAGS_FIXED, %edx
	mov	%rsp, %rsi
	push	%rax
	push	BEE_R_RSP(%rsi)
	push	%rdx
	push	%rcx
	push	BEE_R_RIP(%rsi)
	mov	BEE_R_RAX(%rsi), %rax
	mov	BEE_R_RBX(%rsi), %rbx
	mov	BEE_R_RCX(%rsi), %rcx
	mov	BEE_R_RDX(%rsi), %rdx
	mov	BEE_R_RDI(%rsi), %rdi
	mov	BEE_R_RBP(%rsi), %rbp
	mov	BEE_R_R8(%rsi), %r8
	mov	BEE_R_R9(%rsi), %r9
	mov	BEE_R_R10(%rsi), %r10
	mov	BEE_R_R11(%rsi), %r11
	mov	BEE_R_R12(%rsi), %r12
	mov	BEE_R_R13(%rsi), %r13
	mov	BEE_R_R14(%rsi), %r14
	mov	BEE_R_R15(%rsi), %r15
	mov	BEE_R_RSI(%rsi), %rsi
	iretq
	.globl bee_exit_end
bee_exit_end:

/* The frame is complete: abi checks for signals. */
	.globl bee_resume_tick
bee_resume_tick:
	cld
	mov	THREAD, ARG1
	mov	BEE_T_FRAME(ARG1), %rsp
	sub	$SHADOW, %rsp
	call	bee_tick
	add	$SHADOW, %rsp
	mov	$1, %eax
	jmp	bee_exit_begin

/* The frame is complete and thread->fault describes the fault. */
	.globl bee_resume_fault
bee_resume_fault:
	cld
	mov	THREAD, ARG1
	mov	BEE_T_FRAME(ARG1), %rsp
	sub	$SHADOW, %rsp
	call	bee_fault
	add	$SHADOW, %rsp
	mov	$1, %eax
	jmp	bee_exit_begin

/* ARG1: the thread, whose frame is complete. Abandons the caller's C stack. */
	.globl bee_enter
bee_enter:
	mov	BEE_T_FRAME(ARG1), %rsp
	mov	$1, %eax
	jmp	bee_exit_begin

/*
 * cpuid and xgetbv. rcx: return address; r11: 1 for xgetbv; the guest's rcx and
 * r11 are in the slots. rdx is an output of both, so it may be used. Flags and
 * all registers but the outputs are preserved: the return is always FULL.
 */
	.globl bee_entry_cpu
bee_entry_cpu:
	mov	THREAD, %rdx
	mov	BEE_T_FRAME(%rdx), %rdx
	mov	%rax, BEE_R_RAX(%rdx)
	mov	%rbx, BEE_R_RBX(%rdx)
	mov	%rcx, BEE_R_RIP(%rdx)
	mov	%rsi, BEE_R_RSI(%rdx)
	mov	%rdi, BEE_R_RDI(%rdx)
	mov	%rbp, BEE_R_RBP(%rdx)
	mov	%rsp, BEE_R_RSP(%rdx)
	mov	%r8, BEE_R_R8(%rdx)
	mov	%r9, BEE_R_R9(%rdx)
	mov	%r10, BEE_R_R10(%rdx)
	mov	%r12, BEE_R_R12(%rdx)
	mov	%r13, BEE_R_R13(%rdx)
	mov	%r14, BEE_R_R14(%rdx)
	mov	%r15, BEE_R_R15(%rdx)
	mov	%rdx, %rsp
	pushfq
	pop	BEE_R_RFLAGS(%rdx)
	mov	%gs:BEE_SLOT(SKEP_SLOT_SCRATCH), %rax
	mov	%rax, BEE_R_RCX(%rdx)
	mov	%gs:BEE_SLOT(SKEP_SLOT_SCRATCH2), %rax
	mov	%rax, BEE_R_R11(%rdx)
	cld
	mov	%r11d, ARG2D
	mov	%rsp, ARG1
	sub	$SHADOW, %rsp
	call	bee_cpu_call
	add	$SHADOW, %rsp
	mov	$1, %eax
	jmp	bee_exit_begin

#ifndef _WIN32
	.section .note.GNU-stack, "", @progbits
#endif
