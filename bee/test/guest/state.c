/* SPDX-License-Identifier: MIT */
/*
 * Vector and floating point state across system calls and into new threads.
 * What a call that reaches the host leaves behind is compared bit by bit.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static unsigned char before[2][16][32], after[2][16][32];
static volatile int fired;

static long raw_syscall3(long nr, long a, long b, long c)
{
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}

#define EACH(m)                                                                \
	m(0) m(1) m(2) m(3) m(4) m(5) m(6) m(7) m(8) m(9) m(10) m(11) m(12)    \
		m(13) m(14) m(15)
#define LOADY(i) "vmovdqu " #i "*32(%3), %%ymm" #i "\n"
#define STOREY(i) "vmovdqu %%ymm" #i ", " #i "*32(%4)\n"
#define LOADX(i) "movdqu " #i "*32(%3), %%xmm" #i "\n"
#define STOREX(i) "movdqu %%xmm" #i ", " #i "*32(%4)\n"
#define ALL                                                                    \
	"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",        \
		"xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",   \
		"xmm15"

static int state_kept(int wide, long nr, long a, long b)
{
	long ret;
	int i, n;

	memset(after, 0, sizeof(after));
	if (wide)
		__asm__ volatile(EACH(LOADY) "syscall\n" EACH(STOREY)
				 : "=a"(ret)
				 : "a"(nr), "D"(a), "r"(before[1]),
				   "r"(after[1]), "S"(b), "d"(0)
				 : "rcx", "r11", "memory", ALL);
	else
		__asm__ volatile(EACH(LOADX) "syscall\n" EACH(STOREX)
				 : "=a"(ret)
				 : "a"(nr), "D"(a), "r"(before[0]),
				   "r"(after[0]), "S"(b), "d"(0)
				 : "rcx", "r11", "memory", ALL);
	n = wide ? 32 : 16;
	for (i = 0; i < 16; i++)
		if (memcmp(before[wide][i], after[wide][i], n))
			return 0;
	return 1;
}

static unsigned read_xcr(unsigned index)
{
	unsigned low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(index));
	return low;
}

static void check_state(int wide)
{
	struct timespec ts = {0, 2000000};
	char name[400];

	printf("%s: getpid %d", wide ? "ymm" : "xmm",
	       state_kept(wide, SYS_getpid, 0, 0));
	printf(" sleep %d", state_kept(wide, SYS_nanosleep, (long)&ts, 0));
	printf(" clock %d", state_kept(wide, SYS_clock_gettime, 1, (long)&ts));
	printf(" uname %d", state_kept(wide, SYS_uname, (long)name, 0));
	/* Of the components, those that bee has. */
	printf(" xcr0 %x\n", wide ? read_xcr(0) & 0xe7 : 0);
}

static void *run_child(void *arg)
{
	unsigned mxcsr;
	unsigned short control;

	__asm__ volatile("stmxcsr %0; fnstcw %1" : "=m"(mxcsr), "=m"(control));
	printf("%s: mxcsr %x control %x\n", (char *)arg, mxcsr & 0xffc0,
	       control);
	return arg;
}

int main(int argc, char **argv)
{
	unsigned mxcsr = 0xffc0; /* all masked, flush, towards zero */
	unsigned short control = 0x0e7f;
	pthread_t thread;
	int i, j;

	for (i = 0; i < 16; i++)
		for (j = 0; j < 32; j++)
			before[0][i][j] = before[1][i][j] = 17 * i + 3 * j + 1;
	raw_syscall3(SYS_getpid, 0, 0, 0);
	if (argc > 1) { /* a number of no register; natively it is a fault */
		printf("%x\n", read_xcr(atoi(argv[1])));
		return 0;
	}
	check_state(0);
	if (__builtin_cpu_supports("avx"))
		check_state(1);
	else
		puts("no avx");
	run_child("start");
	__asm__ volatile("ldmxcsr %0; fldcw %1" : : "m"(mxcsr), "m"(control));
	pthread_create(&thread, 0, run_child, "thread");
	pthread_join(thread, 0);
	run_child("parent");
	return 0;
}
