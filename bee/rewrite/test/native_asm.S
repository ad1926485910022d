/* SPDX-License-Identifier: MIT */
/*
 * native_run(): enter test code with every register, FS and GS base from
 * native_cpu, come back through native_exit with all of them stored there.
 * One thread only. Test code must not fault: FS is not the C library's.
 */
#define GPR(n) native_cpu + 8 * (n)
#define FLAGS native_cpu + 128
#define FSBASE native_cpu + 136
#define GSBASE native_cpu + 144
#define CODE native_cpu + 152
#define HOST_RSP native_cpu + 160
#define HOST_FS native_cpu + 168
#define BACK native_cpu + 176

	.text
	.globl native_run
	.type native_run, @function
native_run:
	push %rbx
	push %rbp
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rsp, HOST_RSP(%rip)
	rdfsbase %rax
	mov %rax, HOST_FS(%rip)
	mov $-1, %eax
	mov $-1, %edx
	xrstor64 native_vectors(%rip)
	mov FSBASE(%rip), %rax
	wrfsbase %rax
	mov GSBASE(%rip), %rax
	wrgsbase %rax
	pushq FLAGS(%rip)
	popfq
	mov GPR(0)(%rip), %rax
	mov GPR(1)(%rip), %rcx
	mov GPR(2)(%rip), %rdx
	mov GPR(3)(%rip), %rbx
	mov GPR(4)(%rip), %rsp
	mov GPR(5)(%rip), %rbp
	mov GPR(6)(%rip), %rsi
	mov GPR(7)(%rip), %rdi
	mov GPR(8)(%rip), %r8
	mov GPR(9)(%rip), %r9
	mov GPR(10)(%rip), %r10
	mov GPR(11)(%rip), %r11
	mov GPR(12)(%rip), %r12
	mov GPR(13)(%rip), %r13
	mov GPR(14)(%rip), %r14
	mov GPR(15)(%rip), %r15
	jmp *CODE(%rip)

	.globl native_exit
	.type native_exit, @function
native_exit:
	mov %rax, GPR(0)(%rip)
	mov %rcx, GPR(1)(%rip)
	mov %rdx, GPR(2)(%rip)
	mov %rbx, GPR(3)(%rip)
	mov %rsp, GPR(4)(%rip)
	mov %rbp, GPR(5)(%rip)
	mov %rsi, GPR(6)(%rip)
	mov %rdi, GPR(7)(%rip)
	mov %r8, GPR(8)(%rip)
	mov %r9, GPR(9)(%rip)
	mov %r10, GPR(10)(%rip)
	mov %r11, GPR(11)(%rip)
	mov %r12, GPR(12)(%rip)
	mov %r13, GPR(13)(%rip)
	mov %r14, GPR(14)(%rip)
	mov %r15, GPR(15)(%rip)
	mov HOST_RSP(%rip), %rsp
	pushfq
	popq FLAGS(%rip)
	mov HOST_FS(%rip), %rax
	wrfsbase %rax
	mov $-1, %eax
	mov $-1, %edx
	xsave64 native_vectors(%rip)
	cld
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbp
	pop %rbx
	ret

/* The system call entry: a real system call. */
	.globl native_entry
native_entry:
	mov %rcx, BACK(%rip)
	syscall
	mov BACK(%rip), %rcx
	jmp *%rcx

/* The entry for cpuid (r11d 0) and xgetbv (r11d 1): keeps flags and r11. */
	.globl native_cpu_entry
native_cpu_entry:
	mov %rcx, BACK(%rip)
	mov %r11d, %ecx
	jecxz 1f
	mov %gs:0x14a0, %rcx
	xgetbv
	mov %gs:0x14a8, %r11
	jmp *BACK(%rip)
1:	mov %gs:0x14a0, %rcx
	cpuid
	mov %gs:0x14a8, %r11
	jmp *BACK(%rip)

	.bss
	.balign 64
	.globl native_cpu
native_cpu:
	.zero 256
	.globl native_vectors
	.balign 64
native_vectors:
	.zero 16384
	.section .note.GNU-stack, "", @progbits
