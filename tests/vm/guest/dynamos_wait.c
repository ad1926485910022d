// SPDX-License-Identifier: MIT
/*
 * Puts a pointer of the kernel's into a wait queue and has it used later.
 *
 *   dynamos_wait FOLDER   makes FOLDER, watches a pipe by epoll, makes
 *                         FOLDER/ready, waits until FOLDER/go is there, writes
 *                         to the pipe, and makes FOLDER/woken when epoll says
 * so
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_MS 120000 /* ms */

static void exit_failed(const char *what)
{
	perror(what);
	exit(1);
}

static void in_folder(const char *name)
{
	int fd = open(name, O_CREAT | O_WRONLY, 0600);

	if (fd < 0)
		exit_failed(name);
	close(fd);
}

static void wait_for(const char *name)
{
	struct timespec t = {.tv_nsec = 1000 * 1000};
	int i;

	for (i = 0; i < TIMEOUT_MS && access(name, F_OK); i++)
		nanosleep(&t, NULL);
	if (access(name, F_OK))
		exit_failed(name);
}

int main(int argc, char **argv)
{
	struct epoll_event event = {.events = EPOLLIN};
	int ends[2], set = epoll_create1(0);

	if (argc != 2 || (mkdir(argv[1], 0700) && errno != EEXIST) ||
	    chdir(argv[1]))
		exit_failed("a folder is expected");
	if (set < 0 || pipe(ends) ||
	    epoll_ctl(set, EPOLL_CTL_ADD, ends[0], &event))
		exit_failed("epoll");
	in_folder("ready");
	wait_for("go");
	if (write(ends[1], "x", 1) != 1 ||
	    epoll_wait(set, &event, 1, TIMEOUT_MS) != 1)
		exit_failed("no event");
	in_folder("woken");
	return 0;
}
