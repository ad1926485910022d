/* SPDX-License-Identifier: MIT */
/* An eventfd in several processes: one counter, which all of them read, write
 * and wait for, also when it was made and waited for before the first fork. */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

extern char **environ;
static const char *self;

static int exit_code(pid_t pid)
{
	int status = -1;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int adds_value(int fd, uint64_t value)
{
	return write(fd, &value, sizeof(value)) == sizeof(value);
}

/* What a read returns; 0: it fails. */
static uint64_t takes_value(int fd)
{
	uint64_t value = 0;

	return read(fd, &value, sizeof(value)) == sizeof(value) ? value : 0;
}

static int events_of(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};

	return poll(&p, 1, ms) < 0 ? -1 : p.revents;
}

static void *run_reader(void *arg)
{
	return (void *)(uintptr_t)takes_value(*(int *)arg);
}

/* A thread waits when the process forks for the first time. */
static void test_moved(void)
{
	int fd = eventfd(0, EFD_CLOEXEC), kept = eventfd(3, EFD_NONBLOCK);
	pthread_t reader;
	void *got = NULL;
	pid_t pid;

	CHECK(adds_value(kept, 4));
	CHECK(!pthread_create(&reader, NULL, run_reader, &fd));
	usleep(20000); /* it waits now */
	pid = fork();
	if (!pid)
		_exit(takes_value(kept) != 7 || !adds_value(kept, 9) ||
		      !adds_value(fd, 5));
	CHECK(!pthread_join(reader, &got) && (uintptr_t)got == 5);
	CHECK(exit_code(pid) == 0 && takes_value(kept) == 9);
	CHECK(!takes_value(kept) && errno == EAGAIN);
	CHECK(events_of(kept, 0) == POLLOUT && !close(kept) && !close(fd));
}

/* Both directions many times, and what closing leaves. */
static void test_talk(void)
{
	int ask = eventfd(0, 0), answer = eventfd(0, 0), last = eventfd(0, 0);
	uint64_t sum = 0;
	pid_t pid = fork();
	int i;

	if (!pid) {
		for (i = 0; i < 200; i++)
			if (!adds_value(answer, takes_value(ask)))
				_exit(1);
		close(ask);
		_exit(takes_value(last) != 77);
	}
	for (i = 1; i <= 200; i++) {
		if (!adds_value(ask, (uint64_t)i))
			break;
		sum += takes_value(answer);
	}
	CHECK(sum == 200 * 201 / 2);
	CHECK(adds_value(ask, 1) && !close(ask) && adds_value(last, 77));
	CHECK(exit_code(pid) == 0 && !close(answer) && !close(last));
}

/* Each child gets one of a semaphore's counts. */
static void test_semaphore(void)
{
	int fd = eventfd(0, EFD_SEMAPHORE), i, good = 0;
	pid_t pid[4];

	for (i = 0; i < 4; i++) {
		pid[i] = fork();
		if (!pid[i])
			_exit(takes_value(fd) != 1);
	}
	CHECK(adds_value(fd, 3) && adds_value(fd, 1));
	for (i = 0; i < 4; i++)
		good += exit_code(pid[i]) == 0;
	CHECK(good == 4 && events_of(fd, 0) == POLLOUT && !close(fd));
}

/* A full counter, and a waiter that is killed. */
static void test_full(void)
{
	int fd = eventfd(0, 0);
	pid_t pid, other = fork();

	if (!other)
		_exit(takes_value(fd) != 0);
	usleep(20000);
	CHECK(!kill(other, SIGKILL) && exit_code(other) == -SIGKILL);
	CHECK(adds_value(fd, ~0ull - 1) && events_of(fd, 0) == POLLIN);
	pid = fork();
	if (!pid)
		_exit(!adds_value(fd, 2));
	usleep(20000);
	CHECK(takes_value(fd) == ~0ull - 1);
	CHECK(exit_code(pid) == 0 && takes_value(fd) == 2 && !close(fd));
}

static void on_alarm(int signo)
{
	(void)signo;
}

/* A write of more than there is room for ends with a signal. */
static void test_interrupted(void)
{
	struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0}, {0}};
	struct sigaction act = {.sa_handler = on_alarm};
	int fd = eventfd(0, 0);

	CHECK(adds_value(fd, ~0ull - 3) &&
	      events_of(fd, 0) == (POLLIN | POLLOUT));
	CHECK(!sigaction(SIGALRM, &act, NULL));
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	CHECK(!adds_value(fd, 9) && errno == EINTR);
	CHECK(!setitimer(ITIMER_REAL, &never, NULL));
	CHECK(takes_value(fd) == ~0ull - 3 && !close(fd));
}

/* A process that waits for room is woken when another one makes it, each time.
 * That one goes on, so no signal of its end wakes the first. */
static void test_room(void)
{
	int fd = eventfd(0, 0), go[2], i;
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	char byte;
	pid_t pid;

	for (i = 0; i < 2; i++) {
		CHECK(adds_value(fd, ~0ull - 1) && poll(&p, 1, 0) == 0);
		CHECK(!pipe(go));
		pid = fork();
		if (!pid) {
			close(go[1]);
			usleep(50000);
			_exit(takes_value(fd) != ~0ull - 1 ||
			      read(go[0], &byte, 1));
		}
		CHECK(!close(go[0]));
		CHECK(poll(&p, 1, 30000) == 1 && p.revents == POLLOUT);
		CHECK(!close(go[1]) && exit_code(pid) == 0);
	}
	CHECK(!close(fd));
}

/* epoll wakes for what another process writes; and EPOLLET for each write. */
static void test_epoll(void)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLET}, got = {0};
	int fd = eventfd(0, EFD_NONBLOCK), set = epoll_create1(0);
	pid_t pid;

	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
	pid = fork();
	if (!pid) {
		usleep(50000);
		_exit(!adds_value(fd, 8));
	}
	CHECK(epoll_wait(set, &got, 1, 30000) == 1 && got.events == EPOLLIN);
	CHECK(exit_code(pid) == 0);
	CHECK(epoll_wait(set, &got, 1, 0) == 0 && adds_value(fd, 1));
	CHECK(epoll_wait(set, &got, 1, 30000) == 1 && takes_value(fd) == 9);
	CHECK(!close(set) && !close(fd));
}

static void test_program(void)
{
	int fd = eventfd(0, 0);
	char number[8], *argv[] = {(char *)self, number, NULL};
	pid_t pid;

	snprintf(number, sizeof(number), "%d", fd);
	CHECK(!posix_spawn(&pid, self, NULL, NULL, argv, environ));
	CHECK(takes_value(fd) == 41 && exit_code(pid) == 0 && !close(fd));
}

int main(int argc, char **argv)
{
	static char path[4096];

	if (argc > 1)
		return !adds_value(atoi(argv[1]), 41);
	alarm(120);
	self = realpath(argv[0], path);
	test_program();
	test_moved();
	test_talk();
	test_semaphore();
	test_full();
	test_interrupted();
	test_room();
	test_epoll();
	return say_done();
}
