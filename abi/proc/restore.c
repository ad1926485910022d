// SPDX-License-Identifier: MIT
/*
 * A new process takes over the records of a snapshot: abi/include/snapshot.h.
 * No guest thread runs yet, so locks are taken only where functions of other
 * files assert them. The records are hostile until they are checked here.
 */
#include "abi/fs/desc.h"
#include "abi/fs/fd.h"
#include "abi/fs/ops.h"
#include "abi/fs/procfs.h"
#include "abi/include/mem.h"
#include "abi/include/page.h"
#include "abi/include/snapshot.h"
#include "abi/mm/space.h"
#include "abi/poll/epoll.h"
#include "abi/poll/eventfd.h"
#include "abi/proc/fork.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/thread/thread.h"
#include "abi/time/cpu_timer.h"
#include "abi/time/time.h"
#include "abi/uapi/linux.h"
#include "base/errno.h"

#define PID_MAX 0x3fffffffu
#define TID_MAX 0x3fffffff
#define UNBLOCKABLE (1ull << (ABI_SIGKILL - 1) | 1ull << (ABI_SIGSTOP - 1))
#define ALT_FLAGS (ABI_SS_DISABLE | ABI_SS_ONSTACK | ABI_SS_AUTODISARM)
#define AREA_BITS                                                              \
	(ABI_SNAP_COMMITTED | ABI_SNAP_IMAGE | ABI_SNAP_BRK | ABI_SNAP_STACK | \
	 ABI_SNAP_TEXT)
#define TEXT_BITS (ABI_SNAP_IMAGE | ABI_SNAP_TEXT)
/* Flags of open(2) that create, or change what is opened. */
#define OPENING (ABI_O_CREAT | ABI_O_EXCL | ABI_O_TRUNC | ABI_O_CLOEXEC)

static int is_path(const char *s)
{
	return s[0] == '/' && abi_is_string(s, ABI_PATH_MAX);
}

/* Process ------------------------------------------------------------------ */

static int alarms_wrong(const struct abi_snap_alarm *a, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (a[i].used > 1 || a[i].signo > ABI_SIGNALS ||
		    a[i].source > ABI_ALARM_THREAD ||
		    a[i].thread >= ABI_THREADS_MAX ||
		    (a[i].used && a[i].notify != 1 && !a[i].signo))
			return 1;
	return 0;
}

static int process_wrong(const struct abi_snap_process *s)
{
	return s->pid < 2 || s->pid > PID_MAX || s->cursor > ABI_THREADS_MAX ||
	       s->high > ABI_THREADS_MAX || !s->high ||
	       s->bits & ~(ABI_SNAP_CHILD | ABI_SNAP_FORKED) ||
	       s->brk < SKEP_BRK_START ||
	       s->brk > SKEP_BRK_START + SKEP_BRK_SIZE ||
	       !abi_is_string(s->comm, sizeof(s->comm)) || !is_path(s->cwd) ||
	       !is_path(s->exe) ||
	       !abi_is_string(s->interp, sizeof(s->interp)) ||
	       alarms_wrong(s->itimer, ABI_ITIMERS) ||
	       alarms_wrong(s->timer, ABI_ALARMS);
}

int abi_restore_process(struct abi_proc *p, const struct abi_snap_process *s)
{
	u32 i;

	if (process_wrong(s))
		return -LINUX_EINVAL;
	p->start_ns = s->start_ns;
	p->space.brk = s->brk;
	p->arg_start = s->arg_start;
	p->arg_end = s->arg_end;
	p->env_start = s->env_start;
	p->env_end = s->env_end;
	p->auxv_start = s->auxv_start;
	p->auxv_end = s->auxv_end;
	p->info.pid = s->pid;
	p->umask = s->umask & 0777;
	p->threads.cursor = s->cursor;
	p->threads.high = s->high;
	p->threads.live = 0;
	p->threads.thread[0].state = ABI_THREAD_FREE;
	p->threads.nice = s->nice;
	p->child = (s->bits & ABI_SNAP_CHILD) != 0;
	p->forked = s->bits != 0;
	for (i = 0; i < ABI_RLIMITS; i++) {
		p->limit[i].cur = s->limit[i][0];
		p->limit[i].max = s->limit[i][1];
	}
	for (i = 0; i < ABI_SIGNALS; i++) {
		abi_memcpy(&p->signals.action[i], &s->action[i],
			   sizeof(s->action[i]));
		p->signals.action[i].mask &= ~UNBLOCKABLE;
	}
	abi_memcpy(p->alarms.itimer, s->itimer, sizeof(s->itimer));
	abi_memcpy(p->alarms.alarm, s->timer, sizeof(s->timer));
	abi_memcpy(p->comm, s->comm, sizeof(p->comm));
	abi_memcpy(p->cwd, s->cwd, sizeof(p->cwd));
	abi_memcpy(p->exe, s->exe, sizeof(p->exe));
	abi_memcpy(p->interp, s->interp, sizeof(p->interp));
	return 0;
}

/* -ENOMEM: the limit of memory is too low. */
int abi_restore_area(struct abi_proc *p, const struct abi_snap_area *s)
{
	struct abi_area a = {.start = s->start,
			     .end = s->end,
			     .prot = (u8)s->prot,
			     .bits = (u8)s->bits};
	int rc = -LINUX_EINVAL;

	if ((s->start | s->end) & ABI_PAGE_MASK || s->start >= s->end ||
	    !abi_space_range(s->start, s->end) || s->prot > 7 ||
	    (s->prot & ABI_PROT_WRITE && s->prot & ABI_PROT_EXEC) ||
	    s->bits & ~AREA_BITS ||
	    (s->prot && !(s->bits & ABI_SNAP_COMMITTED)) ||
	    (s->prot & ABI_PROT_EXEC && !(s->bits & TEXT_BITS)) ||
	    (s->bits & ABI_SNAP_TEXT && !(s->prot & ABI_PROT_EXEC)))
		return -LINUX_EINVAL;
	abi_lock(p, &p->space.change);
	if (!abi_space_room(&p->space) ||
	    !abi_space_free(&p->space, s->start, s->end))
		goto out;
	rc = -LINUX_ENOMEM;
	if (abi_area_counted(&a) &&
	    s->end - s->start > p->space.limit - p->space.committed)
		goto out;
	abi_space_insert(p, &a);
	rc = 0;
out:
	abi_unlock(p, &p->space.change);
	return rc;
}

/* Threads ------------------------------------------------------------------ */

static int thread_wrong(const struct abi_snap_thread *s, u32 high)
{
	return s->index >= high || s->tid > TID_MAX || s->redo > 1 ||
	       s->again > 1 || s->alt_flags & ~ALT_FLAGS ||
	       s->tp >= SKEP_ARENA_END ||
	       !abi_is_string(s->comm, sizeof(s->comm));
}

/* Registers are the guest's in any case: the exit loads only flags that user
 * code may set. */
int abi_restore_thread(struct abi_proc *p, const struct abi_snap_thread *s)
{
	struct abi_thread *t;

	if (thread_wrong(s, p->threads.high))
		return -LINUX_EINVAL;
	t = abi_thread_get(p, s->index);
	if (t->state != ABI_THREAD_FREE)
		return -LINUX_EINVAL;
	abi_memset(t, 0, sizeof(*t));
	t->index = s->index;
	t->uses = s->uses;
	t->calls = s->calls;
	t->tid = s->tid;
	t->queue = ABI_NONE;
	t->futex.next = t->futex.prev = ABI_NONE;
	t->alt_flags = s->tid ? s->alt_flags : ABI_SS_DISABLE;
	if (!s->tid)
		return 0;
	t->redo = s->redo;
	t->regs = s->regs;
	t->tp = s->tp;
	t->clear_child_tid = s->clear_child_tid;
	t->robust_head = s->robust_head;
	p->threads.robust |= s->robust_head != 0;
	t->alt_sp = s->alt_sp;
	t->alt_size = s->alt_size;
	t->again = s->again;
	t->again_deadline = s->again_deadline;
	t->blocked = s->blocked & ~UNBLOCKABLE;
	p->alarms.share[s->index].uses = s->uses + 1;
	p->alarms.share[s->index].seen = s->share[0];
	p->alarms.share[s->index].charged = s->share[1];
	abi_memcpy(t->affinity, s->affinity, sizeof(t->affinity));
	abi_memcpy(t->comm, s->comm, sizeof(t->comm));
	t->state = ABI_THREAD_LIVE;
	p->threads.live++;
	return 0;
}

/* Descriptors -------------------------------------------------------------- */

static void drop_handle(struct abi_proc *p, s32 handle)
{
	if (handle >= 0)
		p->host->file_close(handle);
}

static u32 desc_kind(u32 kind)
{
	switch (kind) {
	case ABI_SNAP_FILE:
	case ABI_SNAP_REMOVED:
		return ABI_DESC_FILE;
	case ABI_SNAP_DIR:
		return ABI_DESC_DIR;
	case ABI_SNAP_PIPE:
		return ABI_DESC_STREAM;
	case ABI_SNAP_EVENT:
		return ABI_DESC_EVENT;
	case ABI_SNAP_EPOLL:
		return ABI_DESC_EPOLL;
	case ABI_SNAP_TIMER:
		return ABI_DESC_TIMER;
	case ABI_SNAP_SIGNAL:
		return ABI_DESC_SIGNAL;
	default:
		return ABI_DESC_FREE;
	}
}

static int take_timer(struct abi_desc *d, const struct abi_snap_desc *s)
{
	d->timer.ticks = s->pos;
	d->timer.next_ns = s->next_ns;
	d->timer.interval_ns = s->interval_ns;
	d->timer.clock = s->clock;
	return s->clock == ABI_CLOCK_ID_REALTIME ||
			       s->clock == ABI_CLOCK_ID_MONOTONIC ||
			       s->clock == ABI_CLOCK_ID_BOOTTIME
		       ? 0
		       : -LINUX_EINVAL;
}

/* None of them has a handle. */
static int take_anonymous(struct abi_proc *p, struct abi_desc *d,
			  const struct abi_snap_desc *s)
{
	static const char *const names[] = {
		[ABI_SNAP_EVENT] = "anon_inode:[eventfd]",
		[ABI_SNAP_EPOLL] = "anon_inode:[eventpoll]",
		[ABI_SNAP_TIMER] = "anon_inode:[timerfd]",
		[ABI_SNAP_SIGNAL] = "anon_inode:[signalfd]"};

	d->pos = 0;
	abi_strcpy(d->path, names[s->kind], sizeof(d->path));
	switch (s->kind) {
	case ABI_SNAP_EVENT:
		d->value = s->pos;
		d->code = s->semaphore != 0;
		return s->pos > ABI_EVENTFD_MAX ? -LINUX_EINVAL : 0;
	case ABI_SNAP_TIMER:
		return take_timer(d, s);
	case ABI_SNAP_SIGNAL:
		d->value = s->pos & ~UNBLOCKABLE;
		p->fds.signalfds = 1;
		return 0;
	default:
		return 0;
	}
}

/* A stream is attached as at a start, but the description is also `index`. */
static int take_desc(struct abi_proc *p, const struct abi_snap_desc *s,
		     s32 handle)
{
	struct abi_desc *d = &p->fds.desc[s->index];

	d->refs = 0; /* each number adds one */
	d->kind = desc_kind(s->kind);
	d->handle = handle;
	d->type = s->type & ABI_S_IFMT;
	d->flags = s->flags & ~OPENING;
	d->pos = s->pos;
	if (s->kind == ABI_SNAP_NULL && abi_synth_open(p, s->path, d) != 1)
		d->kind = ABI_DESC_FREE;
	if (s->kind == ABI_SNAP_STD) {
		d->kind = abi_desc_kind(d->type);
		d->std = s->std + 1;
		d->inherited = abi_desc_ops(d)->placed;
	}
	if (s->kind == ABI_SNAP_PIPE) {
		d->pipe = s->pipe;
		if (s->pipe > p->fds.pipes)
			p->fds.pipes = s->pipe;
	}
	if (d->kind == ABI_DESC_FREE ||
	    (s->kind == ABI_SNAP_NULL && d->kind != ABI_DESC_NULL))
		return -LINUX_EINVAL;
	if (s->kind >= ABI_SNAP_EVENT)
		return take_anonymous(p, d, s);
	if (s->kind == ABI_SNAP_PIPE || s->kind == ABI_SNAP_STD)
		(void)abi_fd_name(p, d); /* streams need no name */
	else
		abi_memcpy(d->path, s->path, sizeof(d->path));
	if (s->kind == ABI_SNAP_FILE && s->shared) {
		abi_lock(p, &d->lock);
		abi_fork_share(p, d);
		abi_unlock(p, &d->lock);
	}
	return 0;
}

int abi_restore_desc(struct abi_proc *p, const struct abi_snap_desc *s,
		     s32 handle)
{
	int rc = -LINUX_EINVAL;

	if (s->index < ABI_DESC_MAX && s->std < 3 &&
	    abi_is_string(s->path, sizeof(s->path)) &&
	    abi_desc_is_free(&p->fds.desc[s->index]))
		rc = take_desc(p, s, handle);
	if (rc) { /* bee's own messages need the streams */
		drop_handle(p, s->kind == ABI_SNAP_STD ? -1 : handle);
		return rc;
	}
	if (s->index >= p->fds.high)
		p->fds.high = s->index + 1;
	return 0;
}

int abi_restore_number(struct abi_proc *p, const struct abi_snap_number *s)
{
	struct abi_desc *d = &p->fds.desc[s->desc];

	if (s->fd >= ABI_FD_MAX || s->desc >= ABI_DESC_MAX ||
	    p->fds.slot[s->fd].desc || abi_desc_is_free(d))
		return -LINUX_EINVAL;
	abi_lock(p, &p->fds.lock);
	d->refs++;
	abi_desc_number(p, s->fd, d, s->cloexec);
	abi_unlock(p, &p->fds.lock);
	return 0;
}

int abi_restore_watch(struct abi_proc *p, const struct abi_snap_watch *s)
{
	struct abi_watch w = {.fd = s->fd,
			      .desc = s->desc,
			      .events = s->events,
			      .off = s->off,
			      .data = s->data};

	if (s->epoll >= ABI_DESC_MAX || s->desc >= ABI_DESC_MAX ||
	    s->fd >= ABI_FD_MAX || !p->fds.desc[s->epoll].numbers ||
	    !p->fds.desc[s->desc].numbers)
		return -LINUX_EINVAL;
	return (int)abi_epoll_restore(p, &p->fds.desc[s->epoll], &w);
}

/* Signals, and the end ----------------------------------------------------- */

int abi_restore_signal(struct abi_proc *p, const struct abi_snap_signal *s)
{
	if (s->info.signo < 1 || s->info.signo > ABI_SIGNALS)
		return -LINUX_EINVAL;
	return (int)abi_signal_queue(p, s->thread, &s->info);
}

/* The two ends of a pipe know each other. */
static void join_pipes(struct abi_proc *p)
{
	struct abi_desc *a, *b;
	u32 i, j;

	for (i = 0; i < p->fds.high; i++) {
		a = &p->fds.desc[i];
		for (j = 0; a->pipe && j < p->fds.high; j++) {
			b = &p->fds.desc[j];
			if (i != j && b->pipe == a->pipe)
				a->peer = j + 1;
		}
	}
}

static void tell_family(struct abi_proc *p)
{
	const struct abi_sigaction *end = &p->signals.action[ABI_SIGCHLD - 1];
	struct abi_family_op op = {.verb = ABI_FAMILY_NAME, .path = p->comm};

	p->host->family(&op, 0);
	op = (struct abi_family_op){.verb = ABI_FAMILY_REAP, .status = 1};
	if (end->handler == ABI_SIG_IGN || end->flags & ABI_SA_NOCLDWAIT)
		p->host->family(&op, 0);
}

int abi_restore_finish(struct abi_proc *p)
{
	u32 i;

	if (p->threads.thread[0].state != ABI_THREAD_LIVE ||
	    abi_space_wrong(&p->space))
		return -LINUX_EINVAL;
	for (i = 0; i < p->fds.high; i++)
		if (!abi_desc_is_free(&p->fds.desc[i]) && !p->fds.desc[i].refs)
			return -LINUX_EINVAL;
	join_pipes(p);
	if (p->host->family)
		tell_family(p);
	abi_cpu_limit_arm(p);
	if (p->host->timer_arm) /* looks at all timers soon */
		p->host->timer_arm(0);
	return 0;
}
