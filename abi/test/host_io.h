/* SPDX-License-Identifier: MIT */
/*
 * Input and output for the host of tests: sockets of Linux, directories, and
 * an io_wait that a kick ends, also when the kick came first.
 */
#ifndef ABI_TEST_HOST_IO_H
#define ABI_TEST_HOST_IO_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/test/guest.h"

static int io_kick_fd[16]; /* one for each thread */
static u32 io_waits;	   /* calls of io_wait; atomic */
static u32 io_asleep;	   /* threads inside one that may block; atomic */
static s64 (*io_file_before)(s32 handle, struct abi_file_op *op);

static s64 io_answer(long rc)
{
	return rc < 0 ? -errno : rc;
}

static void io_kick(u32 thread)
{
	u64 one = 1;

	if (write(io_kick_fd[thread], &one, 8) != 8)
		abort();
}

static int io_left(u64 deadline)
{
	u64 now = guest_now(ABI_CLOCK_MONOTONIC);

	if (deadline == ABI_FOREVER)
		return -1;
	return deadline <= now ? 0 : (int)((deadline - now + 999999) / 1000000);
}

static s64 io_wait(struct abi_poll *list, u32 count, u64 deadline, u32 thread)
{
	struct pollfd *fds = calloc(count + 1, sizeof(*fds));
	int n, left = io_left(deadline);
	s64 ready = 0;
	u64 kicks;
	u32 i;

	for (i = 0; i < count; i++)
		fds[i] = (struct pollfd){list[i].handle, (short)list[i].events,
					 0};
	fds[count] = (struct pollfd){io_kick_fd[thread], POLLIN, 0};
	__atomic_add_fetch(&io_waits, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&io_asleep, left != 0, __ATOMIC_SEQ_CST);
	n = poll(fds, count + 1, left);
	__atomic_sub_fetch(&io_asleep, left != 0, __ATOMIC_SEQ_CST);
	for (i = 0; i < count; i++) {
		list[i].revents = (u16)fds[i].revents;
		ready += !!fds[i].revents;
	}
	if (n > 0 && fds[count].revents) {
		if (read(io_kick_fd[thread], &kicks, 8) != 8)
			abort();
		ready = -EINTR;
	}
	free(fds);
	return ready;
}

static s64 io_sock_open(u32 domain, u32 type, u32 protocol)
{
	return io_answer(
		socket((int)domain, (int)type | SOCK_NONBLOCK, (int)protocol));
}

static s64 io_accept(s32 h, struct abi_sock_op *op)
{
	op->handle = accept4(h, (void *)op->addr, &op->addrlen, SOCK_NONBLOCK);
	return op->handle < 0 ? -errno : 0;
}

static s64 io_sock(s32 h, struct abi_sock_op *op)
{
	struct sockaddr *addr = (void *)op->addr;
	socklen_t len = (socklen_t)op->len;
	s64 rc;

	switch (op->verb) {
	case ABI_SOCK_BIND:
		return io_answer(bind(h, addr, op->addrlen));
	case ABI_SOCK_CONNECT:
		return io_answer(connect(h, addr, op->addrlen));
	case ABI_SOCK_LISTEN:
		return io_answer(listen(h, op->value));
	case ABI_SOCK_ACCEPT:
		return io_accept(h, op);
	case ABI_SOCK_SEND:
		return io_answer(sendto(h, op->buf, op->len, (int)op->flags,
					op->addrlen ? addr : NULL,
					op->addrlen));
	case ABI_SOCK_RECV:
		return io_answer(recvfrom(h, op->buf, op->len, (int)op->flags,
					  addr, &op->addrlen));
	case ABI_SOCK_NAME:
		return io_answer(getsockname(h, addr, &op->addrlen));
	case ABI_SOCK_PEER:
		return io_answer(getpeername(h, addr, &op->addrlen));
	case ABI_SOCK_SETOPT:
		return io_answer(
			setsockopt(h, op->level, op->name, op->buf, len));
	case ABI_SOCK_GETOPT:
		rc = getsockopt(h, op->level, op->name, op->buf, &len);
		op->len = len;
		return io_answer(rc);
	case ABI_SOCK_SHUTDOWN:
		return io_answer(shutdown(h, op->value));
	}
	return -EINVAL;
}

static s64 io_readdir(s32 h, struct abi_dirent *e)
{
	struct {
		u64 ino;
		s64 off;
		u16 len;
		u8 type;
		char name[512];
	} d;

	if (lseek(h, (off_t)e->next, SEEK_SET) < 0)
		return -errno;
	/* Room for one entry of the longest name at most twice. */
	long n = syscall(SYS_getdents64, h, &d, 300);
	if (n <= 0)
		return io_answer(n);
	e->ino = d.ino;
	e->next = (u64)d.off;
	e->type = d.type;
	snprintf(e->name, sizeof(e->name), "%.255s", d.name);
	return 1;
}

static s64 io_file(s32 h, struct abi_file_op *op)
{
	struct timespec t[2];
	int n, i;

	switch (op->verb) {
	case ABI_FILE_READDIR:
		return io_readdir(h, op->dirent);
	case ABI_FILE_AVAILABLE:
		return ioctl(h, FIONREAD, &n) ? -errno : n;
	case ABI_FILE_UTIMENS:
		for (i = 0; i < 2; i++) {
			t[i].tv_sec = op->times[i] / 1000000000;
			t[i].tv_nsec = op->times[i] == ABI_TIME_OMIT
					       ? UTIME_OMIT
					       : op->times[i] % 1000000000;
		}
		return io_answer(futimens(h, t));
	default:
		return io_file_before(h, op);
	}
}

/* After guest_new, before the first call that waits. */
__attribute__((unused)) static void io_install(void)
{
	u32 i;

	for (i = 0; i < 16; i++)
		if (!io_kick_fd[i])
			io_kick_fd[i] = eventfd(0, EFD_CLOEXEC);
	if (fake.host.file != io_file)
		io_file_before = fake.host.file;
	fake.host.thread_kick = io_kick;
	fake.host.io_wait = io_wait;
	fake.host.sock_open = io_sock_open;
	fake.host.sock = io_sock;
	fake.host.file = io_file;
}

/* A call made by another thread; `result` is there after io_join. */
struct io_task {
	pthread_t id;
	u32 t, nr;
	u64 a[6];
	s64 result;
	struct abi_regs regs; /* as they are after the call */
	u32 done;	      /* atomic */
};

static void *io_task_main(void *arg)
{
	struct io_task *task = arg;

	task->regs = guest_regs();
	task->result = guest_call_at(task->t, &task->regs, task->nr, task->a);
	__atomic_store_n(&task->done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

__attribute__((unused)) static void io_start(struct io_task *task)
{
	task->done = 0;
	pthread_create(&task->id, NULL, io_task_main, task);
}

__attribute__((unused)) static s64 io_join(struct io_task *task)
{
	pthread_join(task->id, NULL);
	return task->result;
}

/* Does thread `t` sleep, parked or in io_wait? */
__attribute__((unused)) static int io_sleeps(u32 t)
{
	return __atomic_load_n(&io_asleep, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(&p->threads.thread[t].park, __ATOMIC_SEQ_CST) ==
		       ABI_PARK_ASLEEP;
}

#define GUEST(offset) ((void *)(page + (offset)))

/* A string in guest memory; `slot` keeps several apart. */
__attribute__((unused)) static u64 io_str(u32 slot, const char *s)
{
	u64 at = page + 0x1000 + slot * 0x100;

	snprintf((char *)at, 0x100, "%s", s);
	return at;
}

#endif
