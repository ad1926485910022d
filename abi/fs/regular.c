// SPDX-License-Identifier: MIT
/*
 * Owns regular files, directories and block devices of the host. desc->lock
 * guards the position, and serializes reads and writes that move it.
 */
#include "regular.h"
#include "desc.h"
#include "filelock.h"
#include "ops.h"
#include "position.h"
#include "size_limit.h"
#include "transfer.h"
#include "base/errno.h"
#include "abi/mm/span.h"
#include "abi/proc/call.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

/*
 * Other processes may write to an inherited file between two transfers, so a
 * small vector is gathered first and written at once.
 */
static s64 write_gathered(struct abi_proc *p, struct abi_desc *d,
			  struct abi_span *s, s64 offset)
{
	struct abi_fds *fds = &p->fds;
	s64 n;

	abi_lock(p, &fds->bounce_lock);
	n = abi_span_gather(p, s, fds->bounce, sizeof(fds->bounce));
	if (n > 0)
		n = abi_transfer_part(p, d, fds->bounce, (u64)n, offset, 1);
	abi_unlock(p, &fds->bounce_lock);
	return n;
}

static s64 transfer_at(struct abi_call *c, struct abi_desc *d,
		       struct abi_span *s, s64 at, u32 writing)
{
	s64 error = writing ? abi_size_limit_write(c, d, s, at) : 0;

	if (error)
		return error;
	if (d->inherited && at < 0 && writing && abi_span_many(s) &&
	    s->left <= sizeof(c->p->fds.bounce))
		return write_gathered(c->p, d, s, at);
	return abi_transfer_span(c->p, d, s, at, writing);
}

/*
 * Transfers at the position, which the host keeps for an inherited file.
 * desc->lock keeps the parts of one call together.
 */
static s64 transfer_here(struct abi_call *c, struct abi_desc *d,
			 struct abi_span *s, u32 append, u32 writing)
{
	struct abi_stat st;
	struct abi_file_op op = {.verb = ABI_FILE_STAT, .stat = &st};
	s64 n;

	abi_assert_locked(&d->lock);
	if (d->inherited)
		return transfer_at(c, d, s, append ? ABI_APPEND : ABI_CURRENT,
				   writing);
	n = transfer_at(c, d, s, append ? ABI_APPEND : (s64)d->pos, writing);
	if (n > 0 && append && !c->p->host->file(d->handle, &op))
		d->pos = st.size;
	else if (n > 0)
		d->pos += (u64)n;
	return n;
}

/* Regular files: transfers at the position, or at pread's offset. */
static s64 transfer_regular(struct abi_call *c, struct abi_desc *d,
			    struct abi_span *s, s64 offset, u32 writing)
{
	u32 append = writing && abi_desc_flags(d) & ABI_O_APPEND;
	s64 n;

	if (offset != ABI_FILE_CURRENT)
		return transfer_at(c, d, s, append ? ABI_APPEND : offset,
				   writing);
	abi_lock(c->p, &d->lock);
	n = transfer_here(c, d, s, append, writing);
	abi_unlock(c->p, &d->lock);
	return n;
}

static s64 regular_read(struct abi_call *c, struct abi_desc *d,
			struct abi_span *s, s64 offset)
{
	return transfer_regular(c, d, s, offset, 0);
}

static s64 regular_write(struct abi_call *c, struct abi_desc *d,
			 struct abi_span *s, s64 offset)
{
	return transfer_regular(c, d, s, offset, 1);
}

static s64 directory_transfer(struct abi_call *c, struct abi_desc *d,
			      struct abi_span *s, s64 offset)
{
	(void)c;
	(void)d;
	(void)s;
	(void)offset;
	return -LINUX_EISDIR;
}

static s64 seek_inherited(struct abi_call *c, struct abi_desc *d, s64 offset,
			  u32 whence)
{
	u64 size;
	s64 error;

	if (whence > ABI_SEEK_HOLE)
		return -LINUX_EINVAL;
	if (whence >= ABI_SEEK_DATA) {
		error = abi_position_end(c, d, &size);
		offset =
			error ? error : abi_position_hole(size, offset, whence);
		if (offset < 0)
			return offset;
		whence = ABI_SEEK_SET;
	}
	return abi_position_host(c->p, d, offset, whence);
}

static s64 regular_seek(struct abi_call *c, struct abi_desc *d, s64 offset,
			u32 whence)
{
	abi_assert_locked(&d->lock);
	return d->inherited ? seek_inherited(c, d, offset, whence)
			    : abi_position_seek(c, d, offset, whence);
}

s64 abi_handle_control(struct abi_call *c, struct abi_desc *d,
		       struct abi_file_op *op)
{
	return c->p->host->file(d->handle, op);
}

s64 abi_handle_stat(struct abi_call *c, struct abi_desc *d, struct abi_stat *st)
{
	struct abi_file_op op = {.verb = ABI_FILE_STAT, .stat = st};

	return c->p->host->file(d->handle, &op);
}

s64 abi_handle_available(struct abi_call *c, struct abi_desc *d)
{
	struct abi_file_op op = {.verb = ABI_FILE_AVAILABLE};

	return c->p->host->file(d->handle, &op);
}

static s64 regular_sync(struct abi_call *c, struct abi_desc *d)
{
	struct abi_file_op op = {.verb = ABI_FILE_SYNC};

	return c->p->host->file(d->handle, &op);
}

static s64 regular_available(struct abi_call *c, struct abi_desc *d)
{
	struct abi_stat st;
	s64 at, error = abi_handle_stat(c, d, &st);

	if (error)
		return error;
	at = d->inherited ? abi_position_host(c->p, d, 0, ABI_SEEK_CUR)
			  : (s64)d->pos;
	return (s64)st.size > at ? (s64)st.size - at : 0;
}

static s64 directory_list(struct abi_call *c, struct abi_desc *d,
			  struct abi_dirent *e)
{
	struct abi_file_op op = {.verb = ABI_FILE_READDIR, .dirent = e};

	return c->p->host->file(d->handle, &op);
}

int abi_handle_release(struct abi_proc *p, struct abi_desc *d)
{
	if (abi_filelock_park(p, d))
		return 0;
	p->host->file_close(d->handle);
	return 1;
}

const struct abi_desc_ops abi_regular_ops = {
	.handle = 1,
	.regular = 1,
	.placed = 1,
	.read = regular_read,
	.write = regular_write,
	.seek = regular_seek,
	.stat = abi_handle_stat,
	.sync = regular_sync,
	.control = abi_handle_control,
	.available = regular_available,
	.release = abi_handle_release,
};

const struct abi_desc_ops abi_block_ops = {
	.handle = 1,
	.placed = 1,
	.read = regular_read,
	.write = regular_write,
	.seek = regular_seek,
	.stat = abi_handle_stat,
	.sync = regular_sync,
	.control = abi_handle_control,
	.release = abi_handle_release,
};

const struct abi_desc_ops abi_directory_ops = {
	.handle = 1,
	.read = directory_transfer,
	.write = directory_transfer,
	.seek = regular_seek,
	.stat = abi_handle_stat,
	.sync = regular_sync,
	.control = abi_handle_control,
	.list = directory_list,
	.release = abi_handle_release,
};
