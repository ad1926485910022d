/* SPDX-License-Identifier: MIT */
/*
 * The image's header and entry, and the paths into ring 0 and out of it.
 *
 * Interrupts are always off. In ring 3 the GS base is 0 and the hidden one is
 * struct core; in ring 0 they are swapped. An NMI may arrive at any
 * instruction, so its handler does not use GS: its stack contains the address
 * of struct core.
 */
#include "sms/kernel/layout.h"

#define FLAGS_USER 0x40dd5
#define FLAGS_FIXED 0x2
#define MSR_GS 0xc0000101
#define MSR_HIDDEN_GS 0xc0000102

	.section .head, "a"
	.4byte	0x31534d53
	.4byte	2
	.4byte	3
	.4byte	sms_entry_offset
	.8byte	sms_file_size
	.8byte	0xc00000	/* used of abi's tables, page tables, stacks */
	.4byte	0x40000		/* of each core: block, stack, tables */
	.4byte	0x10000		/* of each GiB: tables, bits of frames */
	.4byte	1		/* SKEP_IMAGE_MARKS */
	.ascii	"sms 0.1"
	.zero	13

	.text
	.globl	sms_start
sms_start:
	cld
	testl	%esi, %esi
	jnz	1f
	leaq	boot_stack_end(%rip), %rsp
	call	sms_main
	xorl	%esi, %esi
	movl	$1, sms_ready(%rip)
1:	cmpl	$0, sms_ready(%rip)
	jne	2f
	pause
	jmp	1b
2:	imull	$BLOCK_SIZE, %esi, %esi
	movq	sms_blocks(%rip), %rdi
	addq	%rsi, %rdi
	leaq	BLOCK_DOUBLE(%rdi), %rsp
	call	sms_core_begin
	ud2

/* void sms_core_enter(struct core *): switches to the core's page tables and
 * stack. */
	.globl	sms_core_enter
sms_core_enter:
	movq	C_ROOT(%rdi), %rax
	movq	%rax, %cr3
	movq	C_TOP(%rdi), %rsp
	call	sms_core_run
	ud2

/*
 * Idle: halts, so that no instruction is executed, until an NMI. An NMI before
 * the halt restarts this.
 */
	.globl	sms_core_idle, sms_idle_begin, sms_idle_look, sms_idle_end
sms_core_idle:
	movq	C_TOP(%rdi), %rsp
	movq	%rdi, %rbx
1:	movq	%rbx, %rdi
	call	sms_core_work
sms_idle_begin:
	movl	$0, C_POKED(%rbx)
	movq	%rbx, %rdi
	call	sms_core_quiet
	testl	%eax, %eax
	jz	1b
sms_idle_look:
	cmpl	$0, C_POKED(%rbx)	/* an NMI arrived during the check */
	jne	sms_idle_begin
	hlt
sms_idle_end:
	jmp	1b

/*
 * The halt would miss an NMI between these instructions, so the NMI's handler
 * skips them. An NMI that has arrived since the caller's check has set `poked`.
 */
	.globl	sms_wait_word, sms_wait_begin, sms_wait_end
sms_wait_word:
	movq	%rdi, %rax
	xorl	%ecx, %ecx
	xorl	%edx, %edx
sms_wait_begin:
	cmpl	$0, %gs:C_POKED
	jne	sms_wait_end
	monitor
	cmpl	%esi, (%rdi)
	jne	sms_wait_end
	xorl	%eax, %eax
	mwait
sms_wait_end:
	ret

/* The same with a halt, which only an NMI ends. */
	.globl	sms_halt, sms_halt_begin, sms_halt_end
sms_halt:
sms_halt_begin:
	cmpl	$0, %gs:C_POKED
	jne	sms_halt_end
	hlt
sms_halt_end:
	ret

/* void sms_task_switch(u64 *save, u64 rsp): the caller saves vector state. */
	.globl	sms_task_switch, sms_task_first
sms_task_switch:
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, (%rdi)
	movq	%rsi, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	ret

/* Here a new thread begins after sms_task_switch. */
sms_task_first:
	call	sms_task_begin
	movq	%gs:C_SELF, %rdi
	jmp	sms_thread_enter

/* rcx: return address, r11: flags. */
	.globl	sms_entry_syscall
sms_entry_syscall:
	swapgs
	movq	%rsp, %gs:C_USER_RSP
	movq	%gs:C_FRAME, %rsp
	movq	%rax, R_RAX(%rsp)
	movq	%rbx, R_RBX(%rsp)
	movq	%rcx, R_RCX(%rsp)
	movq	%rdx, R_RDX(%rsp)
	movq	%rsi, R_RSI(%rsp)
	movq	%rdi, R_RDI(%rsp)
	movq	%rbp, R_RBP(%rsp)
	movq	%r8, R_R8(%rsp)
	movq	%r9, R_R9(%rsp)
	movq	%r10, R_R10(%rsp)
	movq	%r11, R_R11(%rsp)
	movq	%r12, R_R12(%rsp)
	movq	%r13, R_R13(%rsp)
	movq	%r14, R_R14(%rsp)
	movq	%r15, R_R15(%rsp)
	movq	%rcx, R_RIP(%rsp)
	movq	%r11, R_RFLAGS(%rsp)
	movq	%gs:C_USER_RSP, %rax
	movq	%rax, R_RSP(%rsp)
	movq	%gs:C_SELF, %rdi
	movq	%rsp, %rsi
	call	sms_trap_call

/*
 * eax: enum abi_return; rsp: the complete frame. From here to sms_exit_end an
 * NMI restarts at sms_resume_tick, so no kick is missed.
 */
	.globl	sms_exit_begin, sms_exit_end
sms_exit_begin:
	cmpl	$0, %gs:C_KICKED
	jne	sms_exit_kicked
	testl	%eax, %eax
	jnz	1f
	movq	R_RIP(%rsp), %rcx
	movq	%rcx, %rax
	shrq	$47, %rax	/* otherwise sysretq would fault in ring 0 */
	jnz	1f
	movq	R_RAX(%rsp), %rax
	movq	R_RBX(%rsp), %rbx
	movq	R_RDX(%rsp), %rdx
	movq	R_RSI(%rsp), %rsi
	movq	R_RDI(%rsp), %rdi
	movq	R_RBP(%rsp), %rbp
	movq	R_R8(%rsp), %r8
	movq	R_R9(%rsp), %r9
	movq	R_R10(%rsp), %r10
	movq	R_R12(%rsp), %r12
	movq	R_R13(%rsp), %r13
	movq	R_R14(%rsp), %r14
	movq	R_R15(%rsp), %r15
	movq	R_RFLAGS(%rsp), %r11
	andq	$FLAGS_USER, %r11
	orq	$FLAGS_FIXED, %r11
	movq	R_RSP(%rsp), %rsp
	swapgs
	sysretq

1:	movq	%rsp, %rsi
	movq	R_RIP(%rsi), %rdx
	shrq	$47, %rdx	/* otherwise iretq would fault in ring 0 */
	jnz	sms_exit_wild
	movq	R_RFLAGS(%rsi), %rdx
	andq	$FLAGS_USER, %rdx
	orq	$FLAGS_FIXED, %rdx
	pushq	$SELECT_USER_DATA
	pushq	R_RSP(%rsi)
	pushq	%rdx
	pushq	$SELECT_USER_CODE
	pushq	R_RIP(%rsi)
	movq	R_RAX(%rsi), %rax
	movq	R_RBX(%rsi), %rbx
	movq	R_RCX(%rsi), %rcx
	movq	R_RDX(%rsi), %rdx
	movq	R_RDI(%rsi), %rdi
	movq	R_RBP(%rsi), %rbp
	movq	R_R8(%rsi), %r8
	movq	R_R9(%rsi), %r9
	movq	R_R10(%rsi), %r10
	movq	R_R11(%rsi), %r11
	movq	R_R12(%rsi), %r12
	movq	R_R13(%rsi), %r13
	movq	R_R14(%rsi), %r14
	movq	R_R15(%rsi), %r15
	movq	R_RSI(%rsi), %rsi
	swapgs
	iretq
sms_exit_end:

/* The program's return address is not canonical. */
sms_exit_wild:
	movq	%gs:C_SELF, %rdi
	call	sms_trap_wild
	movl	$1, %eax
	jmp	sms_exit_begin

sms_exit_kicked:
	movq	%gs:C_SELF, %rdi
	jmp	2f

/* rdi: the core, whose frame is complete. Entered from an NMI: the state of GS
 * is unknown. */
	.globl	sms_resume_tick
sms_resume_tick:
	call	own_gs
2:	movq	C_FRAME(%rdi), %rsp
	movq	%rsp, %rsi
	call	sms_trap_tick
	movl	$1, %eax
	jmp	sms_exit_begin

/* Sets GS as in ring 0; rdi: the core. */
own_gs:
	movl	$MSR_GS, %ecx
	movl	%edi, %eax
	movq	%rdi, %rdx
	shrq	$32, %rdx
	wrmsr
	movl	$MSR_HIDDEN_GS, %ecx
	xorl	%eax, %eax
	xorl	%edx, %edx
	wrmsr
	ret

/* rdi: the core, whose frame has a new thread's registers. */
	.globl	sms_thread_enter
sms_thread_enter:
	movq	C_FRAME(%rdi), %rsp
	movl	$1, %eax
	jmp	sms_exit_begin

/* Exceptions: an error code and the vector are on the stack. */
traps:
	testb	$3, 24(%rsp)
	jz	3f
	swapgs
	/* The frame begins at the first word that the processor pushed. */
	movq	%rax, 56+R_RAX(%rsp)
	movq	%rbx, 56+R_RBX(%rsp)
	movq	%rcx, 56+R_RCX(%rsp)
	movq	%rdx, 56+R_RDX(%rsp)
	movq	%rsi, 56+R_RSI(%rsp)
	movq	%rdi, 56+R_RDI(%rsp)
	movq	%rbp, 56+R_RBP(%rsp)
	movq	%r8, 56+R_R8(%rsp)
	movq	%r9, 56+R_R9(%rsp)
	movq	%r10, 56+R_R10(%rsp)
	movq	%r11, 56+R_R11(%rsp)
	movq	%r12, 56+R_R12(%rsp)
	movq	%r13, 56+R_R13(%rsp)
	movq	%r14, 56+R_R14(%rsp)
	movq	%r15, 56+R_R15(%rsp)
	movq	16(%rsp), %rax
	movq	%rax, 56+R_RIP(%rsp)
	movq	32(%rsp), %rax
	movq	%rax, 56+R_RFLAGS(%rsp)
	movq	40(%rsp), %rax
	movq	%rax, 56+R_RSP(%rsp)
	movq	(%rsp), %rdx
	movq	8(%rsp), %rcx
	addq	$56, %rsp
	cld
	movq	%gs:C_SELF, %rdi
	movq	%rsp, %rsi
	call	sms_trap_user
	movl	$1, %eax
	jmp	sms_exit_begin

3:	pushq	%rax
	pushq	%rcx
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	cld
	movq	72(%rsp), %rdi	/* vector */
	movq	80(%rsp), %rsi	/* error code */
	leaq	88(%rsp), %rdx	/* rip, cs, rflags, rsp, ss */
	pushq	%rbp
	movq	%rsp, %rbp
	andq	$-16, %rsp
	call	sms_trap_own
	movq	%rbp, %rsp
	popq	%rbp
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rdi
	popq	%rsi
	popq	%rdx
	popq	%rcx
	popq	%rax
	addq	$16, %rsp
	iretq

	.macro	trap number
trap\number:
	.if	(\number == 8) || (\number >= 10 && \number <= 14) || \
		(\number == 17) || (\number == 21) || (\number == 29) || \
		(\number == 30)
	.else
	pushq	$0
	.endif
	pushq	$\number
	jmp	traps
	.endm
	.irp	n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,\
		23,24,25,26,27,28,29,30,31
	trap	\n
	.endr

/* Runs on its own stack, whose end contains the address of struct core. */
	.globl	sms_entry_nmi
sms_entry_nmi:
	pushq	%r15
	pushq	%r14
	pushq	%r13
	pushq	%r12
	pushq	%r11
	pushq	%r10
	pushq	%r9
	pushq	%r8
	pushq	%rbp
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%rbx
	pushq	%rax
	cld
	movq	%rsp, %rsi	/* struct trap_nmi */
	movq	160(%rsp), %rdi
	call	sms_trap_nmi
	popq	%rax
	popq	%rbx
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	popq	%rbp
	popq	%r8
	popq	%r9
	popq	%r10
	popq	%r11
	popq	%r12
	popq	%r13
	popq	%r14
	popq	%r15
	iretq

/* A machine check ends the partition, if the machine survives it. */
	.globl	sms_entry_machine
sms_entry_machine:
	cli
	hlt
	jmp	sms_entry_machine

	.section .rodata
	.globl	sms_trap_table
	.balign	8
sms_trap_table:
	.irp	n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,\
		23,24,25,26,27,28,29,30,31
	.8byte	trap\n
	.endr

	.data
	.globl	sms_blocks
sms_blocks:	.8byte 0
sms_ready:	.4byte 0

	.bss
	.balign	16
	.zero	0x4000
boot_stack_end:

	.section .note.GNU-stack, "", @progbits
