/* SPDX-License-Identifier: MIT */
/* Header and entry of the image that boots a Linux kernel; see main.c. */

#define STACK 8192

	.section .head, "a"
	.4byte	0x31534d53
	.4byte	2
	.4byte	3
	.4byte	image_entry
	.8byte	image_size
	.8byte	image_size + 0x10000
	.4byte	0
	.4byte	0
	.4byte	2			/* SKEP_IMAGE_LOW */
	.ascii	"boot of Linux 1"
	.zero	5

	.text
/* All cores but the first wait as they are: the kernel starts them by INIT and
 * SIPI. Their stack and tables are the module's. */
	.globl	start
start:
	testl	%esi, %esi
	jnz	1f
	leaq	stack_end(%rip), %rsp
	call	shimos_boot_main
1:	cli
	hlt
	jmp	1b

/* rdi: physical address of the page tables. */
	.globl	shimos_boot_map
shimos_boot_map:
	movq	%rdi, %cr3
	ret

/* rdi: the kernel's entry, rsi: its struct boot_params, rdx: a descriptor table
 * to load. All are physical, and mapped. */
	.globl	shimos_boot_jump
shimos_boot_jump:
	lgdt	(%rdx)
	movl	$0x18, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	xorl	%eax, %eax
	movl	%eax, %fs
	movl	%eax, %gs
	pushq	$0x10
	pushq	%rdi
	lretq

/* The compiler calls these two. */
	.globl	memcpy, memset
memcpy:
	movq	%rdi, %rax
	movq	%rdx, %rcx
	rep movsb
	ret
memset:
	movq	%rdi, %r8
	movl	%esi, %eax
	movq	%rdx, %rcx
	rep stosb
	movq	%r8, %rax
	ret

	.bss
	.balign 16
stack:	.zero	STACK
stack_end:
