/* SPDX-License-Identifier: MIT */
/*
 * Sockets. All are non-blocking here; abi implements blocking for the guest.
 * Addresses of AF_UNIX are names and go through --root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "abi/include/lin.h"

static s64 errno_result(s64 n)
{
	return n < 0 ? -errno : n;
}

s64 abi_lin_sock_open(u32 domain, u32 type, u32 protocol)
{
	return errno_result(socket(
		(int)domain, (int)(type & 0xf) | SOCK_NONBLOCK | SOCK_CLOEXEC,
		(int)protocol));
}

/*
 * The host's name of op->path. If it is too long for an address, it is relative
 * to an open folder, *folder, which the caller closes; else *folder is -1.
 */
static s64 name_in(const struct abi_sock_op *op, struct sockaddr_un *un,
		   int *folder)
{
	char path[PATH_MAX], *leaf;
	s64 err = abi_lin_path_host(op->path, path, sizeof(path),
				    op->verb != ABI_SOCK_BIND);

	if (err)
		return err;
	if (strlen(path) < sizeof(un->sun_path)) {
		memcpy(un->sun_path, path, strlen(path));
		return 0;
	}
	leaf = strrchr(path, '/');
	*leaf++ = 0;
	*folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (*folder < 0)
		return -errno;
	return (u64)snprintf(un->sun_path, sizeof(un->sun_path),
			     "/proc/self/fd/%d/%s", *folder,
			     leaf) < sizeof(un->sun_path)
		       ? 0
		       : -ENAMETOOLONG;
}

/* 0, or an errno; abstract names and other families are not changed. */
static s64 addr_in(const struct abi_sock_op *op, struct sockaddr_storage *to,
		   socklen_t *len, int *folder)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	s64 err;

	*folder = -1;
	if (op->addrlen > sizeof(op->addr))
		return -EINVAL;
	memset(to, 0, sizeof(*to));
	memcpy(to, op->addr, op->addrlen);
	*len = op->addrlen;
	if (!op->path)
		return 0;
	err = name_in(op, &un, folder);
	memcpy(to, &un, sizeof(un));
	*len = sizeof(un);
	return err;
}

/* Removes the root from a name below it. */
static void name_out(struct abi_sock_op *op, socklen_t *len)
{
	const u64 head = sizeof(sa_family_t);
	const char *root = abi_lin_root_text();
	u64 n = strlen(root);

	if (!n || *len <= head + n || memcmp(op->addr + head, root, n) ||
	    op->addr[head + n] != '/')
		return;
	memmove(op->addr + head, op->addr + head + n, *len - head - n);
	*len -= (socklen_t)n;
}

static void addr_out(struct abi_sock_op *op,
		     const struct sockaddr_storage *from, socklen_t len)
{
	if (len > sizeof(op->addr))
		len = sizeof(op->addr);
	memcpy(op->addr, from, len);
	if (from->ss_family == AF_UNIX)
		name_out(op, &len);
	op->addrlen = len;
}

static s64 to_address(s32 handle, struct abi_sock_op *op)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int folder;
	s64 n = addr_in(op, &addr, &len, &folder);
	const struct sockaddr *sa = (const struct sockaddr *)&addr;

	if (n)
		;
	else if (op->verb == ABI_SOCK_BIND)
		n = errno_result(bind(handle, sa, len));
	else if (op->verb == ABI_SOCK_CONNECT)
		n = errno_result(connect(handle, sa, len));
	else
		n = errno_result(abi_lin_send(handle, op,
					      op->addrlen ? sa : NULL,
					      op->addrlen ? len : 0));
	if (folder >= 0)
		close(folder);
	return n;
}

static s64 from_address(s32 handle, struct abi_sock_op *op)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	struct sockaddr *sa = (struct sockaddr *)&addr;
	s64 n;

	memset(&addr, 0, sizeof(addr));
	switch (op->verb) {
	case ABI_SOCK_ACCEPT:
		n = accept4(handle, sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (n >= 0)
			op->handle = (s32)n;
		break;
	case ABI_SOCK_RECV:
		n = abi_lin_receive(handle, op, sa, &len);
		break;
	case ABI_SOCK_NAME:
		n = getsockname(handle, sa, &len);
		break;
	default:
		n = getpeername(handle, sa, &len);
		break;
	}
	if (n < 0)
		return -errno;
	addr_out(op, &addr, len);
	return op->verb == ABI_SOCK_ACCEPT ? 0 : n;
}

static s64 get_option(s32 handle, struct abi_sock_op *op)
{
	socklen_t len = (socklen_t)op->len;

	if (getsockopt(handle, op->level, op->name, op->buf, &len))
		return -errno;
	op->len = len;
	return 0;
}

s64 abi_lin_sock(s32 handle, struct abi_sock_op *op)
{
	switch (op->verb) {
	case ABI_SOCK_BIND:
	case ABI_SOCK_CONNECT:
	case ABI_SOCK_SEND:
		return to_address(handle, op);
	case ABI_SOCK_ACCEPT:
	case ABI_SOCK_RECV:
	case ABI_SOCK_NAME:
	case ABI_SOCK_PEER:
		return from_address(handle, op);
	case ABI_SOCK_LISTEN:
		return errno_result(listen(handle, op->value));
	case ABI_SOCK_SETOPT:
		return errno_result(setsockopt(handle, op->level, op->name,
					       op->buf, (socklen_t)op->len));
	case ABI_SOCK_GETOPT:
		return get_option(handle, op);
	case ABI_SOCK_SHUTDOWN:
		return errno_result(shutdown(handle, op->value));
	}
	return -ENOSYS;
}
