/* SPDX-License-Identifier: MIT */
/*
 * What bee on Linux says of clocks and of the machine, and random bytes from a
 * kernel that gives them in parts, is interrupted, or fails.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "bee/host/linux/host.h"
#include "tests/tap.h"

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags);
int __wrap_uname(struct utsname *un);
int __real_uname(struct utsname *un);
int __wrap_sysinfo(struct sysinfo *si);
uid_t __wrap_getuid(void);
gid_t __wrap_getgid(void);
int __wrap_sched_getaffinity(pid_t pid, size_t len, cpu_set_t *set);
int __real_sched_getaffinity(pid_t pid, size_t len, cpu_set_t *set);
int __wrap_getrusage(int who, struct rusage *ru);

struct bee bee;
static u32 steps; /* calls of getrandom */
static int fails; /* of uname, sysinfo, getrusage: an errno, or 0 */
static int cpus_hidden;
static int random_error; /* of the fourth call */

s32 lin_family_guest(s32 pid)
{
	return pid + 1000000;
}

u64 bee_xsave_size(void)
{
	return 832;
}

u64 bee_xsave_mask(void)
{
	return 7;
}

/* Two bytes, an interruption, three bytes, and then as many as are wanted. */
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags)
{
	static const size_t part[] = {2, 0, 3};
	size_t n = len;

	if (steps == 1 || (steps == 3 && random_error)) {
		errno = steps++ == 1 ? EINTR : random_error;
		return -1;
	}
	if (steps < 3 && part[steps] < len)
		n = part[steps];
	memset(buf, flags ? 'f' : (char)('0' + steps), n);
	steps++;
	return (ssize_t)n;
}

int __wrap_uname(struct utsname *un)
{
	errno = fails;
	return fails ? -1 : __real_uname(un);
}

int __wrap_sysinfo(struct sysinfo *si)
{
	memset(si, 0, sizeof(*si));
	si->totalram = 1000;
	si->freeram = 300;
	si->mem_unit = 4096;
	errno = fails;
	return fails ? -1 : 0;
}

uid_t __wrap_getuid(void)
{
	return 11;
}

gid_t __wrap_getgid(void)
{
	return 12;
}

int __wrap_sched_getaffinity(pid_t pid, size_t len, cpu_set_t *set)
{
	return cpus_hidden ? -1 : __real_sched_getaffinity(pid, len, set);
}

int __wrap_getrusage(int who, struct rusage *ru)
{
	memset(ru, 0, sizeof(*ru));
	ru->ru_utime = (struct timeval){.tv_sec = 2, .tv_usec = 3};
	ru->ru_stime = (struct timeval){.tv_sec = 4, .tv_usec = 5};
	errno = fails;
	return fails || who != RUSAGE_SELF ? -1 : 0;
}

static void test_random(void)
{
	char bytes[10] = "..........";

	tap_ok(!lin_random(bytes, 9) && !memcmp(bytes, "002223333.", 10) &&
		       steps == 4,
	       "random bytes come in parts, also after a signal");
	steps = 0;
	random_error = ENOSYS;
	tap_ok(lin_random(bytes, 9) == -ENOSYS, "an error of the kernel is");
	steps = 7;
	tap_ok(!lin_random(bytes, 0) && steps == 7, "no bytes need no call");
}

static s64 clock_of(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

static void test_clocks(void)
{
	static const struct {
		u32 clock;
		clockid_t id;
	} c[] = {{ABI_CLOCK_REALTIME, CLOCK_REALTIME},
		 {ABI_CLOCK_MONOTONIC, CLOCK_MONOTONIC},
		 {ABI_CLOCK_PROCESS, CLOCK_PROCESS_CPUTIME_ID},
		 {ABI_CLOCK_THREAD, CLOCK_THREAD_CPUTIME_ID}};
	s64 before, at, user = 0, kernel = 0;
	u32 i;

	for (i = 0; i < 4; i++) {
		before = clock_of(c[i].id);
		at = lin_clock(c[i].clock);
		tap_ok(before <= at && at <= clock_of(c[i].id),
		       "clock %d is the kernel's", c[i].clock);
	}
	tap_ok(lin_clock(4) == -EINVAL, "there is no fifth clock");
	tap_ok(!lin_rusage(&user, &kernel) && user == 2000003000 &&
		       kernel == 4000005000,
	       "the times of the process are in nanoseconds");
	fails = EPERM;
	tap_ok(lin_rusage(&user, &kernel) == -EPERM, "or an error");
	fails = 0;
}

static void test_info(void)
{
	struct abi_host_info info;
	struct bee_options options = {.memory = 0};
	struct utsname un;
	char machine[64];
	cpu_set_t set;

	bee.options = &options;
	memset(&info, 0xff, sizeof(info));
	tap_ok(!lin_info(&info), "the machine is described");
	uname(&un);
	sched_getaffinity(0, sizeof(set), &set);
	snprintf(machine, sizeof(machine), "bee %s on Linux %.40s",
		 SKEP_VERSION, un.release);
	tap_ok(info.cpus == (u32)CPU_COUNT(&set) &&
		       info.pid == (u32)getpid() + 1000000 && info.uid == 11 &&
		       info.gid == 12,
	       "its CPUs and the user");
	tap_ok(info.mem_total == 4096000 && info.mem_limit == 4096000 &&
		       info.mem_free == 1228800,
	       "its memory");
	tap_ok(info.xsave_size == 832 && info.xsave_mask == 7,
	       "its vector state");
	tap_ok(!info.file_window, "no address is kept for files");
	tap_ok(!strcmp(info.node, un.nodename) &&
		       !strcmp(info.machine, machine),
	       "and its names");
	options.memory = 4096;
	tap_ok(!lin_info(&info) && info.mem_limit == 4096,
	       "the limit of memory is the option's");
	cpus_hidden = 1;
	tap_ok(!lin_info(&info) && info.cpus == 1,
	       "CPUs that cannot be counted are one");
	fails = EFAULT;
	tap_ok(lin_info(&info) == -EFAULT, "or an error");
	fails = 0;
}

int main(void)
{
	test_random();
	test_clocks();
	test_info();
	return tap_done();
}
