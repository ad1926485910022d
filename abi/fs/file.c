// SPDX-License-Identifier: MIT
/*
 * Owns reading and writing of descriptions of every kind, and the file
 * operations of mappings. No state.
 */
#include "file.h"
#include "desc.h"
#include "fd.h"
#include "ops.h"
#include "size_limit.h"
#include "transfer.h"
#include "base/errno.h"
#include "abi/mm/span.h"
#include "abi/proc/call.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/uapi/linux.h"

static s64 check_access(const struct abi_desc *d, s64 offset, u32 writing)
{
	u32 access = abi_desc_flags(d) & (ABI_O_ACCMODE | ABI_O_PATH);

	if (access & ABI_O_PATH)
		return -LINUX_EBADF;
	if (offset != ABI_FILE_CURRENT && !abi_desc_ops(d)->seek)
		return -LINUX_ESPIPE;
	return access == (writing ? ABI_O_RDONLY : ABI_O_WRONLY) ? -LINUX_EBADF
								 : 0;
}

s64 abi_file_read(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		  s64 offset)
{
	s64 (*read)(struct abi_call *, struct abi_desc *, struct abi_span *,
		    s64) = abi_desc_ops(d)->read;
	s64 error = check_access(d, offset, 0);

	if (error)
		return error;
	return read ? read(c, d, s, offset) : -LINUX_EINVAL;
}

s64 abi_file_write(struct abi_call *c, struct abi_desc *d, struct abi_span *s,
		   s64 offset)
{
	s64 (*write)(struct abi_call *, struct abi_desc *, struct abi_span *,
		     s64) = abi_desc_ops(d)->write;
	s64 n = check_access(d, offset, 1);

	if (!n)
		n = write ? write(c, d, s, offset) : -LINUX_EINVAL;
	if (n == -LINUX_EPIPE)
		abi_signal_raise(c->p, c->t, ABI_SIGPIPE);
	else if (n == -LINUX_EFBIG)
		abi_size_limit_signal(c);
	return n;
}

/* Mappings --------------------------------------------------------------- */

s64 abi_fd_pin(struct abi_proc *p, u32 fd, u32 prot, u32 shared)
{
	struct abi_desc *d = abi_desc_get(p, fd);
	u32 access;
	s64 error = 0;

	if (!d)
		return -LINUX_EBADF;
	access = abi_desc_flags(d) & (ABI_O_ACCMODE | ABI_O_PATH);
	if (access & ABI_O_PATH)
		error = -LINUX_EBADF;
	else if (access == ABI_O_WRONLY ||
		 (shared && prot & ABI_PROT_WRITE && access != ABI_O_RDWR))
		error = -LINUX_EACCES;
	else if (!abi_desc_ops(d)->regular)
		error = -LINUX_ENODEV;
	if (!error)
		return abi_desc_index(p, d);
	abi_desc_put(p, d);
	return error;
}

void abi_fd_release(struct abi_proc *p, u32 desc)
{
	abi_desc_put(p, &p->fds.desc[desc]);
}

/* Continues after short transfers; stops at the end of the file. */
static s64 transfer_all(struct abi_proc *p, struct abi_desc *d, u8 *buf,
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

s64 abi_fd_pinned_pread(struct abi_proc *p, u32 desc, void *buf, u64 len,
			u64 offset)
{
	return transfer_all(p, &p->fds.desc[desc], buf, len, offset, 0);
}

s64 abi_fd_pinned_pwrite(struct abi_proc *p, u32 desc, const void *buf, u64 len,
			 u64 offset)
{
	return transfer_all(p, &p->fds.desc[desc], (u8 *)buf, len, offset, 1);
}

const char *abi_fd_pinned_path(struct abi_proc *p, u32 desc)
{
	return p->fds.desc[desc].path;
}

static s64 by_number(struct abi_proc *p, u32 fd, void *buf, u64 len, u64 offset,
		     u32 writing)
{
	struct abi_desc *d = abi_desc_get(p, fd);
	s64 n;

	if (!d)
		return -LINUX_EBADF;
	n = abi_desc_ops(d)->regular
		    ? transfer_all(p, d, buf, len, offset, writing)
		    : -LINUX_ENODEV;
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
