/* SPDX-License-Identifier: MIT */
/*
 * A library with instructions that bee replaces, called by threads while
 * signals arrive: results and registers are right, and a handler sees a program
 * counter in the library or the program.
 */
long part_pid(void);
unsigned part_leaf(void);
unsigned long part_self(void);
int part_errno(int n);

#ifdef PART
#include <errno.h>
#include <sys/syscall.h>

/* All registers that the kernel keeps are checked, by sums. */
long part_pid(void)
{
	long pid = SYS_getpid, sum;

	__asm__ volatile("mov $1, %%edi; mov $2, %%esi; mov $4, %%edx\n\t"
			 "mov $8, %%r8d; mov $16, %%r9d; mov $32, %%r10d\n\t"
			 "mov $64, %%r12d; mov $128, %%r13d\n\t"
			 "syscall\n\t"
			 "lea (%%rdi, %%rsi), %1; add %%rdx, %1\n\t"
			 "add %%r8, %1; add %%r9, %1; add %%r10, %1\n\t"
			 "add %%r12, %1; add %%r13, %1"
			 : "+a"(pid), "=&b"(sum)
			 :
			 : "rcx", "r11", "rdi", "rsi", "rdx", "r8", "r9", "r10",
			   "r12", "r13", "memory");
	return sum == 255 ? pid : -1;
}

unsigned part_leaf(void)
{
	unsigned a = 0, b, c, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "=c"(c), "=d"(d));
	return b ^ c ^ d;
}

unsigned long part_self(void)
{
	unsigned long self;

	__asm__ volatile("mov %%fs:0, %0" : "=r"(self));
	return self;
}

int part_errno(int n)
{
	errno = n;
	return errno;
}
#else
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include "../c/say.h"

enum { THREADS = 3, ROUNDS = 40000 };

static volatile unsigned signals;
static unsigned leaf;

static void on_alarm(int sig)
{
	(void)sig;
	signals++;
	part_pid();
}

static void *run_thread(void *arg)
{
	unsigned long self = (unsigned long)pthread_self();
	long i, good = 0, pid = getpid();

	(void)arg;
	for (i = 0; i < ROUNDS; i++) {
		good += part_self() == self;
		good += part_errno((int)i) == (int)i;
		if (!(i & 15))
			good += part_pid() == pid && part_leaf() == leaf;
		else
			good++;
	}
	return (void *)(long)(good == 3L * ROUNDS);
}

int main(void)
{
	struct itimerval often = {{0, 300}, {0, 300}}, never = {0};
	struct sigaction sa = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	pthread_t thread[THREADS];
	void *good;
	long i;

	leaf = part_leaf();
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, run_thread, NULL));
	for (i = 0; i < THREADS; i++)
		CHECK(!pthread_join(thread[i], &good) && good);
	while (!signals)
		pause();
	setitimer(ITIMER_REAL, &never, NULL);
	return say_done();
}
#endif
