/* SPDX-License-Identifier: MIT */
/*
 * The gate: one thunk for each function of struct abi_host that is ordinary C.
 * abi leaves the guest's vector state in the registers, so the thunk saves it
 * and loads it again afterwards; on Linux it switches FS to the host's libc and
 * back. Functions have at most four arguments, all in registers
 * (abi/include/host.h), so all thunks are alike.
 *
 * Registers: rbx the thread, r12 the function, r13 how the state was saved (0:
 * xmm only).
 */
#include "bee/core/bee.h"

#define THREAD %gs:BEE_SLOT(SKEP_SLOT_THREAD)
#define FS_NONE 0
#define FS_INSN 1
#define FS_CALL 2

#define VEC_FXSAVE 0
#define VEC_XSAVE 1
#define VEC_XSAVEC 2

#ifdef _WIN32
#define VOLATILE_XMM 0, 1, 2, 3, 4, 5
#else
#define VOLATILE_XMM 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#endif

/* Sets FS base from a field of the thread; clobbers rax, rcx, rdi, rsi, r11. */
.macro	fs_set field
#ifndef _WIN32
	mov	\field(%rbx), %rsi
	cmpl	$FS_INSN, bee_fs_mode(%rip)
	jne	1f
	wrfsbase %rsi
	jmp	2f
1:	mov	$158, %eax /* arch_prctl */
	mov	$0x1002, %edi /* ARCH_SET_FS */
	syscall
2:
#endif
.endm

	.text
gate:
	push	%rbp
	mov	%rsp, %rbp
	push	%rbx
	push	%r12
	push	%r13
	push	%r14
#ifdef _WIN32
	push	%rdi
	push	%rsi
	push	%r9
	push	%r8
	push	%rdx
	push	%rcx
#else
	push	%rcx
	push	%rdx
	push	%rsi
	push	%rdi
#endif
	mov	THREAD, %rbx
	lea	bee_gate_real(%rip), %r10
	mov	(%r10,%rax,8), %r12
	fs_set	BEE_T_HOST_FS

	mov	BEE_T_VEC(%rbx), %r10
	xor	%r13d, %r13d
	cmpl	$VEC_XSAVEC, bee_vec_mode(%rip)
	jb	.Lsave_old
	mov	$1, %ecx
	xgetbv /* XINUSE */
	and	bee_vec_mask(%rip), %eax
	test	$~3, %eax
	jnz	.Lsave_all
	.irp	n, VOLATILE_XMM
	movaps	%xmm\n, 160 + 16 * \n(%r10)
	.endr
	jmp	.Lgo
.Lsave_all:
	mov	bee_vec_mask(%rip), %eax
	xor	%edx, %edx
	xsavec64 (%r10)
	inc	%r13d
	testb	$4, bee_vec_mask(%rip)
	jz	.Lgo
	vzeroupper
	jmp	.Lgo
.Lsave_old:
	inc	%r13d
	cmpl	$VEC_XSAVE, bee_vec_mode(%rip)
	jb	.Lsave_fx
	mov	bee_vec_mask(%rip), %eax
	xor	%edx, %edx
	xsave64	(%r10)
	jmp	.Lgo
.Lsave_fx:
	fxsave64 (%r10)
.Lgo:
#ifdef _WIN32
	pop	%rcx
	pop	%rdx
	pop	%r8
	pop	%r9
	sub	$32, %rsp
	call	*%r12
	add	$32, %rsp
#else
	pop	%rdi
	pop	%rsi
	pop	%rdx
	pop	%rcx
	call	*%r12
#endif
	mov	%rax, %r14
	fs_set	BEE_T_GUEST_FS
	mov	BEE_T_VEC(%rbx), %r10
	test	%r13d, %r13d
	jnz	.Lload_all
	.irp	n, VOLATILE_XMM
	movaps	160 + 16 * \n(%r10), %xmm\n
	.endr
	jmp	.Lout
.Lload_all:
	cmpl	$VEC_XSAVE, bee_vec_mode(%rip)
	jb	.Lload_fx
	mov	bee_vec_mask(%rip), %eax
	xor	%edx, %edx
	xrstor64 (%r10)
	jmp	.Lout
.Lload_fx:
	fxrstor64 (%r10)
.Lout:
	mov	%r14, %rax
#ifdef _WIN32
	pop	%rsi
	pop	%rdi
#endif
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbx
	pop	%rbp
	ret

/* The thunks, in the order of struct abi_host; 16 bytes each. */
	.globl bee_gate_thunks
	.balign 16
bee_gate_thunks:
	.set	i, 0
	.rept	BEE_GATE_OPS
	.balign	16
	mov	$i, %eax
	jmp	gate
	.set	i, i + 1
	.endr

/* s64 bee_vec_xsave(void *buf, u32 mask), bee_vec_xrstor: the live state. */
#ifdef _WIN32
#define BUF %rcx
#define MASK %edx
#else
#define BUF %rdi
#define MASK %esi
#endif
	.globl bee_vec_xsave
bee_vec_xsave:
	mov	MASK, %eax
	xor	%edx, %edx
	xsave64	(BUF)
	ret
	.globl bee_vec_xrstor
bee_vec_xrstor:
	mov	MASK, %eax
	xor	%edx, %edx
	xrstor64 (BUF)
	ret
	.globl bee_vec_fxsave
bee_vec_fxsave:
	fxsave64 (BUF)
	ret
	.globl bee_vec_fxrstor
bee_vec_fxrstor:
	fxrstor64 (BUF)
	ret

#ifndef _WIN32
/* void bee_fs_enter(struct bee_thread *): switches FS from the host's to the
 * guest's. */
	.globl bee_fs_enter
bee_fs_enter:
	push	%rbx
	mov	%rdi, %rbx
	fs_set	BEE_T_GUEST_FS
	pop	%rbx
	ret
	.section .note.GNU-stack, "", @progbits
#endif
