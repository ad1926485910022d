/* SPDX-License-Identifier: MIT */
/*
 * The entry of signal handlers. FS is as the interrupted code had it: at the
 * guard in guest code or abi. C needs the libc's FS, so it is switched here,
 * and back before the return.
 */
#include "bee/core/bee.h"

#define SYS_ARCH_PRCTL 158
#define ARCH_SET_FS 0x1002
#define ARCH_GET_FS 0x1003

	.text
	.globl lin_signal_entry
lin_signal_entry:
	push	%rbp
	mov	%rsp, %rbp
	push	%rbx
	push	%r12
	push	%rdi
	push	%rsi
	push	%rdx
	sub	$24, %rsp
	and	$-16, %rsp
	mov	%gs:BEE_SLOT(SKEP_SLOT_THREAD), %rbx
	cmpl	$1, bee_fs_mode(%rip)
	jne	1f
	rdfsbase %r12
	mov	BEE_T_HOST_FS(%rbx), %rax
	wrfsbase %rax
	jmp	2f
1:	mov	$SYS_ARCH_PRCTL, %eax
	mov	$ARCH_GET_FS, %edi
	mov	%rsp, %rsi
	syscall
	mov	(%rsp), %r12
	mov	$SYS_ARCH_PRCTL, %eax
	mov	$ARCH_SET_FS, %edi
	mov	BEE_T_HOST_FS(%rbx), %rsi
	syscall
2:	mov	%r12, %rcx
	mov	-24(%rbp), %rdi
	mov	-32(%rbp), %rsi
	mov	-40(%rbp), %rdx
	call	lin_signal
	cmpl	$1, bee_fs_mode(%rip)
	jne	3f
	wrfsbase %r12
	jmp	4f
3:	mov	$SYS_ARCH_PRCTL, %eax
	mov	$ARCH_SET_FS, %edi
	mov	%r12, %rsi
	syscall
4:	lea	-16(%rbp), %rsp
	pop	%r12
	pop	%rbx
	pop	%rbp
	ret

	.section .note.GNU-stack, "", @progbits
