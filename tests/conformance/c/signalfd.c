/* SPDX-License-Identifier: MIT */
/* signalfd(2): reads, waits, poll and epoll, siginfo of several senders. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "say.h"

static struct signalfd_siginfo info[4];

static int make_fd(int fd, int one, int two, int flags)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, one);
	sigaddset(&set, two);
	return signalfd(fd, &set, flags);
}

static int is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

static void check_reads(int fd)
{
	union sigval value = {.sival_int = 77};

	CHECK(!is_readable(fd) && FAILS(read(fd, info, sizeof(info)), EAGAIN));
	CHECK(raise(SIGUSR1) == 0 && is_readable(fd));
	CHECK(FAILS(read(fd, info, sizeof(info[0]) - 1), EINVAL));
	CHECK(read(fd, info, sizeof(info)) == sizeof(info[0]));
	CHECK(info->ssi_signo == SIGUSR1 && info->ssi_code == SI_TKILL);
	CHECK(info->ssi_pid == (uint32_t)getpid() &&
	      info->ssi_uid == (uint32_t)getuid());
	CHECK(!is_readable(fd) && kill(getpid(), SIGUSR1) == 0);
	CHECK(sigqueue(getpid(), SIGRTMIN, value) == 0);
	CHECK(sigqueue(getpid(), SIGRTMIN, value) == 0 && is_readable(fd));
	CHECK(read(fd, info, sizeof(info)) == 3 * sizeof(info[0]));
	CHECK(info[0].ssi_signo == SIGUSR1 && info[0].ssi_code == SI_USER);
	CHECK(info[1].ssi_signo == (uint32_t)SIGRTMIN &&
	      info[1].ssi_code == SI_QUEUE && info[1].ssi_int == 77);
	CHECK(info[2].ssi_signo == (uint32_t)SIGRTMIN && !is_readable(fd));
}

static void *send_late(void *arg)
{
	(void)arg;
	poll(NULL, 0, 30);
	kill(getpid(), SIGUSR1);
	return NULL;
}

/* What this thread waits for in read, poll and epoll_wait. */
static void check_waits(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct epoll_event e = {.events = EPOLLIN, .data.u32 = 5};
	pthread_t thread;
	int ep = epoll_create1(0);

	CHECK(fcntl(fd, F_SETFL, 0) == 0);
	CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0);
	pthread_create(&thread, NULL, send_late, NULL);
	CHECK(read(fd, info, sizeof(info)) == sizeof(info[0]));
	pthread_join(thread, NULL);
	CHECK(info->ssi_signo == SIGUSR1 && info->ssi_code == SI_USER);
	pthread_create(&thread, NULL, send_late, NULL);
	CHECK(poll(&p, 1, -1) == 1 && p.revents == POLLIN);
	pthread_join(thread, NULL);
	CHECK(read(fd, info, sizeof(info)) == sizeof(info[0]));
	CHECK(epoll_wait(ep, &e, 1, 0) == 0);
	pthread_create(&thread, NULL, send_late, NULL);
	CHECK(epoll_wait(ep, &e, 1, -1) == 1 && e.events == EPOLLIN &&
	      e.data.u32 == 5);
	pthread_join(thread, NULL);
	CHECK(read(fd, info, sizeof(info)) == sizeof(info[0]));
	CHECK(close(ep) == 0);
}

static void on_alarm(int signo)
{
	(void)signo;
}

/* A signal that the descriptor does not have ends a read; a timer's siginfo. */
static void check_others(int fd)
{
	struct sigaction act = {.sa_handler = on_alarm};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL,
				 .sigev_signo = SIGUSR2,
				 .sigev_value = {.sival_int = 9}};
	struct itimerspec soon = {.it_value = {0, 1000000}};
	timer_t timer;

	CHECK(sigaction(SIGALRM, &act, NULL) == 0 && alarm(1) == 0);
	CHECK(FAILS(read(fd, info, sizeof(info)), EINTR));
	CHECK(make_fd(fd, SIGUSR2, SIGUSR2, 0) == fd && raise(SIGUSR1) == 0);
	CHECK(!is_readable(fd));
	CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	CHECK(timer_settime(timer, 0, &soon, NULL) == 0);
	CHECK(read(fd, info, sizeof(info)) == sizeof(info[0]));
	CHECK(info->ssi_signo == SIGUSR2 && info->ssi_code == SI_TIMER &&
	      info->ssi_int == 9 && !info->ssi_overrun);
	CHECK(make_fd(fd, SIGUSR1, SIGUSR1, 0) == fd && is_readable(fd));
}

static void check_arguments(int fd)
{
	sigset_t all;

	sigfillset(&all);
	CHECK(FAILS(make_fd(0, SIGUSR1, SIGUSR2, 0), EINVAL));
	CHECK(FAILS(make_fd(99, SIGUSR1, SIGUSR2, 0), EBADF));
	CHECK(FAILS(make_fd(-1, SIGUSR1, SIGUSR2, 1), EINVAL));
	CHECK(FAILS(syscall(SYS_signalfd4, -1, &all, 4, 0), EINVAL));
	CHECK(FAILS(syscall(SYS_signalfd4, -1, NULL, 8, 0), EFAULT));
	CHECK(FAILS(write(fd, info, sizeof(info[0])), EINVAL));
	CHECK(FAILS(pread(fd, info, sizeof(info), 0), ESPIPE) ||
	      errno == EINVAL || errno == EAGAIN);
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC &&
	      fcntl(fd, F_GETFL) == (O_RDWR | O_NONBLOCK));
}

int main(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGRTMIN);
	CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (!CHECK(fd >= 0))
		return say_done();
	check_arguments(fd);
	check_reads(fd);
	check_waits(fd);
	check_others(fd);
	CHECK(close(fd) == 0);
	return say_done();
}
