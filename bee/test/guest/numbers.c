/* SPDX-License-Identifier: MIT */
/*
 * Has a table of numbers in its read-only data. In a program that can run at
 * any address, each looks like the address of a byte of its code. And it has
 * one real address: of an instruction that is behind a system call, and that a
 * stub may replace unless the address is found.
 */
#include <stdio.h>
#include <unistd.h>
#include <sys/syscall.h>

#define COUNT 0x10000
#define FIRST 0x1000

#ifdef __PIE__
#define CONSTANT ".data.rel.ro, \"aw\""
#else
#define CONSTANT ".rodata"
#endif

extern const unsigned long numbers[COUNT] __attribute__((visibility("hidden")));
/* The system call `number`. No padding is near it. */
long plain_call(long number);
/* Jumps behind that system call, and returns `value`. */
long plain_enter(long value);
__asm__(".pushsection .rodata\n"
	".balign 8\n"
	"numbers:\n"
	".set number, 0x1000\n"
	".rept 0x10000\n"
	".quad number\n"
	".set number, number + 1\n"
	".endr\n"
	".popsection\n"
	".pushsection " CONSTANT "\n"
	".balign 8\n"
	"place: .quad behind\n"
	".popsection\n"
	".text\n"
	".globl plain_call, plain_enter\n"
	"plain_call:\n"
	".cfi_startproc\n"
	"mov %rdi, %rax\n"
	"xor %edx, %edx\n"
	".rept 64\n"
	"inc %rdx\n"
	".endr\n"
	"syscall\n"
	"behind:\n"
	".rept 64\n"
	"dec %rdx\n"
	".endr\n"
	"add %rdx, %rax\n"
	"ret\n"
	".cfi_endproc\n"
	"plain_enter:\n"
	".cfi_startproc\n"
	"mov %rdi, %rax\n"
	"mov $64, %edx\n"
	"jmp *place(%rip)\n"
	".cfi_endproc\n");

int main(void)
{
#ifdef __PIE__
	/* Where the file begins, at the address 0 that it is linked for. */
	extern const char __ehdr_start[] __attribute__((visibility("hidden")));
	unsigned long at =
		(unsigned long)plain_call - (unsigned long)__ehdr_start;

	if (at < FIRST || at + 512 > FIRST + COUNT)
		return 3; /* the numbers miss the system call */
#endif
	printf("%lu\n", numbers[0] + numbers[COUNT - 1]);
	printf("%d\n", plain_call(SYS_getppid) == getppid());
	printf("%ld\n", plain_enter(7));
	return 0;
}
