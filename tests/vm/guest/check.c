// SPDX-License-Identifier: MIT
/*
 * What a C program of this computer finds in a guest. Arguments: the release
 * of the kernel, the user's number, CPUs, NUMA nodes, MiB of memory and of
 * swap, and network devices.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tests/tap.h"

/* Whose checks these are: each name begins with it. */
static const char *who;

static void check_kernel(const char *release)
{
	struct utsname name = {0};

	uname(&name);
	tap_ok(!strcmp(name.release, release),
	       "%s: the kernel is the machine's", who);
}

static void check_user(int uid)
{
	int want = uid ? EACCES : 0;
	int fd = open("/etc/skep-check", O_WRONLY | O_CREAT, 0600);
	int error = fd < 0 ? errno : 0;

	tap_ok((int)getuid() == uid && (int)geteuid() == uid,
	       "%s: the number is %d", who, uid);
	tap_ok(error == want, "%s: may %swrite to etc", who, uid ? "not " : "");
	if (fd >= 0)
		close(fd);
}

static void check_limit(const char *name, int which, rlim_t soft, rlim_t hard)
{
	struct rlimit l = {0};

	getrlimit(which, &l);
	tap_ok(l.rlim_cur == soft && l.rlim_max == hard,
	       "%s: the limit of %s is %llu, at most %llu", who, name,
	       (unsigned long long)soft, (unsigned long long)hard);
}

/* The processor that each thread may run on, and the memory nodes. */
static void check_hardware(int cpus, int nodes)
{
	int seen = 0;
	char path[64];

	tap_ok(get_nprocs() == cpus, "%s: %d CPUs", who, cpus);
	for (int i = 0; i < 64; i++) {
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d",
			 i);
		seen += !access(path, F_OK);
	}
	tap_ok(seen == nodes, "%s: %d NUMA nodes", who, nodes);
}

/* The kernel keeps a part for itself. */
static void check_memory(int mib)
{
	struct sysinfo info = {0};
	unsigned long have, all = mib;

	sysinfo(&info);
	have = (info.totalram * info.mem_unit) >> 20;
	tap_ok(have <= all && have > all / 4 * 3, "%s: %d MiB of memory", who,
	       mib);
	if (have > all || have <= all / 4 * 3)
		printf("# it has %lu\n", have);
}

/* Interfaces that are no device, lo for one, are not counted. */
static void check_network(int devices)
{
	DIR *dir = opendir("/sys/class/net");
	struct dirent *e;
	int seen = 0;

	while (dir && (e = readdir(dir))) {
		char path[300];

		snprintf(path, sizeof(path), "/sys/class/net/%s/device",
			 e->d_name);
		seen += !access(path, F_OK);
	}
	tap_ok(dir && seen == devices, "%s: %d network devices", who, devices);
	if (dir)
		closedir(dir);
}

static void check_swap(int mib)
{
	struct sysinfo info = {0};
	unsigned long have;

	sysinfo(&info);
	/* mkswap keeps a page for itself */
	have = (info.totalswap * info.mem_unit + (1 << 20) - 1) >> 20;
	tap_ok(have == (unsigned long)mib, "%s: %d MiB of swap", who, mib);
}

static void check_module(void)
{
	char text[32] = "";
	int fd = open("/proc/skep_trivial", O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	tap_ok(n > 0 && !strncmp(text, "trivial ", 8), "%s: our module answers",
	       who);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	if (argc != 8)
		return 2;
	who = atoi(argv[2]) ? "the user" : "root";
	check_kernel(argv[1]);
	check_user(atoi(argv[2]));
	check_limit("open files", RLIMIT_NOFILE, 1024, 524288);
	check_limit("locked memory", RLIMIT_MEMLOCK, 8 << 20, 8 << 20);
	check_limit("the stack", RLIMIT_STACK, 8 << 20, RLIM_INFINITY);
	check_hardware(atoi(argv[3]), atoi(argv[4]));
	check_memory(atoi(argv[5]));
	check_swap(atoi(argv[6]));
	check_network(atoi(argv[7]));
	check_module();
	return tap_done();
}
