// SPDX-License-Identifier: MIT
/*
 * Owns the data path of descriptions: which kind does what, positions, and
 * transfers that are split or end early. desc->lock guards the position of
 * things that have one, and makes reads and writes that move it take turns.
 */
#include "file.h"
#include "fd.h"
#include "pipe.h"
#include "procfs.h"
#include "regular.h"
#include "stream.h"
#include "transfer.h"
#include "abi/include/errno.h"
#include "abi/mm/span.h"
#include "abi/net/sock.h"
#include "abi/poll/eventfd.h"
#include "abi/poll/poll.h"
#include "abi/proc/call.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/time/timerfd.h"
#include "abi/uapi/linux.h"

static int has_position(const struct abi_desc *d)
{
	return d->kind == ABI_DESC_TEXT ||
	       (d->kind == ABI_DESC_FILE && !abi_desc_is_host(d));
}

/* eventfd and timerfd: eight bytes in one piece. */
static s64 transfer_counter(struct abi_call *c, struct abi_desc *d,
			    struct abi_span *s, u32 writing)
{
	u64 value = 0;
	s64 n;

	if (s->left < 8)
		return -ABI_EINVAL;
	if (writing) {
		if (d->kind != ABI_DESC_EVENT)
			return -ABI_EINVAL;
		n = abi_span_gather(c->p, s, &value, 8);
		return n < 8 ? -ABI_EFAULT : abi_eventfd_write(c, d, &value);
	}
	if (d->kind == ABI_DESC_EVENT)
		n = abi_eventfd_read(c, d, &value);
	else
		n = abi_timerfd_read(c, d, &value);
	if (n < 0)
		return n;
	return abi_span_scatter(c->p, s, &value, 8) < 8 ? -ABI_EFAULT : 8;
}

static s64 read_text(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		     s64 offset)
{
	s64 n;

	if (offset != ABI_FILE_CURRENT)
		return abi_synth_read(c, d, s, (u64)offset);
	abi_lock(c->p, &d->lock);
	n = abi_synth_read(c, d, s, d->pos);
	if (n > 0)
		d->pos += (u64)n;
	abi_unlock(c->p, &d->lock);
	return n;
}

static s64 check_access(const struct abi_desc *d, s64 offset, u32 writing)
{
	u32 access = abi_desc_flags(d) & (ABI_O_ACCMODE | ABI_O_PATH);

	if (access & ABI_O_PATH ||
	    access == (writing ? ABI_O_RDONLY : ABI_O_WRONLY))
		return -ABI_EBADF;
	if (offset != ABI_FILE_CURRENT && d->kind != ABI_DESC_NULL &&
	    !has_position(d))
		return -ABI_ESPIPE;
	return 0;
}

s64 abi_file_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		  s64 offset)
{
	s64 error = check_access(d, offset, 0);

	if (error)
		return error;
	switch (d->kind) {
	case ABI_DESC_FILE:
		if (has_position(d))
			return abi_regular_transfer(c, d, s, offset, 0);
		return abi_stream_transfer(c, d, s, 0);
	case ABI_DESC_SOCK:
		return abi_sock_read(c, d, s, 0);
	case ABI_DESC_PIPE:
	case ABI_DESC_PAIR:
		return abi_pipe_read(c, d, s, 0, 0);
	case ABI_DESC_EVENT:
	case ABI_DESC_TIMER:
		return transfer_counter(c, d, s, 0);
	case ABI_DESC_TEXT:
		return read_text(c, d, s, offset);
	case ABI_DESC_NULL:
		return abi_synth_read(c, d, s, 0);
	default:
		return -ABI_EINVAL;
	}
}

static s64 write_kind(struct abi_call *c, struct abi_desc *d,
		      struct abi_span *s, s64 offset)
{
	switch (d->kind) {
	case ABI_DESC_FILE:
		if (has_position(d))
			return abi_regular_transfer(c, d, s, offset, 1);
		return abi_stream_transfer(c, d, s, 1);
	case ABI_DESC_SOCK:
		return abi_sock_write(c, d, s, 0);
	case ABI_DESC_PIPE:
	case ABI_DESC_PAIR:
		return abi_pipe_write(c, d, s, 0);
	case ABI_DESC_EVENT:
	case ABI_DESC_TIMER:
		return transfer_counter(c, d, s, 1);
	case ABI_DESC_TEXT:
	case ABI_DESC_NULL:
		return abi_synth_write(c, d, s);
	default:
		return -ABI_EINVAL;
	}
}

s64 abi_file_write(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		   s64 offset)
{
	s64 n = check_access(d, offset, 1);

	if (!n)
		n = write_kind(c, d, s, offset);
	if (n == -ABI_EPIPE)
		abi_signal_raise(c->p, c->t, ABI_SIGPIPE);
	return n;
}

/* Mappings --------------------------------------------------------------- */

s64 abi_fd_hold(struct abi_proc *p, u32 fd, u32 prot, u32 shared)
{
	struct abi_desc *d = abi_desc_get(p, fd);
	u32 access;
	s64 error = 0;

	if (!d)
		return -ABI_EBADF;
	access = abi_desc_flags(d) & (ABI_O_ACCMODE | ABI_O_PATH);
	if (access & ABI_O_PATH)
		error = -ABI_EBADF;
	else if (d->kind != ABI_DESC_FILE || d->type != ABI_S_IFREG)
		error = -ABI_ENODEV;
	else if (access == ABI_O_WRONLY ||
		 (shared && prot & ABI_PROT_WRITE && access != ABI_O_RDWR))
		error = -ABI_EACCES;
	if (!error)
		return abi_desc_index(p, d);
	abi_desc_put(p, d);
	return error;
}

void abi_fd_release(struct abi_proc *p, u32 desc)
{
	abi_desc_put(p, &p->fds.desc[desc]);
}

/* Goes on after short transfers; stops at the end of the file. */
static s64 transfer_whole(struct abi_proc *p, struct abi_desc *d, u8 *buf,
			  u64 len, u64 offset, u32 writing)
{
	u64 done = 0, part;
	s64 n;

	while (done < len) {
		part = len - done < ABI_IO_MAX ? len - done : ABI_IO_MAX;
		n = abi_transfer_part(p, d, buf + done, part,
				      (s64)(offset + done), writing);
		if (n < 0)
			return done ? (s64)done : n;
		if (!n)
			break;
		done += (u64)n;
	}
	return (s64)done;
}

s64 abi_fd_held_pread(struct abi_proc *p, u32 desc, void *buf, u64 len,
		      u64 offset)
{
	return transfer_whole(p, &p->fds.desc[desc], buf, len, offset, 0);
}

s64 abi_fd_held_pwrite(struct abi_proc *p, u32 desc, const void *buf, u64 len,
		       u64 offset)
{
	return transfer_whole(p, &p->fds.desc[desc], (u8 *)buf, len, offset, 1);
}

const char *abi_fd_held_path(struct abi_proc *p, u32 desc)
{
	return p->fds.desc[desc].path;
}

static s64 by_number(struct abi_proc *p, u32 fd, void *buf, u64 len, u64 offset,
		     u32 writing)
{
	struct abi_desc *d = abi_desc_get(p, fd);
	s64 n;

	if (!d)
		return -ABI_EBADF;
	n = d->kind == ABI_DESC_FILE && d->type == ABI_S_IFREG
		    ? transfer_whole(p, d, buf, len, offset, writing)
		    : -ABI_ENODEV;
	abi_desc_put(p, d);
	return n;
}

s64 abi_fd_pread(struct abi_proc *p, u32 fd, void *buf, u64 len, u64 offset)
{
	return by_number(p, fd, buf, len, offset, 0);
}

s64 abi_fd_pwrite(struct abi_proc *p, u32 fd, const void *buf, u64 len,
		  u64 offset)
{
	return by_number(p, fd, (u8 *)buf, len, offset, 1);
}
