// SPDX-License-Identifier: MIT
/* Owns the process that waits to become a program: helper.h. `lock` guards it,
 * also while it is given an order. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/include/exec.h"
#include "helper.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static s32 newborn; /* its pid; 0: none */
static int sock = -1;

s64 sms_helper_birth(void)
{
	int end[2];
	s64 pid = -EAGAIN;

	pthread_mutex_lock(&lock);
	if (!newborn &&
	    !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end)) {
		pid = fork();
		if (!pid)
			sms_newborn(end[1]);
		close(end[1]);
		sock = pid > 0 ? sms_own_add(end[0]) : -1;
		if (pid < 0)
			close(end[0]);
		newborn = pid > 0 ? (s32)pid : 0;
		pid = pid > 0 ? pid : -EAGAIN;
	}
	pthread_mutex_unlock(&lock);
	return pid;
}

/* It executes a program now, or ends. */
static void leave_newborn(void)
{
	if (sock >= 0)
		sms_own_close(sock);
	sock = -1;
	newborn = 0;
}

static s64 send_all(const void *from, u64 len)
{
	s64 n;

	for (; len; from = (const u8 *)from + n, len -= (u64)n) {
		n = send(sock, from, len, MSG_NOSIGNAL);
		if (n <= 0)
			return -ESRCH;
	}
	return 0;
}

static s64 send_handle(s32 handle)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS,
			      .cmsg_len = CMSG_LEN(sizeof(int))}};
	struct iovec one = {"", 1};
	struct msghdr m = {.msg_iov = &one,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.head), &handle, sizeof(handle));
	return sendmsg(sock, &m, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

/* What the user should know about a descriptor that is passed on. */
static void say_number(const struct abi_exec_number *n)
{
	static u32 closed, waits;
	struct stat st;

	if (n->handle < 0 && !n->path &&
	    !__atomic_exchange_n(&closed, 1, __ATOMIC_RELAXED))
		sms_proxy_say("descriptor %u is closed in the program that is "
			      "started: it is none of Linux's",
			      n->fd);
	if (n->handle > 2 && !(n->flags & O_NONBLOCK) &&
	    !fstat(n->handle, &st) && S_ISSOCK(st.st_mode) &&
	    !__atomic_exchange_n(&waits, 1, __ATOMIC_RELAXED))
		sms_proxy_say("descriptor %u, a socket, is non-blocking in the "
			      "program that is started",
			      n->fd);
}

/* A number that is not open, or is the proxy's, refuses all. */
static s64 check_numbers(const struct abi_exec_view *v)
{
	struct abi_exec_number n;
	u32 i;

	for (i = 0; i < v->numbers; i++) {
		abi_exec_view_number(v, i, &n);
		if (n.handle >= 0 &&
		    (sms_own_is(n.handle) || fcntl(n.handle, F_GETFD) < 0))
			return -EBADF;
		say_number(&n);
	}
	return 0;
}

static s64 send_numbers(const struct abi_exec_view *v)
{
	struct abi_exec_number n;
	s64 err = 0;
	u32 i;

	for (i = 0; i < v->numbers && !err; i++) {
		abi_exec_view_number(v, i, &n);
		if (n.handle >= 0)
			err = send_handle(n.handle);
	}
	return err;
}

/* -errno, or 0: the socket has closed, because the program runs. */
static s64 read_answer(void)
{
	s32 err;

	if (sms_newborn_read(sock, &err, sizeof(err))) {
		leave_newborn();
		return 0;
	}
	return err;
}

/* After half of an order the process can take no other one; it ends with its
 * socket, and its parent sees how. */
static s64 give_record(const char *path, const void *record, u64 len)
{
	struct helper_order order = {.verb = HELPER_RUN, .record = (u32)len};
	struct abi_exec_view v;
	s64 err = abi_exec_read(record, len, &v);

	err = err ? err : check_numbers(&v);
	if (err)
		return err;
	memcpy(order.path, path, strnlen(path, sizeof(order.path) - 1));
	err = send_all(&order, sizeof(order));
	err = err ? err : send_all(record, len);
	err = err ? err : send_numbers(&v);
	if (!err)
		return read_answer();
	sms_own_close(sock);
	sock = -1;
	return err;
}

/* Reads a copy, which the image cannot change any more. */
static s64 run_record(s32 handle, const char *path)
{
	struct stat st;
	void *copy;
	s64 rc;

	if (sms_own_is(handle) || fstat(handle, &st) || !S_ISREG(st.st_mode))
		return -EBADF;
	if (st.st_size > HELPER_RECORD_MAX)
		return -E2BIG;
	copy = malloc((size_t)st.st_size);
	if (!copy)
		return -ENOMEM;
	if (pread(handle, copy, (size_t)st.st_size, 0) == st.st_size)
		rc = give_record(path, copy, (u64)st.st_size);
	else
		rc = -EINVAL;
	free(copy);
	return rc;
}

s64 sms_helper_run(s32 pid, s32 record, const char *path)
{
	s64 rc = -ESRCH;

	pthread_mutex_lock(&lock);
	if (newborn && pid == newborn && sock >= 0)
		rc = run_record(record, path);
	pthread_mutex_unlock(&lock);
	return rc;
}

static s64 give_order(s32 pid, u32 verb, s32 status, int last)
{
	struct helper_order order = {.verb = verb, .status = status};
	s32 answer = -ESRCH;
	s64 rc = -ESRCH;

	pthread_mutex_lock(&lock);
	if (newborn && pid == newborn) {
		rc = send_all(&order, sizeof(order));
		if (last)
			leave_newborn();
		else if (!rc && !sms_newborn_read(sock, &answer, 4))
			rc = answer;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

s64 sms_helper_session(s32 pid)
{
	return give_order(pid, HELPER_SESSION, 0, 0);
}

s64 sms_helper_end(s32 pid, s32 status)
{
	return give_order(pid, HELPER_END, status, 1);
}
