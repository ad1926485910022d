// SPDX-License-Identifier: MIT
/*
 * Owns the calls that move bytes between descriptors: sendfile,
 * copy_file_range, splice, tee, vmsplice. No state.
 *
 * Bytes that are read from a pipe are gone, so abi does not copy them itself: a
 * write that then fails would lose them. The host moves them (host->splice).
 */
#include "desc.h"
#include "file.h"
#include "ops.h"
#include "position.h"
#include "size_limit.h"
#include "stat.h"
#include "stream.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/mm/span.h"
#include "abi/poll/wait.h"
#include "abi/proc/call.h"
#include "abi/proc/refuse.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/uapi/linux.h"

#define SPLICE_F_NONBLOCK 2u
#define SPLICE_F_ALL 15u
#define PIECE 4096

/* Two descriptions, and where their bytes are: an address of a loff_t, or 0 for
 * the position. */
struct ends {
	struct abi_desc *in, *out;
	u64 in_addr, out_addr;
	u64 in_at, out_at;
};

static s64 with_ends(struct abi_call *c, struct ends *e, u64 in, u64 out,
		     s64 (*run)(struct abi_call *c, struct ends *e, u64 len),
		     u64 len)
{
	s64 n = -LINUX_EBADF;

	e->in = abi_desc_get(c->p, in);
	e->out = abi_desc_get(c->p, out);
	if (e->in && e->out && abi_desc_is_readable(e->in) &&
	    abi_desc_is_writable(e->out))
		n = run(c, e, len < ABI_IO_MAX ? len : ABI_IO_MAX);
	if (e->in)
		abi_desc_put(c->p, e->in);
	if (e->out)
		abi_desc_put(c->p, e->out);
	return n;
}

/* Where the call begins in a file that can be positioned. */
static s64 place_get(struct abi_call *c, struct abi_desc *d, u64 addr, u64 *at)
{
	s64 n;

	if (addr) {
		if (ABI_GET(c->p, at, addr))
			return -LINUX_EFAULT;
		return (s64)*at < 0 ? -LINUX_EINVAL : 0;
	}
	n = abi_position_get(c->p, d);
	*at = (u64)n;
	return n < 0 ? n : 0;
}

static s64 place_set(struct abi_call *c, struct abi_desc *d, u64 addr, u64 at)
{
	if (addr)
		return ABI_PUT(c->p, addr, &at) ? -LINUX_EFAULT : 0;
	abi_position_set(c->p, d, at);
	return 0;
}

/* Copies ----------------------------------------------------------------- */

/* Copies one part; returns the bytes written. `to`: ABI_FILE_CURRENT, or an
 * offset. */
static s64 move_piece(struct abi_call *c, struct ends *e, u64 from, s64 to,
		      u64 len)
{
	u8 piece[PIECE];
	struct abi_span s;
	s64 n;

	/* the buffer is abi's own memory, not the guest's */
	abi_span_one(&s, (u64)piece, len < PIECE ? len : PIECE, ABI_SPAN_OWN);
	n = abi_file_read(c, e->in, &s, (s64)from);
	if (n <= 0)
		return n;
	abi_span_one(&s, (u64)piece, (u64)n, ABI_SPAN_OWN);
	return abi_file_write(c, e->out, &s, to);
}

static s64 move_all(struct abi_call *c, struct ends *e, u64 len, u32 placed)
{
	u64 done = 0, want;
	s64 n;

	while (done < len) {
		want = len - done;
		n = move_piece(c, e, e->in_at + done,
			       placed ? (s64)(e->out_at + done)
				      : ABI_FILE_CURRENT,
			       want);
		if (n < 0)
			return done ? (s64)done : n;
		done += (u64)n;
		if ((u64)n < (want < PIECE ? want : PIECE))
			break;
	}
	return (s64)done;
}

/*
 * Source and destination of sendfile may be one description, so its lock is not
 * held between read and write: as on Linux, of two calls the last one
 * determines the position.
 */
static s64 send_file(struct abi_call *c, struct ends *e, u64 len)
{
	s64 n, error;

	if (!abi_desc_ops(e->in)->seek || e->in->type == ABI_S_IFDIR)
		return e->in_addr ? -LINUX_ESPIPE : -LINUX_EINVAL;
	error = place_get(c, e->in, e->in_addr, &e->in_at);
	if (error)
		return error;
	n = move_all(c, e, len, 0);
	if (n > 0 || e->in_addr)
		error = place_set(c, e->in, e->in_addr,
				  e->in_at + (n > 0 ? (u64)n : 0));
	return error ? error : n;
}

s64 abi_sys_sendfile(struct abi_call *c)
{
	struct ends e = {.in_addr = c->a[2]};

	return with_ends(c, &e, c->a[1], c->a[0], send_file, c->a[3]);
}

/*
 * Ends the range where the source ends now, which a copy within one file may
 * extend. Whether the ranges are in one file and overlap: 1, 0, or an error.
 */
static s64 limit_range(struct abi_call *c, struct ends *e, u64 *len)
{
	struct abi_stat in, out;
	s64 error = abi_file_stat(c, e->in, &in);
	u64 left;

	if (!error)
		error = abi_file_stat(c, e->out, &out);
	if (error)
		return error;
	left = e->in_at < (u64)in.size ? (u64)in.size - e->in_at : 0;
	if (*len > left)
		*len = left;
	return in.dev == out.dev && in.ino == out.ino &&
	       e->in_at < e->out_at + *len && e->out_at < e->in_at + *len;
}

static s64 copy_range(struct abi_call *c, struct ends *e, u64 len)
{
	s64 n, error;

	if (e->in->type == ABI_S_IFDIR || e->out->type == ABI_S_IFDIR)
		return -LINUX_EISDIR;
	if (!abi_desc_ops(e->in)->regular || !abi_desc_ops(e->out)->regular)
		return -LINUX_EINVAL;
	if (abi_desc_flags(e->out) & ABI_O_APPEND)
		return -LINUX_EBADF;
	error = place_get(c, e->in, e->in_addr, &e->in_at);
	if (!error)
		error = place_get(c, e->out, e->out_addr, &e->out_at);
	if (error)
		return error;
	if (e->in_at + len > 1ull << 63 || e->out_at + len > 1ull << 63)
		return -LINUX_EOVERFLOW;
	n = limit_range(c, e, &len);
	if (n)
		return n < 0 ? n : -LINUX_EINVAL;
	n = move_all(c, e, len, 1);
	if (n <= 0)
		return n;
	error = place_set(c, e->in, e->in_addr, e->in_at + (u64)n);
	if (!error)
		error = place_set(c, e->out, e->out_addr, e->out_at + (u64)n);
	return error ? error : n;
}

s64 abi_sys_copy_file_range(struct abi_call *c)
{
	struct ends e = {.in_addr = c->a[1], .out_addr = c->a[3]};

	if (c->a[5])
		return -LINUX_EINVAL;
	return with_ends(c, &e, c->a[0], c->a[2], copy_range, c->a[4]);
}

/* By the host ------------------------------------------------------------ */

static int has_host(const struct abi_call *c, const struct ends *e)
{
	return c->p->host->splice && abi_desc_ops(e->in)->handle &&
	       abi_desc_ops(e->out)->handle;
}

static s64 refuse_splice(struct abi_call *c)
{
	return abi_refuse(c->p, ABI_REFUSE_SPLICE, -LINUX_EINVAL);
}

/* Waits until both ends are ready. */
static s64 wait_ends(struct abi_call *c, const struct ends *e)
{
	s64 n = abi_wait_handle(c, e->in->handle, ABI_POLLIN, ABI_FOREVER);

	if (!n)
		n = abi_wait_handle(c, e->out->handle, ABI_POLLOUT,
				    ABI_FOREVER);
	return n == -LINUX_EINTR ? -ABI_ERESTARTSYS : n;
}

static s64 run_host(struct abi_call *c, struct ends *e, struct abi_splice *op)
{
	u32 wait = !((u32)c->a[op->tee ? 3 : 5] & SPLICE_F_NONBLOCK) &&
		   !((abi_desc_flags(e->in) | abi_desc_flags(e->out)) &
		     ABI_O_NONBLOCK);
	s64 n;

	for (;;) {
		n = c->p->host->splice(op);
		abi_event_rearm(c->p, &e->in->event, ABI_EDGE_IN);
		abi_event_rearm(c->p, &e->out->event, ABI_EDGE_OUT);
		if (n != -LINUX_EAGAIN || !wait)
			break;
		n = wait_ends(c, e);
		if (n)
			return n;
	}
	if (n > 0) {
		abi_stream_tell_peer(c->p, e->in, ABI_EDGE_OUT);
		abi_stream_tell_peer(c->p, e->out, ABI_EDGE_IN);
	}
	if (n == -LINUX_EPIPE)
		abi_signal_raise(c->p, c->t, ABI_SIGPIPE);
	return n;
}

/* Where a file is to be read or written: by the position that the host keeps,
 * or at an offset. */
static s64 splice_place(struct abi_call *c, struct abi_desc *d, u64 addr,
			u64 *at, s64 *offset)
{
	s64 error;

	*offset = ABI_STREAM;
	if (!abi_desc_ops(d)->seek)
		return !addr			? 0
		       : d->type == ABI_S_IFIFO ? -LINUX_ESPIPE
						: -LINUX_EINVAL;
	if (d->inherited && !addr) {
		*offset = ABI_CURRENT;
		return 0;
	}
	error = place_get(c, d, addr, at);
	*offset = (s64)*at;
	return error;
}

/* A file grows to at most RLIMIT_FSIZE. */
static s64 splice_limit(struct abi_call *c, struct ends *e, s64 at, u64 *len)
{
	struct abi_span s = {.left = *len};
	s64 error = abi_size_limit_write(c, e->out, &s, at);

	*len = s.left;
	if (error == -LINUX_EFBIG)
		abi_size_limit_signal(c);
	return error;
}

static s64 splice_ends(struct abi_call *c, struct ends *e, u64 len)
{
	struct abi_splice op = {.in = e->in->handle, .out = e->out->handle};
	s64 n, error;

	if (e->in->type != ABI_S_IFIFO && e->out->type != ABI_S_IFIFO)
		return -LINUX_EINVAL;
	error = splice_place(c, e->in, e->in_addr, &e->in_at, &op.in_at);
	if (!error)
		error = splice_place(c, e->out, e->out_addr, &e->out_at,
				     &op.out_at);
	if (error)
		return error;
	if (abi_desc_ops(e->out)->seek && abi_desc_flags(e->out) & ABI_O_APPEND)
		return -LINUX_EINVAL;
	if (!has_host(c, e))
		return refuse_splice(c);
	error = splice_limit(c, e, op.out_at, &len);
	if (error)
		return error;
	op.len = len;
	n = run_host(c, e, &op);
	if (n > 0 && op.in_at >= 0)
		error = place_set(c, e->in, e->in_addr, e->in_at + (u64)n);
	if (n > 0 && op.out_at >= 0 && !error)
		error = place_set(c, e->out, e->out_addr, e->out_at + (u64)n);
	return error ? error : n;
}

s64 abi_sys_splice(struct abi_call *c)
{
	struct ends e = {.in_addr = c->a[1], .out_addr = c->a[3]};

	if ((u32)c->a[5] & ~SPLICE_F_ALL)
		return -LINUX_EINVAL;
	return c->a[4] ? with_ends(c, &e, c->a[0], c->a[2], splice_ends,
				   c->a[4])
		       : 0;
}

static s64 tee_ends(struct abi_call *c, struct ends *e, u64 len)
{
	struct abi_splice op = {.tee = 1,
				.in = e->in->handle,
				.out = e->out->handle,
				.len = len};

	if (e->in->type != ABI_S_IFIFO || e->out->type != ABI_S_IFIFO)
		return -LINUX_EINVAL;
	return has_host(c, e) ? run_host(c, e, &op) : refuse_splice(c);
}

s64 abi_sys_tee(struct abi_call *c)
{
	struct ends e = {.in_addr = 0};

	if ((u32)c->a[3] & ~SPLICE_F_ALL)
		return -LINUX_EINVAL;
	return c->a[2] ? with_ends(c, &e, c->a[0], c->a[1], tee_ends, c->a[2])
		       : 0;
}

/* A pipe has no pages of the program here: the bytes are copied. */
s64 abi_sys_vmsplice(struct abi_call *c)
{
	struct abi_desc *d;
	struct abi_span s;
	u32 writing;
	s64 n;

	if ((u32)c->a[3] & ~SPLICE_F_ALL)
		return -LINUX_EINVAL;
	d = abi_desc_get(c->p, c->a[0]);
	if (!d)
		return -LINUX_EBADF;
	writing = abi_desc_is_writable(d);
	n = abi_span_vector(c->p, &s, c->a[1], c->a[2],
			    writing ? ABI_PROT_READ : ABI_PROT_WRITE);
	if (d->type != ABI_S_IFIFO || (!writing && !abi_desc_is_readable(d)))
		n = -LINUX_EBADF;
	else if (!n && (u32)c->a[3] & SPLICE_F_NONBLOCK &&
		 !(abi_desc_flags(d) & ABI_O_NONBLOCK))
		n = abi_refuse(c->p, ABI_REFUSE_VMSPLICE, -LINUX_EINVAL);
	if (!n)
		n = writing ? abi_file_write(c, d, &s, ABI_FILE_CURRENT)
			    : abi_file_read(c, d, &s, ABI_FILE_CURRENT);
	abi_desc_put(c->p, d);
	return n;
}
