/* SPDX-License-Identifier: MIT */
/* Messages with open files: SCM_RIGHTS of unix(7), cmsg(3). No state. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "abi/include/lin.h"

/* Room for credentials too: with SO_PASSCRED the kernel adds them first. */
union control {
	struct cmsghdr align;
	char room[CMSG_SPACE(ABI_RIGHTS_MAX * sizeof(int)) +
		  CMSG_SPACE(sizeof(struct ucred))];
};

s64 abi_lin_send(s32 handle, const struct abi_sock_op *op,
		 const struct sockaddr *sa, u32 len)
{
	struct iovec buf = {op->buf, op->len};
	struct msghdr m = {.msg_name = (void *)(__UINTPTR_TYPE__)sa,
			   .msg_namelen = len,
			   .msg_iov = &buf,
			   .msg_iovlen = 1};
	u32 i, count = op->rights ? op->rights->count : 0;
	union control control;
	struct cmsghdr *c;
	int fd;

	if (count) {
		memset(&control, 0, sizeof(control));
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(count * sizeof(fd));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(count * sizeof(fd));
		for (i = 0; i < count; i++) {
			fd = op->rights->list[i].handle;
			memcpy(CMSG_DATA(c) + i * sizeof(fd), &fd, sizeof(fd));
		}
	}
	return sendmsg(handle, &m,
		       (int)op->flags | MSG_DONTWAIT | MSG_NOSIGNAL);
}

static u32 option_of(int fd, int name)
{
	u32 value = 0;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &len) ? 0 : value;
}

void abi_lin_describe(s32 fd, struct abi_right *r)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	memset(r, 0, sizeof(*r));
	r->handle = fd;
	r->flags = (u32)flags & (O_ACCMODE | O_APPEND | O_PATH);
	r->type = fstat(fd, &st) ? S_IFCHR : st.st_mode & S_IFMT;
	if (S_ISSOCK(r->type)) {
		r->domain = option_of(fd, SO_DOMAIN);
		r->sock_type = option_of(fd, SO_TYPE);
		r->protocol = option_of(fd, SO_PROTOCOL);
		r->listening = option_of(fd, SO_ACCEPTCONN);
	}
}

/*
 * A native program may have sent a blocking file. Files of the guest must not
 * block, so O_NONBLOCK is set, also for that program; abi implements blocking
 * for the guest.
 */
static void describe_file(int fd, struct abi_right *r)
{
	int flags = fcntl(fd, F_GETFL);

	abi_lin_describe(fd, r);
	if (!S_ISREG(r->type) && !S_ISDIR(r->type) && !(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* Returns whether the guest gets everything that was received. */
static int take_control(struct msghdr *m, struct abi_rights *to)
{
	struct cmsghdr *c;
	int fd, whole = 1;
	u64 i, count;

	to->count = 0;
	for (c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
			whole = 0;
			continue;
		}
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(fd);
		for (i = 0; i < count; i++) {
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (to->count < to->room) {
				describe_file(fd, &to->list[to->count++]);
			} else {
				close(fd);
				whole = 0;
			}
		}
	}
	return whole;
}

/* Uses recvmsg even without room, because it reports that ancillary data was
 * dropped. */
s64 abi_lin_receive(s32 handle, struct abi_sock_op *op, struct sockaddr *sa,
		    u32 *len)
{
	struct iovec buf = {op->buf, op->len};
	struct msghdr m = {.msg_name = sa,
			   .msg_namelen = *len,
			   .msg_iov = &buf,
			   .msg_iovlen = 1};
	union control control;
	s64 n;

	if (op->rights) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		op->rights->count = 0;
	}
	n = recvmsg(handle, &m,
		    (int)(op->flags & ~(u32)MSG_WAITALL) | MSG_DONTWAIT |
			    MSG_CMSG_CLOEXEC);
	*len = m.msg_namelen;
	op->value = n >= 0 && m.msg_flags & MSG_CTRUNC;
	if (n >= 0 && op->rights && !take_control(&m, op->rights))
		op->value = 1;
	return n;
}
