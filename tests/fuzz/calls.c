// SPDX-License-Identifier: MIT
/*
 * A guest that makes random system calls from several threads until its time
 * is over. Arguments lean towards what breaks kernels: the first and last
 * bytes of mappings, read-only and closed pages, addresses that are none,
 * lengths that wrap, numbers of descriptors that others close meanwhile.
 *
 * It judges nothing itself: bee must not fail, hang or refuse work at the
 * end. A watcher interrupts calls that wait, and the last act is a check that
 * descriptors, memory, threads and pipes are still to be had.
 *
 * usage: calls SEED MILLISECONDS. Run it with --root at an empty directory
 * and without a network: names and addresses are random too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define THREADS 6
#define ARENA 0x40000
#define CONSTS 0x4000
#define TOP_FD 40

static unsigned char *arena;  /* scribbled over by everybody */
static unsigned char *consts; /* read-only: names, vectors, times */
static unsigned char *hole;   /* PROT_NONE, between mapped pages */
static unsigned char *churn;  /* mapped and unmapped all the time */
static volatile int over;
static pthread_t thread[THREADS];
static pid_t tids[THREADS];
static volatile long doing[THREADS][8];

static uint64_t next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s * 0x2545f4914f6cdd1dull;
}

static uint64_t random_below(uint64_t *s, uint64_t n)
{
	return next_random(s) % n;
}

/* Calls that would end the run, change the test's own state for good, or
 * take down what the threads run on. */
static int is_left_out(long nr)
{
	switch (nr) {
	case SYS_exit:
	case SYS_exit_group:
	case SYS_close_range:
	case SYS_rt_sigreturn:
	case SYS_clone:
	case SYS_munmap:
	case SYS_mprotect:
	case SYS_mremap:
	case SYS_brk:
	case SYS_madvise:
	case SYS_arch_prctl:
	case SYS_rt_sigaction:
	case SYS_sigaltstack:
	case SYS_set_robust_list:
	case SYS_set_tid_address:
	case SYS_setrlimit:
	case SYS_prlimit64:
	case SYS_kill:
	case SYS_tkill:
	case SYS_tgkill:
	case SYS_rt_sigqueueinfo:
	case SYS_rt_tgsigqueueinfo:
	case SYS_alarm:
	case SYS_setitimer:
	case SYS_timer_create:
	case SYS_pause:
	case SYS_rt_sigsuspend:
	case SYS_rt_sigprocmask:
		return 1;
	default:
		return 0;
	}
}

static uint64_t random_value(uint64_t *s)
{
	static const uint64_t value[] = {
		0,
		1,
		0xfff,
		0x1000,
		0x7fffffff,
		0x80000000,
		0xffffffff,
		0x7fffffffffff,
		0x800000000000,
		0x7fffffffffffffff,
		0x8000000000000000,
		0xffff800000000000,
		0xffffffffff600000,
		0xfffffffffffff000,
		0xfffffffffffffff8,
		0xffffffffffffffff,
		0x200000000000,
		0x203fffffffff,
		0x204000000000,
		0x400000,
		0x5fffffff,
	};

	if (random_below(s, 3) == 0)
		return next_random(s) >> random_below(s, 64);
	return value[random_below(s, sizeof(value) / sizeof(value[0]))];
}

static uint64_t random_pointer(uint64_t *s)
{
	switch (random_below(s, 16)) {
	case 0:
		return random_value(s);
	case 1:
		return (uint64_t)(uintptr_t)hole - random_below(s, 64);
	case 2:
		return (uint64_t)(uintptr_t)hole + 0x1000 - random_below(s, 64);
	case 3:
		return (uint64_t)(uintptr_t)churn + random_below(s, 0x4000);
	case 4:
		return (uint64_t)(uintptr_t)churn + random_below(s, 4) * 0x1000;
	case 5:
	case 6:
	case 7:
	case 8:
		return (uint64_t)(uintptr_t)consts +
		       random_below(s, CONSTS / 64) * 64;
	default:
		return (uint64_t)(uintptr_t)arena +
		       random_below(s, ARENA / 16) * 16;
	}
}

static uint64_t random_length(uint64_t *s)
{
	switch (random_below(s, 8)) {
	case 0:
		return random_value(s);
	case 1:
		return random_below(s, ARENA);
	case 2:
		return 0;
	default:
		return random_below(s, 512);
	}
}

static uint64_t random_fd(uint64_t *s)
{
	switch (random_below(s, 8)) {
	case 0:
		return random_value(s);
	case 1:
	case 2:
		return random_below(s, TOP_FD);
	case 3:
		return random_length(s);
	case 4:
		return 1ull << random_below(s, 32);
	case 5:
		return random_below(s, 8);
	default:
		return random_pointer(s);
	}
}

/* The place of a call where a descriptor stands in most calls. */
static uint64_t random_first(uint64_t *s)
{
	/* 0 to 2 are left alone: what is said at the end goes there. */
	return random_below(s, 3) ? 3 + random_below(s, TOP_FD - 3)
				  : random_fd(s);
}

static int call_hurts(long nr, const uint64_t *a)
{
	uint32_t fd = (uint32_t)a[0];

	switch (nr) {
	case SYS_close:
	case SYS_fcntl:
	case SYS_ioctl:
	case SYS_read:
	case SYS_readv:
	case SYS_write:
	case SYS_writev:
	case SYS_pwrite64:
	case SYS_sendfile:
	case SYS_ftruncate:
	case SYS_splice:
	case SYS_fallocate:
	case SYS_pwritev:
	case SYS_pwritev2:
		return fd < 3;
	case SYS_dup:
	case SYS_lseek:
	case SYS_fchmod:
		return fd < 3;
	case SYS_dup2:
	case SYS_dup3:
		return fd < 3 || (uint32_t)a[1] < 3;
	case SYS_mmap:
		return a[1] > 1 << 20;
	case SYS_prctl:
		return (uint32_t)a[0] == 1;
	/* A mask would keep the watcher's signal out. */
	case SYS_ppoll:
		return a[3] && a[3] < 1ull << 47;
	case SYS_epoll_pwait:
	case 441: /* epoll_pwait2 */
		return a[4] && a[4] < 1ull << 47;
	case SYS_pselect6:
		return a[5] && a[5] < 1ull << 47;
	case SYS_getrandom:
		return a[1] > 1 << 20;
	default:
		return 0;
	}
}

static void make_call(long me, uint64_t *s)
{
	uint64_t a[6];
	long nr;
	int i;

	do
		nr = (long)(random_below(s, 20) ? random_below(s, 340)
						: random_below(s, 1024));
	while (is_left_out(nr));
	/* Half of all calls are those on which most depends. */
	if (random_below(s, 2)) {
		static const long often[] = {
			SYS_read,     SYS_write,	  SYS_openat,
			SYS_close,    SYS_pipe2,	  SYS_epoll_ctl,
			SYS_poll,     SYS_epoll_wait,	  SYS_eventfd2,
			SYS_futex,    SYS_socketpair,	  SYS_epoll_create1,
			SYS_dup2,     SYS_dup3,		  SYS_readv,
			SYS_writev,   SYS_sendmsg,	  SYS_recvmsg,
			SYS_select,   SYS_timerfd_create, SYS_timerfd_settime,
			SYS_mmap,     SYS_getdents64,	  SYS_ppoll,
			SYS_pselect6, SYS_sendfile,
		};

		nr = often[random_below(s, sizeof(often) / sizeof(often[0]))];
	}
	do {
		a[0] = random_below(s, 2) ? random_first(s) : random_fd(s);
		for (i = 1; i < 6; i++)
			a[i] = random_fd(s);
		if (random_below(s, 2))
			a[1] = random_pointer(s);
		if (random_below(s, 2))
			a[2] = random_length(s);
		if (nr == SYS_mmap)
			a[3] &= ~(uint64_t)(MAP_FIXED | 0x100000);
	} while (call_hurts(nr, a));
	doing[me][0] = nr;
	for (i = 0; i < 6; i++)
		doing[me][1 + i] = (long)a[i];
	i = (int)syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (!i && (nr == SYS_fork || nr == SYS_vfork))
		_exit(0); /* nobody would tell the child that it is over */
	doing[me][0] = -1;
	if (nr == SYS_mmap && i != -1)
		return; /* the address is lost; 1 MiB each at most */
}

static void *run_thread(void *arg)
{
	long me = (long)(intptr_t)arg & 0xff;
	uint64_t s = (uint64_t)(uintptr_t)arg * 0x9e3779b97f4a7c15ull | 1;

	tids[me] = (pid_t)syscall(SYS_gettid);
	while (!over)
		make_call(me, &s);
	return NULL;
}

/* Pages that come and go under the calls of others. */
static void *work_churn(void *arg)
{
	uint64_t s = (uint64_t)(uintptr_t)arg | 1;
	unsigned char *at;

	while (!over) {
		at = churn + random_below(&s, 4) * 0x1000;
		switch (random_below(&s, 4)) {
		case 0:
			munmap(at, 0x1000);
			break;
		case 1:
			mprotect(at, 0x1000, (int)random_below(&s, 4));
			break;
		default:
			mmap(at, 0x1000, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		}
	}
	return NULL;
}

static void on_signal(int sig)
{
	(void)sig;
}

static void put_data(unsigned at, const void *data, size_t len)
{
	memcpy(consts + at, data, len);
}

static void fill_arena(void)
{
	static const char *const name[] = {
		"a",
		"b",
		"d",
		"d/x",
		"",
		"./a",
		"/proc/self/maps",
		"/proc/self/fd/4",
		"/proc/cpuinfo",
		"/dev/zero",
		"/dev/null",
		"d/../b",
		"/proc/self/status",
		"x/y/z",
		"/proc/self/cmdline",
		"/",
	};
	struct timespec time = {0, 1000000};
	uint64_t v[64];
	unsigned i, at;

	for (i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		put_data(i * 64, name[i], strlen(name[i]) + 1);
	memset(consts + 0x400, 'n', 0x13c0); /* a name without end */
	consts[0x17c0] = 0;
	for (at = 0x1800; at < 0x2000; at += 64)
		put_data(at, &time, sizeof(time));
	/* 127.0.0.1, port 9, as sockaddr_in */
	for (at = 0x2000; at < 0x2800; at += 64)
		put_data(at, "\2\0\0\11\177\0\0\1\0\0\0\0\0\0\0\0", 16);
	for (at = 0x2800; at < 0x3000; at += 64) {
		for (i = 0; i < 8; i += 2) {
			v[i] = (uint64_t)(uintptr_t)arena + at * 4 + i * 512;
			v[i + 1] = i == 6 && at & 64 ? ~0ull >> 1 : 300;
		}
		if (at & 128)
			v[2] = (uint64_t)(uintptr_t)churn;
		put_data(at, v, 64);
	}
	for (at = 0x3000; at < 0x3800; at += 64) {
		uint64_t h[8] = {(uint64_t)(uintptr_t)consts + 0x2000, 16,
				 (uint64_t)(uintptr_t)consts + at - 0x800, 4};

		if (at & 64)
			h[0] = 0;
		put_data(at, h, 64);
	}
	for (at = 0x3800; at < 0x4000; at += 8) { /* struct pollfd */
		uint64_t p = (3 + at / 8 % (TOP_FD - 3)) | 5ull << 32;

		put_data(at, &p, 8);
	}
}

static void prepare_process(void)
{
	struct sigaction sa = {.sa_handler = on_signal};

	arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	hole = mmap(NULL, 0x3000, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	hole += 0x1000;
	mprotect(hole, 0x1000, PROT_NONE);
	churn = mmap(NULL, 0x4000, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	consts = mmap(NULL, CONSTS, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fill_arena();
	mprotect(consts, CONSTS, PROT_READ);
	sigaction(SIGUSR1, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
	mkdir("d", 0700);
}

static long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void watch_threads(long until)
{
	struct timespec nap = {0, 2000000};
	int i;

	while (now_ms() < until) {
		nanosleep(&nap, NULL);
		for (i = 0; i < THREADS; i++)
			if (tids[i])
				syscall(SYS_tgkill, getpid(), tids[i], SIGUSR1);
	}
	over = 1;
}

/* Threads in a call that waits are kicked until they see that it is over. */
static int join_thread(pthread_t *t, long me)
{
	struct timespec nap;
	int i;

	for (i = 0; i < 2000; i++) {
		clock_gettime(CLOCK_REALTIME, &nap);
		nap.tv_nsec += 5000000;
		if (nap.tv_nsec >= 1000000000) {
			nap.tv_nsec -= 1000000000;
			nap.tv_sec++;
		}
		if (!pthread_timedjoin_np(*t, NULL, &nap))
			return 0;
		pthread_kill(*t, SIGUSR1);
	}
	printf("thread %ld hangs in call %ld (%lx, %lx, %lx, %lx, %lx, %lx)\n",
	       me, doing[me][0], doing[me][1], doing[me][2], doing[me][3],
	       doing[me][4], doing[me][5], doing[me][6]);
	return 1;
}

static void *return_at_once(void *arg)
{
	return arg;
}

/* All that was taken comes back. */
static int is_sound(void)
{
	int fd[2], i, bad = 0;
	char byte = 'x';
	pthread_t t;
	void *at;

	for (i = 3; i < 1024; i++)
		close(i);
	for (i = 0; i < 500; i++)
		if (pipe(fd)) {
			printf("pipe %d: %s\n", i, strerror(errno));
			bad = 1;
			break;
		}
	for (i = 3; i < 1024; i++)
		close(i);
	if (pipe(fd) || write(fd[1], &byte, 1) != 1 ||
	    read(fd[0], &byte, 1) != 1) {
		printf("pipe: %s\n", strerror(errno));
		bad = 1;
	}
	at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED ||
	    pthread_create(&t, NULL, return_at_once, NULL) ||
	    pthread_join(t, NULL)) {
		printf("memory or thread: %s\n", strerror(errno));
		bad = 1;
	}
	return !bad;
}

int main(int argc, char **argv)
{
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	long ms = argc > 2 ? atol(argv[2]) : 1000;
	pthread_t churner;
	long i, bad = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("seed %llu\n", (unsigned long long)seed);
	prepare_process();
	for (i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, run_thread,
			       (void *)(uintptr_t)(seed << 8 | (uint64_t)i));
	pthread_create(&churner, NULL, work_churn, (void *)(uintptr_t)seed);
	watch_threads(now_ms() + ms);
	for (i = 0; i < THREADS; i++)
		bad |= join_thread(&thread[i], i);
	pthread_join(churner, NULL);
	if (bad || !is_sound())
		return 1;
	printf("sound\n");
	return 0;
}
