// SPDX-License-Identifier: MIT
/*
 * Messages beside a busy process per core. Each is on its way only while this
 * thread runs, so the engines' threads have nothing to do but to check once a
 * millisecond, and to take over while this thread waits for a core. Counted are
 * their system calls: context switches depend on what the scheduler merges, and
 * times on the load.
 */
#include <o2g/test/bed.h>
#include <tests/tap.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#define MESSAGES 20000
#define CORES_MOST 256

static pthread_t program;
static long naps; /* of the program's thread */
/* Atomic: of the engines' threads, parked and in the program's place; wake-ups
 * of them. */
static long checks, serves, nudges;
static long hasty; /* atomic: checks that wait less than a millisecond */

/* The linker leads the library's calls here. */
int __real_ppoll(struct pollfd *file, nfds_t n, const struct timespec *limit,
		 const sigset_t *mask);
int __wrap_ppoll(struct pollfd *file, nfds_t n, const struct timespec *limit,
		 const sigset_t *mask);
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);

int __wrap_ppoll(struct pollfd *file, nfds_t n, const struct timespec *limit,
		 const sigset_t *mask)
{
	if (pthread_equal(pthread_self(), program))
		naps++;
	else
		__atomic_add_fetch(n == 1 ? &checks : &serves, 1,
				   __ATOMIC_RELAXED);
	if (n == 1 && limit && !limit->tv_sec && limit->tv_nsec < 1000000)
		__atomic_add_fetch(&hasty, 1, __ATOMIC_RELAXED);
	return __real_ppoll(file, n, limit, mask);
}

/* The user engine writes to nothing but its threads' eventfds: messages go by
 * sendmsg(). */
ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
	__atomic_add_fetch(&nudges, 1, __ATOMIC_RELAXED);
	return __real_write(fd, bytes, n);
}

static pid_t busy[CORES_MOST];
static long cores;

static void start_busy(void)
{
	pid_t parent = getpid();

	cores = sysconf(_SC_NPROCESSORS_ONLN);
	if (cores < 1 || cores > CORES_MOST)
		cores = CORES_MOST;
	for (long i = 0; i < cores; i++) {
		busy[i] = fork();
		if (busy[i] < 0)
			bed_die("fork");
		if (busy[i] > 0)
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			;
		_exit(0);
	}
}

static void stop_busy(void)
{
	for (long i = 0; i < cores; i++) {
		kill(busy[i], SIGKILL);
		waitpid(busy[i], 0, 0);
	}
}

/* Until the event of the endpoint; as an MPI polls, with naps allowed. */
static int await_event(struct o2g *o2g)
{
	struct o2g_event event;
	time_t end = time(0) + BED_WAIT / 1000;
	int n;

	while ((n = o2g_poll(o2g, &event, 1)) == 0) {
		if (time(0) > end)
			bed_die("no event came");
		o2g_nap(o2g);
	}
	return n == 1 && event.status == 0;
}

static int send_one(struct o2g *from, struct o2g *to, uint32_t peer)
{
	static char out[8], in[8];

	bed_recv(to, O2G_ANY, 1, in, sizeof(in));
	bed_send(from, peer, 1, out, sizeof(out));
	return await_event(to) && await_event(from);
}

static struct o2g *open_user(void)
{
	struct o2g_options options = bed_options();
	struct o2g *o2g;

	options.engine = "user";
	if (o2g_open(&o2g, &options))
		bed_die("o2g_open");
	return o2g;
}

static int send_many(struct o2g *a, struct o2g *b, int n)
{
	const uint32_t to_b = bed_peer(a, b), to_a = bed_peer(b, a);
	int good = 0;

	for (int i = 0; i < n; i++)
		good += i % 2 ? send_one(a, b, to_b) : send_one(b, a, to_a);
	return good;
}

int main(void)
{
	struct o2g *a, *b;
	long looked, served, woken;
	int good;

	program = pthread_self();
	start_busy(); /* before there are threads */
	a = open_user();
	b = open_user();
	send_many(a, b, 100); /* connects */
	naps = checks = serves = nudges = 0;
	good = send_many(a, b, MESSAGES);
	looked = __atomic_load_n(&checks, __ATOMIC_RELAXED);
	served = __atomic_load_n(&serves, __ATOMIC_RELAXED);
	woken = __atomic_load_n(&nudges, __ATOMIC_RELAXED);
	stop_busy();
	tap_ok(good == MESSAGES, "%d messages beside a busy process per core",
	       MESSAGES);
	printf("# checks %ld, serves %ld, wake-ups %ld, naps %ld\n", looked,
	       served, woken, naps);
	/* Each takeover begins with a check that found the program away. */
	tap_ok(served <= 4 * looked + 100,
	       "the threads serve only while the program is away");
	tap_ok(!__atomic_load_n(&hasty, __ATOMIC_RELAXED),
	       "a check is a millisecond after the last one, or more");
	tap_ok(woken <= 2 * looked + 100,
	       "the program wakes them only to take its place back");
	looked = __atomic_load_n(&checks, __ATOMIC_RELAXED);
	tap_ok(o2g_wait(a, &(struct o2g_event){0}, 1, 1000) == 0 &&
		       __atomic_load_n(&checks, __ATOMIC_RELAXED) - looked < 40,
	       "while the program sleeps for long, its thread does not check");
	o2g_close(a, 0);
	o2g_close(b, 0);
	return tap_done();
}
