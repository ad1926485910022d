/* SPDX-License-Identifier: MIT */
/*
 * Vector state across system calls of every class: xmm, ymm, zmm, mask
 * registers, MXCSR and the x87 control word. Inline calls of musl and Go rely
 * on it. Where the CPU lacks a kind, its lines say the same.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "say.h"
#include "vector.h"

static struct timespec short_sleep = {0, 1000000}, now;
static uint32_t word;
static int fds[2];
static char buf[64];

static void check_kind(const struct vector_kind *kind)
{
	struct vector_call calls[] = {
		{"getpid", SYS_getpid, 0, 0, 0},
		{"write", SYS_write, fds[1], (long)"abcdefgh", 8},
		{"read", SYS_read, fds[0], (long)buf, 8},
		{"nanosleep", SYS_nanosleep, (long)&short_sleep, 0, 0},
		{"clock", SYS_clock_gettime, 1, (long)&now, 0},
		{"futex", SYS_futex, (long)&word, 1, 1},
		{"yield", SYS_sched_yield, 0, 0, 0},
		{"openat", SYS_openat, AT_FDCWD, (long)"/dev/null", O_RDWR},
		{"lseek", SYS_lseek, 99, 0, 0},
		{"getcwd", SYS_getcwd, (long)buf, 2, 0},
		{"brk", SYS_brk, 0, 0, 0},
		{"none", 9999, 0, 0, 0},
	};
	unsigned i;
	long result;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int kept = 1;

		if (kind->usable)
			kept = vector_kept(kind, &calls[i], &result);
		printf("%s %s %s\n", kept ? "ok" : "BAD", kind->name,
		       calls[i].name);
		say_bad += !kept;
	}
}

/* The uppers are clean before the call and must be clean after it. */
static int uppers_stay_clean(void)
{
	unsigned char out[512] = {0};
	long rax = SYS_getpid;
	int i, dirty = 0;

	__asm__ volatile("vzeroupper\n\tsyscall\n\t"
			 ".irp i," VECTOR_LOW "\n\t"
			 "vmovdqu %%ymm\\i, (\\i*32)(%1)\n\t.endr\n\t"
			 "vzeroupper"
			 : "+a"(rax)
			 : "r"(out)
			 : "rcx", "r11", "memory");
	for (i = 0; i < 512; i++)
		dirty |= (i & 16) ? out[i] : 0;
	return !dirty;
}

static void check_control(void)
{
	uint32_t mxcsr = 0x1f80 | 0x6000, mxcsr_after = 0;
	uint16_t control = 0x077f, control_after = 0;
	uint32_t mxcsr_old;
	uint16_t control_old;
	long rax = SYS_nanosleep;

	__asm__ volatile("stmxcsr %0\n\tfnstcw %1"
			 : "=m"(mxcsr_old), "=m"(control_old));
	__asm__ volatile("ldmxcsr %3\n\tfldcw %4\n\tsyscall\n\t"
			 "stmxcsr %1\n\tfnstcw %2\n\t"
			 "ldmxcsr %5\n\tfldcw %6"
			 : "+a"(rax), "=m"(mxcsr_after), "=m"(control_after)
			 : "m"(mxcsr), "m"(control), "m"(mxcsr_old),
			   "m"(control_old), "D"(&short_sleep), "S"(0)
			 : "rcx", "r11", "memory");
	CHECK(mxcsr_after == mxcsr && control_after == control);
	CHECK(mxcsr_old == 0x1f80 && control_old == 0x037f);
}

static long double x87_across(long double value)
{
	long rax = SYS_nanosleep;

	__asm__ volatile("syscall"
			 : "+a"(rax), "+t"(value)
			 : "D"(&short_sleep), "S"(0)
			 : "rcx", "r11", "memory");
	return value;
}

int main(void)
{
	int avx = __builtin_cpu_supports("avx");
	int wide = __builtin_cpu_supports("avx512f");
	struct vector_kind kinds[] = {{"xmm", vector_xmm, 16, 16, 1},
				      {"ymm", vector_ymm, 16, 32, avx},
				      {"zmm", vector_zmm, 32, 64, wide},
				      {"mask", vector_mask, 8, 8, wide}};
	unsigned i;

	CHECK(pipe(fds) == 0);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		check_kind(&kinds[i]);
	CHECK(!avx || uppers_stay_clean());
	check_control();
	CHECK(x87_across(3.25L) == 3.25L);
	return say_done();
}
