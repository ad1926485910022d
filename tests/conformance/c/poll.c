/* SPDX-License-Identifier: MIT */
/* poll, ppoll, select and pselect over pipes and sockets. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>
#include "say.h"

static void *write_late(void *arg)
{
	usleep(50000);
	if (write((intptr_t)arg, "z", 1) != 1)
		return arg;
	return NULL;
}

static void check_poll(int *fds)
{
	struct pollfd p[3] = {
		{fds[0], POLLIN, 0}, {fds[1], POLLOUT, 0}, {-1, POLLIN, 77}};
	long long start = say_now_ns();
	char byte;

	CHECK(poll(p, 1, 0) == 0 && p[0].revents == 0);
	CHECK(poll(p, 1, 40) == 0 && say_now_ns() - start >= 40000000);
	CHECK(poll(p, 3, -1) == 1 && p[1].revents == POLLOUT);
	CHECK(p[2].revents == 0);
	CHECK(write(fds[1], "x", 1) == 1);
	CHECK(poll(p, 2, -1) == 2 && p[0].revents == POLLIN);
	CHECK(read(fds[0], &byte, 1) == 1);
	p[2].fd = 999;
	CHECK(poll(p, 3, 0) == 2 && p[2].revents == POLLNVAL);
	CHECK(poll(NULL, 0, 10) == 0);
}

static void check_late(int *fds)
{
	struct pollfd p = {fds[0], POLLIN, 0};
	struct timespec limit = {5, 0};
	pthread_t thread;
	char byte;

	pthread_create(&thread, NULL, write_late, (void *)(intptr_t)fds[1]);
	CHECK(ppoll(&p, 1, &limit, NULL) == 1 && p.revents == POLLIN);
	pthread_join(thread, NULL);
	CHECK(read(fds[0], &byte, 1) == 1 && byte == 'z');
}

static void check_select(int *fds)
{
	struct timeval limit = {0, 30000}, zero = {0, 0};
	fd_set in, out;
	int top = (fds[0] > fds[1] ? fds[0] : fds[1]) + 1;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(fds[0], &in);
	CHECK(select(top, &in, NULL, NULL, &limit) == 0);
	CHECK(!FD_ISSET(fds[0], &in));
	FD_SET(fds[0], &in);
	FD_SET(fds[1], &out);
	CHECK(select(top, &in, &out, NULL, &zero) == 1);
	CHECK(!FD_ISSET(fds[0], &in) && FD_ISSET(fds[1], &out));
	CHECK(write(fds[1], "x", 1) == 1);
	FD_SET(fds[0], &in);
	CHECK(pselect(top, &in, &out, NULL, NULL, NULL) == 2);
	FD_ZERO(&in);
	FD_SET(40, &in);
	CHECK(FAILS(select(41, &in, NULL, NULL, &zero), EBADF));
}

static void check_hangup(void)
{
	struct pollfd p = {0, POLLIN, 0};
	int fds[2], pair[2];
	char byte;

	CHECK(pipe(fds) == 0);
	p.fd = fds[0];
	close(fds[1]);
	CHECK(poll(&p, 1, 1000) == 1 && p.revents == POLLHUP);
	close(fds[0]);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	p.fd = pair[0];
	CHECK(poll(&p, 1, 0) == 0);
	CHECK(write(pair[1], "q", 1) == 1);
	CHECK(poll(&p, 1, 1000) == 1 && p.revents == POLLIN);
	CHECK(read(pair[0], &byte, 1) == 1);
	close(pair[1]);
	CHECK(poll(&p, 1, 1000) == 1 && (p.revents & POLLIN));
	CHECK(read(pair[0], &byte, 1) == 0);
	close(pair[0]);
}

int main(void)
{
	int fds[2];

	CHECK(pipe(fds) == 0);
	check_poll(fds);
	check_late(fds);
	check_select(fds);
	check_hangup();
	return say_done();
}
