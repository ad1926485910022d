// SPDX-License-Identifier: MIT
/* Owns the calls that move bytes between descriptors. No state. */
#include "desc.h"
#include "file.h"
#include "ops.h"
#include "position.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/mm/span.h"
#include "abi/proc/call.h"
#include "abi/state/proc.h"
#include "abi/uapi/linux.h"

/* sendfile --------------------------------------------------------------- */

#define PIECE 4096

/* Copies one part from `in` at `offset` to `out`; returns the bytes written. */
static s64 move_piece(struct abi_call *c, struct abi_desc *in,
		      struct abi_desc *out, u64 offset, u64 len)
{
	u8 piece[PIECE];
	struct abi_io io = {piece, len < PIECE ? len : PIECE, (s64)offset};
	struct abi_span s;
	s64 n = c->p->host->file_read(in->handle, &io);

	if (n <= 0)
		return n;
	/* the buffer is abi's own memory, not the guest's */
	abi_span_one(&s, (u64)piece, (u64)n, ABI_SPAN_OWN);
	return abi_file_write(c, out, &s, ABI_FILE_CURRENT);
}

static s64 move_all(struct abi_call *c, struct abi_desc *in,
		    struct abi_desc *out, u64 offset, u64 len)
{
	u64 done = 0, want;
	s64 n;

	while (done < len) {
		want = len - done;
		n = move_piece(c, in, out, offset + done, want);
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
static s64 send_file(struct abi_call *c, struct abi_desc *out,
		     struct abi_desc *in)
{
	u64 len = c->a[3] < ABI_IO_MAX ? c->a[3] : ABI_IO_MAX, offset;
	s64 n;

	if (!abi_desc_ops(in)->regular)
		return -LINUX_EINVAL;
	if ((abi_desc_flags(in) & ABI_O_ACCMODE) == ABI_O_WRONLY)
		return -LINUX_EBADF;
	if (c->a[2]) {
		if (ABI_GET(c->p, &offset, c->a[2]))
			return -LINUX_EFAULT;
		if ((s64)offset < 0)
			return -LINUX_EINVAL;
		n = move_all(c, in, out, offset, len);
		offset += n > 0 ? (u64)n : 0;
		return ABI_PUT(c->p, c->a[2], &offset) ? -LINUX_EFAULT : n;
	}
	n = abi_position_get(c->p, in);
	if (n < 0)
		return n;
	offset = (u64)n;
	n = move_all(c, in, out, offset, len);
	if (n > 0)
		abi_position_set(c->p, in, offset + (u64)n);
	return n;
}

s64 abi_sys_sendfile(struct abi_call *c)
{
	struct abi_desc *out = abi_desc_get(c->p, c->a[0]);
	struct abi_desc *in = abi_desc_get(c->p, c->a[1]);
	s64 n = out && in ? send_file(c, out, in) : -LINUX_EBADF;

	if (out)
		abi_desc_put(c->p, out);
	if (in)
		abi_desc_put(c->p, in);
	return n;
}

/*
 * Linux returns EINVAL for descriptions that cannot be spliced, and programs
 * (Go's net package) then copy; ENOSYS would be an error for them.
 */
s64 abi_sys_splice(struct abi_call *c)
{
	(void)c;
	return -LINUX_EINVAL;
}

s64 abi_sys_tee(struct abi_call *c)
{
	(void)c;
	return -LINUX_EINVAL;
}

/* Programs fall back to read and write when it is missing. */
s64 abi_sys_copy_file_range(struct abi_call *c)
{
	(void)c;
	return -LINUX_ENOSYS;
}
