// SPDX-License-Identifier: MIT
/*
 * Owns sockets: their creation and names, and blocking calls built from the
 * host's non-blocking ones. Sockets are the host's; if it has none of AF_UNIX,
 * socketpair(2) is two rings (pair.c). The calls that transfer data are in
 * sock_msg.c.
 */
#include "sock.h"
#include "pair.h"
#include "unix.h"
#include "abi/fs/desc.h"
#include "abi/fs/fd.h"
#include "abi/fs/ops.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/poll/wait.h"
#include "abi/proc/call.h"
#include "abi/proc/log.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/time/time.h"
#include "abi/uapi/linux.h"

struct abi_desc *abi_sock_get(struct abi_call *c, u64 fd, s64 *error)
{
	struct abi_desc *d = abi_desc_get(c->p, fd);

	*error = d ? 0 : -LINUX_EBADF;
	if (d && !abi_desc_ops(d)->sock) {
		*error = -LINUX_ENOTSOCK;
		abi_desc_put(c->p, d);
		d = 0;
	}
	return d;
}

static s64 call_socket(struct abi_call *c, struct abi_desc *d,
		       struct abi_sock_op *op)
{
	return abi_desc_ops(d)->sock(c, d, op);
}

/* Copies an address from the guest to `op`. */
s64 abi_sock_addr_get(struct abi_call *c, struct abi_sock_op *op, u64 gaddr,
		      u64 len)
{
	op->addrlen = (u32)len;
	if ((s32)len < 0 || (u32)len > sizeof(op->addr))
		return -LINUX_EINVAL;
	return abi_user_get(c->p, op->addr, gaddr, (u32)len);
}

/* Copies an address to the guest, cut to its buffer; writes the true length to
 * *lenp. */
s64 abi_sock_addr_put(struct abi_call *c, const struct abi_sock_op *op,
		      u64 gaddr, u64 lenp)
{
	u32 room, len = op->addrlen;

	if (!gaddr)
		return 0;
	if (len > sizeof(op->addr))
		len = sizeof(op->addr);
	if (ABI_GET(c->p, &room, lenp))
		return -LINUX_EFAULT;
	if ((s32)room < 0)
		return -LINUX_EINVAL;
	if (abi_user_put(c->p, gaddr, op->addr, room < len ? room : len))
		return -LINUX_EFAULT;
	return ABI_PUT(c->p, lenp, &len);
}

/* Making ----------------------------------------------------------------- */

#define TYPE_FLAGS (ABI_O_NONBLOCK | ABI_O_CLOEXEC)

static struct abi_desc *sock_desc(struct abi_call *c, s32 handle, u32 flags,
				  u32 domain, u32 type, u32 protocol)
{
	struct abi_desc *d = abi_desc_new(
		c->p, ABI_DESC_SOCK, ABI_O_RDWR | (flags & ABI_O_NONBLOCK));

	if (!d) {
		c->p->host->file_close(handle);
		return 0;
	}
	d->handle = handle;
	d->type = ABI_S_IFSOCK;
	d->domain = domain;
	d->sock_type = type;
	d->protocol = protocol;
	abi_strcpy(d->path, "socket:[host]", 32);
	return d;
}

static s64 refuse_family(struct abi_call *c, u32 domain)
{
	u64 bit = 1ull << (domain < 63 ? domain : 63);
	char line[120];
	struct abi_text t;

	/* Logged once for each family, because some programs try repeatedly. */
	if (__atomic_fetch_or(&c->p->fds.said_family, bit, __ATOMIC_RELAXED) &
	    bit)
		return -LINUX_EAFNOSUPPORT;
	abi_text_init(&t, line, sizeof(line));
	abi_text_str(&t, "socket of address family ");
	abi_text_dec(&t, domain);
	abi_text_str(
		&t,
		" refused: only AF_INET, AF_INET6 and AF_UNIX are supported; "
		"use TCP on 127.0.0.1");
	c->p->host->log(line);
	return -LINUX_EAFNOSUPPORT;
}

static s64 refuse_type(struct abi_call *c)
{
	abi_log_once(c->p, &c->p->fds.said_type,
		     "socket refused (ESOCKTNOSUPPORT): socket supports "
		     "SOCK_STREAM and SOCK_DGRAM, socketpair SOCK_STREAM; on "
		     "Linux AF_UNIX has SOCK_SEQPACKET too");
	return -LINUX_ESOCKTNOSUPPORT;
}

static s64 open_unix(struct abi_call *c, u32 type, u32 flags, u32 protocol)
{
	struct abi_desc *d;

	if (protocol && protocol != ABI_AF_UNIX)
		return -LINUX_EPROTONOSUPPORT;
	if (type != ABI_SOCK_STREAM && type != ABI_SOCK_DGRAM)
		return type < 11 ? refuse_type(c) : -LINUX_EINVAL;
	d = abi_unix_new(c, flags & ABI_O_NONBLOCK, type);
	return d ? abi_desc_install(c->p, d, 0, flags & ABI_O_CLOEXEC)
		 : -LINUX_ENFILE;
}

static int is_known_type(u32 domain, u32 type)
{
	return type == ABI_SOCK_STREAM || type == ABI_SOCK_DGRAM ||
	       (domain == ABI_AF_UNIX && type == ABI_SOCK_SEQPACKET);
}

s64 abi_sys_socket(struct abi_call *c)
{
	u32 domain = (u32)c->a[0], type = (u32)c->a[1] & ABI_SOCK_TYPE_MASK;
	u32 flags = (u32)c->a[1] & ~(u32)ABI_SOCK_TYPE_MASK;
	struct abi_desc *d;
	s64 handle;

	if (flags & ~(u32)TYPE_FLAGS)
		return -LINUX_EINVAL;
	if (domain == ABI_AF_UNIX && !abi_pair_hosts(c->p))
		return open_unix(c, type, flags, (u32)c->a[2]);
	if (domain != ABI_AF_UNIX && domain != ABI_AF_INET &&
	    domain != ABI_AF_INET6)
		return refuse_family(c, domain);
	if (!is_known_type(domain, type))
		return type < 11 ? refuse_type(c) : -LINUX_EINVAL;
	handle = c->p->host->sock_open(domain, type, (u32)c->a[2]);
	if (handle < 0)
		return handle;
	d = sock_desc(c, (s32)handle, flags, domain, type, (u32)c->a[2]);
	return d ? abi_desc_install(c->p, d, 0, flags & ABI_O_CLOEXEC)
		 : -LINUX_ENFILE;
}

/* A pair of the host remains one pair after a fork. */
static s64 host_pair(struct abi_call *c, u32 flags, u32 type,
		     struct abi_desc *pair[2])
{
	s32 handle[2];
	s64 error = c->p->host->pipe(handle, type);

	if (error)
		return error;
	pair[0] = sock_desc(c, handle[0], flags, ABI_AF_UNIX, type, 0);
	pair[1] = sock_desc(c, handle[1], flags, ABI_AF_UNIX, type, 0);
	if (pair[0] && pair[1]) {
		pair[0]->creator = pair[1]->creator = c->p->info.pid;
		return 0;
	}
	if (pair[0])
		abi_desc_put(c->p, pair[0]);
	if (pair[1])
		abi_desc_put(c->p, pair[1]);
	return -LINUX_ENFILE;
}

/* A program that has started another one will pass on the next pair too. */
static int shares_pairs(const struct abi_proc *p)
{
	return abi_pair_hosts(p) ||
	       (p->info.spawns &&
		__atomic_load_n(&p->forked, __ATOMIC_RELAXED));
}

s64 abi_sys_socketpair(struct abi_call *c)
{
	u32 type = (u32)c->a[1] & ABI_SOCK_TYPE_MASK;
	u32 flags = (u32)c->a[1] & ~(u32)ABI_SOCK_TYPE_MASK;
	struct abi_desc *pair[2];
	s64 error;

	if (flags & ~(u32)TYPE_FLAGS)
		return -LINUX_EINVAL;
	if ((u32)c->a[0] != ABI_AF_UNIX)
		return -LINUX_ENOTSUP;
	if (!is_known_type(ABI_AF_UNIX, type) && type >= 11)
		return -LINUX_EINVAL;
	if (type != ABI_SOCK_STREAM &&
	    (!abi_pair_hosts(c->p) || !is_known_type(ABI_AF_UNIX, type)))
		return refuse_type(c);
	error = shares_pairs(c->p)
			? host_pair(c, flags, type, pair)
			: abi_pair_new(c->p, flags & ABI_O_NONBLOCK, pair);
	if (error)
		return error;
	return abi_desc_install_two(c->p, pair, flags & ABI_O_CLOEXEC, c->a[3]);
}

/* Names ------------------------------------------------------------------ */

static s64 name_of(struct abi_call *c, enum abi_sock_verb verb)
{
	struct abi_sock_op op = {.verb = verb};
	s64 error;
	struct abi_desc *d = abi_sock_get(c, c->a[0], &error);

	if (!d)
		return error;
	op.addrlen = sizeof(op.addr);
	error = call_socket(c, d, &op);
	if (!error)
		error = abi_sock_addr_put(c, &op, c->a[1], c->a[2]);
	abi_desc_put(c->p, d);
	return error;
}

s64 abi_sys_getsockname(struct abi_call *c)
{
	return name_of(c, ABI_SOCK_NAME);
}

s64 abi_sys_getpeername(struct abi_call *c)
{
	return name_of(c, ABI_SOCK_PEER);
}

s64 abi_sys_bind(struct abi_call *c)
{
	struct abi_sock_op op = {.verb = ABI_SOCK_BIND};
	s64 error;
	struct abi_desc *d = abi_sock_get(c, c->a[0], &error);

	if (!d)
		return error;
	error = abi_sock_addr_get(c, &op, c->a[1], c->a[2]);
	if (!error)
		error = call_socket(c, d, &op);
	abi_desc_put(c->p, d);
	return error;
}

s64 abi_sys_listen(struct abi_call *c)
{
	struct abi_sock_op op = {.verb = ABI_SOCK_LISTEN,
				 .value = (s32)c->a[1]};
	s64 error;
	struct abi_desc *d = abi_sock_get(c, c->a[0], &error);

	if (!d)
		return error;
	error = call_socket(c, d, &op);
	if (!error)
		d->listening = 1;
	abi_desc_put(c->p, d);
	return error;
}

s64 abi_sys_shutdown(struct abi_call *c)
{
	struct abi_sock_op op = {.verb = ABI_SOCK_SHUTDOWN,
				 .value = (s32)c->a[1]};
	s64 error;
	struct abi_desc *d = abi_sock_get(c, c->a[0], &error);

	if (!d)
		return error;
	if (op.value < 0 || op.value > 2)
		error = -LINUX_EINVAL;
	else
		error = call_socket(c, d, &op);
	abi_event_rearm(c->p, &d->event, ABI_EDGE_IN | ABI_EDGE_OUT);
	abi_desc_put(c->p, d);
	return error;
}

/* Connecting ------------------------------------------------------------- */

static s64 pending_error(struct abi_call *c, struct abi_desc *d)
{
	s32 value = 0;
	struct abi_sock_op op = {.verb = ABI_SOCK_GETOPT,
				 .level = ABI_SOL_SOCKET,
				 .name = ABI_SO_ERROR,
				 .buf = &value,
				 .len = sizeof(value)};
	s64 error = call_socket(c, d, &op);

	return error ? error : -(s64)value;
}

/* Waits for a blocking connect; after a signal the connection continues to be
 * set up. */
static s64 finish_connect(struct abi_call *c, struct abi_desc *d)
{
	s64 error = abi_wait_handle(c, d->handle, ABI_POLLOUT,
				    abi_wait_deadline(c->p, d->send_ns));

	if (error == -LINUX_EINTR)
		return d->send_ns ? -LINUX_EINTR : -ABI_ERESTARTSYS;
	if (error == -LINUX_ETIMEDOUT)
		return -LINUX_EINPROGRESS;
	return error ? error : pending_error(c, d);
}

/* Waits because the peer's queue of connections is full. */
static s64 wait_queue(struct abi_call *c, struct abi_desc *d,
		      struct abi_sock_op *op)
{
	u64 deadline = abi_wait_deadline(c->p, d->send_ns);
	s64 error;

	do {
		error = abi_unix_retry(c, deadline);
		if (error == -LINUX_ETIMEDOUT)
			return -LINUX_EAGAIN;
		if (error == -LINUX_EINTR)
			return d->send_ns ? error : -ABI_ERESTARTSYS;
		error = call_socket(c, d, op);
	} while (error == -LINUX_EAGAIN);
	return error;
}

static s64 connect_socket(struct abi_call *c, struct abi_desc *d)
{
	struct abi_sock_op op = {.verb = ABI_SOCK_CONNECT};
	s64 error = abi_sock_addr_get(c, &op, c->a[1], c->a[2]);

	if (error)
		return error;
	error = call_socket(c, d, &op);
	if (error == -LINUX_EAGAIN && d->domain == ABI_AF_UNIX &&
	    !(abi_desc_flags(d) & ABI_O_NONBLOCK))
		return wait_queue(c, d, &op);
	if (error != -LINUX_EINPROGRESS && error != -LINUX_EALREADY)
		return error;
	abi_event_rearm(c->p, &d->event, ABI_EDGE_IN | ABI_EDGE_OUT);
	if (abi_desc_flags(d) & ABI_O_NONBLOCK)
		return error;
	return finish_connect(c, d);
}

s64 abi_sys_connect(struct abi_call *c)
{
	s64 error;
	struct abi_desc *d = abi_sock_get(c, c->a[0], &error);

	if (!d)
		return error;
	error = connect_socket(c, d);
	abi_desc_put(c->p, d);
	return error;
}

/* Repeats a host operation after each wait, until it does not return EAGAIN. */
s64 abi_sock_wait(struct abi_call *c, struct abi_desc *d,
		  struct abi_sock_op *op, u32 events, u32 dontwait)
{
	u64 limit = events & ABI_POLLOUT ? d->send_ns : d->recv_ns, deadline;
	u32 addrlen = op->addrlen, edge, nonblock;
	s64 n, error;

	edge = events & ABI_POLLOUT ? ABI_EDGE_OUT : ABI_EDGE_IN;
	nonblock = dontwait | (abi_desc_flags(d) & ABI_O_NONBLOCK);
	n = call_socket(c, d, op);
	if (n != -LINUX_EAGAIN && edge == ABI_EDGE_OUT &&
	    (n < 0 || (u64)n == op->len))
		return n;
	abi_event_rearm(c->p, &d->event, edge);
	if (n != -LINUX_EAGAIN || nonblock)
		return n;
	deadline = abi_wait_deadline(c->p, limit);
	for (;;) {
		op->addrlen = addrlen;
		n = call_socket(c, d, op);
		if (n != -LINUX_EAGAIN)
			return n;
		error = abi_wait_handle(c, d->handle, events, deadline);
		if (error == -LINUX_EINTR)
			return limit ? -LINUX_EINTR : -ABI_ERESTARTSYS;
		if (error)
			return error == -LINUX_ETIMEDOUT ? -LINUX_EAGAIN
							 : error;
	}
}

static s64 accept_socket(struct abi_call *c, struct abi_desc *d, u32 flags)
{
	struct abi_sock_op op = {.verb = ABI_SOCK_ACCEPT,
				 .addrlen = sizeof(op.addr),
				 .handle = -1};
	struct abi_desc *fresh;
	s64 error;

	error = abi_sock_wait(c, d, &op, ABI_POLLIN, 0);
	if (error < 0)
		return error;
	fresh = sock_desc(c, op.handle, flags, d->domain, d->sock_type,
			  d->protocol);
	if (!fresh)
		return -LINUX_ENFILE;
	fresh->own = d->own;
	error = abi_sock_addr_put(c, &op, c->a[1], c->a[2]);
	if (error) {
		abi_desc_put(c->p, fresh);
		return error;
	}
	return abi_desc_install(c->p, fresh, 0, flags & ABI_O_CLOEXEC);
}

static s64 accept_any(struct abi_call *c, u32 flags)
{
	s64 result;
	struct abi_desc *d;

	if (flags & ~(u32)TYPE_FLAGS)
		return -LINUX_EINVAL;
	d = abi_sock_get(c, c->a[0], &result);
	if (!d)
		return result;
	result = accept_socket(c, d, flags);
	abi_desc_put(c->p, d);
	return result;
}

s64 abi_sys_accept(struct abi_call *c)
{
	return accept_any(c, 0);
}

s64 abi_sys_accept4(struct abi_call *c)
{
	return accept_any(c, (u32)c->a[3]);
}

/* Options ---------------------------------------------------------------- */

#define OPTION_MAX 256

static u64 *timeout_of(struct abi_desc *d, u32 level, u32 name)
{
	if (level != ABI_SOL_SOCKET)
		return 0;
	if (name == ABI_SO_RCVTIMEO || name == ABI_SO_RCVTIMEO_NEW)
		return &d->recv_ns;
	if (name == ABI_SO_SNDTIMEO || name == ABI_SO_SNDTIMEO_NEW)
		return &d->send_ns;
	return 0;
}

static s64 set_timeout(struct abi_call *c, u64 *ns)
{
	struct abi_timeval tv;

	if ((u32)c->a[4] < sizeof(tv))
		return -LINUX_EINVAL;
	if (ABI_GET(c->p, &tv, c->a[3]))
		return -LINUX_EFAULT;
	if (tv.usec < 0 || tv.usec >= 1000000)
		return -LINUX_EDOM;
	if (tv.sec < 0) {
		*ns = 1; /* at once, as on Linux */
		return 0;
	}
	*ns = 0;
	if (tv.sec < 1ll << 33)
		*ns = (u64)tv.sec * ABI_NS + (u64)tv.usec * 1000;
	return 0;
}

static s64 set_option(struct abi_call *c, struct abi_desc *d)
{
	u64 *ns = timeout_of(d, (u32)c->a[1], (u32)c->a[2]);
	u8 value[OPTION_MAX];
	struct abi_sock_op op = {.verb = ABI_SOCK_SETOPT,
				 .level = (s32)c->a[1],
				 .name = (s32)c->a[2],
				 .buf = value,
				 .len = (u32)c->a[4]};

	if ((s32)c->a[4] < 0)
		return -LINUX_EINVAL;
	if (ns)
		return set_timeout(c, ns);
	if (op.len > sizeof(value))
		op.len = sizeof(value);
	if (abi_user_get(c->p, value, c->a[3], op.len))
		return -LINUX_EFAULT;
	return call_socket(c, d, &op);
}

s64 abi_sys_setsockopt(struct abi_call *c)
{
	s64 error;
	struct abi_desc *d = abi_sock_get(c, c->a[0], &error);

	if (!d)
		return error;
	error = set_option(c, d);
	abi_desc_put(c->p, d);
	return error;
}

/* Options that abi knows without the host: 1 and *value, or 0. */
static int known_option(const struct abi_desc *d, u32 level, u32 name,
			s32 *value)
{
	if (level != ABI_SOL_SOCKET)
		return 0;
	switch (name) {
	case ABI_SO_TYPE:
		*value = (s32)d->sock_type;
		return d->sock_type != 0;
	case ABI_SO_DOMAIN:
		*value = (s32)d->domain;
		return d->domain != 0;
	case ABI_SO_PROTOCOL:
		*value = (s32)(d->protocol			 ? d->protocol
			       : d->domain == ABI_AF_UNIX	 ? 0
			       : d->sock_type == ABI_SOCK_STREAM ? 6
								 : 17);
		return 1;
	case ABI_SO_ACCEPTCONN:
		*value = (s32)d->listening;
		return 1;
	default:
		return 0;
	}
}

/* Reads the value into `buf`; returns its length or an error. */
static s64 read_option(struct abi_call *c, struct abi_desc *d, void *buf,
		       u64 size)
{
	u32 level = (u32)c->a[1], name = (u32)c->a[2];
	u64 *ns = timeout_of(d, level, name);
	struct abi_sock_op op = {.verb = ABI_SOCK_GETOPT,
				 .level = (s32)level,
				 .name = (s32)name,
				 .buf = buf,
				 .len = size};
	struct abi_timeval tv;
	s64 error;
	s32 value;

	if (ns) {
		tv.sec = (s64)(*ns / ABI_NS);
		tv.usec = (s64)(*ns % ABI_NS / 1000);
		abi_memcpy(buf, &tv, sizeof(tv));
		return sizeof(tv);
	}
	if (known_option(d, level, name, &value)) {
		abi_memcpy(buf, &value, sizeof(value));
		return sizeof(value);
	}
	error = call_socket(c, d, &op);
	return error < 0 ? error : (s64)(op.len < size ? op.len : size);
}

static s64 get_option(struct abi_call *c, struct abi_desc *d)
{
	u8 value[OPTION_MAX];
	u32 room, len;
	s64 n;

	if (ABI_GET(c->p, &room, c->a[4]))
		return -LINUX_EFAULT;
	if ((s32)room < 0)
		return -LINUX_EINVAL;
	abi_memset(value, 0, sizeof(value));
	n = read_option(c, d, value,
			room && room < 128 && room > 16 ? room : 128);
	if (n < 0)
		return n;
	len = (u32)n < room ? (u32)n : room;
	if (abi_user_put(c->p, c->a[3], value, len))
		return -LINUX_EFAULT;
	return ABI_PUT(c->p, c->a[4], &len);
}

s64 abi_sys_getsockopt(struct abi_call *c)
{
	s64 error;
	struct abi_desc *d = abi_sock_get(c, c->a[0], &error);

	if (!d)
		return error;
	error = get_option(c, d);
	abi_desc_put(c->p, d);
	return error;
}
