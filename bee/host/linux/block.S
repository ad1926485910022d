/* SPDX-License-Identifier: MIT */
/*
 * A system call that may wait, and that a kick ends: s64 lin_block(u32 *kicked,
 * u64 nr, const u64 arg[6]). The check of `kicked` and the call are atomic with
 * respect to the handler of kicks: if it interrupts between lin_block_begin and
 * lin_block_end, it continues at lin_block_out. So no kick is lost between the
 * two. A later kick ends the call in the kernel, with -EINTR.
 */
	.text
	.globl lin_block, lin_block_begin, lin_block_end, lin_block_out
lin_block:
	push	%rbx
	mov	%rdi, %rbx
	mov	%rsi, %rax
	mov	%rdx, %rcx
	mov	(%rcx), %rdi
	mov	8(%rcx), %rsi
	mov	16(%rcx), %rdx
	mov	24(%rcx), %r10
	mov	32(%rcx), %r8
	mov	40(%rcx), %r9
lin_block_begin:
	cmpl	$0, (%rbx)
	jne	lin_block_out
	syscall
lin_block_end:
	pop	%rbx
	ret
lin_block_out:
	mov	$-4, %rax /* -EINTR */
	pop	%rbx
	ret

	.section .note.GNU-stack, "", @progbits
