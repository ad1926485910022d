/* SPDX-License-Identifier: MIT */
/* inotify(7): events of files and folders, waits, poll, and bad arguments. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include "say.h"

static char buf[4096] __attribute__((aligned(8)));
static char *at, *end;

/* The next event, read when the ones from before are used up. */
static struct inotify_event *next_event(int fd)
{
	struct inotify_event *e;
	ssize_t n;

	if (at == end) {
		n = read(fd, buf, sizeof(buf));
		at = buf;
		end = buf + (n > 0 ? n : 0);
		if (n <= 0)
			return NULL;
	}
	e = (struct inotify_event *)(void *)at;
	at += sizeof(*e) + e->len;
	return e;
}

static int is_event(int fd, int wd, uint32_t mask, const char *name)
{
	struct inotify_event *e = next_event(fd);

	return e && e->wd == wd && e->mask == mask &&
	       !strcmp(e->len ? e->name : "", name);
}

static void check_folder(int fd)
{
	int wd = inotify_add_watch(fd, "watched",
				   IN_CREATE | IN_DELETE | IN_MOVE | IN_CLOSE);
	int file, bytes = 0;
	struct inotify_event *out, *in;
	uint32_t cookie;

	CHECK(wd == 1 && FAILS(read(fd, buf, sizeof(buf)), EAGAIN));
	file = open("watched/a", O_CREAT | O_WRONLY, 0600);
	CHECK(file >= 0 && write(file, "x", 1) == 1 && close(file) == 0);
	CHECK(ioctl(fd, FIONREAD, &bytes) == 0 && bytes == 64);
	CHECK(FAILS(read(fd, buf, 8), EINVAL));
	CHECK(is_event(fd, wd, IN_CREATE, "a"));
	CHECK(is_event(fd, wd, IN_CLOSE_WRITE, "a"));
	CHECK(rename("watched/a", "watched/b") == 0);
	out = next_event(fd);
	CHECK(out && out->mask == IN_MOVED_FROM && out->cookie);
	cookie = out ? out->cookie : 0;
	in = next_event(fd);
	CHECK(in && in->mask == IN_MOVED_TO && in->cookie == cookie &&
	      !strcmp(in->name, "b"));
	CHECK(mkdir("watched/c", 0700) == 0 && rmdir("watched/c") == 0);
	CHECK(is_event(fd, wd, IN_CREATE | IN_ISDIR, "c"));
	CHECK(is_event(fd, wd, IN_DELETE | IN_ISDIR, "c"));
	CHECK(unlink("watched/b") == 0 && is_event(fd, wd, IN_DELETE, "b"));
	CHECK(inotify_rm_watch(fd, wd) == 0);
	CHECK(is_event(fd, wd, IN_IGNORED, ""));
	CHECK(FAILS(inotify_rm_watch(fd, wd), EINVAL));
}

static void *touch_late(void *arg)
{
	int file;

	(void)arg;
	poll(NULL, 0, 30);
	file = open("file", O_WRONLY | O_APPEND);
	if (write(file, "y", 1) != 1)
		say_bad = 1;
	close(file);
	return NULL;
}

/* A read that waits, poll and epoll. */
static void check_waits(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct epoll_event e = {.events = EPOLLIN, .data.u32 = 5};
	int file = open("file", O_CREAT | O_WRONLY, 0600), wd;
	int ep = epoll_create1(0);
	pthread_t thread;

	CHECK(file >= 0 && close(file) == 0);
	wd = inotify_add_watch(fd, "file", IN_MODIFY);
	CHECK(wd == 2 && inotify_add_watch(fd, "file", IN_MODIFY) == wd);
	CHECK(fcntl(fd, F_SETFL, 0) == 0 && poll(&p, 1, 0) == 0);
	pthread_create(&thread, NULL, touch_late, NULL);
	CHECK(is_event(fd, wd, IN_MODIFY, ""));
	pthread_join(thread, NULL);
	pthread_create(&thread, NULL, touch_late, NULL);
	CHECK(poll(&p, 1, -1) == 1 && p.revents == POLLIN);
	pthread_join(thread, NULL);
	CHECK(is_event(fd, wd, IN_MODIFY, ""));
	CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0);
	pthread_create(&thread, NULL, touch_late, NULL);
	CHECK(epoll_wait(ep, &e, 1, -1) == 1 && e.data.u32 == 5);
	pthread_join(thread, NULL);
	CHECK(is_event(fd, wd, IN_MODIFY, "") && epoll_wait(ep, &e, 1, 0) == 0);
	CHECK(close(ep) == 0 && unlink("file") == 0);
}

static void check_arguments(int fd)
{
	int file = open("plain", O_CREAT | O_RDWR, 0600);

	CHECK(FAILS(inotify_init1(1), EINVAL));
	CHECK(FAILS(inotify_add_watch(99, "plain", IN_MODIFY), EBADF));
	CHECK(FAILS(inotify_add_watch(file, "plain", IN_MODIFY), EINVAL));
	CHECK(FAILS(inotify_add_watch(fd, "none", IN_MODIFY), ENOENT));
	CHECK(FAILS(inotify_add_watch(fd, "plain", 0), EINVAL));
	CHECK(FAILS(inotify_add_watch(fd, "plain", IN_MODIFY | IN_ONLYDIR),
		    ENOTDIR));
	CHECK(FAILS(inotify_rm_watch(fd, 77), EINVAL));
	CHECK(FAILS(write(fd, "x", 1), EBADF));
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC &&
	      (fcntl(fd, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == O_NONBLOCK);
	CHECK(close(file) == 0 && unlink("plain") == 0);
}

int main(void)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	if (!CHECK(fd >= 0) || !CHECK(mkdir("watched", 0700) == 0))
		return say_done();
	check_folder(fd);
	check_waits(fd);
	CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	check_arguments(fd);
	CHECK(close(fd) == 0 && rmdir("watched") == 0);
	return say_done();
}
