// SPDX-License-Identifier: MIT
/* Owns the file position of a description; d->lock guards d->pos. */
#include "position.h"
#include "ops.h"
#include "stat.h"
#include "base/errno.h"
#include "abi/proc/call.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

s64 abi_position_host(struct abi_proc *p, struct abi_desc *d, s64 offset,
		      u32 whence)
{
	struct abi_file_op op = {
		.verb = ABI_FILE_SEEK, .mode = whence, .len = (u64)offset};

	return p->host->file(d->handle, &op);
}

s64 abi_position_get(struct abi_proc *p, struct abi_desc *d)
{
	s64 at;

	if (d->inherited)
		return abi_position_host(p, d, 0, ABI_SEEK_CUR);
	abi_lock(p, &d->lock);
	at = (s64)d->pos;
	abi_unlock(p, &d->lock);
	return at;
}

void abi_position_set(struct abi_proc *p, struct abi_desc *d, u64 at)
{
	if (d->inherited) {
		(void)abi_position_host(p, d, (s64)at, ABI_SEEK_SET);
		return;
	}
	abi_lock(p, &d->lock);
	d->pos = at;
	abi_unlock(p, &d->lock);
}

s64 abi_position_end(struct abi_call *c, struct abi_desc *d, u64 *size)
{
	struct abi_stat st;
	s64 error = abi_file_stat(c, d, &st);

	*size = error ? 0 : st.size;
	return error;
}

s64 abi_position_hole(u64 size, s64 offset, u32 whence)
{
	if (offset < 0 || (u64)offset >= size)
		return -LINUX_ENXIO;
	return whence == ABI_SEEK_DATA ? offset : (s64)size;
}

s64 abi_position_seek(struct abi_call *c, struct abi_desc *d, s64 offset,
		      u32 whence)
{
	u64 size = 0, base = 0;
	s64 error = 0;

	abi_assert_locked(&d->lock);
	if (whence > ABI_SEEK_HOLE)
		return -LINUX_EINVAL;
	if (whence >= ABI_SEEK_END)
		error = abi_position_end(c, d, &size);
	if (error)
		return error;
	if (whence >= ABI_SEEK_DATA) {
		offset = abi_position_hole(size, offset, whence);
		if (offset >= 0)
			d->pos = (u64)offset;
		return offset;
	}
	if (whence == ABI_SEEK_CUR)
		base = d->pos;
	else if (whence == ABI_SEEK_END)
		base = size;
	if (__builtin_add_overflow((s64)base, offset, &offset))
		return -LINUX_EOVERFLOW;
	if (offset < 0)
		return -LINUX_EINVAL;
	d->pos = (u64)offset;
	return offset;
}

s64 abi_position_read(struct abi_call *c, struct abi_desc *d,
		      struct abi_span *s, s64 offset,
		      s64 (*read)(struct abi_call *c, struct abi_desc *d,
				  struct abi_span *s, u64 at))
{
	s64 n;

	if (offset != ABI_FILE_CURRENT)
		return read(c, d, s, (u64)offset);
	abi_lock(c->p, &d->lock);
	n = read(c, d, s, d->pos);
	if (n > 0)
		d->pos += (u64)n;
	abi_unlock(c->p, &d->lock);
	return n;
}
