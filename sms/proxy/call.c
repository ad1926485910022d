// SPDX-License-Identifier: MIT
/*
 * The calls, one function each, in a table. A call is copied before it is
 * checked, because the program runs at the same time and may change it. The
 * program belongs to this user and may do here what the user may; but no call
 * may read or write outside of the mail and the pool.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "abi/include/lin.h"
#include "abi/include/siginfo.h"
#include "proxy.h"

#define SECOND 1000000000ull

/* A call, copied from its slot. */
struct call {
	struct mail_slot *slot;
	const struct mail_wakes *wakes;
	s32 handle;
	u64 arg[4];
	u32 parts;
	u64 bytes; /* total of iov */
	struct iovec iov[MAIL_PARTS];
};

static void *bulk_area(const struct call *c)
{
	return c->slot->data + MAIL_BULK;
}

static const char *path_of(const struct call *c, u32 where, char *to)
{
	memcpy(to, c->slot->data + where, MAIL_PATH_SIZE);
	to[MAIL_PATH_SIZE - 1] = 0;
	return to;
}

/* Reads the list of the parts of the pool that a call names, `len` bytes at
 * most; 0 or -EFAULT. */
static s64 take_parts(struct call *c, u64 len)
{
	struct mail_part p;
	u32 i;

	c->parts = *(volatile u32 *)&c->slot->parts;
	c->bytes = 0;
	if (c->parts > MAIL_PARTS)
		return -EFAULT;
	for (i = 0; i < c->parts; i++) {
		p = *(volatile struct mail_part *)&c->slot->part[i];
		if (p.offset > sms_proxy.pool_bytes ||
		    p.length > sms_proxy.pool_bytes - p.offset)
			return -EFAULT;
		if (p.length > len - c->bytes)
			p.length = len - c->bytes;
		c->iov[i].iov_base = sms_proxy.pool + p.offset;
		c->iov[i].iov_len = p.length;
		c->bytes += p.length;
	}
	if (c->parts)
		return 0;
	if (len > MAIL_BULK_SIZE)
		return -EFAULT;
	c->iov[0].iov_base = bulk_area(c);
	c->iov[0].iov_len = c->bytes = len;
	c->parts = 1;
	return 0;
}

static s64 file_open(struct call *c)
{
	char path[MAIL_PATH_SIZE];
	struct abi_open *given = (void *)c->slot->data, op = *given;
	s64 err;

	op.path = path_of(c, MAIL_PATH, path);
	err = abi_lin_file_open(&op);
	given->handle = op.handle;
	given->type = op.type;
	return err;
}

static s64 file_close(struct call *c)
{
	return abi_lin_file_close(c->handle);
}

/* Transfers one part after the other. After a short one there is no more data,
 * or none yet. */
static s64 transfer_parts(struct call *c,
			  s64 (*move)(s32 handle, const struct abi_io *io))
{
	struct abi_io io = {.offset = (s64)c->arg[1]};
	s64 done = 0, n = take_parts(c, c->arg[0]), end;
	u32 i;

	for (i = 0; i < c->parts && !n; i++) {
		io.buf = c->iov[i].iov_base;
		io.len = c->iov[i].iov_len;
		/* as pread(2); some devices would accept a larger offset */
		n = __builtin_add_overflow(io.offset, io.len, &end)
			    ? -EINVAL
			    : move(c->handle, &io);
		if (n < 0)
			break;
		done += n;
		io.offset += io.offset >= 0 ? n : 0;
		n = (u64)n < io.len;
	}
	return done || n > 0 ? done : n;
}

static s64 file_read(struct call *c)
{
	return transfer_parts(c, abi_lin_file_read);
}

/* Another process may write to the same file, so one write must remain one
 * write. */
static s64 write_all(struct call *c)
{
	s64 n = take_parts(c, c->arg[0]);

	return n ? n
		 : abi_lin_file_gather(c->handle, c->iov, c->parts,
				       (s64)c->arg[1]);
}

static s64 file_write(struct call *c)
{
	s64 offset = (s64)c->arg[1];

	if (offset == ABI_CURRENT || offset == ABI_APPEND)
		return write_all(c);
	return transfer_parts(c, abi_lin_file_write);
}

/* Objects are filled here and then copied, so that none of the proxy's memory
 * leaks. */
union object {
	struct abi_stat stat;
	struct abi_statfs statfs;
	char text[MAIL_PATH_SIZE];
};

static s64 call_file(struct call *c)
{
	struct abi_file_op op = *(struct abi_file_op *)c->slot->data;
	struct abi_dirent *entries = bulk_area(c);
	union object out = {.text = {0}};
	s64 n;

	if (op.verb == ABI_FILE_READDIR)
		return abi_lin_file_list(c->handle, entries, MAIL_ENTRIES,
					 entries->next);
	op.stat = &out.stat;
	op.statfs = &out.statfs;
	n = abi_lin_file(c->handle, &op);
	memcpy(bulk_area(c), &out, sizeof(out));
	return n;
}

static s64 call_name(struct call *c)
{
	struct abi_path_op op = *(struct abi_path_op *)c->slot->data;
	char path[MAIL_PATH_SIZE], path2[MAIL_PATH_SIZE];
	union object out = {.text = {0}};
	s64 n;

	op.path = path_of(c, MAIL_PATH, path);
	op.path2 = path_of(c, MAIL_PATH2, path2);
	op.stat = &out.stat;
	op.statfs = &out.statfs;
	if (op.verb == ABI_PATH_READLINK) {
		op.buf = out.text;
		op.len = op.len < sizeof(out) ? op.len : sizeof(out);
	}
	n = abi_lin_path(&op);
	memcpy(bulk_area(c), &out, sizeof(out));
	return n;
}

static s64 sock_open(struct call *c)
{
	return abi_lin_sock_open((u32)c->arg[0], (u32)c->arg[1],
				 (u32)c->arg[2]);
}

/* A datagram is one message, so its parts are sent or received together. */
static s64 sock_parts(struct call *c, struct abi_sock_op *op)
{
	struct msghdr m = {.msg_iov = c->iov, .msg_iovlen = c->parts};
	s64 n;

	m.msg_name = op->addr;
	m.msg_namelen = sizeof(op->addr);
	if (op->verb == ABI_SOCK_SEND) {
		m.msg_namelen = op->addrlen < sizeof(op->addr)
					? op->addrlen
					: sizeof(op->addr);
		n = sendmsg(c->handle, &m,
			    (int)op->flags | MSG_DONTWAIT | MSG_NOSIGNAL);
	} else {
		n = recvmsg(c->handle, &m,
			    (int)(op->flags & ~(u32)MSG_WAITALL) |
				    MSG_DONTWAIT);
		op->addrlen = m.msg_namelen;
	}
	return n < 0 ? -errno : n;
}

static s64 call_sock(struct call *c)
{
	struct abi_sock_op *given = (void *)c->slot->data, op = *given;
	s64 n = take_parts(c, op.len);

	if (n)
		return n;
	if (c->parts > 1 &&
	    (op.verb == ABI_SOCK_SEND || op.verb == ABI_SOCK_RECV)) {
		n = sock_parts(c, &op);
	} else {
		op.buf = c->iov[0].iov_base;
		op.len = c->iov[0].iov_len;
		n = abi_lin_sock(c->handle, &op);
	}
	op.buf = NULL;
	*given = op;
	return n;
}

static struct timespec *left_until(struct timespec *ts, u64 deadline_ns)
{
	u64 now;

	if (deadline_ns == ABI_FOREVER)
		return NULL;
	clock_gettime(CLOCK_MONOTONIC, ts);
	now = (u64)ts->tv_sec * SECOND + (u64)ts->tv_nsec;
	now = deadline_ns > now ? deadline_ns - now : 0;
	ts->tv_sec = (time_t)(now / SECOND);
	ts->tv_nsec = (long)(now % SECOND);
	return ts;
}

/* Reads an eventfd; whether it was set. */
static int take_event(int fd)
{
	u64 count;

	return read(fd, &count, sizeof(count)) == sizeof(count);
}

#define POLL_MAX (MAIL_BULK_SIZE / sizeof(struct abi_poll))

/* What poll(2) calls a number that is not open. */
#define NO_NUMBER 0x7fffffff

/* Returns whether the image waits for children. */
static int take_list(const struct abi_poll *list, u64 count, struct pollfd *fds)
{
	int child = 0;
	s32 handle;
	u64 i;

	for (i = 0; i < count; i++) {
		handle = *(volatile const s32 *)&list[i].handle;
		child |= handle == MAIL_CHILD;
		fds[i].fd = sms_own_is(handle) ? NO_NUMBER : handle;
		fds[i].events = (short)list[i].events;
	}
	return child;
}

/* Returns how many have an event; fds may be POLL_MAX and two. */
static s64 poll_list(struct call *c, struct pollfd *fds, u64 count, int child)
{
	struct timespec ts;
	int n;

	fds[count].fd = c->wakes->cancel;
	fds[count + 1].fd = child ? c->wakes->child : -1;
	fds[count].events = fds[count + 1].events = POLLIN;
	do
		n = ppoll(fds, count + 2, left_until(&ts, c->arg[1]), NULL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	n -= fds[count].revents && take_event(c->wakes->cancel);
	n -= fds[count + 1].revents != 0;
	return n;
}

static s64 io_wait(struct call *c)
{
	static _Thread_local struct pollfd fds[POLL_MAX + 2];
	struct abi_poll *list = bulk_area(c);
	u64 count = c->arg[0], i;
	int child, came;
	s64 n;

	if (count > POLL_MAX)
		return -EINVAL;
	child = take_list(list, count, fds);
	n = poll_list(c, fds, count, child);
	if (n < 0)
		return n;
	came = child && fds[count + 1].revents && take_event(c->wakes->child);
	for (i = 0; i < count; i++) {
		list[i].revents = (u16)fds[i].revents;
		if (came && fds[i].fd == MAIL_CHILD) {
			list[i].revents = POLLIN;
			n++;
		}
	}
	return n || !fds[count].revents ? n : -EINTR;
}

/* Pointers are this process's; the record of SPAWN is copied by helper.c. */
static s64 call_family(struct call *c)
{
	struct abi_family_op *given = (void *)c->slot->data, op = *given;
	char path[MAIL_PATH_SIZE];
	struct abi_siginfo info;
	s64 n;

	memcpy(&info, bulk_area(c), sizeof(info));
	op.path = path_of(c, MAIL_PATH, path);
	op.info = &info;
	op.text = NULL;
	op.unlocked = NULL;
	n = sms_family(&op);
	memcpy(bulk_area(c), &info, sizeof(info));
	op.path = NULL;
	op.info = NULL;
	*given = op;
	return n;
}

static s64 call_pipe(struct call *c)
{
	int end[2], type = (int)c->arg[0];

	if (type ? socketpair(AF_UNIX,
			      (type & 15) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
			      end)
		 : pipe2(end, O_NONBLOCK | O_CLOEXEC))
		return -errno;
	memcpy(bulk_area(c), end, sizeof(end));
	return 0;
}

static s64 call_say(struct call *c)
{
	char line[512];

	memcpy(line, bulk_area(c), sizeof(line));
	line[sizeof(line) - 1] = 0;
	sms_proxy_say("%s", line);
	return 0;
}

static s64 call_exit(struct call *c)
{
	sms_serve_end((u32)c->arg[0] & 0xffff);
	return 0;
}

static s64 call_panic(struct call *c)
{
	call_say(c);
	sms_serve_end(126 << 8);
	return 0;
}

static s64 (*const table[MAIL_OPS])(struct call *c) = {
	[MAIL_FILE_OPEN] = file_open, [MAIL_FILE_CLOSE] = file_close,
	[MAIL_FILE_READ] = file_read, [MAIL_FILE_WRITE] = file_write,
	[MAIL_FILE] = call_file,      [MAIL_NAME] = call_name,
	[MAIL_SOCK_OPEN] = sock_open, [MAIL_SOCK] = call_sock,
	[MAIL_IO_WAIT] = io_wait,     [MAIL_FAMILY] = call_family,
	[MAIL_PIPE] = call_pipe,      [MAIL_LOG] = call_say,
	[MAIL_EXIT] = call_exit,      [MAIL_PANIC] = call_panic,
};

void sms_serve_call(struct mail_slot *slot, const struct mail_wakes *wakes)
{
	u32 op = *(volatile u32 *)&slot->op;
	struct call c;

	c.slot = slot;
	c.wakes = wakes;
	c.handle = *(volatile s32 *)&slot->handle;
	memcpy(c.arg, slot->arg, sizeof(c.arg));
	if (sms_own_is(c.handle))
		slot->result = -EBADF;
	else
		slot->result =
			op < MAIL_OPS && table[op] ? table[op](&c) : -ENOSYS;
}
