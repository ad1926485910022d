// SPDX-License-Identifier: MIT
/*
 * Owns file locks: record locks of the process (F_SETLK), of an open file
 * description (F_OFD_SETLK), and flock(2). The host keeps them, so that other
 * processes see them; each description is one open file there.
 *
 * Record locks are dropped when the process closes any number of that file, and
 * the host drops them when it closes any handle of it. So closing a number
 * drops them here, and a handle that a mapping still uses is kept open while
 * the process may have locks on its file. fds->lock guards the list of such
 * files.
 */
#include "filelock.h"
#include "desc.h"
#include "ops.h"
#include "position.h"
#include "stat.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/poll/wait.h"
#include "abi/proc/call.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

#define F_GETLK 5
#define F_SETLK 6
#define F_SETLKW 7
#define F_OFD_GETLK 36
#define F_OFD_SETLKW 38

#define LOCK_SH 1u
#define LOCK_EX 2u
#define LOCK_NB 4u
#define LOCK_UN 8u

#define RETRY_NS 10000000ull /* for a host that cannot wait */

struct flock {
	s16 type, whence;
	u32 pad;
	s64 start, len;
	s32 pid;
	u32 pad2;
};

static int has_host(const struct abi_desc *d)
{
	return abi_desc_ops(d)->handle;
}

static s64 host_lock(struct abi_call *c, struct abi_desc *d,
		     struct abi_filelock *l)
{
	return c->p->host->file_lock(d->handle, l, c->t->index);
}

/* With a host without locks, calls behave as if no other process existed, and a
 * message is logged. */
static s64 answer_alone(struct abi_call *c, struct abi_filelock *l)
{
	if (!__atomic_exchange_n(&c->p->fds.said_lock, 1, __ATOMIC_RELAXED))
		c->p->host->log("file locks (fcntl, flock) hold inside this "
				"program only: other programs do not see them "
				"on this system");
	l->type = ABI_FILELOCK_NONE;
	return 0;
}

/* Waits until the lock is acquired, the thread is kicked, or the host reports
 * an error. */
static s64 lock_wait(struct abi_call *c, struct abi_desc *d,
		     struct abi_filelock *l)
{
	u64 until;
	s64 rc;

	for (;;) {
		if (abi_pending(c->p, c->t->index))
			return -ABI_ERESTARTSYS;
		rc = host_lock(c, d, l);
		if (rc == -LINUX_EINTR)
			continue;
		if (rc != -LINUX_EAGAIN)
			return rc;
		until = abi_wait_deadline(c->p, RETRY_NS);
		abi_wait_begin(c, 0);
		rc = abi_wait_sleep(c, 0, 0, until);
		if (rc && rc != -LINUX_EINTR && rc != -LINUX_ETIMEDOUT)
			return rc;
	}
}

/* Files with record locks ------------------------------------------------- */

/* The file's identity, requested once; 0 if the host does not know. */
static int identify_file(struct abi_proc *p, struct abi_desc *d)
{
	struct abi_stat st;
	struct abi_file_op op = {.verb = ABI_FILE_STAT, .stat = &st};

	if (!has_host(d))
		return 0;
	if (__atomic_load_n(&d->identified, __ATOMIC_ACQUIRE))
		return 1;
	if (p->host->file(d->handle, &op))
		return 0;
	__atomic_store_n(&d->file.dev, st.dev, __ATOMIC_RELAXED);
	__atomic_store_n(&d->file.ino, st.ino, __ATOMIC_RELAXED);
	__atomic_store_n(&d->identified, 1, __ATOMIC_RELEASE);
	return 1;
}

static int same_file(const struct abi_file_id *a, const struct abi_file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

/* The caller holds fds->lock. Index in the list, or `locked_files`. */
static u32 find_file(const struct abi_fds *fds, const struct abi_file_id *id)
{
	u32 i;

	abi_assert_locked(&fds->lock);
	for (i = 0; i < fds->locked_files; i++)
		if (same_file(&fds->locked_file[i], id))
			break;
	return i;
}

/* Called before a record lock is requested. Each file in the list is open, so
 * the list has room for all. */
static s64 note_file(struct abi_proc *p, struct abi_desc *d)
{
	struct abi_fds *fds = &p->fds;
	u32 i;

	if (!identify_file(p, d))
		return -LINUX_ENOLCK;
	abi_lock(p, &fds->lock);
	i = find_file(fds, &d->file);
	skep_assert(i < ABI_LOCKED_FILES);
	if (i == fds->locked_files)
		fds->locked_file[fds->locked_files++] = d->file;
	abi_unlock(p, &fds->lock);
	return 0;
}

/* Removes one kept description of this file from the list, or returns 0. */
static struct abi_desc *unpark_desc(struct abi_proc *p,
				    const struct abi_file_id *id)
{
	struct abi_fds *fds = &p->fds;
	struct abi_desc *d = 0;
	u32 i;

	abi_lock(p, &fds->lock);
	for (i = 0; i < fds->high && fds->parked && !d; i++)
		if (fds->desc[i].parked && same_file(&fds->desc[i].file, id))
			d = &fds->desc[i];
	if (d) {
		d->parked = 0;
		fds->parked--;
	}
	abi_unlock(p, &fds->lock);
	return d;
}

static void unlock_all(struct abi_proc *p, struct abi_desc *d)
{
	struct abi_filelock l = {.verb = ABI_FILELOCK_SET,
				 .kind = ABI_FILELOCK_RECORD,
				 .type = ABI_FILELOCK_NONE,
				 .last = ABI_FILELOCK_END};

	(void)p->host->file_lock(d->handle, &l, 0);
}

void abi_filelock_close(struct abi_proc *p, struct abi_desc *d)
{
	struct abi_fds *fds = &p->fds;
	struct abi_file_id id;
	u32 i, had;

	if (!__atomic_load_n(&fds->locked_files, __ATOMIC_RELAXED) ||
	    !identify_file(p, d))
		return;
	id = d->file;
	abi_lock(p, &fds->lock);
	i = find_file(fds, &id);
	had = i < fds->locked_files;
	if (had)
		fds->locked_file[i] = fds->locked_file[--fds->locked_files];
	abi_unlock(p, &fds->lock);
	if (!had)
		return;
	unlock_all(p, d);
	while ((d = unpark_desc(p, &id))) {
		p->host->file_close(d->handle);
		abi_lock(p, &fds->lock);
		d->kind = ABI_DESC_FREE;
		abi_unlock(p, &fds->lock);
	}
}

int abi_filelock_park(struct abi_proc *p, struct abi_desc *d)
{
	struct abi_fds *fds = &p->fds;

	if (!__atomic_load_n(&fds->locked_files, __ATOMIC_RELAXED) ||
	    !identify_file(p, d))
		return 0;
	abi_lock(p, &fds->lock);
	d->parked = find_file(fds, &d->file) < fds->locked_files;
	fds->parked += d->parked;
	abi_unlock(p, &fds->lock);
	return (int)d->parked;
}

u32 abi_filelock_exec(struct abi_proc *p, s32 *closed, struct abi_file_id *kept,
		      u32 *kept_count)
{
	u8 drops[ABI_LOCKED_FILES] = {0};
	struct abi_fds *fds = &p->fds;
	struct abi_slot *slot = fds->slot;
	u32 fd, i, count = 0;

	*kept_count = 0;
	if (!__atomic_load_n(&fds->locked_files, __ATOMIC_RELAXED))
		return 0;
	for (fd = 0; fd < ABI_FD_MAX; fd++) {
		struct abi_desc *d = &fds->desc[slot[fd].desc - 1u];

		if (!slot[fd].desc || !slot[fd].cloexec || !identify_file(p, d))
			continue;
		abi_lock(p, &fds->lock);
		i = find_file(fds, &d->file);
		if (i < fds->locked_files && !drops[i]) {
			drops[i] = 1;
			closed[count++] = d->handle;
		}
		abi_unlock(p, &fds->lock);
	}
	abi_lock(p, &fds->lock);
	for (i = 0; i < fds->locked_files; i++)
		if (!drops[i])
			kept[(*kept_count)++] = fds->locked_file[i];
	abi_unlock(p, &fds->lock);
	return count;
}

/* The calls ---------------------------------------------------------------- */

static s64 lock_base(struct abi_call *c, struct abi_desc *d, s16 whence)
{
	struct abi_stat st;
	s64 rc;

	switch (whence) {
	case ABI_SEEK_SET:
		return 0;
	case ABI_SEEK_CUR:
		return abi_position_get(c->p, d);
	case ABI_SEEK_END:
		rc = abi_file_stat(c, d, &st);
		return rc ? rc : (s64)st.size;
	default:
		return -LINUX_EINVAL;
	}
}

/* fcntl(2): converts l_whence, l_start and l_len to the first and last byte. */
static s64 lock_range(struct abi_call *c, struct abi_desc *d,
		      const struct flock *f, struct abi_filelock *l)
{
	s64 start = lock_base(c, d, f->whence), last = (s64)ABI_FILELOCK_END;

	if (start < 0)
		return start;
	if (__builtin_add_overflow(start, f->start, &start))
		return -LINUX_EOVERFLOW;
	if (start < 0)
		return -LINUX_EINVAL;
	if (f->len > 0 && __builtin_add_overflow(start, f->len - 1, &last))
		return -LINUX_EOVERFLOW;
	if (f->len < 0) {
		last = start - 1;
		if (__builtin_add_overflow(start, f->len, &start) || start < 0)
			return -LINUX_EINVAL;
	}
	l->first = (u64)start;
	l->last = (u64)last;
	return 0;
}

/*
 * Another thread may have closed a number of the file while this one waited. If
 * it was this number, the lock is dropped, as Linux does; if another one, the
 * file is no longer in the list.
 */
static s64 check_closed(struct abi_call *c, struct abi_desc *d,
			const struct abi_filelock *l)
{
	struct abi_filelock none = *l;
	struct abi_desc *now;
	s64 rc = note_file(c->p, d);

	now = abi_desc_get(c->p, c->a[0]);
	if (now)
		abi_desc_put(c->p, now);
	if (now != d)
		rc = -LINUX_EBADF;
	none.verb = ABI_FILELOCK_SET;
	none.type = ABI_FILELOCK_NONE;
	if (rc)
		(void)host_lock(c, d, &none);
	return rc;
}

static s64 set_lock(struct abi_call *c, struct abi_desc *d,
		    struct abi_filelock *l)
{
	u32 note =
		l->kind == ABI_FILELOCK_RECORD && l->type != ABI_FILELOCK_NONE;
	s64 rc;

	if (!c->p->host->file_lock)
		return answer_alone(c, l);
	rc = note ? note_file(c->p, d) : 0;
	if (!rc)
		rc = l->verb == ABI_FILELOCK_WAIT ? lock_wait(c, d, l)
						  : host_lock(c, d, l);
	return !rc && note ? check_closed(c, d, l) : rc;
}

static s64 get_lock(struct abi_call *c, struct abi_desc *d, struct flock *f,
		    struct abi_filelock *l)
{
	s64 rc =
		c->p->host->file_lock ? host_lock(c, d, l) : answer_alone(c, l);

	if (rc)
		return rc;
	f->type = (s16)l->type;
	if (l->type != ABI_FILELOCK_NONE) {
		f->whence = ABI_SEEK_SET;
		f->start = (s64)l->first;
		f->len = l->last == ABI_FILELOCK_END
				 ? 0
				 : (s64)(l->last - l->first + 1);
		f->pid = l->pid;
	}
	return ABI_PUT(c->p, c->a[2], f);
}

s64 abi_filelock_control(struct abi_call *c, struct abi_desc *d, u32 command)
{
	struct abi_filelock l = {.kind = ABI_FILELOCK_RECORD};
	struct flock f;
	s64 rc;

	if (ABI_GET(c->p, &f, c->a[2]))
		return -LINUX_EFAULT;
	if (command >= F_OFD_GETLK) {
		l.kind = ABI_FILELOCK_OPEN;
		command -= F_OFD_GETLK - F_GETLK;
		if (f.pid)
			return -LINUX_EINVAL;
	}
	if (f.type < 0 || f.type > 2)
		return -LINUX_EINVAL;
	if (!has_host(d)) /* pipes and the like are not shared with other
			     processes */
		return l.kind == ABI_FILELOCK_RECORD && command != F_GETLK
			       ? 0
			       : -LINUX_ENOLCK;
	l.type = (u32)f.type;
	l.verb = command == F_GETLK   ? ABI_FILELOCK_GET
		 : command == F_SETLK ? ABI_FILELOCK_SET
				      : ABI_FILELOCK_WAIT;
	rc = lock_range(c, d, &f, &l);
	if (rc)
		return rc;
	return command == F_GETLK ? get_lock(c, d, &f, &l) : set_lock(c, d, &l);
}

s64 abi_sys_flock(struct abi_call *c)
{
	u32 how = (u32)c->a[1] & ~LOCK_NB;
	struct abi_filelock l = {.kind = ABI_FILELOCK_FLOCK,
				 .last = ABI_FILELOCK_END};
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);
	s64 rc = -LINUX_EINVAL;

	if (!d)
		return -LINUX_EBADF;
	l.verb = (u32)c->a[1] & LOCK_NB ? ABI_FILELOCK_SET : ABI_FILELOCK_WAIT;
	l.type = how == LOCK_SH	  ? ABI_FILELOCK_READ
		 : how == LOCK_EX ? ABI_FILELOCK_WRITE
				  : ABI_FILELOCK_NONE;
	if (abi_desc_flags(d) & ABI_O_PATH)
		rc = -LINUX_EBADF;
	else if (how == LOCK_SH || how == LOCK_EX || how == LOCK_UN)
		rc = has_host(d) ? set_lock(c, d, &l) : -LINUX_ENOLCK;
	abi_desc_put(c->p, d);
	return rc;
}
