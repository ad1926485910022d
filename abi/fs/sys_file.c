// SPDX-License-Identifier: MIT
/* Owns the calls on open files: data, position, length, control. No state. */
#include "desc.h"
#include "file.h"
#include "ops.h"
#include "position.h"
#include "size_limit.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/mm/span.h"
#include "abi/proc/call.h"
#include "abi/proc/refuse.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

typedef s64 transfer(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		     s64 offset);

static s64 run_transfer(struct abi_call *c, struct abi_span *s, s64 offset,
			transfer *move)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);
	s64 n;

	if (!d)
		return -LINUX_EBADF;
	n = move(c, d, s, offset);
	abi_desc_put(c->p, d);
	return n;
}

static s64 transfer_plain(struct abi_call *c, s64 offset, u32 prot,
			  transfer *move)
{
	struct abi_span s;

	if ((s64)c->a[2] < 0)
		return -LINUX_EINVAL;
	abi_span_one(&s, c->a[1], c->a[2], prot);
	return run_transfer(c, &s, offset, move);
}

static s64 transfer_vector(struct abi_call *c, s64 offset, u32 prot,
			   transfer *move)
{
	struct abi_span s;
	s64 error = abi_span_vector(c->p, &s, c->a[1], c->a[2], prot);

	return error ? error : run_transfer(c, &s, offset, move);
}

/* A read needs writable memory, a write readable memory. */
#define READS ABI_PROT_WRITE, abi_file_read
#define WRITES ABI_PROT_READ, abi_file_write

/* Transfers at the program's offset, which must be `least` or more. */
static s64 transfer_at(struct abi_call *c, s64 least,
		       s64 (*run)(struct abi_call *c, s64 offset, u32 prot,
				  transfer *move),
		       u32 prot, transfer *move)
{
	s64 offset = (s64)c->a[3];

	return offset < least ? -LINUX_EINVAL : run(c, offset, prot, move);
}

s64 abi_sys_read(struct abi_call *c)
{
	return transfer_plain(c, ABI_FILE_CURRENT, READS);
}

s64 abi_sys_write(struct abi_call *c)
{
	return transfer_plain(c, ABI_FILE_CURRENT, WRITES);
}

s64 abi_sys_pread64(struct abi_call *c)
{
	return transfer_at(c, 0, transfer_plain, READS);
}

s64 abi_sys_pwrite64(struct abi_call *c)
{
	return transfer_at(c, 0, transfer_plain, WRITES);
}

s64 abi_sys_readv(struct abi_call *c)
{
	return transfer_vector(c, ABI_FILE_CURRENT, READS);
}

s64 abi_sys_writev(struct abi_call *c)
{
	return transfer_vector(c, ABI_FILE_CURRENT, WRITES);
}

s64 abi_sys_preadv(struct abi_call *c)
{
	return transfer_at(c, 0, transfer_vector, READS);
}

s64 abi_sys_pwritev(struct abi_call *c)
{
	return transfer_at(c, 0, transfer_vector, WRITES);
}

#define RWF_KNOWN 0x1f

/* preadv2 and pwritev2: no flags are supported; offset -1 is the position. */
static s64 transfer_flagged(struct abi_call *c, u32 prot, transfer *move)
{
	if ((u32)c->a[5] & ~(u32)RWF_KNOWN)
		return -LINUX_ENOTSUP;
	if ((u32)c->a[5])
		return abi_refuse(c->p, ABI_REFUSE_IO_FLAGS, -LINUX_ENOTSUP);
	return transfer_at(c, ABI_FILE_CURRENT, transfer_vector, prot, move);
}

s64 abi_sys_preadv2(struct abi_call *c)
{
	return transfer_flagged(c, READS);
}

s64 abi_sys_pwritev2(struct abi_call *c)
{
	return transfer_flagged(c, WRITES);
}

s64 abi_sys_lseek(struct abi_call *c)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);
	s64 (*seek)(struct abi_call *, struct abi_desc *, s64, u32);
	s64 result = -LINUX_ESPIPE;

	if (!d)
		return -LINUX_EBADF;
	seek = abi_desc_ops(d)->seek;
	if ((u32)c->a[2] > ABI_SEEK_HOLE) {
		result = -LINUX_EINVAL;
	} else if (abi_desc_ops(d)->unmoved) {
		result = 0;
	} else if (seek) {
		abi_lock(c->p, &d->lock);
		result = seek(c, d, (s64)c->a[1], (u32)c->a[2]);
		abi_unlock(c->p, &d->lock);
	}
	abi_desc_put(c->p, d);
	return result;
}

/* Length and durability -------------------------------------------------- */

static s64 writable_file(const struct abi_desc *d)
{
	u32 flags = abi_desc_flags(d);

	if (flags & ABI_O_PATH)
		return -LINUX_EBADF;
	if (!abi_desc_ops(d)->regular)
		return -LINUX_EINVAL;
	return (flags & ABI_O_ACCMODE) == ABI_O_RDONLY ? -LINUX_EINVAL : 0;
}

s64 abi_sys_ftruncate(struct abi_call *c)
{
	struct abi_file_op op = {.verb = ABI_FILE_TRUNCATE, .len = c->a[1]};
	struct abi_desc *d;
	s64 result;
	u64 size;

	if ((s64)c->a[1] < 0)
		return -LINUX_EINVAL;
	d = abi_desc_get(c->p, c->a[0]);
	if (!d)
		return -LINUX_EBADF;
	result = writable_file(d);
	if (!result && !abi_size_limit_allows(c, op.len)) {
		result = abi_position_end(c, d, &size);
		if (!result)
			result = abi_size_limit_grow(c, size, op.len);
	}
	if (!result)
		result = c->p->host->file(d->handle, &op);
	abi_desc_put(c->p, d);
	return result;
}

/* Extends a file to at least `end` bytes without changing its contents. */
static s64 extend_file(struct abi_call *c, struct abi_desc *d, u64 end)
{
	struct abi_file_op op = {.verb = ABI_FILE_TRUNCATE, .len = end};
	u64 size;
	s64 error = abi_position_end(c, d, &size);

	if (error || size >= end)
		return error;
	error = abi_size_limit_grow(c, size, end);
	return error ? error : c->p->host->file(d->handle, &op);
}

#define FALLOC_KEEP_SIZE 1u
#define FALLOC_KNOWN 0x7fu

s64 abi_sys_fallocate(struct abi_call *c)
{
	struct abi_desc *d;
	s64 result, end;

	if ((s64)c->a[2] < 0 || (s64)c->a[3] <= 0)
		return -LINUX_EINVAL;
	if (__builtin_add_overflow((s64)c->a[2], (s64)c->a[3], &end))
		return -LINUX_EFBIG;
	d = abi_desc_get(c->p, c->a[0]);
	if (!d)
		return -LINUX_EBADF;
	if ((u32)c->a[1] & ~FALLOC_KNOWN)
		result = -LINUX_ENOTSUP;
	else if ((u32)c->a[1] & ~FALLOC_KEEP_SIZE)
		result = abi_refuse(c->p, ABI_REFUSE_FALLOCATE, -LINUX_ENOTSUP);
	else if (!abi_desc_is_writable(d))
		result = -LINUX_EBADF;
	else if (d->type == ABI_S_IFIFO)
		result = -LINUX_ESPIPE;
	else
		result = abi_desc_ops(d)->regular ? 0 : -LINUX_ENODEV;
	if (!result && !((u32)c->a[1] & FALLOC_KEEP_SIZE))
		result = extend_file(c, d, (u64)end);
	abi_desc_put(c->p, d);
	return result;
}

s64 abi_sys_fsync(struct abi_call *c)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);
	s64 result = -LINUX_EINVAL;

	if (!d)
		return -LINUX_EBADF;
	if (abi_desc_flags(d) & ABI_O_PATH)
		result = -LINUX_EBADF;
	else if (abi_desc_ops(d)->sync)
		result = abi_desc_ops(d)->sync(c, d);
	abi_desc_put(c->p, d);
	return result;
}

s64 abi_sys_fdatasync(struct abi_call *c)
{
	return abi_sys_fsync(c);
}

/* The host cannot sync everything, so each open file is synced. */
s64 abi_sys_sync(struct abi_call *c)
{
	struct abi_desc *d;
	u32 fd;

	for (fd = 0; fd < ABI_FD_MAX; fd++) {
		d = abi_desc_get(c->p, fd);
		if (!d)
			continue;
		if (abi_desc_ops(d)->regular)
			(void)abi_desc_ops(d)->sync(c, d);
		abi_desc_put(c->p, d);
	}
	return 0;
}

s64 abi_sys_syncfs(struct abi_call *c)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);

	if (!d)
		return -LINUX_EBADF;
	abi_desc_put(c->p, d);
	return abi_sys_sync(c);
}

s64 abi_sys_sync_file_range(struct abi_call *c)
{
	return abi_sys_fsync(c);
}

/* Advice has no effect here, but its arguments are checked. */
s64 abi_sys_fadvise64(struct abi_call *c)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);
	u32 pipe;

	if (!d)
		return -LINUX_EBADF;
	pipe = d->type == ABI_S_IFIFO;
	abi_desc_put(c->p, d);
	if (pipe)
		return -LINUX_ESPIPE;
	return (u32)c->a[3] > 5 || (s64)c->a[2] < 0 ? -LINUX_EINVAL : 0;
}

s64 abi_sys_readahead(struct abi_call *c)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);

	if (!d)
		return -LINUX_EBADF;
	abi_desc_put(c->p, d);
	return 0;
}
