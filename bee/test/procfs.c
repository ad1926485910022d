/* SPDX-License-Identifier: MIT */
/*
 * What a program reads in /proc about its family, from texts of the kernel that
 * are made up here. Processes 100 to 199 are in the family.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bee/host/linux/host.h"
#include "tests/tap.h"

#define G(pid) (4000000 + (pid))

int __wrap_open(const char *path, int flags, ...);

static char opened[64], kernel_text[20000];
static u64 kernel_len;
static int open_error, written = -1;

int __wrap_open(const char *path, int flags, ...)
{
	int fd;

	snprintf(opened, sizeof(opened), "%s", path);
	if (open_error) {
		errno = open_error;
		return -1;
	}
	fd = memfd_create("proc", 0);
	if ((flags & O_ACCMODE) == O_WRONLY) {
		written = dup(fd);
		return fd;
	}
	if (write(fd, kernel_text, kernel_len) != (ssize_t)kernel_len)
		return -1;
	lseek(fd, 0, SEEK_SET);
	return fd;
}

int lin_family_has(s32 pid)
{
	return pid >= 100 && pid < 200;
}

s32 lin_family_guest(s32 pid)
{
	return G(pid);
}

static char got[40000];

static s64 read_text(u32 which, const char *text, u64 len, u64 room)
{
	memcpy(kernel_text, text, len);
	kernel_len = len;
	memset(got, '#', sizeof(got));
	return lin_family_text(100, which, got, room);
}

static s64 read_line(u32 which, const char *text)
{
	return read_text(which, text, strlen(text), sizeof(got));
}

static const struct {
	const char *text, *want; /* NULL: -EIO */
} stats[] = {
	{"100 (a) S 150 151 152 0 153 7 8\n",
	 "4000100 (a) S 4000150 4000151 4000152 0 4000153 7 8\n"},
	{"100 (a b) c) R 7 200 99 34816 -1 7 8\n",
	 "4000100 (a b) c) R 1 1 1 34816 -1 7 8\n"},
	{"100 (()) Z 0 100 199 0 0\n",
	 "4000100 (()) Z 0 4000100 4000199 0 0\n"},
	{"100 a S 150 151 152 0 153 7 8\n", NULL},
	{"100 (a S 150 151 152 0 153 7 8\n", NULL},
	{"100 a) S 150 151 152 0 153 7 8\n", NULL},
	{"100 (a) S 150 151 152 0", NULL},
	{"", NULL},
};

static void check_stat(void)
{
	u32 i;

	for (i = 0; i < sizeof(stats) / sizeof(*stats); i++) {
		s64 n = read_line(ABI_FAMILY_STAT, stats[i].text);
		const char *want = stats[i].want;

		tap_ok(!strcmp(opened, "/proc/100/stat") &&
			       (want ? n == (s64)strlen(want) &&
						!strcmp(got, want)
				     : n == -EIO),
		       "stat %u is %s", i, want ? "renumbered" : "an error");
	}
	tap_ok(read_text(ABI_FAMILY_STAT, "100 (a) S 0 0 0 0 0 0\n", 22, 25) ==
			       -EIO &&
		       got[25] == '#',
	       "one without room is an error");
}

static void check_status(void)
{
	static const char text[] =
		"Name:\tbee\nState:\tS (sleeping)\nTgid:\t100\nNgid:\t100\n"
		"Pid:\t100\nPPid:\t7\nTracerPid:\t100\nUid:\t0\t0\n"
		"NStgid:\t100\nThreads:\t9\nSigQ:\t1\nShdPnd:\t0\nVmRSS:\t5 "
		"kB\n";
	static const char want[] =
		"Name:\tbee\nState:\tS (sleeping)\nTgid:\t4000100\nNgid:\t100\n"
		"Pid:\t4000100\nPPid:\t1\nTracerPid:\t100\nUid:\t0\t0\n"
		"VmRSS:\t5 kB\n";

	tap_ok(read_line(ABI_FAMILY_STATUS, text) == sizeof(want) - 1 &&
		       !memcmp(got, want, sizeof(want)) &&
		       !strcmp(opened, "/proc/100/status"),
	       "status has the guest's numbers, and nothing of bee's threads");
	tap_ok(read_line(ABI_FAMILY_STATUS, "Pid:\t0\nName:\tcut") == 7 &&
		       !strcmp(got, "Pid:\t0\n"),
	       "a line that is cut is left out");
	tap_ok(read_text(ABI_FAMILY_STATUS, text, strlen(text), 512) == 0 &&
		       read_text(ABI_FAMILY_STATUS, text, strlen(text), 513) ==
			       10,
	       "lines end with the room for the longest");
}

#define WORDS(text) text, sizeof(text)

static void check_words(void)
{
	static const char want[] = "prog\0-x\0";

	tap_ok(read_text(ABI_FAMILY_CMDLINE,
			 WORDS("bee\0--idle\0--cwd\0/\0prog\0-x"),
			 sizeof(got)) == 8 &&
		       !memcmp(got, want, 8) && got[8] == '#' &&
		       !strcmp(opened, "/proc/100/cmdline"),
	       "a command line begins behind bee's options");
	tap_ok(read_text(ABI_FAMILY_CMDLINE, WORDS("bee\0prog\0-x"), 8) == 8 &&
		       read_text(ABI_FAMILY_CMDLINE, WORDS("bee\0prog\0-x"),
				 7) == 5,
	       "words that have no room are left out");
	tap_ok(read_text(ABI_FAMILY_CMDLINE, WORDS("bee\0--odd\0prog"),
			 sizeof(got)) == -ESRCH,
	       "a bee that will refuse its options is no process yet");
	tap_ok(!read_text(ABI_FAMILY_CMDLINE, "", 0, sizeof(got)),
	       "a process that has ended has no words");
}

static void check_rest(void)
{
	tap_ok(read_line(ABI_FAMILY_COMM, "prog\n") == 5 &&
		       !memcmp(got, "prog\n", 6) &&
		       !strcmp(opened, "/proc/100/comm"),
	       "a name is the kernel's");
	tap_ok(read_text(ABI_FAMILY_COMM, "prog\n", 5, 5) == 4 &&
		       !memcmp(got, "prog", 5) && got[5] == '#',
	       "as far as there is room");
	tap_ok(read_line(99, "") == -EINVAL, "an unknown text");
	open_error = ENOENT;
	tap_ok(read_line(ABI_FAMILY_STAT, "") == -ESRCH &&
		       read_line(ABI_FAMILY_STATUS, "") == -ESRCH &&
		       read_line(ABI_FAMILY_CMDLINE, "") == -ESRCH &&
		       read_line(ABI_FAMILY_COMM, "") == -ESRCH,
	       "a process that is gone");
	open_error = EACCES;
	tap_ok(read_line(ABI_FAMILY_STAT, "") == -EACCES, "or hidden");
	open_error = 0;
}

static int is_named(const char *name, const char *want)
{
	char text[64] = "";

	lin_proc_name(name);
	if (pread(written, text, sizeof(text) - 1, 0) < 0)
		return 0;
	close(written);
	return !strcmp(opened, "/proc/self/comm") && !strcmp(text, want);
}

static void check_name(void)
{
	tap_ok(is_named("prog", "prog") && is_named("/a/b/prog", "prog") &&
		       is_named("/a/0123456789abcdef", "0123456789abcde"),
	       "the process is named by 15 letters behind the last slash");
}

int main(void)
{
	check_stat();
	check_status();
	check_words();
	check_rest();
	check_name();
	return tap_done();
}
