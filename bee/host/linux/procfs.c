// SPDX-License-Identifier: MIT
/*
 * What a program reads in /proc about other processes of its family. The
 * kernel's texts are about bees: numbers of processes become the guest's, and
 * the command line is what follows bee's options. Owns nothing.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

#define LINE_MOST 0x4000 /* of a command line that is shown */
#define WORDS_MOST 512

s64 lin_proc_read(s32 pid, const char *name, char *buf, u64 len)
{
	char path[64];
	s64 n, done = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	while ((u64)done < len) {
		n = read(fd, buf + done, len - (u64)done);
		if (n < 0)
			done = -errno;
		if (n <= 0)
			break;
		done += n;
	}
	close(fd);
	if (done >= 0)
		buf[done] = 0;
	return done;
}

int lin_proc_runs(s32 tid)
{
	char buf[512], *name;
	s64 n = lin_proc_read(tid, "stat", buf, sizeof(buf) - 1);

	if (n <= 0)
		return n < 0 && n != -ESRCH;
	name = strrchr(buf, ')');
	return !name || !name[1] || !strchr("ZXx", name[2]);
}

/* A parent, group or session outside the family: 1, as of the first process;
 * 0 stays. */
static s32 guest_number(s32 pid)
{
	if (pid <= 0)
		return pid;
	return lin_family_has(pid) ? lin_family_guest(pid) : 1;
}

/* pid (comm) state ppid pgrp session tty tpgid ... */
static s64 write_stat(s32 pid, char *text, u64 len)
{
	char buf[2048], *name, *rest;
	s64 n = lin_proc_read(pid, "stat", buf, sizeof(buf) - 1);
	int parent, group, session, tty, tty_group, at = 0;
	char state;

	if (n < 0)
		return n;
	name = strchr(buf, '(');
	rest = strrchr(buf, ')');
	if (!name || !rest ||
	    sscanf(rest + 1, " %c %d %d %d %d %d%n", &state, &parent, &group,
		   &session, &tty, &tty_group, &at) != 6)
		return -EIO;
	*rest = 0;
	n = snprintf(text, len, "%d %s) %c %d %d %d %d %d%s",
		     lin_family_guest(pid), name, state, guest_number(parent),
		     guest_number(group), guest_number(session), tty,
		     guest_number(tty_group), rest + 1 + at);
	return (u64)n < len ? n : -EIO;
}

/* Lines whose number is that of a process. */
static int is_pid_line(const char *line)
{
	static const char *const keys[] = {"Tgid:", "Pid:", "PPid:"};
	u32 i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strncmp(line, keys[i], strlen(keys[i])))
			return 1;
	return 0;
}

static s64 write_status(s32 pid, char *text, u64 len)
{
	char buf[8192], *line, *next;
	s64 n = lin_proc_read(pid, "status", buf, sizeof(buf) - 1);
	u64 done = 0;

	for (line = buf; n >= 0 && *line && len - done > 512; line = next) {
		next = strchr(line, '\n');
		if (!next)
			break;
		*next++ = 0;
		if (!strncmp(line, "NS", 2) || !strncmp(line, "Sig", 3) ||
		    !strncmp(line, "Shd", 3) || !strncmp(line, "Threads:", 8))
			continue; /* bee's own */
		if (is_pid_line(line))
			done += (u64)snprintf(
				text + done, len - done, "%.*s\t%d\n",
				(int)strcspn(line, "\t"), line,
				guest_number(atoi(strchr(line, '\t') + 1)));
		else
			done += (u64)snprintf(text + done, len - done,
					      "%.500s\n", line);
	}
	return n < 0 ? n : (s64)done;
}

/* The words behind bee's options; all of one that is not bee yet. */
static s64 copy_words(char *words, s64 n, char *text, u64 len)
{
	char *argv[WORDS_MOST + 1], why[160];
	struct bee_options o;
	u64 done = 0, part;
	int argc = 0;
	s64 at;

	for (at = 0; at < n && argc < WORDS_MOST;
	     at += (s64)strlen(words + at) + 1)
		argv[argc++] = words + at;
	argv[argc] = NULL;
	if (!argc)
		return 0;
	if (bee_options_parse(&o, argc, argv, why))
		return -ESRCH;
	for (; *o.argv; o.argv++) {
		part = strlen(*o.argv) + 1;
		if (done + part > len)
			break;
		memcpy(text + done, *o.argv, part);
		done += part;
	}
	return (s64)done;
}

static s64 write_cmdline(s32 pid, char *text, u64 len)
{
	char words[LINE_MOST + 1];
	s64 n = lin_proc_read(pid, "cmdline", words, LINE_MOST);

	return n < 0 ? n : copy_words(words, n, text, len);
}

s64 lin_family_text(s32 pid, u32 which, char *text, u64 len)
{
	s64 n;

	switch (which) {
	case ABI_FAMILY_CMDLINE:
		return write_cmdline(pid, text, len);
	case ABI_FAMILY_COMM:
		n = lin_proc_read(pid, "comm", text, len - 1);
		return n;
	case ABI_FAMILY_STAT:
		return write_stat(pid, text, len);
	case ABI_FAMILY_STATUS:
		return write_status(pid, text, len);
	}
	return -EINVAL;
}

/* The kernel lists them in order. */
s32 lin_family_next(s32 pid)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	s32 next = 0, one;

	if (!dir)
		return -errno;
	while (!next && (e = readdir(dir))) {
		one = atoi(e->d_name);
		if (one > pid && lin_family_has(one))
			next = one;
	}
	closedir(dir);
	return next;
}

/* For the kernel and other processes, the process has the program's name. */
void lin_proc_name(const char *name)
{
	int fd = open("/proc/self/comm", O_WRONLY | O_CLOEXEC);
	const char *slash = strrchr(name, '/');

	if (slash)
		name = slash + 1;
	if (fd < 0)
		return;
	if (write(fd, name, strnlen(name, 15)) < 0)
		errno = 0; /* only a name in lists */
	close(fd);
}
