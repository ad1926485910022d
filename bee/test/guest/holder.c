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

static int lock_range(int fd, int command, off_t start, off_t len)
{
	struct flock f = {.l_type = F_WRLCK, .l_start = start, .l_len = len};

	return fcntl(fd, command, &f);
}

static void create_file(const char *name)
{
	close(open(name, O_WRONLY | O_CREAT, 0600));
}

static void await_file(const char *name)
{
	while (access(name, F_OK))
		usleep(1000);
}

static int wait_in_ring(const char *me, const char *other)
{
	int fd = open("ring", O_RDWR | O_CREAT, 0600);

	if (lock_range(fd, F_SETLK, atoi(me), 1))
		return 2;
	create_file(me);
	await_file(other);
	if (!lock_range(fd, F_SETLKW, atoi(other), 1))
		puts("had both");
	else
		puts(errno == EDEADLK ? "deadlock" : strerror(errno));
	return 0;
}

static int pass_file(int fd)
{
	struct flock f = {.l_type = F_UNLCK};

	create_file("holding");
	await_file("die");
	if (fcntl(fd, F_SETLK, &f))
		return 2;
	await_file("taken");
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
static int watch_stat(void)
{
	say_held();
	create_file("holding");
	await_file("die");
	say_held();
	create_file("seen");
	await_file("gone");
	say_held();
	return 0;
}

int main(int argc, char **argv)
{
	int fd;

	if (argc == 4)
		return wait_in_ring(argv[2], argv[3]);
	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "look"))
		return watch_stat();
	fd = open("held", O_RDWR | O_CREAT, 0600);
	if (!strcmp(argv[1], "wait")) {
		if (lock_range(fd, F_SETLK, 0, 0)) {
			create_file("waiting");
			if (lock_range(fd, F_SETLKW, 0, 0))
				return 1;
		}
		create_file("taken");
		return 0;
	}
	if (lock_range(fd, F_SETLK, 0, 0))
		return 1;
	if (!strcmp(argv[1], "pass"))
		return pass_file(fd);
	if (!strcmp(argv[1], "hold")) {
		create_file("holding");
		await_file("die");
		raise(SIGKILL);
	}
	return 0;
}
