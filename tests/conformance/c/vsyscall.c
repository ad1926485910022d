/* SPDX-License-Identifier: MIT */
/* The vsyscall page, which not every kernel has: its calls answer or fault, and
 * calls that cannot be answered fault. */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>
#include "say.h"

#define PAGE 0xffffffffff600000ull

static sigjmp_buf back;

static void on_fault(int sig)
{
	siglongjmp(back, sig);
}

/* Its result, or minus the number of the signal. */
static long call_fixed(uint64_t offset, void *argument)
{
	long (*call)(void *, void *, void *) =
		(long (*)(void *, void *, void *))(uintptr_t)(PAGE + offset);
	int sig = sigsetjmp(back, 1);

	return sig ? -sig : call(argument, NULL, NULL);
}

int main(void)
{
	struct timeval now = {0};
	unsigned int cpu = ~0u;
	long got;

	signal(SIGSEGV, on_fault);
	got = call_fixed(0, &now);
	CHECK(got == -SIGSEGV || (!got && time(NULL) - now.tv_sec < 100));
	got = call_fixed(0x400, NULL);
	CHECK(got == -SIGSEGV || time(NULL) - got < 100);
	got = call_fixed(0x800, &cpu);
	CHECK(got == -SIGSEGV || (!got && cpu < 100000));
	CHECK(call_fixed(0, (void *)8) == -SIGSEGV);
	CHECK(call_fixed(0x800, (void *)8) == -SIGSEGV);
	CHECK(call_fixed(0xc00, NULL) == -SIGSEGV);
	CHECK(call_fixed(1, NULL) == -SIGSEGV);
	return say_done();
}
