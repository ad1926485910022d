// SPDX-License-Identifier: MIT
/*
 * Owns the names of AF_UNIX sockets of the host. A name of the program is
 * relative to its working directory and its root, so the host uses another one;
 * the name that was given to bind and connect is stored, and returned
 * unchanged. d->lock guards it.
 */
#include "unix.h"
#include "sock.h"
#include "abi/fs/desc.h"
#include "abi/fs/open.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/poll/wait.h"
#include "abi/proc/call.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

#define FAMILY_SIZE 2 /* sun_family */
#define NAME_SIZE 108 /* sun_path */
#define RETRY_NS 1000000u

_Static_assert(sizeof(((struct abi_unix_name *)0)->addr) ==
		       FAMILY_SIZE + NAME_SIZE,
	       "a whole sockaddr_un is kept");

/* Sets `path` and op->path; returns 0 also if the address is not the name of a
 * file. */
static s64 take_name(struct abi_call *c, struct abi_sock_op *op, char *path)
{
	char name[NAME_SIZE + 1];
	u32 flags, len = op->addrlen - FAMILY_SIZE;
	s64 error;

	if (op->addrlen <= FAMILY_SIZE ||
	    op->addrlen > FAMILY_SIZE + NAME_SIZE ||
	    (op->addr[0] | op->addr[1] << 8) != ABI_AF_UNIX ||
	    !op->addr[FAMILY_SIZE])
		return 0;
	abi_memcpy(name, op->addr + FAMILY_SIZE, len);
	name[len] = 0;
	error = abi_path_name(c, (u64)ABI_AT_FDCWD, name, path, &flags);
	op->path = path;
	return error < 0 ? error : 0;
}

static void keep_name(struct abi_proc *p, struct abi_desc *d,
		      struct abi_unix_name *to, const struct abi_sock_op *op)
{
	if (!op->path)
		return;
	abi_lock(p, &d->lock);
	abi_memcpy(to->addr, op->addr, op->addrlen);
	/* Linux ends a name at its first NUL, and counts that. */
	to->len = FAMILY_SIZE;
	while (to->len < op->addrlen && to->addr[to->len])
		to->len++;
	to->len += to->len < sizeof(to->addr);
	if (to->len > op->addrlen)
		to->addr[to->len - 1] = 0;
	abi_unlock(p, &d->lock);
}

/* 0: there is no name. */
static int give_name(struct abi_proc *p, struct abi_desc *d,
		     const struct abi_unix_name *from, struct abi_sock_op *op)
{
	abi_lock(p, &d->lock);
	op->addrlen = from->len;
	abi_memcpy(op->addr, from->addr, from->len);
	abi_unlock(p, &d->lock);
	return op->addrlen != 0;
}

/* Sets the mode of a name's file to the socket's, as umask(2) leaves it. */
static s64 bind_name(struct abi_call *c, struct abi_desc *d,
		     struct abi_sock_op *op)
{
	u32 mode = d->unnamed.has_mode ? d->unnamed.mode : 0777;
	struct abi_file_op chmod = {.verb = ABI_FILE_CHMOD,
				    .mode = mode & ~*abi_umask(c->p)};
	s64 error = c->p->host->file(d->handle, &chmod);

	if (!error)
		error = c->p->host->sock(d->handle, op);
	if (!error)
		keep_name(c->p, d, &d->own, op);
	return error;
}

s64 abi_unix_call(struct abi_call *c, struct abi_desc *d,
		  struct abi_sock_op *op)
{
	char path[ABI_PATH_MAX];
	s64 error = 0;

	op->path = 0;
	if (op->verb == ABI_SOCK_NAME && give_name(c->p, d, &d->own, op))
		return 0;
	if (op->verb == ABI_SOCK_PEER && give_name(c->p, d, &d->peer_name, op))
		return 0;
	if (op->verb == ABI_SOCK_BIND || op->verb == ABI_SOCK_CONNECT ||
	    op->verb == ABI_SOCK_SEND)
		error = take_name(c, op, path);
	if (error)
		return error;
	if (op->verb == ABI_SOCK_BIND)
		return bind_name(c, d, op);
	error = c->p->host->sock(d->handle, op);
	if (!error && op->verb == ABI_SOCK_CONNECT)
		keep_name(c->p, d, &d->peer_name, op);
	op->path = 0;
	return error;
}

s64 abi_unix_retry(struct abi_call *c, u64 deadline)
{
	u64 next = abi_wait_deadline(c->p, RETRY_NS);
	s64 slept;

	abi_wait_begin(c, 1);
	slept = abi_wait_sleep(c, 0, 0, next < deadline ? next : deadline);
	if (slept == -LINUX_ETIMEDOUT && next < deadline)
		return 0;
	return slept;
}
