// SPDX-License-Identifier: MIT
/*
 * Owns AF_UNIX sockets of hosts without them. They cannot get a peer: run-times
 * create one to ask a daemon (nscd, syslogd) and go on if it does not run,
 * which is what they are told, as on Linux. Calls that would need a peer are
 * refused with a message.
 */
#include "unix.h"
#include "pair.h"
#include "sock.h"
#include "abi/fs/desc.h"
#include "abi/fs/names.h"
#include "abi/fs/open.h"
#include "abi/fs/ops.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/proc/log.h"
#include "abi/state/proc.h"
#include "abi/uapi/linux.h"

#define FAMILY_SIZE 2 /* sun_family */
#define NAME_SIZE 108 /* sun_path */

s64 abi_unix_refuse(struct abi_proc *p)
{
	abi_log_once(p, &p->fds.said_unix,
		     "a call on a socket of AF_UNIX refused (EAFNOSUPPORT): "
		     "these sockets get no name and no peer; use TCP on "
		     "127.0.0.1, or socketpair");
	return -LINUX_EAFNOSUPPORT;
}

/* What is at sun_path, which need not end with a NUL. */
static s64 stat_name(struct abi_call *c, const struct abi_sock_op *op,
		     struct abi_stat *st)
{
	char name[NAME_SIZE + 1], path[ABI_PATH_MAX];
	u32 flags, len = op->addrlen - FAMILY_SIZE;
	s64 error;

	abi_memcpy(name, op->addr + FAMILY_SIZE, len);
	name[len] = 0;
	error = abi_path_name(c, (u64)ABI_AT_FDCWD, name, path, &flags);
	return error < 0 ? error
			 : abi_name_run(c, (struct abi_path_op){
						   .verb = ABI_PATH_STAT,
						   .path = path,
						   .stat = st});
}

/* connect(2): the errors that Linux would return too. */
static s64 find_peer(struct abi_call *c, const struct abi_sock_op *op)
{
	struct abi_stat st;
	s64 error;

	if (op->addrlen <= FAMILY_SIZE ||
	    op->addrlen > FAMILY_SIZE + NAME_SIZE ||
	    (op->addr[0] | op->addr[1] << 8) != ABI_AF_UNIX)
		return -LINUX_EINVAL;
	if (!op->addr[FAMILY_SIZE]) /* an abstract name */
		return abi_unix_refuse(c->p);
	error = stat_name(c, op, &st);
	if (error)
		return error;
	return (st.mode & ABI_S_IFMT) == ABI_S_IFSOCK ? abi_unix_refuse(c->p)
						      : -LINUX_ECONNREFUSED;
}

static s64 unix_call(struct abi_call *c, struct abi_desc *d,
		     struct abi_sock_op *op)
{
	switch (op->verb) {
	case ABI_SOCK_CONNECT:
		return find_peer(c, op);
	case ABI_SOCK_BIND:
	case ABI_SOCK_LISTEN:
		return abi_unix_refuse(c->p);
	case ABI_SOCK_NAME:
		op->addr[0] = ABI_AF_UNIX;
		op->addr[1] = 0;
		op->addrlen = FAMILY_SIZE;
		return 0;
	case ABI_SOCK_PEER:
	case ABI_SOCK_SHUTDOWN:
		return -LINUX_ENOTCONN;
	case ABI_SOCK_SETOPT:
	case ABI_SOCK_GETOPT:
		return abi_pair_option(c->p, d, op);
	default:
		return d->sock_type == ABI_SOCK_STREAM ? -LINUX_EINVAL
						       : -LINUX_ENOTSUP;
	}
}

static s64 unix_send(struct abi_call *c, struct abi_sock_transfer *t)
{
	if (t->d->sock_type == ABI_SOCK_DGRAM && t->op.addrlen)
		return find_peer(c, &t->op);
	return t->op.addrlen ? -LINUX_ENOTSUP : -LINUX_ENOTCONN;
}

static s64 unix_receive(struct abi_call *c, struct abi_sock_transfer *t)
{
	/* on Linux a datagram could arrive once there is a name */
	return t->d->sock_type == ABI_SOCK_DGRAM ? abi_unix_refuse(c->p)
						 : -LINUX_EINVAL;
}

static s64 unix_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		     s64 offset)
{
	struct abi_sock_transfer t = {.d = d};

	(void)offset;
	return s->left ? unix_receive(c, &t) : 0;
}

static s64 unix_write(struct abi_call *c, struct abi_desc *d,
		      struct abi_span *s, s64 offset)
{
	(void)c;
	(void)d;
	(void)s;
	(void)offset;
	return -LINUX_ENOTCONN;
}

static u32 unix_ready(struct abi_proc *p, struct abi_desc *d, u64 *due)
{
	u32 ready = ABI_POLLOUT | ABI_POLLWRNORM;

	(void)p;
	(void)due;
	return d->sock_type == ABI_SOCK_STREAM ? ready | ABI_POLLHUP : ready;
}

const struct abi_desc_ops abi_unix_ops = {
	.fs_type = ABI_FS_SOCK,
	.read = unix_read,
	.write = unix_write,
	.ready = unix_ready,
	.sock = unix_call,
	.send = unix_send,
	.receive = unix_receive,
};

struct abi_desc *abi_unix_new(struct abi_call *c, u32 flags, u32 type)
{
	struct abi_desc *d =
		abi_desc_new(c->p, ABI_DESC_UNIX, ABI_O_RDWR | flags);

	if (!d)
		return 0;
	d->type = ABI_S_IFSOCK;
	d->domain = ABI_AF_UNIX;
	d->sock_type = type;
	abi_strcpy(d->path, "socket:[unix]", 32);
	return d;
}
