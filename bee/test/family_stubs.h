/* SPDX-License-Identifier: MIT */
/*
 * What the processes of a run on Linux use of the rest of bee, for their test:
 * calls are counted, and some can fail. Included once.
 */
#ifndef BEE_TEST_FAMILY_STUBS_H
#define BEE_TEST_FAMILY_STUBS_H

#define _GNU_SOURCE /* struct ucred */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bee/host/linux/host.h"

pid_t __wrap_tcgetpgrp(int fd);
int __wrap_tcsetpgrp(int fd, pid_t group);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

static u32 messages, begun, waited, forked_child, waits, settles;
static s64 helper_error;
static s32 awaited;
static pid_t terminal_group = 9;

static int locks; /* how often the only mutex is locked */
static s32 fork_error;

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
	locks += lock != NULL;
	return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
	locks -= lock != NULL;
	return 0;
}

s32 lin_thread_fork(void)
{
	if (locks != 1)
		return -EDEADLK;
	return fork_error ? fork_error : fork();
}

/* Two descriptors are made at once: the other end is below, and closed. */
void lin_vfork_begin(int end, u64 stack, u32 len)
{
	begun += (fcntl(end, F_GETFD) >= 0 && fcntl(end - 1, F_GETFD) < 0) +
		 (u32)stack + len;
}

void lin_vfork_wait(int end, u64 stack, u32 len)
{
	char byte;

	/* 0: no process has the child's end open any more */
	waited += (read(end, &byte, 1) == 0) + (u32)stack + len;
	close(end);
}

s64 lin_helper_start(void)
{
	return helper_error;
}

static int busy; /* a watcher has a lock */

int lin_robust_busy(void)
{
	return busy;
}

void lin_proc_child(void)
{
	forked_child++;
}

s64 lin_wait_call(u64 nr, const u64 arg[6])
{
	s64 n = syscall((long)nr, arg[0], arg[1], arg[2], arg[3], arg[4]);

	waits++;
	return n < 0 ? -errno : n;
}

void lin_signals_settle(void)
{
	settles++;
}

static int holds;

void lin_signals_hold(int on)
{
	holds = holds * 2 + 1 + on;
}

void lin_robust_await(s32 pid)
{
	awaited = pid;
}

/* Gives this process or process 1 as the peer. */
s64 abi_lin_sock(s32 handle, struct abi_sock_op *op)
{
	((struct ucred *)op->buf)->pid = handle ? getpid() : 1;
	return handle < 0 ? -ENOTSOCK : 0;
}

s64 lin_exec_file(void)
{
	return 77;
}

s64 lin_exec(const struct abi_family_op *op)
{
	return -op->handle;
}

static int message_end = -1;

void bee_os_message(const char *line)
{
	messages += write(message_end, line, 1) == 1 || *line;
}

pid_t __wrap_tcgetpgrp(int fd)
{
	errno = ENOTTY;
	return fd == 1 ? terminal_group : -1;
}

int __wrap_tcsetpgrp(int fd, pid_t group)
{
	terminal_group = group;
	errno = EIO;
	return fd == 1 ? 0 : -1;
}

#endif
