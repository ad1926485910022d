// SPDX-License-Identifier: MIT
/*
 * Owns the listing of directories. desc->pos is the host's cookie of the next
 * entry, guarded by desc->lock; lseek(fd, 0) restarts the listing.
 */
#include "desc.h"
#include "ops.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

#define NAME_AT 19 /* offset of d_name in struct linux_dirent64 */
#define OLD_NAME_AT 18

struct lister {
	u64 to, left; /* the guest's buffer */
	u32 old;      /* getdents: the type is the last byte of the record */
	s64 done;
};

/* Writes one record; 0, -EINVAL if it does not fit, or -EFAULT. */
static s64 emit_record(struct abi_call *c, struct lister *l,
		       const struct abi_dirent *e)
{
	u8 record[NAME_AT + 264];
	u64 at = l->old ? OLD_NAME_AT : NAME_AT;
	u64 len = abi_strlen(e->name);
	u64 size = (at + len + 1 + l->old + 7) & ~7ull;
	u16 size16 = (u16)size;

	if (size > l->left)
		return -LINUX_EINVAL;
	abi_memset(record, 0, sizeof(record));
	abi_memcpy(record, &e->ino, 8);
	abi_memcpy(record + 8, &e->next, 8);
	abi_memcpy(record + 16, &size16, 2);
	if (l->old)
		record[size - 1] = (u8)e->type;
	else
		record[18] = (u8)e->type;
	abi_memcpy(record + at, e->name, len);
	if (abi_user_put(c->p, l->to, record, size))
		return -LINUX_EFAULT;
	l->to += size;
	l->left -= size;
	l->done += (s64)size;
	return 0;
}

/* The caller holds d->lock. */
static s64 list_entries(struct abi_call *c, struct abi_desc *d,
			struct lister *l)
{
	struct abi_dirent e;
	s64 n;

	abi_assert_locked(&d->lock);
	for (;;) {
		e.next = d->pos;
		n = abi_desc_ops(d)->list(c, d, &e);
		if (n <= 0)
			return n < 0 && !l->done ? n : l->done;
		e.name[sizeof(e.name) - 1] = 0;
		n = emit_record(c, l, &e);
		if (n < 0)
			return l->done ? l->done : n;
		d->pos = e.next;
	}
}

static s64 run_getdents(struct abi_call *c, u32 old)
{
	struct lister l = {c->a[1], (u32)c->a[2], old, 0};
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);
	s64 n = -LINUX_ENOTDIR;

	if (!d)
		return -LINUX_EBADF;
	if (d->type == ABI_S_IFDIR && abi_desc_ops(d)->list) {
		abi_lock(c->p, &d->lock);
		n = list_entries(c, d, &l);
		abi_unlock(c->p, &d->lock);
	}
	abi_desc_put(c->p, d);
	return n;
}

s64 abi_sys_getdents64(struct abi_call *c)
{
	return run_getdents(c, 0);
}

s64 abi_sys_getdents(struct abi_call *c)
{
	return run_getdents(c, 1);
}
