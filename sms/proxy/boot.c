// SPDX-License-Identifier: MIT
/* The boot message: the program, its arguments, environment, streams and host
 * name. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "abi/include/lin.h"
#include "proxy.h"

#define EXIT_REFUSED 126
#define EXIT_NOT_FOUND 127

static int put_words(struct mail_boot *to, char **words, u32 *count)
{
	u64 len;

	for (; *words; words++, ++*count) {
		len = strlen(*words) + 1;
		if (len >= sizeof(to->text) - to->bytes)
			return -1;
		memcpy(to->text + to->bytes, *words, len);
		to->bytes += (u32)len;
	}
	return 0;
}

/*
 * Threads of libgomp spin unless the user has set a wait policy, because no
 * other program uses the cores.
 */
static int put_waiting(struct mail_boot *to)
{
	char *word[] = {"OMP_WAIT_POLICY=active", NULL};

	if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
		return 0;
	return put_words(to, word, &to->envc);
}

/*
 * A run-time that creates one thread for each core gets the number of cores,
 * unless the user has set a number.
 */
static int put_limits(struct mail_boot *to)
{
	char threads[32], procs[32];
	char *limit[] = {threads, NULL}, *go[] = {procs, NULL};

	snprintf(threads, sizeof(threads), "OMP_THREAD_LIMIT=%u",
		 sms_proxy.cores);
	snprintf(procs, sizeof(procs), "GOMAXPROCS=%u", sms_proxy.cores);
	if (!getenv("OMP_THREAD_LIMIT") && !getenv("OMP_NUM_THREADS") &&
	    put_words(to, limit, &to->envc))
		return -1;
	return getenv("GOMAXPROCS") ? 0 : put_words(to, go, &to->envc);
}

static void put_stream(struct mail_stream *all, int fd)
{
	struct mail_stream *s = &all[fd];
	int flags = fcntl(fd, F_GETFL), other;
	struct stat st;

	s->handle = -1;
	if (flags < 0 || fstat(fd, &st))
		return;
	s->handle = fd;
	s->type = st.st_mode & S_IFMT;
	s->flags = (u32)flags;
	if (!S_ISREG(st.st_mode))
		return;
	for (other = 0; other < fd && !s->same; other++)
		if (all[other].handle >= 0 && abi_lin_file_same(other, fd))
			s->same = (u32)other + 1;
}

static int is_program(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* Searches PATH like execvp(3). */
static int find_program(const char *name, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH"), *end;
	char one[PATH_MAX];

	if (!*name || strchr(name, '/') || !dirs)
		return realpath(name, path) ? 0 : -1;
	for (;; dirs = end + 1) {
		end = strchrnul(dirs, ':');
		if (snprintf(one, sizeof(one), "%.*s/%s", (int)(end - dirs),
			     end > dirs ? dirs : ".", name) < PATH_MAX &&
		    is_program(one))
			return realpath(one, path) ? 0 : -1;
		if (!*end)
			return -1;
	}
}

int sms_boot_write(struct mail_boot *to, char **argv, char **envp)
{
	char path[PATH_MAX];
	struct utsname un;
	int fd;

	if (find_program(argv[0], path)) {
		sms_proxy_say("no such program: %s", argv[0]);
		return EXIT_NOT_FOUND;
	}
	if (!is_program(path)) {
		sms_proxy_say("%s is not an executable file", path);
		return EXIT_REFUSED;
	}
	to->magic = MAIL_MAGIC;
	to->revision = MAIL_REVISION;
	to->pid = (u32)getpid();
	to->uid = getuid();
	to->gid = getgid();
	to->umask = sms_proxy.umask;
	for (fd = 0; fd < 3; fd++)
		put_stream(to->stream, fd);
	if (!getcwd(to->cwd, sizeof(to->cwd)) || uname(&un)) {
		sms_proxy_say("the working directory: %s", strerror(errno));
		return EXIT_REFUSED;
	}
	snprintf(to->path, sizeof(to->path), "%s", path);
	snprintf(to->node, sizeof(to->node), "%.64s", un.nodename);
	snprintf(to->machine, sizeof(to->machine), "sms on Linux %.40s",
		 un.release);
	if (put_words(to, argv, &to->argc) || put_words(to, envp, &to->envc) ||
	    put_waiting(to) || put_limits(to)) {
		sms_proxy_say("arguments and environment have more than %u "
			      "bytes",
			      (u32)sizeof(to->text));
		return EXIT_REFUSED;
	}
	return 0;
}
