/* SPDX-License-Identifier: MIT */
/* What programs ask about machine and process: limits, CPUs, memory, names. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "say.h"

static void check_random(void)
{
	unsigned char a[256] = {0}, b[256] = {0};
	int fd = open("/dev/urandom", O_RDONLY);

	CHECK(getrandom(a, sizeof(a), 0) == sizeof(a));
	CHECK(getrandom(b, sizeof(b), GRND_NONBLOCK) == sizeof(b));
	CHECK(memcmp(a, b, sizeof(a)) != 0);
	CHECK(FAILS(getrandom(a, 1, 0x80), EINVAL));
	CHECK(fd >= 0 && read(fd, b, sizeof(b)) == sizeof(b));
	CHECK(close(fd) == 0 && memcmp(a, b, sizeof(a)) != 0);
}

static void check_devices(void)
{
	char buf[8] = "xxxxxxx";
	int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDWR);

	CHECK(null >= 0 && zero >= 0);
	CHECK(write(null, buf, 8) == 8 && read(null, buf, 8) == 0);
	CHECK(read(zero, buf, 8) == 8 && !memcmp(buf, "\0\0\0\0\0\0\0", 8));
	CHECK(close(null) == 0 && close(zero) == 0);
}

static void check_cpus(void)
{
	struct sysinfo info;
	cpu_set_t set;

	CPU_ZERO(&set);
	CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
	CHECK(CPU_COUNT(&set) >= 1);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0);
	CHECK(sysconf(_SC_NPROCESSORS_ONLN) >= 1);
	CHECK(sched_getcpu() >= 0);
	CHECK(sysinfo(&info) == 0 && info.totalram > 0 && info.mem_unit > 0);
	CHECK(info.freeram <= info.totalram);
}

static void check_limits(void)
{
	struct rlimit limit = {0};

	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= 64);
	CHECK(getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur > 0);
	CHECK(prlimit(0, RLIMIT_STACK, NULL, &limit) == 0);
	CHECK(FAILS(getrlimit(99, &limit), EINVAL));
	limit.rlim_cur = limit.rlim_max = 0;
	CHECK(setrlimit(RLIMIT_CORE, &limit) == 0);
}

int main(void)
{
	char path[4096] = "", name[16] = "";
	struct utsname uts;

	check_random();
	check_devices();
	check_cpus();
	check_limits();
	CHECK(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	CHECK(path[0] == '/' && !strcmp(strrchr(path, '/'), "/info"));
	CHECK(access(path, R_OK) == 0);
	CHECK(prctl(PR_SET_NAME, "a name") == 0);
	CHECK(prctl(PR_GET_NAME, name) == 0 && !strcmp(name, "a name"));
	CHECK(uname(&uts) == 0 && uts.nodename[0]);
	CHECK(getuid() == geteuid() && getgid() == getegid());
	CHECK(syscall(SYS_getpid) == getpid() && getpgrp() > 0);
	CHECK(isatty(0) == 0 && isatty(1) == 0);
	return say_done();
}
