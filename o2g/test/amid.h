/* SPDX-License-Identifier: MIT */
/*
 * What the library asks of the system, to do something amid of it. Its calls
 * come here first: include it in one file, with _GNU_SOURCE.
 */
#ifndef O2G_TEST_AMID_H
#define O2G_TEST_AMID_H

#include <skep/o2g_device.h>

#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int exits; /* a handler of signals may exit there */

static void exit_once(void)
{
	if (__atomic_exchange_n(&exits, 0, __ATOMIC_RELAXED))
		exit(3);
}

/* What another thread does just before this one sleeps, and what became of
 * that sleep. */
static __thread void (*amid)(void);
static __thread int slept, sleeps;
static int threads_slept; /* atomic: threads other than the first that did */

static void before_sleep(void)
{
	void (*call)(void) = amid;

	if (sleeps == 0 && syscall(SYS_gettid) != getpid())
		__atomic_add_fetch(&threads_slept, 1, __ATOMIC_RELAXED);
	amid = 0;
	if (call)
		call();
}

static int after_sleep(int result)
{
	slept = result;
	sleeps++;
	return result;
}

ssize_t recv(int fd, void *buffer, size_t length, int flags)
{
	exit_once();
	return recvfrom(fd, buffer, length, flags, 0, 0);
}

/* What happens just before the descriptor is made calm. */
static __thread void (*amid_calm)(void);

static void before_calm(void)
{
	void (*call)(void) = amid_calm;

	amid_calm = 0;
	if (call)
		call();
}

ssize_t read(int fd, void *buffer, size_t length)
{
	before_calm();
	return syscall(SYS_read, fd, buffer, length);
}

/* While set, the time that the user engine's thread waits is never over before
 * the program has polled again, but in a watched tick no call comes. So it
 * changes between helping the program and watching it without an end, as it may
 * for a minute on a busy machine. */
static int hurried;

/* The user engine sleeps here, */
int ppoll(struct pollfd *file, nfds_t count, const struct timespec *limit,
	  const sigset_t *mask)
{
	const int thread = __atomic_load_n(&hurried, __ATOMIC_RELAXED) &&
			   syscall(SYS_gettid) != getpid();
	struct timespec left = {0};

	if (thread && count == 1)
		return 0;
	if (thread) { /* only until it is nudged */
		count = 1;
		limit = 0;
	}

	before_sleep();
	if (limit)
		left = *limit;
	return after_sleep((int)syscall(SYS_ppoll, file, count,
					limit ? &left : 0, mask, 8));
}

/* and the kernel engine here. */
int ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	void *argument;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	exit_once();
	if (request == O2G_IOC_CALM)
		before_calm();
	if (request != O2G_IOC_SLEEP)
		return (int)syscall(SYS_ioctl, fd, request, argument);
	before_sleep();
	return after_sleep((int)syscall(SYS_ioctl, fd, request, argument));
}

#endif
