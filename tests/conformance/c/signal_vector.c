/* SPDX-License-Identifier: MIT */
/*
 * Vector and floating point state across signal handlers that use up every
 * register: sent by a call, raised by a fault, and arriving at any instruction.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#include "say.h"
#include "vector.h"

static volatile sig_atomic_t handled;
static int avx, wide;

static void spoil_vectors(void)
{
	__asm__ volatile(".irp i," VECTOR_LOW "\n\t"
			 "pcmpeqd %%xmm\\i, %%xmm\\i\n\t.endr" ::
				 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
				   "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
				   "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
				   "xmm15");
	if (wide)
		__asm__ volatile(".irp i," VECTOR_HIGH "\n\t"
				 "vpternlogd $255, %%zmm\\i, %%zmm\\i, "
				 "%%zmm\\i"
				 "\n\t.endr\n\tvzeroupper" ::);
	else if (avx)
		__asm__ volatile("vzeroall");
}

static void on_signal(int signo)
{
	unsigned mxcsr = 0x1f80 | 0x2000;

	handled += signo != 0;
	spoil_vectors();
	__asm__ volatile("ldmxcsr %0" ::"m"(mxcsr));
}

static void on_siginfo(int signo, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)info;
	on_signal(signo);
	uc->uc_mcontext.gregs[REG_RIP] += 2; /* ud2 */
}

__attribute__((noinline)) static double sum_rounds(int rounds)
{
	double a = 1.0, b = 0.5, c = 0.25, d = 2.0;
	int i;

	__asm__ volatile("" ::: "memory"); /* not a pure function */
	for (i = 0; i < rounds; i++) {
		a = a * 0.999 + b * 0.001;
		b = b * 0.998 + c * 0.002;
		c = c * 0.997 + d * 0.003;
		d = d * 0.996 + a * 0.004;
	}
	return a + b + c + d;
}

static void check_any_instruction(void)
{
	struct itimerval timer = {{0, 1000}, {0, 1000}};
	double first = sum_rounds(2000000), again;
	int wrong = 0, rounds = 0;

	handled = 0;
	setitimer(ITIMER_REAL, &timer, NULL);
	while (handled < 40 && rounds++ < 10000) {
		again = sum_rounds(2000000);
		wrong += again != first;
	}
	memset(&timer, 0, sizeof(timer));
	setitimer(ITIMER_REAL, &timer, NULL);
	CHECK(handled >= 40 && wrong == 0);
}

static double across_fault(double value)
{
	__asm__ volatile("ud2" : "+x"(value));
	return value;
}

int main(void)
{
	struct vector_call call = {"kill", SYS_kill, getpid(), SIGUSR1, 0};
	struct sigaction sa = {.sa_handler = on_signal};
	unsigned mxcsr = 0;
	long result;

	avx = __builtin_cpu_supports("avx");
	wide = __builtin_cpu_supports("avx512f");
	struct vector_kind kinds[] = {{"xmm", vector_xmm, 16, 16, 1},
				      {"ymm", vector_ymm, 16, 32, avx},
				      {"zmm", vector_zmm, 32, 64, wide},
				      {"mask", vector_mask, 8, 8, wide}};
	sigaction(SIGUSR1, &sa, NULL);
	sigaction(SIGALRM, &sa, NULL);
	sa.sa_sigaction = on_siginfo;
	sa.sa_flags = SA_SIGINFO;
	sigaction(SIGILL, &sa, NULL);
	CHECK(vector_kept(&kinds[0], &call, &result) && handled == 1);
	CHECK(!avx || vector_kept(&kinds[1], &call, &result));
	CHECK(!wide || vector_kept(&kinds[2], &call, &result));
	CHECK(!wide || vector_kept(&kinds[3], &call, &result));
	CHECK(across_fault(2.75) == 2.75);
	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	CHECK((mxcsr & ~0x3f) == 0x1f80);
	check_any_instruction();
	return say_done();
}
