/* SPDX-License-Identifier: MIT */
/*
 * Modes, times and owners of what has no name: those of pipes and sockets are
 * kept, those of other descriptors are kept or refused.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "say.h"

static int mode_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? -1 : (int)(st.st_mode & 07777);
}

static long long changed_at(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? -1 : (long long)st.st_mtime;
}

static void check_kept(int fd, int mode)
{
	struct timespec times[2] = {{5, 0}, {6, 0}}, omit[2] = {{9, 0}, {9, 0}};

	CHECK(mode_of(fd) == mode);
	CHECK(fchmod(fd, 0640) == 0 && mode_of(fd) == 0640);
	CHECK(futimens(fd, times) == 0 && changed_at(fd) == 6);
	omit[1].tv_nsec = UTIME_OMIT;
	CHECK(futimens(fd, omit) == 0 && changed_at(fd) == 6);
	CHECK(fchown(fd, -1, -1) == 0);
}

/* Linux refuses since 6.16; before, an owner's change is seen. */
static void check_refused(int fd)
{
	struct timespec times[2] = {{5, 0}, {6, 0}};

	CHECK(fd >= 0);
	CHECK(fchmod(fd, 0640) ? errno == EOPNOTSUPP || errno == EPERM
			       : mode_of(fd) == 0640);
	CHECK(futimens(fd, times) ? errno == EOPNOTSUPP || errno == EPERM
				  : changed_at(fd) == 6);
	close(fd);
}

int main(void)
{
	int fds[2], fd;

	CHECK(pipe(fds) == 0);
	check_kept(fds[0], 0600);
	CHECK(mode_of(fds[1]) == 0640 && changed_at(fds[1]) == 6);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	check_kept(fds[0], 0777);
	CHECK(mode_of(fds[1]) == 0777);
	check_kept(socket(AF_INET, SOCK_DGRAM, 0), 0777);
	check_kept(socket(AF_UNIX, SOCK_DGRAM, 0), 0777);
	check_refused(eventfd(0, 0));
	check_refused(epoll_create1(0));
	check_refused(timerfd_create(CLOCK_MONOTONIC, 0));
	fd = open("/proc/self/maps", O_RDONLY);
	CHECK(FAILS(fchmod(fd, 0600), EPERM));
	return say_done();
}
