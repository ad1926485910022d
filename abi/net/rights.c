// SPDX-License-Identifier: MIT
/*
 * Descriptors in messages, which the host passes. Objects of abi itself (an
 * eventfd, an epoll, a timer, a file of /proc) have no handle that could be
 * passed, and are refused with a message. No state.
 */
#include "rights.h"
#include "pair.h"
#include "sock.h"
#include "abi/fs/desc.h"
#include "abi/fs/fd.h"
#include "abi/fs/ops.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/proc/fork.h"
#include "abi/proc/log.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"
#include "base/errno.h"

#define SCM_RIGHTS 1
#define CONTROL_MAX 20480 /* net.core.optmem_max */

struct control {
	u64 len; /* with this header */
	s32 level, type;
};

static u64 space_of(u64 len)
{
	return (len + 7) & ~7ull;
}

/* Only an AF_UNIX socket of the host can pass them. */
static int passes_rights(const struct abi_proc *p, const struct abi_desc *d)
{
	return d->domain == ABI_AF_UNIX && abi_desc_ops(d)->handle &&
	       !abi_pair_is_shared(p, d);
}

static s64 refuse_control(struct abi_call *c)
{
	abi_log_once(c->p, &c->p->fds.said_control,
		     "sendmsg refused (EINVAL): the only ancillary data are "
		     "descriptors of files, pipes, terminals and sockets, on a "
		     "socket of AF_UNIX, on Linux");
	return -LINUX_EINVAL;
}

/* Sending ----------------------------------------------------------------- */

/* The receiver gets only what the host knows about the file, so that is
 * updated. */
static void share_file(struct abi_call *c, struct abi_desc *d)
{
	struct abi_file_op op = {.verb = ABI_FILE_APPEND};

	abi_lock(c->p, &d->lock);
	abi_fork_share(c->p, d);
	abi_unlock(c->p, &d->lock);
	if (abi_desc_flags(d) & ABI_O_APPEND)
		(void)c->p->host->file(d->handle, &op);
}

static s64 take_number(struct abi_call *c, u32 fd, struct abi_rights_held *to)
{
	struct abi_desc *d;

	if (to->rights.count == ABI_RIGHTS_MAX)
		return -LINUX_EINVAL;
	d = abi_desc_get(c->p, fd);
	if (!d)
		return -LINUX_EBADF;
	to->desc[to->rights.count] = d;
	to->rights.list[to->rights.count++].handle = d->handle;
	if (!abi_desc_ops(d)->handle || d->kind == ABI_DESC_COUNTER)
		return refuse_control(c);
	share_file(c, d);
	return 0;
}

static s64 take_part(struct abi_call *c, u64 at, const struct control *part,
		     struct abi_rights_held *to)
{
	u64 i, count = (part->len - sizeof(*part)) / sizeof(u32);
	s64 error = 0;
	u32 fd;

	if (part->level != ABI_SOL_SOCKET)
		return 0; /* as on Linux */
	if (part->type != SCM_RIGHTS)
		return refuse_control(c);
	for (i = 0; i < count && !error; i++) {
		if (ABI_GET(c->p, &fd, at + sizeof(*part) + i * sizeof(fd)))
			return -LINUX_EFAULT;
		error = take_number(c, fd, to);
	}
	return error;
}

s64 abi_rights_take(struct abi_call *c, struct abi_desc *d,
		    const struct abi_msghdr *h, struct abi_rights_held *to)
{
	struct control part;
	s64 error = 0;
	u64 at;

	to->rights.count = 0;
	if (!h->control || !h->controllen)
		return 0;
	if (!passes_rights(c->p, d))
		return refuse_control(c);
	if (h->controllen > CONTROL_MAX)
		return -LINUX_ENOBUFS;
	for (at = 0; !error && at + sizeof(part) <= h->controllen;
	     at += space_of(part.len)) {
		if (ABI_GET(c->p, &part, h->control + at))
			return -LINUX_EFAULT;
		if (part.len < sizeof(part) || part.len > h->controllen - at)
			return -LINUX_EINVAL;
		error = take_part(c, h->control + at, &part, to);
	}
	return error;
}

void abi_rights_put(struct abi_call *c, struct abi_rights_held *held)
{
	while (held->rights.count)
		abi_desc_put(c->p, held->desc[--held->rights.count]);
}

/* Receiving --------------------------------------------------------------- */

u32 abi_rights_room(const struct abi_proc *p, const struct abi_desc *d,
		    const struct abi_msghdr *h)
{
	u64 n;

	if (!passes_rights(p, d) || !h->control ||
	    h->controllen < sizeof(struct control) + sizeof(u32))
		return 0;
	n = (h->controllen - sizeof(struct control)) / sizeof(u32);
	return n < ABI_RIGHTS_MAX ? (u32)n : ABI_RIGHTS_MAX;
}

/* Returns the number, or an error after closing the file. */
static s64 give_number(struct abi_call *c, const struct abi_right *r,
		       u32 cloexec)
{
	struct abi_desc *d;
	s64 error = abi_fd_describe(c->p, r, &d);

	return error ? error : abi_desc_install(c->p, d, 0, cloexec);
}

static s64 put_part(struct abi_call *c, struct abi_msghdr *h, const u32 *fd,
		    u32 count)
{
	struct control part = {sizeof(part) + count * sizeof(*fd),
			       ABI_SOL_SOCKET, SCM_RIGHTS};
	u64 used = space_of(part.len);

	if (ABI_PUT(c->p, h->control, &part) ||
	    abi_user_put(c->p, h->control + sizeof(part), fd,
			 count * sizeof(*fd)))
		return -LINUX_EFAULT;
	h->controllen = used < h->controllen ? used : h->controllen;
	return 0;
}

s64 abi_rights_give(struct abi_call *c, const struct abi_rights *got,
		    struct abi_msghdr *h, u32 flags)
{
	u32 fd[ABI_RIGHTS_MAX], i, count = 0;
	s64 n;

	for (i = 0; i < got->count; i++) {
		n = give_number(c, &got->list[i], flags & ABI_MSG_CMSG_CLOEXEC);
		if (n >= 0)
			fd[count++] = (u32)n;
		else
			h->flags |= ABI_MSG_CTRUNC;
	}
	if (count)
		return put_part(c, h, fd, count);
	h->controllen = 0;
	return 0;
}
