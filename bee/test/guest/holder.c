/* SPDX-License-Identifier: MIT */
/*
 * Locks between processes, which meet by files in the working directory.
 *
 *   holder ring ME OTHER       lock byte ME of `ring`, tell, wait for OTHER's
 *                              word, then wait for byte OTHER: one of two that
 *                              do so hears of the deadlock
 *   holder hold                lock all of `held`, tell, and die by a signal
 *                              when the word is given
 *   holder pass                lock all of `held`, tell, unlock it when the
 *                              word is given, and stay until it was taken
 *   holder look                say how `held` is, tell, and say it again when
 *                              the word is given
 *   holder try                 0: `held` can be locked; 1: not
 *   holder wait                wait until `held` can be locked, take it, tell
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int lock(int fd, int command, off_t start, off_t len)
{
	struct flock f = {.l_type = F_WRLCK, .l_start = start, .l_len = len};

	return fcntl(fd, command, &f);
}

static void tell(const char *name)
{
	close(open(name, O_WRONLY | O_CREAT, 0600));
}

static void await(const char *name)
{
	while (access(name, F_OK))
		usleep(1000);
}

static int ring(const char *me, const char *other)
{
	int fd = open("ring", O_RDWR | O_CREAT, 0600);

	if (lock(fd, F_SETLK, atoi(me), 1))
		return 2;
	tell(me);
	await(other);
	if (!lock(fd, F_SETLKW, atoi(other), 1))
		puts("had both");
	else
		puts(errno == EDEADLK ? "deadlock" : strerror(errno));
	return 0;
}

static int pass(int fd)
{
	struct flock f = {.l_type = F_UNLCK};

	tell("holding");
	await("die");
	if (fcntl(fd, F_SETLK, &f))
		return 2;
	await("taken");
	return 0;
}

static void say_held(void)
{
	struct stat st = {0};

	if (stat("held", &st))
		puts("gone");
	else
		printf("%ld bytes, mode %o, time %ld\n", (long)st.st_size,
		       st.st_mode & 0222, (long)st.st_mtime);
}

/* Whatever another program does to the file shows in the next stat. */
static int look(void)
{
	say_held();
	tell("holding");
	await("die");
	say_held();
	tell("seen");
	await("gone");
	say_held();
	return 0;
}

int main(int argc, char **argv)
{
	int fd;

	if (argc == 4)
		return ring(argv[2], argv[3]);
	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "look"))
		return look();
	fd = open("held", O_RDWR | O_CREAT, 0600);
	if (!strcmp(argv[1], "wait")) {
		if (lock(fd, F_SETLK, 0, 0)) {
			tell("waiting");
			if (lock(fd, F_SETLKW, 0, 0))
				return 1;
		}
		tell("taken");
		return 0;
	}
	if (lock(fd, F_SETLK, 0, 0))
		return 1;
	if (!strcmp(argv[1], "pass"))
		return pass(fd);
	if (!strcmp(argv[1], "hold")) {
		tell("holding");
		await("die");
		raise(SIGKILL);
	}
	return 0;
}
