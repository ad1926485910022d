// SPDX-License-Identifier: MIT
/*
 * dynamos_linger WORK GUEST MS: a guest and a host on processor 0, for MS
 * milliseconds. GUEST is how the guest is told to give way:
 *
 *   none      not at all
 *   nice      nice 19
 *   idle      SCHED_IDLE
 *   weight    a cgroup with cpu.weight 1
 *   cgroup    a cgroup with cpu.idle 1
 *   nested    a cgroup with cpu.idle 1, in another one that is not
 *
 * WORK:
 *
 *   share     both compute
 *   wakes     20 threads of the guest sleep until the host computes, and then
 *             compute 1 ms each
 *   gaps      the host computes 2 ms of every 5
 *   machine   the guest is a virtual machine (KVM) that computes, and the host
 *             computes too
 *   lock      the guest holds a file's lock most of the time, a host computes
 *             300 ms and sleeps 10, and another one wants the lock 20 times a
 *             second
 *   storm     20 guests of all kinds, with and without a limit of their
 *             processor time, and 6 hosts compute, sleep, yield, fork and move
 *             between processors
 *
 * Prints the processor time of guest and host, the time that passed and the
 * host's longest delay, in microseconds, how often the guest got the
 * processor, and the locks that the host got, or the threads that have
 * computed. Of the longest wait for the lock: how long it was, how long the
 * guest ran, how long it waited for that, and how long the host waited for the
 * processor when it had the lock, in microseconds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROOT "/sys/fs/cgroup"
#define OUTER ROOT "/linger_outer"
#define MICRO 1000ll
#define MILLI (1000 * MICRO)
#define SECOND (1000 * MILLI)

/* Written by the host, for its parent: the longest delay, since when it waits,
 * or 0. Written by the host or the guest: what is done. */
static volatile long long *longest, *since, *done;

/* What happened in the longest wait for the lock. */
static volatile struct split {
	long long whole, runs, turns, after;
} * split;

static pid_t guest; /* its process */

static void exit_failed(const char *what)
{
	perror(what);
	exit(1);
}

static long long read_clock(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t))
		exit_failed("clock_gettime");
	return t.tv_sec * SECOND + t.tv_nsec;
}

static void sleep_until(long long when)
{
	struct timespec t = {when / SECOND, when % SECOND};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL))
		;
}

static void use_processor(long long ns)
{
	long long end = read_clock(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (read_clock(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

static void note_delay(long long ns)
{
	if (ns > *longest)
		*longest = ns;
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		exit_failed(path);
	close(fd);
}

static void enter_cgroup(const char *path, const char *file, const char *text)
{
	char name[128];

	if (mkdir(path, 0755) && errno != EEXIST)
		exit_failed(path);
	snprintf(name, sizeof(name), "%s/%s", path, file);
	write_text(name, text);
	snprintf(name, sizeof(name), "%s/cgroup.procs", path);
	write_text(name, "0");
}

/* Cgroups whose processes have ended. */
static void remove_cgroups(void)
{
	static const char *const all[] = {ROOT "/linger_weight",
					  ROOT "/linger_idle", OUTER "/inner",
					  OUTER};
	unsigned int i;

	for (i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (rmdir(all[i]) && errno != ENOENT)
			exit_failed(all[i]);
}

static void become_guest(const char *how)
{
	struct sched_param none = {0};

	if (!strcmp(how, "none"))
		return;
	if (!strcmp(how, "nice")) {
		if (setpriority(PRIO_PROCESS, 0, 19))
			exit_failed("nice");
		return;
	}
	if (!strcmp(how, "idle")) {
		if (sched_setscheduler(0, SCHED_IDLE, &none))
			exit_failed("SCHED_IDLE");
		return;
	}
	write_text(ROOT "/cgroup.subtree_control", "+cpu");
	if (!strcmp(how, "weight")) {
		enter_cgroup(ROOT "/linger_weight", "cpu.weight", "1");
	} else if (!strcmp(how, "cgroup")) {
		enter_cgroup(ROOT "/linger_idle", "cpu.idle", "1");
	} else if (!strcmp(how, "nested")) {
		if (mkdir(OUTER, 0755) && errno != EEXIST)
			exit_failed(OUTER);
		write_text(OUTER "/cgroup.subtree_control", "+cpu");
		enter_cgroup(OUTER "/inner", "cpu.idle", "1");
	} else {
		fprintf(stderr, "there is no kind of guest %s\n", how);
		exit(2);
	}
}

static void work_always(void)
{
	for (;;)
		use_processor(SECOND);
}

static int kvm_call(int fd, unsigned long call, unsigned long argument)
{
	int got = ioctl(fd, call, argument);

	if (got < 0)
		exit_failed("kvm");
	return got;
}

/* A virtual machine of one page, in which one processor runs in a circle. */
static void work_machine(void)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm, cpu;
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct kvm_userspace_memory_region memory = {
		.memory_size = 4096,
		.userspace_addr = (unsigned long)page,
	};
	struct kvm_regs regs = {.rflags = 2};
	struct kvm_sregs sregs;

	if (kvm < 0 || page == MAP_FAILED)
		exit_failed("/dev/kvm");
	memcpy(page, "\xeb\xfe", 2); /* jmp . */
	vm = kvm_call(kvm, KVM_CREATE_VM, 0);
	kvm_call(vm, KVM_SET_USER_MEMORY_REGION, (unsigned long)&memory);
	cpu = kvm_call(vm, KVM_CREATE_VCPU, 0);
	kvm_call(cpu, KVM_GET_SREGS, (unsigned long)&sregs);
	sregs.cs.base = sregs.cs.selector = 0;
	kvm_call(cpu, KVM_SET_SREGS, (unsigned long)&sregs);
	kvm_call(cpu, KVM_SET_REGS, (unsigned long)&regs);
	for (;;)
		if (ioctl(cpu, KVM_RUN, 0) && errno != EINTR)
			exit_failed("KVM_RUN");
}

static void *wake_once(void *when)
{
	sleep_until(*(long long *)when);
	use_processor(MILLI);
	++*done; /* all threads are on one processor */
	pause();
	return NULL;
}

static void work_wakes(void)
{
	long long when = read_clock(CLOCK_MONOTONIC) + 600 * MILLI;
	pthread_t thread;
	unsigned int i;

	for (i = 0; i < 20; i++)
		if (pthread_create(&thread, NULL, wake_once, &when))
			exit_failed("pthread_create");
	for (;;)
		pause();
}

static void work_gaps(void)
{
	long long next = read_clock(CLOCK_MONOTONIC);

	for (;;) {
		next += 5 * MILLI;
		sleep_until(next);
		note_delay(read_clock(CLOCK_MONOTONIC) - next);
		use_processor(2 * MILLI);
	}
}

/* What a process has got of its processor. */
struct used {
	long long ns, delay, turns;
};

static struct used read_used(pid_t pid)
{
	struct used used;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%lld %*d %lld", &used.ns, &used.turns) != 2)
		exit_failed(path);
	fclose(file);
	return used;
}

#define HELD (4 << 20) /* bytes written under the lock */
static const char locked[] = "/dev/shm/linger";

static int open_locked(void)
{
	int fd = open(locked, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		exit_failed(locked);
	return fd;
}

static void work_holds(void)
{
	int fd = open_locked();
	char *data = calloc(1, HELD);

	for (;;)
		if (!data || pwrite(fd, data, HELD, 0) != HELD)
			exit_failed(locked);
}

/* Gets the lock and gives it back. */
static void want_lock(int fd)
{
	struct used was[2] = {read_used(getpid()), read_used(guest)}, is[2];
	long long whole = read_clock(CLOCK_MONOTONIC);

	if (pwrite(fd, "", 1, 0) != 1)
		exit_failed(locked);
	whole = read_clock(CLOCK_MONOTONIC) - whole;
	if (whole <= split->whole)
		return;
	is[0] = read_used(getpid());
	is[1] = read_used(guest);
	split->whole = whole;
	split->runs = is[1].ns - was[1].ns;
	split->after = is[0].delay - was[0].delay;
	split->turns = whole - split->runs - split->after;
}

static void work_wants(void)
{
	long long next = read_clock(CLOCK_MONOTONIC);
	int fd = open_locked();

	for (;;) {
		next += 50 * MILLI;
		sleep_until(next);
		*since = next;
		want_lock(fd);
		*since = 0;
		++*done;
		note_delay(read_clock(CLOCK_MONOTONIC) - next);
		if (next < read_clock(CLOCK_MONOTONIC))
			next = read_clock(CLOCK_MONOTONIC);
	}
}

static void work_long(void)
{
	for (;;) {
		use_processor(300 * MILLI);
		sleep_until(read_clock(CLOCK_MONOTONIC) + 10 * MILLI);
	}
}

static void pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		exit_failed("sched_setaffinity");
}

static pid_t start_work(void (*work)(void), const char *how)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();

	if (pid < 0)
		exit_failed("fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin_to(0);
	if (how)
		become_guest(how);
	work();
	_exit(0);
}

static void end_work(pid_t pid)
{
	kill(pid, SIGKILL);
	if (waitpid(pid, NULL, 0) != pid)
		exit_failed("waitpid");
}

static const struct {
	const char *name;
	void (*guest)(void), (*host)(void), (*other)(void);
} works[] = {
	{"share", work_always, work_always, NULL},
	{"wakes", work_wakes, work_always, NULL},
	{"gaps", work_always, work_gaps, NULL},
	{"machine", work_machine, work_always, NULL},
	{"lock", work_holds, work_long, work_wants},
};

static void fork_once(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		exit_failed("fork");
}

static void work_storm(void)
{
	unsigned int n;

	pin_to(getpid() & 1);
	for (n = getpid();; n++) {
		use_processor((n % 7) * 300 * MICRO);
		switch (n % 5) {
		case 0:
			sched_yield();
			break;
		case 1:
			sleep_until(read_clock(CLOCK_MONOTONIC) +
				    (n % 9) * MILLI);
			break;
		case 2:
			pin_to(n >> 3 & 1);
			break;
		case 3:
			if (n % 32 == 3)
				fork_once();
		}
	}
}

/* Limits the processor time of the guests in cgroups: 3 ms of 20. */
static void limit_guests(void)
{
	write_text(ROOT "/linger_idle/cpu.max", "3000 20000");
	write_text(OUTER "/cpu.max", "5000 20000");
	write_text(OUTER "/inner/cpu.max", "2000 10000");
}

static void run_storm(long long ms)
{
	static const char *const kinds[] = {"idle", "cgroup", "nested", "nice",
					    "weight"};
	pid_t pid[26];
	unsigned int i;

	for (i = 0; i < 26; i++)
		pid[i] = start_work(work_storm, i < 20 ? kinds[i % 5] : NULL);
	sleep_until(read_clock(CLOCK_MONOTONIC) + ms * MILLI / 2);
	limit_guests();
	sleep_until(read_clock(CLOCK_MONOTONIC) + ms * MILLI / 2);
	for (i = 0; i < 26; i++)
		end_work(pid[i]);
	printf("0 0 0 0 0 0 0 0 0 0\n");
}

static void measure_work(unsigned int n, const char *how, long long ms)
{
	pid_t pid[3] = {guest = start_work(works[n].guest, how)};
	struct used was[2], is[2];
	long long began;

	sleep_until(read_clock(CLOCK_MONOTONIC) +
		    200 * MILLI); /* it is a guest now */
	pid[1] = start_work(works[n].host, NULL);
	if (works[n].other)
		pid[2] = start_work(works[n].other, NULL);
	sleep_until(read_clock(CLOCK_MONOTONIC) + 300 * MILLI);
	was[0] = read_used(pid[0]);
	was[1] = read_used(pid[1]);
	began = read_clock(CLOCK_MONOTONIC);
	*longest = 0;
	*done = 0;
	split->whole = 0;
	sleep_until(began + ms * MILLI);
	if (*since)
		note_delay(read_clock(CLOCK_MONOTONIC) - *since);
	is[0] = read_used(pid[0]);
	is[1] = read_used(pid[1]);
	printf("%lld %lld %lld %lld %lld %lld ", (is[0].ns - was[0].ns) / MICRO,
	       (is[1].ns - was[1].ns) / MICRO,
	       (read_clock(CLOCK_MONOTONIC) - began) / MICRO, *longest / MICRO,
	       is[0].turns - was[0].turns, *done);
	printf("%lld %lld %lld %lld\n", split->whole / MICRO,
	       split->runs / MICRO, split->turns / MICRO, split->after / MICRO);
	end_work(pid[1]); /* or the guest would not get to end */
	if (pid[2])
		end_work(pid[2]);
	end_work(pid[0]);
}

int main(int argc, char **argv)
{
	unsigned int n;

	longest =
		mmap(NULL, 3 * sizeof(*longest) + sizeof(*split),
		     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (longest == MAP_FAILED)
		exit_failed("mmap");
	since = longest + 1;
	done = longest + 2;
	split = (volatile struct split *)(longest + 3);
	if (argc == 4 && !strcmp(argv[1], "storm")) {
		run_storm(atoll(argv[3]));
		remove_cgroups();
		return 0;
	}
	for (n = 0; argc == 4 && n < sizeof(works) / sizeof(*works); n++) {
		if (strcmp(argv[1], works[n].name))
			continue;
		pin_to(sysconf(_SC_NPROCESSORS_ONLN) > 1);
		measure_work(n, argv[2], atoll(argv[3]));
		remove_cgroups();
		return 0;
	}
	fprintf(stderr, "usage: dynamos_linger WORK GUEST MS\n");
	return 2;
}
