/* SPDX-License-Identifier: MIT */
/*
 * A library with one site of each kind. What is wrong with it is chosen when it
 * is built: BAD_GS, BAD_TEXTREL.
 */
#include <sys/syscall.h>

int part_answer(void);
long part_pid(void);
unsigned long part_self(void);
unsigned part_leaf(void);
unsigned part_xcr0(void);

int part_answer(void)
{
	return 42;
}

long part_pid(void)
{
	long pid = SYS_getpid;

	__asm__ volatile("syscall" : "+a"(pid) : : "rcx", "r11", "memory");
	return pid;
}

unsigned long part_self(void)
{
	unsigned long self;

	__asm__ volatile("mov %%fs:0, %0" : "=r"(self));
	return self;
}

unsigned part_leaf(void)
{
	unsigned a = 0, b, c, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d));
	return a;
}

#ifdef BAD_GS
unsigned long part_gs(void)
{
	unsigned long value;

	__asm__ volatile("mov %%gs:0, %0" : "=r"(value));
	return value;
}
#endif

#ifdef READ_ONLY
/* Something points to what reads as a jump, to mov %gs:0, %rax and ret. */
__asm__(".pushsection .rodata.first, \"a\"\n"
	"1:\t.byte 0xeb, 6\n\t"
	".fill 6, 1, 0xff\n\t"
	".byte 0x65, 0x48, 0x8b, 4, 0x25, 0, 0, 0, 0, 0xc3\n\t"
	".fill 64, 1, 0xff\n\t"
	".popsection\n\t.pushsection .data.rel.ro.local, \"aw\"\n\t"
	".balign 8\n\t"
	".quad 1b\n\t"
	".popsection");
#endif

#ifdef BAD_TEXTREL
/* An address inside the text, which the loader would have to write there. */
__asm__(".text\n\t.quad part_answer\n\t.previous");
#endif
