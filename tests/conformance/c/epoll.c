/* SPDX-License-Identifier: MIT */
/* epoll: level and edge triggered, one-shot, data, changes, wake by thread. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "say.h"

static int ep;

static int wait_one(int timeout)
{
	struct epoll_event event = {0};
	int n = epoll_wait(ep, &event, 1, timeout);

	return n == 1 ? (int)event.data.u32 * 1000 + (int)event.events : n;
}

static int control_fd(int op, int fd, unsigned events, unsigned data)
{
	struct epoll_event event = {.events = events, .data.u64 = data};

	return epoll_ctl(ep, op, fd, &event);
}

static void check_level(int *fds)
{
	char buf[8];

	CHECK(control_fd(EPOLL_CTL_ADD, fds[0], EPOLLIN, 5) == 0);
	CHECK(FAILS(control_fd(EPOLL_CTL_ADD, fds[0], EPOLLIN, 5), EEXIST));
	CHECK(wait_one(0) == 0);
	CHECK(write(fds[1], "ab", 2) == 2);
	CHECK(wait_one(1000) == 5001 && wait_one(1000) == 5001);
	CHECK(read(fds[0], buf, 8) == 2 && wait_one(0) == 0);
	CHECK(control_fd(EPOLL_CTL_MOD, fds[0], 0, 6) == 0);
	CHECK(write(fds[1], "ab", 2) == 2 && wait_one(0) == 0);
	CHECK(control_fd(EPOLL_CTL_MOD, fds[0], EPOLLIN, 7) == 0);
	CHECK(wait_one(1000) == 7001);
	CHECK(control_fd(EPOLL_CTL_DEL, fds[0], 0, 0) == 0 && wait_one(0) == 0);
	CHECK(FAILS(control_fd(EPOLL_CTL_DEL, fds[0], 0, 0), ENOENT));
	CHECK(read(fds[0], buf, 8) == 2);
}

static void check_edge(int *fds)
{
	char buf[8];

	CHECK(control_fd(EPOLL_CTL_ADD, fds[0], EPOLLIN | EPOLLET, 1) == 0);
	CHECK(write(fds[1], "a", 1) == 1);
	CHECK(wait_one(1000) == 1001 && wait_one(20) == 0);
	CHECK(write(fds[1], "b", 1) == 1 && wait_one(1000) == 1001);
	CHECK(read(fds[0], buf, 8) == 2 && wait_one(20) == 0);
	CHECK(control_fd(EPOLL_CTL_MOD, fds[0], EPOLLIN | EPOLLONESHOT, 2) ==
	      0);
	CHECK(write(fds[1], "c", 1) == 1);
	CHECK(wait_one(1000) == 2001 && wait_one(20) == 0);
	CHECK(control_fd(EPOLL_CTL_MOD, fds[0], EPOLLIN | EPOLLONESHOT, 3) ==
	      0);
	CHECK(wait_one(1000) == 3001);
	CHECK(read(fds[0], buf, 8) == 1);
	CHECK(control_fd(EPOLL_CTL_DEL, fds[0], 0, 0) == 0);
}

static void *write_late(void *arg)
{
	uint64_t one = 1;

	usleep(40000);
	if (write((intptr_t)arg, &one, 8) != 8)
		return arg;
	return NULL;
}

static void check_wake(void)
{
	struct epoll_event events[4];
	int event = eventfd(0, EFD_NONBLOCK), fds[2];
	pthread_t thread;
	uint64_t value;

	CHECK(control_fd(EPOLL_CTL_ADD, event, EPOLLIN, 9) == 0);
	pthread_create(&thread, NULL, write_late, (void *)(intptr_t)event);
	CHECK(wait_one(-1) == 9001);
	pthread_join(thread, NULL);
	CHECK(read(event, &value, 8) == 8 && value == 1);
	CHECK(pipe(fds) == 0);
	CHECK(control_fd(EPOLL_CTL_ADD, fds[0], EPOLLIN, 10) == 0);
	CHECK(control_fd(EPOLL_CTL_ADD, fds[1], EPOLLOUT, 11) == 0);
	value = 3;
	CHECK(write(event, &value, 8) == 8 && write(fds[1], "x", 1) == 1);
	CHECK(epoll_wait(ep, events, 4, 1000) == 3);
	close(fds[1]);
	close(event);
	CHECK(epoll_pwait(ep, events, 4, 1000, NULL) == 1);
	CHECK(events[0].data.u64 == 10);
	CHECK(events[0].events == (EPOLLIN | EPOLLHUP));
	close(fds[0]);
	CHECK(epoll_wait(ep, events, 4, 0) == 0);
}

int main(void)
{
	int fds[2];

	ep = epoll_create1(EPOLL_CLOEXEC);
	CHECK(ep >= 0 && pipe(fds) == 0);
	check_level(fds);
	check_edge(fds);
	check_wake();
	CHECK(FAILS(control_fd(EPOLL_CTL_ADD, ep, EPOLLIN, 0), EINVAL));
	CHECK(FAILS(control_fd(EPOLL_CTL_ADD, 999, EPOLLIN, 0), EBADF));
	CHECK(FAILS(epoll_wait(ep, NULL, 0, 0), EINVAL));
	CHECK(FAILS(syscall(SYS_epoll_create, 0), EINVAL));
	return say_done();
}
