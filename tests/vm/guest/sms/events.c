// SPDX-License-Identifier: MIT
/*
 * What comes to a program unasked, and what it asks too much of: each word
 * prints what must be the same wherever it runs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <skep/mark.h>

#define BILLION 1000000000ll

static volatile sig_atomic_t alarms, users, continued, inside;

static void print_line(const char *text)
{
	puts(text);
	fflush(stdout);
}

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

static void on_user(int sig)
{
	(void)sig;
	users++;
}

static void on_continue(int sig)
{
	(void)sig;
	continued = 1;
}

static void on_term(int sig)
{
	(void)sig;
	print_line("term");
	_exit(5);
}

static void set_handler(int sig, void (*handler)(int))
{
	struct sigaction sa = {.sa_handler = handler};

	sigaction(sig, &sa, NULL);
}

static long long clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return ts.tv_sec * BILLION + ts.tv_nsec;
}

/* The C library's way, which needs no system call, and a system call. */
static int is_same(clockid_t clock)
{
	long long before = clock_ns(clock), after;
	struct timespec ts;
	struct timeval tv;

	if (syscall(SYS_clock_gettime, clock, &ts))
		return 0;
	after = clock_ns(clock);
	gettimeofday(&tv, NULL);
	return before <= ts.tv_sec * BILLION + ts.tv_nsec &&
	       ts.tv_sec * BILLION + ts.tv_nsec <= after &&
	       (clock != CLOCK_REALTIME ||
		tv.tv_sec * BILLION + tv.tv_usec * 1000ll + 999 >= after);
}

/* One line of input, one reading: whoever writes sets the clock between. */
static int run_wall(void)
{
	int same = 1, i;
	char c;

	for (i = 0; i < 1000; i++)
		same &= is_same(CLOCK_REALTIME) & is_same(CLOCK_MONOTONIC);
	printf("same %d\n", same);
	fflush(stdout);
	while (read(0, &c, 1) == 1) {
		printf("now %lld %lld\n", clock_ns(CLOCK_REALTIME) / BILLION,
		       (long long)time(NULL));
		fflush(stdout);
	}
	return 0;
}

static int run_timers(void)
{
	static const struct itimerval off;
	struct itimerval every = {{0, 20000}, {0, 20000}};
	struct timespec second = {1, 0}, left = {0};
	struct itimerspec once = {.it_value = {0, 50000000}};
	long long start = clock_ns(CLOCK_MONOTONIC);
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL};
	siginfo_t info;
	sigset_t set;
	timer_t timer;
	int i;

	set_handler(SIGALRM, on_alarm);
	alarm(1);
	pause();
	printf("alarm %d %d\n", alarms,
	       clock_ns(CLOCK_MONOTONIC) - start >= BILLION);
	setitimer(ITIMER_REAL, &every, NULL);
	while (alarms < 6) /* no call, so each must come to the loop */
		;
	setitimer(ITIMER_REAL, &off, NULL);
	printf("interval %d\n", alarms >= 6);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	event.sigev_signo = SIGUSR2;
	event.sigev_value.sival_int = 77;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) ||
	    timer_settime(timer, 0, &once, NULL))
		return 1;
	i = sigwaitinfo(&set, &info);
	printf("timer %d %d\n", i == SIGUSR2, info.si_value.sival_int);
	every.it_interval.tv_usec = 0;
	setitimer(ITIMER_REAL, &every, NULL);
	printf("sleep %d", nanosleep(&second, &left) == -1 && errno == EINTR);
	printf(" %d\n", left.tv_sec == 0 && left.tv_nsec > BILLION / 2);
	printf("profile %d\n",
	       setitimer(ITIMER_PROF, &every, NULL) == -1 && errno == ENOSYS);
	return 0;
}

/* Where the clock is read: the ELF file of vdso(7) is a few pages at most. */
static void on_interrupt(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *c = context;
	unsigned long at = (unsigned long)c->uc_mcontext.gregs[REG_RIP];

	(void)info;
	inside += at - getauxval(AT_SYSINFO_EHDR) < 0x4000;
	if (sig == SIGTERM && inside > 100)
		_exit(5);
}

/* Handlers that interrupt the C library's way of reading the time. */
static int run_vdso(void)
{
	static const struct itimerval off, every = {{0, 2000}, {0, 2000}};
	struct sigaction sa = {.sa_sigaction = on_interrupt,
			       .sa_flags = SA_SIGINFO};
	struct timespec ts;

	sigaction(SIGALRM, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	if (setitimer(ITIMER_REAL, &every, NULL))
		return 1;
	while (inside < 10)
		clock_gettime(CLOCK_MONOTONIC, &ts);
	setitimer(ITIMER_REAL, &off, NULL);
	inside = 100;
	print_line("reads the time");
	for (;;)
		time(NULL);
}

/* Each signal finds it elsewhere: in a loop, in a read, in a sleep. */
static int run_signals(void)
{
	char c;

	set_handler(SIGUSR1, on_user);
	set_handler(SIGINT, on_user);
	set_handler(SIGCONT, on_continue);
	set_handler(SIGTERM, on_term);
	print_line("loops");
	while (!users)
		;
	print_line("reads");
	if (read(0, &c, 1) != -1 || errno != EINTR)
		return 1;
	print_line("waits for the end of a stop");
	while (!continued)
		;
	print_line("sleeps");
	for (;;)
		pause();
}

static void *compute_thread(void *arg)
{
	(void)arg;
	print_line("computes");
	while (users < 1)
		;
	print_line("alone and signalled");
	exit(6);
}

/* The first thread is gone, or waits for another: its core still hears. */
static int run_second(int leaves)
{
	pthread_t t;

	set_handler(SIGUSR1, on_user);
	if (pthread_create(&t, NULL, compute_thread, NULL))
		return 1;
	if (leaves)
		pthread_exit(NULL);
	pthread_join(t, NULL);
	return 0;
}

static void *read_one(void *arg)
{
	char c = 0;

	(void)arg;
	if (read(0, &c, 1) == 1)
		printf("got %c\n", c);
	return NULL;
}

/* One thread waits for input while the other prints. */
static int run_both(void)
{
	pthread_t t;
	int i;

	if (pthread_create(&t, NULL, read_one, NULL))
		return 1;
	for (i = 0; i < 3; i++) {
		printf("step %d\n", i);
		fflush(stdout);
	}
	pthread_join(t, NULL);
	return 0;
}

/* A page here and there, until there is no memory for page tables. */
static int run_sparse(void)
{
	char *at = mmap(NULL, 128ul << 30, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned long i;

	if (at == MAP_FAILED)
		return 1;
	print_line("touches");
	for (i = 0; i < 128ul << 30; i += 2ul << 20) {
		if (mprotect(at + i, 4096, PROT_READ | PROT_WRITE)) {
			printf("refused %s\n", strerror(errno));
			return 3;
		}
		at[i] = 1;
	}
	return 0;
}

/* Instructions that are counted where they run. */
static int run_count(void)
{
	volatile int i;

	SKEP_MARK_BEGIN(5);
	for (i = 0; i < 1000000; i++)
		;
	SKEP_MARK_END(5);
	print_line("counted");
	return 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	if (!strcmp(how, "wall"))
		return run_wall();
	if (!strcmp(how, "timers"))
		return run_timers();
	if (!strcmp(how, "vdso"))
		return run_vdso();
	if (!strcmp(how, "signals"))
		return run_signals();
	if (!strcmp(how, "leaves"))
		return run_second(1);
	if (!strcmp(how, "joins"))
		return run_second(0);
	if (!strcmp(how, "both"))
		return run_both();
	if (!strcmp(how, "count"))
		return run_count();
	if (!strcmp(how, "sparse"))
		return run_sparse();
	return 2;
}
