// SPDX-License-Identifier: MIT
/* The second half of execve: the new process takes over what the old one
 * had. */
#include "exec.h"
#include "abi/fs/desc.h"
#include "abi/include/mem.h"
#include "abi/include/siginfo.h"
#include "abi/signal/signal.h"
#include "abi/thread/lock.h"
#include "abi/time/cpu_timer.h"
#include "base/errno.h"

static const struct abi_exec_record *number_at(const void *state, u32 i)
{
	const u8 *bytes = state;

	return (const void *)(bytes + sizeof(struct abi_exec_state) +
			      (u64)i * sizeof(struct abi_exec_record));
}

s32 abi_exec_number(const void *state, u32 i)
{
	return (s32)number_at(state, i)->fd;
}

s32 abi_exec_handle(const void *state, u32 i)
{
	return number_at(state, i)->desc.handle;
}

const char *abi_exec_cwd(const void *state)
{
	return ((const struct abi_exec_state *)state)->cwd;
}

/* Copies a description, without what belongs to threads and to other
 * descriptions. */
static struct abi_desc *copy_desc(struct abi_proc *p,
				  const struct abi_desc *from)
{
	struct abi_desc *d = abi_desc_new(p, from->kind, from->flags);

	if (!d)
		return 0;
	*d = *from;
	d->refs = 1;
	d->numbers = d->identified = d->parked = d->peer = d->watched = 0;
	d->lock.word = 0;
	abi_memset(&d->event, 0, sizeof(d->event));
	return d;
}

/* Records are in order, so the first one of each `index`, 0 to n, is found. */
static int take_number(struct abi_proc *p, const void *state, u32 i)
{
	const struct abi_exec_record *n = number_at(state, i);
	struct abi_desc *d = 0;
	u32 j;

	for (j = 0; j < i && !d; j++)
		if (number_at(state, j)->index == n->index)
			d = abi_desc_get(p, number_at(state, j)->fd);
	if (!d)
		d = copy_desc(p, &n->desc);
	if (!d || n->fd >= ABI_FD_MAX)
		return -LINUX_EINVAL;
	abi_lock(p, &p->fds.lock);
	abi_desc_number(p, n->fd, d, 0);
	abi_unlock(p, &p->fds.lock);
	return 0;
}

static void take_signals(struct abi_proc *p, const struct abi_exec_state *s)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_REAP, .status = 1};
	u32 i;

	p->threads.thread[0].blocked = s->blocked;
	for (i = 0; i < ABI_SIGNALS; i++)
		if (s->ignored >> i & 1)
			p->signals.action[i].handler = ABI_SIG_IGN;
	if (s->ignored & abi_signal_bit(ABI_SIGCHLD))
		p->host->family(&op, 0);
	abi_memcpy(p->alarms.itimer, s->itimer, sizeof(s->itimer));
	for (i = 0; i < ABI_ITIMERS; i++)
		if (s->itimer[i].used) /* looks at all timers soon */
			p->host->timer_arm(0);
	abi_cpu_limit_arm(p);
}

/* Before the program runs. Those of the thread that called execve are for the
 * only one that is left. */
static int take_pending(struct abi_proc *p, const struct abi_exec_head *head)
{
	const u8 *at = (const u8 *)head + head->size + head->strings;
	struct abi_snap_signal one;
	u32 i;

	for (i = 0; i < head->signals; i++, at += sizeof(one)) {
		abi_memcpy(&one, at, sizeof(one));
		if (one.info.signo < 1 || one.info.signo > ABI_SIGNALS ||
		    abi_signal_queue(p, one.thread == ABI_NONE ? ABI_NONE : 0,
				     &one.info))
			return -LINUX_EINVAL;
	}
	return 0;
}

static void take_name(struct abi_proc *p, const char *comm)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_NAME, .path = comm};

	abi_strcpy(p->comm, comm, sizeof(p->comm));
	abi_strcpy(p->threads.thread[0].comm, comm, sizeof(p->comm));
	p->host->family(&op, 0);
}

int abi_exec_resume(struct abi_proc *p, const void *file, u64 len)
{
	const struct abi_exec_state *s = file;
	u32 i;

	if (len < sizeof(*s) || len != abi_exec_len(&s->head) ||
	    s->head.size != sizeof(*s) + (u64)s->head.numbers *
						 sizeof(struct abi_exec_record))
		return -LINUX_EINVAL;
	for (i = 0; i < s->head.numbers; i++)
		if (take_number(p, file, i))
			return -LINUX_EINVAL;
	abi_memcpy(p->limit, s->limit, sizeof(p->limit));
	p->fds.locked_files = s->locked_files < ABI_LOCKED_FILES
				      ? s->locked_files
				      : ABI_LOCKED_FILES;
	abi_memcpy(p->fds.locked_file, s->locked_file,
		   sizeof(p->fds.locked_file));
	p->umask = s->umask;
	p->death_signal = s->death_signal;
	p->threads.nice = s->nice;
	p->child = s->head.child;
	p->forked = 1;
	take_name(p, s->comm);
	take_signals(p, s);
	return take_pending(p, &s->head);
}
