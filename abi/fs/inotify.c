// SPDX-License-Identifier: MIT
/*
 * Owns inotify(7): the host watches, and its descriptor is a stream of the
 * host. Hosts without host->watch refuse the calls by name. No state.
 */
#include "desc.h"
#include "open.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/proc/call.h"
#include "abi/state/proc.h"
#include "abi/uapi/file.h"

#define NAME "anon_inode:inotify"

static s64 make_watcher(struct abi_call *c, u64 flags)
{
	struct abi_watch_op op = {.verb = ABI_WATCH_OPEN};
	struct abi_desc *d;
	s64 handle;

	if (!c->p->host->watch)
		return abi_call_refuse(c);
	if ((u32)flags & ~(u32)(ABI_O_NONBLOCK | ABI_O_CLOEXEC))
		return -LINUX_EINVAL;
	d = abi_desc_new(c->p, ABI_DESC_NULL, (u32)flags & ABI_O_NONBLOCK);
	if (!d)
		return -LINUX_ENFILE;
	handle = c->p->host->watch(&op);
	if (handle < 0) {
		abi_desc_put(c->p, d);
		return handle;
	}
	d->handle = (s32)handle;
	d->kind = ABI_DESC_STREAM;
	abi_strcpy(d->path, NAME, sizeof(d->path));
	return abi_desc_install(c->p, d, 0, (u32)flags & ABI_O_CLOEXEC);
}

s64 abi_sys_inotify_init(struct abi_call *c)
{
	return make_watcher(c, 0);
}

s64 abi_sys_inotify_init1(struct abi_call *c)
{
	return make_watcher(c, c->a[0]);
}

/* Of a description that is none, EINVAL. */
static s64 run_watch(struct abi_call *c, struct abi_watch_op *op)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);
	s64 rc = -LINUX_EINVAL;

	if (!d)
		return -LINUX_EBADF;
	if (d->kind == ABI_DESC_STREAM && abi_streq(d->path, NAME)) {
		op->handle = d->handle;
		rc = c->p->host->watch(op);
	}
	abi_desc_put(c->p, d);
	return rc;
}

s64 abi_sys_inotify_add_watch(struct abi_call *c)
{
	struct abi_watch_op op = {.verb = ABI_WATCH_ADD, .mask = (u32)c->a[2]};
	char path[ABI_PATH_MAX];
	u32 flags;
	s64 rc;

	if (!c->p->host->watch)
		return abi_call_refuse(c);
	rc = abi_path_at(c, (u64)ABI_AT_FDCWD, c->a[1], path, &flags);
	if (rc < 0)
		return rc;
	op.path = path;
	return run_watch(c, &op);
}

s64 abi_sys_inotify_rm_watch(struct abi_call *c)
{
	struct abi_watch_op op = {.verb = ABI_WATCH_REMOVE,
				  .number = (s32)c->a[1]};

	if (!c->p->host->watch)
		return abi_call_refuse(c);
	return run_watch(c, &op);
}
