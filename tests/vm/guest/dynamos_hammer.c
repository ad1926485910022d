// SPDX-License-Identifier: MIT
/*
 * Calls arp_ioctl() all the time, in several processes that count what they
 * were answered, and tells the counts while all of them stand still. The calls
 * come in bursts, so that commands get most of an emulated processor.
 *
 *   dynamos_hammer start FILE N    processes that run on; prints their pids
 *   dynamos_hammer pause FILE      all stand still between two calls; prints
 *                                  pid, calls, answers of each
 *   dynamos_hammer look FILE N     the same after each has made N more calls
 *   dynamos_hammer go FILE
 *   dynamos_hammer end FILE        all end
 *
 *   dynamos_hammer allot FD OFFSET LENGTH N
 *                                  asks fallocate() N times, and gives the file
 *                                  back in between; prints what it was told
 *   dynamos_hammer empty PAGE      maps nothing, from that page of a file on;
 *                                  prints what it was told
 *
 * The question names a network device by 16 bytes without a NUL, whose first
 * 15 are the name of one that is there. The answer tells who was asked: ENODEV
 * by a kernel without the fix, ENXIO (no such neighbour) by one that ends the
 * name itself, EINVAL by one that refuses such names.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 16
#define BURST 64     /* calls */
#define TIMEOUT_S 60 /* seconds */

static const char device[16] = "skep-hammered-0";

enum { RUN, PAUSE, END };

struct worker {
	int pid, parked;
	unsigned long calls, nodev, nxio, inval, other;
};

static struct shared {
	int order, count;
	struct worker worker[WORKERS];
} * all;

static void exit_failed(const char *what)
{
	perror(what);
	exit(1);
}

static void pause_a_little(int milliseconds)
{
	struct timespec t = {.tv_nsec = milliseconds * 1000 * 1000};

	nanosleep(&t, NULL);
}

static void map_shared(const char *path, int flags)
{
	int fd = open(path, O_RDWR | flags, 0600);

	if (fd < 0 || (flags && ftruncate(fd, sizeof(*all))))
		exit_failed(path);
	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   0);
	if (all == MAP_FAILED)
		exit_failed(path);
	close(fd);
}

/* The loopback of a namespace of our own gets a name of 15 bytes. */
static void name_device(void)
{
	int fd = unshare(CLONE_NEWNET) ? -1 : socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq r = {.ifr_name = "lo"};

	memcpy(r.ifr_newname, device, sizeof(device));
	if (fd < 0 || ioctl(fd, SIOCSIFNAME, &r))
		exit_failed("a device of our own");
	close(fd);
}

static void request_arp(int fd, struct worker *w)
{
	struct arpreq r = {.arp_pa.sa_family = AF_INET};

	memcpy(r.arp_dev, device, sizeof(device));
	r.arp_dev[sizeof(r.arp_dev) - 1] = 'X';
	((struct sockaddr_in *)&r.arp_pa)->sin_addr.s_addr = htonl(0x0a000001);
	if (!ioctl(fd, SIOCGARP, &r))
		errno = 0;
	w->nodev += errno == ENODEV;
	w->nxio += errno == ENXIO;
	w->inval += errno == EINVAL;
	w->other += errno != ENODEV && errno != ENXIO && errno != EINVAL;
	w->calls++;
}

static void run_worker(struct worker *w)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), order;

	if (fd < 0)
		exit_failed("socket");
	for (;;) {
		order = __atomic_load_n(&all->order, __ATOMIC_ACQUIRE);
		if (order == END)
			_exit(0);
		__atomic_store_n(&w->parked, order == PAUSE, __ATOMIC_RELEASE);
		if (order == PAUSE)
			pause_a_little(1);
		else
			request_arp(fd, w);
		if (w->calls % BURST == BURST - 1)
			pause_a_little(4);
	}
}

static void start_workers(const char *path, int count)
{
	int i, pid;

	if (count < 1 || count > WORKERS)
		exit_failed("number of processes");
	map_shared(path, O_CREAT | O_TRUNC);
	name_device();
	all->count = count;
	for (i = 0; i < count; i++) {
		pid = fork();
		if (pid < 0)
			exit_failed("fork");
		if (!pid) {
			setsid();
			nice(10); /* commands come first */
			run_worker(&all->worker[i]);
		}
		all->worker[i].pid = pid;
		printf("%d\n", pid);
		fflush(stdout);
	}
}

static int all_standing(void)
{
	int i, n = 0;

	for (i = 0; i < all->count; i++)
		n += __atomic_load_n(&all->worker[i].parked, __ATOMIC_ACQUIRE);
	return n == all->count;
}

static void await_condition(int (*done)(void), const char *what)
{
	time_t until = time(NULL) + TIMEOUT_S;

	while (!done()) {
		if (time(NULL) > until) {
			fprintf(stderr, "%s\n", what);
			exit(1);
		}
		pause_a_little(1);
	}
}

static unsigned long wanted[WORKERS];

static int calls_enough(void)
{
	int i, n = 0;

	for (i = 0; i < all->count; i++)
		n += __atomic_load_n(&all->worker[i].calls, __ATOMIC_RELAXED) >=
		     wanted[i];
	return n == all->count;
}

static void run_workers(unsigned long calls)
{
	int i;

	for (i = 0; i < all->count; i++)
		wanted[i] = all->worker[i].calls + calls;
	__atomic_store_n(&all->order, RUN, __ATOMIC_RELEASE);
	await_condition(calls_enough, "somebody makes too few calls");
}

static void stop_workers(void)
{
	const struct worker *w;

	__atomic_store_n(&all->order, PAUSE, __ATOMIC_RELEASE);
	await_condition(all_standing, "somebody does not stand still");
	for (w = all->worker; w < all->worker + all->count; w++)
		printf("%d %lu %lu %lu %lu %lu\n", w->pid, w->calls, w->nodev,
		       w->nxio, w->inval, w->other);
}

static void allot_file(int fd, off_t offset, off_t length, int count)
{
	int wrong = 0;

	while (count-- > 0) {
		wrong = fallocate(fd, 0, offset, length) ? errno : 0;
		if (ftruncate(fd, 0))
			exit_failed("ftruncate");
	}
	puts(wrong ? strerror(wrong) : "granted");
}

static void map_nothing(off_t page)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	void *at = mmap(NULL, 0, PROT_READ, MAP_PRIVATE, fd, page * 4096);

	puts(at == MAP_FAILED ? strerror(errno) : "mapped");
}

int main(int argc, char **argv)
{
	const char *word = argc > 2 ? argv[1] : "";

	if (!strcmp(word, "allot") && argc == 6) {
		allot_file(atoi(argv[2]), atol(argv[3]), atol(argv[4]),
			   atoi(argv[5]));
		return 0;
	}
	if (!strcmp(word, "empty") && argc == 3) {
		map_nothing(atol(argv[2]));
		return 0;
	}
	if (!strcmp(word, "start") && argc == 4) {
		start_workers(argv[2], atoi(argv[3]));
		return 0;
	}
	if (argc < 3) {
		fprintf(stderr, "a word and a file are expected\n");
		return 2;
	}
	map_shared(argv[2], 0);
	if (!strcmp(word, "look") && argc == 4)
		run_workers(strtoul(argv[3], NULL, 10));
	if (!strcmp(word, "pause") || !strcmp(word, "look"))
		stop_workers();
	else
		__atomic_store_n(&all->order, strcmp(word, "go") ? END : RUN,
				 __ATOMIC_RELEASE);
	return 0;
}
