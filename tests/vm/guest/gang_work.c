// SPDX-License-Identifier: MIT
/*
 * Programs of gangs that take turns.
 *
 *   gang_work turns FILE ID N
 *     runs until N times another program than before it ran. FILE, which two
 *     programs share, tells. Programs that run at the same time get there at
 *     once; those that take turns need N of them.
 *
 *   gang_work set FILE MIB COLD ORDER
 *     writes to each page of its working set of MIB again and again, in the
 *     order of the addresses (sweep) or in another one (random). COLD MiB more
 *     are written once, at the beginning. Each time when it has been stopped
 *     and has then touched the whole set it appends a line to FILE: how often
 * it slept from the stop on (voluntary context switches; one is the stop), its
 *     major and its minor page faults, and the time in ms.
 *
 *   gang_work willneed PID...
 *     asks the kernel for all private memory of processes, as a script can
 *     (process_madvise(2), MADV_WILLNEED).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096ul

static void exit_failed(const char *what)
{
	perror(what);
	exit(1);
}

/* What programs share in the mode turns. */
struct shared {
	atomic_int last, changes;
};

static int take_turns(const char *path, int id, int changes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), last;
	struct shared *s;

	if (fd < 0 || ftruncate(fd, sizeof(*s)))
		exit_failed(path);
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s == MAP_FAILED)
		exit_failed(path);
	while (atomic_load(&s->changes) < changes) {
		last = atomic_exchange(&s->last, id);
		if (last && last != id)
			atomic_fetch_add(&s->changes, 1);
	}
	return 0;
}

static atomic_int stops; /* how often this process was stopped */

/* epoll_wait(2) fails after a stop, see signal(7). */
static void *count_stops(void *none)
{
	struct epoll_event event;
	int fd = epoll_create1(EPOLL_CLOEXEC);

	for (;;)
		if (epoll_wait(fd, &event, 1, -1) < 0) {
			if (errno != EINTR)
				exit_failed("epoll_wait");
			atomic_fetch_add(&stops, 1);
		}
	return none;
}

struct sample {
	long sleeps, major, minor;
	long long ms;
};

static struct sample read_sample(void)
{
	struct rusage used;
	struct timespec now;

	if (getrusage(RUSAGE_THREAD, &used) ||
	    clock_gettime(CLOCK_MONOTONIC, &now))
		exit_failed("getrusage");
	return (struct sample){used.ru_nvcsw, used.ru_majflt, used.ru_minflt,
			       now.tv_sec * 1000ll + now.tv_nsec / 1000000};
}

static char *map_memory(unsigned long bytes)
{
	char *m;

	if (!bytes)
		return NULL;
	m = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		exit_failed("mmap");
	/* Swapped out, huge pages would be split into pages anyway. */
	if (madvise(m, bytes, MADV_NOHUGEPAGE) && errno != EINVAL)
		exit_failed("madvise");
	return m;
}

/* The order in which pages are touched: all numbers below n. */
static unsigned int *make_order(unsigned int n, int mix)
{
	unsigned int *order = calloc(n, sizeof(*order)), i, j, t;

	if (!order)
		exit_failed("calloc");
	srandom(1);
	for (i = 0; i < n; i++)
		order[i] = i;
	for (i = n; mix && i > 1; i--) {
		j = (unsigned int)(random() % i);
		t = order[i - 1];
		order[i - 1] = order[j];
		order[j] = t;
	}
	return order;
}

static void write_line(const char *path, struct sample from, struct sample to)
{
	FILE *file = fopen(path, "ae");

	if (!file ||
	    fprintf(file, "%ld %ld %ld %lld\n", to.sleeps - from.sleeps,
		    to.major - from.major, to.minor - from.minor,
		    to.ms - from.ms) < 0 ||
	    fclose(file))
		exit_failed(path);
}

#define SAMPLED 16    /* pages, after which the time is looked at */
#define SAMPLE_MS 200 /* from one sample to the next at least */

/*
 * Touches the set for ever. What is counted from the stop on is counted from
 * two samples before it was noticed, since the other thread may notice it too
 * late.
 */
static void use_set(const char *path, char *set, const unsigned int *order,
		    unsigned int n)
{
	struct sample from = read_sample(), before[2] = {from, from}, now;
	unsigned int i, touched = n; /* since the last stop */
	int seen = atomic_load(&stops);

	for (i = 0;; i = (i + 1) % n) {
		++*(volatile char *)(set + order[i] * PAGE);
		if (seen != atomic_load(&stops)) {
			seen = atomic_load(&stops);
			from = before[0];
			touched = 0;
		}
		if (touched < n && ++touched == n)
			write_line(path, from, read_sample());
		if (i % SAMPLED == 0) {
			now = read_sample();
			if (now.ms - before[1].ms < SAMPLE_MS)
				continue;
			before[0] = before[1];
			before[1] = now;
		}
	}
}

static void run_set(const char *path, unsigned long mib, unsigned long cold,
		    const char *order)
{
	unsigned int n = (unsigned int)((mib << 20) / PAGE);
	char *more = map_memory(cold << 20), *set = map_memory(mib << 20);
	pthread_t thread;
	unsigned long i;

	for (i = 0; i < cold << 20; i += PAGE)
		more[i] = 1;
	if (pthread_create(&thread, NULL, count_stops, NULL))
		exit_failed("pthread_create");
	use_set(path, set, make_order(n, !strcmp(order, "random")), n);
}

/* Asks for the ranges of one process, at most 512 at a time. */
static void need_memory(int pid)
{
	struct iovec ranges[512];
	char path[64], line[512], kind[8];
	unsigned long from, to;
	int fd = pidfd_open(pid, 0);
	size_t n = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (fd < 0 || !maps)
		exit_failed(path);
	while (n < 512 && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %7s", &from, &to, kind) == 3 &&
		    !strcmp(kind, "rw-p"))
			ranges[n++] = (struct iovec){(void *)from, to - from};
	fclose(maps);
	if (process_madvise(fd, ranges, n, MADV_WILLNEED, 0) < 0)
		exit_failed("process_madvise");
	close(fd);
}

int main(int argc, char **argv)
{
	int i;

	if (argc == 5 && !strcmp(argv[1], "turns"))
		return take_turns(argv[2], atoi(argv[3]), atoi(argv[4]));
	if (argc == 6 && !strcmp(argv[1], "set"))
		run_set(argv[2], strtoul(argv[3], NULL, 10),
			strtoul(argv[4], NULL, 10), argv[5]);
	for (i = 2; argc > 2 && !strcmp(argv[1], "willneed") && i < argc; i++)
		need_memory(atoi(argv[i]));
	if (argc > 2 && !strcmp(argv[1], "willneed"))
		return 0;
	fprintf(stderr, "usage: gang_work turns FILE ID N | set FILE MIB COLD "
			"ORDER | willneed PID...\n");
	return 2;
}
