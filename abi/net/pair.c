// SPDX-License-Identifier: MIT
/* Owns the ends of socketpair(2): two rings, one for each direction; and those
 * that other processes share (pair.h). */
#include "pair.h"
#include "sock.h"
#include "unix.h"
#include "abi/fs/desc.h"
#include "abi/fs/ops.h"
#include "abi/fs/ring.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/mm/span.h"
#include "abi/poll/wait.h"
#include "abi/proc/call.h"
#include "abi/proc/refuse.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

static u32 pair_ready(struct abi_proc *p, struct abi_desc *d, u64 *due)
{
	u32 in = abi_ring_state(p, d->in), out = abi_ring_state(p, d->out);
	u32 ready = 0;

	(void)due;
	if (in & ABI_RING_DATA)
		ready |= ABI_POLLIN | ABI_POLLRDNORM;
	if (in & ABI_RING_ENDED)
		ready |= ABI_POLLIN | ABI_POLLRDNORM | ABI_POLLRDHUP;
	if (out & (ABI_RING_ROOM | ABI_RING_BROKEN))
		ready |= ABI_POLLOUT | ABI_POLLWRNORM;
	/* a pair hangs up when both directions are closed */
	if (in & ABI_RING_ENDED && out & ABI_RING_BROKEN)
		ready |= ABI_POLLHUP;
	return ready;
}

static s64 pair_send(struct abi_call *c, struct abi_sock_transfer *t)
{
	if (t->op.addrlen)
		return -LINUX_EISCONN;
	return abi_ring_write(c, t->d, &t->span, t->flags & ABI_MSG_DONTWAIT);
}

/* MSG_WAITALL on a pair: receives until the buffer is full, the stream ends, or
 * a signal interrupts. */
static s64 pair_receive(struct abi_call *c, struct abi_sock_transfer *t)
{
	u32 nonblock = t->flags & ABI_MSG_DONTWAIT;
	u32 peek = t->flags & ABI_MSG_PEEK;
	s64 done = 0, n;

	do {
		n = abi_ring_read(c, t->d, &t->span, nonblock, peek);
		if (n > 0)
			done += n;
	} while (n > 0 && t->flags & ABI_MSG_WAITALL && !peek && t->span.left);
	t->op.addrlen = 0;
	return done ? done : n;
}

/* unix(7): of the process that made the pair; of no peer, who is nobody. */
static s64 peer_get(const struct abi_proc *p, const struct abi_desc *d,
		    struct abi_sock_op *op)
{
	const struct {
		u32 pid, uid, gid;
	} peer = {d->creator, d->creator ? p->info.uid : ~0u,
		  d->creator ? p->info.gid : ~0u};

	if (op->len > sizeof(peer))
		op->len = sizeof(peer);
	abi_memcpy(op->buf, &peer, op->len);
	return 0;
}

/* Options have no effect: buffer sizes are fixed. */
static s64 option_get(struct abi_proc *p, const struct abi_desc *d,
		      struct abi_sock_op *op)
{
	s32 value;

	if (op->level != ABI_SOL_SOCKET)
		return -LINUX_ENOTSUP;
	switch (op->name) {
	case ABI_SO_PEERCRED:
		return peer_get(p, d, op);
	case ABI_SO_PASSCRED:
	case ABI_SO_ERROR:
		value = 0;
		break;
	case ABI_SO_SNDBUF:
	case ABI_SO_RCVBUF:
		value = ABI_RING_SIZE;
		break;
	default:
		return abi_refuse(p, ABI_REFUSE_PAIR_OPTION,
				  -LINUX_ENOPROTOOPT);
	}
	op->len = sizeof(value);
	abi_memcpy(op->buf, &value, sizeof(value));
	return 0;
}

s64 abi_pair_option(struct abi_proc *p, const struct abi_desc *d,
		    struct abi_sock_op *op)
{
	s32 value;

	if (op->verb == ABI_SOCK_GETOPT)
		return option_get(p, d, op);
	if (op->level != ABI_SOL_SOCKET)
		return -LINUX_ENOTSUP;
	if (op->len < sizeof(value))
		return -LINUX_EINVAL;
	abi_memcpy(&value, op->buf, sizeof(value));
	if (op->name == ABI_SO_PASSCRED && value)
		return abi_refuse(p, ABI_REFUSE_PAIR_OPTION,
				  -LINUX_ENOPROTOOPT);
	return 0;
}

/* What does not depend on where the bytes are. */
static s64 answer_call(struct abi_proc *p, const struct abi_desc *d,
		       struct abi_sock_op *op)
{
	switch (op->verb) {
	case ABI_SOCK_BIND:
		if (op->addrlen <= 2 ||
		    (op->addr[0] | op->addr[1] << 8) != ABI_AF_UNIX)
			return -LINUX_EINVAL;
		return abi_unix_refuse(p);
	case ABI_SOCK_NAME:
	case ABI_SOCK_PEER:
		op->addr[0] = ABI_AF_UNIX;
		op->addr[1] = 0;
		op->addrlen = 2;
		return 0;
	case ABI_SOCK_CONNECT:
		return -LINUX_EISCONN;
	case ABI_SOCK_SETOPT:
	case ABI_SOCK_GETOPT:
		return abi_pair_option(p, d, op);
	default:
		return -LINUX_EINVAL;
	}
}

static s64 pair_call(struct abi_call *c, struct abi_desc *d,
		     struct abi_sock_op *op)
{
	if (op->verb == ABI_SOCK_SHUTDOWN)
		return abi_ring_shutdown(c->p, d, (u32)op->value);
	return answer_call(c->p, d, op);
}

const struct abi_desc_ops abi_pair_ops = {
	.fs_type = ABI_FS_SOCK,
	.read = abi_ring_desc_read,
	.write = abi_ring_desc_write,
	.ready = pair_ready,
	.available = abi_ring_desc_available,
	.sock = pair_call,
	.send = pair_send,
	.receive = pair_receive,
	.release = abi_ring_desc_release,
};

s64 abi_pair_new(struct abi_proc *p, u32 flags, struct abi_desc *pair[2])
{
	u32 ring[2] = {abi_ring_new(p), abi_ring_new(p)}, i;

	pair[0] = abi_desc_new(p, ABI_DESC_PAIR, ABI_O_RDWR | flags);
	pair[1] = abi_desc_new(p, ABI_DESC_PAIR, ABI_O_RDWR | flags);
	if (ring[0] && ring[1] && pair[0] && pair[1]) {
		for (i = 0; i < 2; i++) {
			pair[i]->in = ring[i];
			pair[i]->out = ring[!i];
			pair[i]->type = ABI_S_IFSOCK;
			pair[i]->domain = ABI_AF_UNIX;
			pair[i]->sock_type = ABI_SOCK_STREAM;
			pair[i]->creator = p->info.pid;
			abi_strcpy(pair[i]->path, "socket:[pair]", 32);
		}
		return 0;
	}
	for (i = 0; i < 2; i++) {
		abi_ring_free(p, ring[i]);
		if (pair[i])
			abi_desc_put(p, pair[i]);
	}
	return -LINUX_ENFILE;
}

/* Shared pairs ------------------------------------------------------------- */

int abi_pair_is_shared(const struct abi_proc *p, const struct abi_desc *d)
{
	return d->kind == ABI_DESC_SOCK && d->domain == ABI_AF_UNIX &&
	       !abi_pair_hosts(p);
}

s64 abi_pair_call(struct abi_proc *p, struct abi_desc *d,
		  struct abi_sock_op *op)
{
	s64 n;

	if (op->verb == ABI_SOCK_SEND && op->addrlen)
		return -LINUX_EISCONN;
	if (op->verb != ABI_SOCK_SEND && op->verb != ABI_SOCK_RECV &&
	    op->verb != ABI_SOCK_SHUTDOWN)
		return answer_call(p, d, op);
	n = p->host->sock(d->handle, op);
	op->addrlen = 0;
	return n;
}

/* A direction that was shut down remains so: `end` is its writer's. */
static void keep_shutdown(struct abi_proc *p, u32 ring, const s32 end[2])
{
	struct abi_ring *r = abi_ring_at(p, ring);
	struct abi_sock_op op = {.verb = ABI_SOCK_SHUTDOWN, .value = 0};
	u32 eof, broken;

	abi_lock(p, &r->lock);
	eof = r->eof;
	broken = r->broken;
	abi_unlock(p, &r->lock);
	if (broken)
		p->host->sock(end[1], &op);
	op.value = 1;
	if (eof)
		p->host->sock(end[0], &op);
}

/* The ends become those of the host, as in pipe.c: handle[0] reads what was in
 * ring `in`. */
static void change_ends(struct abi_proc *p, u32 in, u32 out,
			const s32 handle[2])
{
	struct abi_desc *d;
	u32 i, found[2] = {0, 0};

	abi_lock(p, &p->fds.lock);
	for (i = 0; i < p->fds.high; i++) {
		d = &p->fds.desc[i];
		if (d->kind != ABI_DESC_PAIR || !d->refs ||
		    (d->in != in && d->in != out))
			continue;
		d->handle = handle[d->in != in];
		found[d->in != in] = 1;
		d->in = d->out = 0;
		__atomic_store_n(&d->kind, ABI_DESC_SOCK, __ATOMIC_SEQ_CST);
	}
	abi_unlock(p, &p->fds.lock);
	for (i = 0; i < 2; i++)
		if (!found[i])
			p->host->file_close(handle[i]);
}

s64 abi_pair_share(struct abi_proc *p, struct abi_desc *d)
{
	u32 ring[2] = {d->in, d->out}, i;
	s32 handle[2];
	s64 error;

	if (d->kind != ABI_DESC_PAIR)
		return 0;
	error = p->host->pipe(handle, ABI_SOCK_STREAM);
	if (error)
		return error;
	error = abi_ring_move(p, ring[0], handle[1]);
	if (!error) {
		error = abi_ring_move(p, ring[1], handle[0]);
		if (error)
			abi_ring_keep(p, ring[0]);
	}
	if (error) {
		p->host->file_close(handle[0]);
		p->host->file_close(handle[1]);
		return error;
	}
	keep_shutdown(p, ring[0], (s32[2]){handle[1], handle[0]});
	keep_shutdown(p, ring[1], handle);
	change_ends(p, ring[0], ring[1], handle);
	for (i = 0; i < 2; i++)
		abi_event_signal(p, &abi_ring_at(p, ring[i])->event,
				 ABI_EDGE_IN | ABI_EDGE_OUT);
	return 0;
}

int abi_pair_hosts(const struct abi_proc *p)
{
	return p->host->pipe && !p->info.spawns;
}
