// SPDX-License-Identifier: MIT
/*
 * The state of a process as records: abi/include/snapshot.h. Guest threads are
 * at rest, so no lock is held by anyone, and none is taken here;
 * abi_snap_judge also runs while they run, and then its answer is a first
 * look.
 */
#include "abi/include/snapshot.h"
#include "abi/fs/desc.h"
#include "abi/fs/fd.h"
#include "abi/fs/ops.h"
#include "abi/include/mem.h"
#include "abi/mm/space.h"
#include "abi/poll/epoll.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/thread.h"
#include "abi/uapi/linux.h"

_Static_assert(sizeof(struct abi_snap_alarm) == sizeof(struct abi_alarm) &&
		       __builtin_offsetof(struct abi_snap_alarm, check) ==
			       __builtin_offsetof(struct abi_alarm, check),
	       "the same fields");
_Static_assert(sizeof(struct abi_snap_action) == sizeof(struct abi_sigaction) &&
		       ABI_SNAP_SIGNALS == ABI_SIGNALS &&
		       ABI_SNAP_ITIMERS == ABI_ITIMERS &&
		       ABI_SNAP_TIMERS == ABI_ALARMS &&
		       ABI_SNAP_LIMITS == ABI_RLIMITS,
	       "as many");
_Static_assert(ABI_SNAP_COMMITTED == ABI_AREA_COMMITTED &&
		       ABI_SNAP_IMAGE == ABI_AREA_IMAGE &&
		       ABI_SNAP_BRK == ABI_AREA_BRK &&
		       ABI_SNAP_STACK == ABI_AREA_STACK &&
		       ABI_SNAP_TEXT == ABI_AREA_TEXT,
	       "the same bits");

#define STREAMS 3 /* standard input, output, error */

void abi_freeze(struct abi_proc *p, u32 on)
{
	struct abi_thread *t;
	u32 i, high;

	__atomic_store_n(&p->freeze, on, __ATOMIC_SEQ_CST);
	if (!on)
		return;
	high = __atomic_load_n(&p->threads.high, __ATOMIC_SEQ_CST);
	for (i = 0; i < high; i++) {
		t = abi_thread_get(p, i);
		if (__atomic_load_n(&t->state, __ATOMIC_ACQUIRE) !=
		    ABI_THREAD_LIVE)
			continue;
		abi_thread_unpark(p, t);
		p->host->thread_kick(i);
	}
}

u32 abi_snap_live(const struct abi_proc *p)
{
	return __atomic_load_n(&p->threads.live, __ATOMIC_SEQ_CST);
}

/* Judging ------------------------------------------------------------------ */

static int write_reason(char *why, u64 size, const char *before, u64 number,
			const char *after)
{
	struct abi_text t;

	abi_text_init(&t, why, size);
	abi_text_str(&t, before);
	if (number != ~0ull)
		abi_text_dec(&t, number);
	abi_text_str(&t, after);
	return 1;
}

/* Descriptions that are saved; 0: this one cannot be. */
static u32 kind_of(const struct abi_desc *d)
{
	switch (d->kind) {
	case ABI_DESC_FILE:
		/* input goes on where it was; output goes to the new stream */
		return d->std && (d->std > STREAMS || d->flags & ABI_O_ACCMODE)
			       ? d->std <= STREAMS ? ABI_SNAP_STD : 0
			       : ABI_SNAP_FILE;
	case ABI_DESC_DIR:
		return d->pos ? 0 : ABI_SNAP_DIR;
	case ABI_DESC_NULL:
		return d->handle < 0 && d->path[0] == '/' ? ABI_SNAP_NULL : 0;
	case ABI_DESC_EVENT:
		return ABI_SNAP_EVENT;
	case ABI_DESC_EPOLL:
		return ABI_SNAP_EPOLL;
	case ABI_DESC_TIMER:
		return ABI_SNAP_TIMER;
	case ABI_DESC_SIGNAL:
		return ABI_SNAP_SIGNAL;
	case ABI_DESC_STREAM:
		if (d->std)
			return d->std <= STREAMS ? ABI_SNAP_STD : 0;
		if (d->type == ABI_S_IFCHR && abi_streq(d->path, "/dev/null"))
			return ABI_SNAP_NULL; /* inherited */
		/* a process of this run made it */
		return d->pipe && d->type == ABI_S_IFIFO ? ABI_SNAP_PIPE : 0;
	default:
		return 0;
	}
}

static const char *name_kind(const struct abi_desc *d)
{
	switch (d->kind) {
	case ABI_DESC_DIR:
		return " is a folder that it is listing";
	case ABI_DESC_SOCK:
	case ABI_DESC_PAIR:
	case ABI_DESC_UNIX:
		return " is a socket";
	case ABI_DESC_PIPE:
	case ABI_DESC_STREAM:
		if (d->std)
			return " is the stream of --stream";
		if (d->type == ABI_S_IFIFO)
			return " is a pipe of a process outside of the run";
		return d->type == ABI_S_IFCHR
			       ? " is a terminal or a device"
			       : " is neither a file nor a folder";
	case ABI_DESC_COUNTER:
		return " is an eventfd that another process has or had";
	case ABI_DESC_TEXT:
	case ABI_DESC_PROCESS:
		return " is a file of /proc or /sys";
	default:
		return " is neither a file nor a folder";
	}
}

static int judge_numbers(struct abi_proc *p, char *why, u64 size)
{
	const struct abi_desc *d;
	int rc = 0;
	u32 fd;

	for (fd = 0; fd < ABI_FD_MAX && rc != 1; fd++) {
		if (!p->fds.slot[fd].desc)
			continue;
		d = &p->fds.desc[p->fds.slot[fd].desc - 1];
		if (kind_of(d))
			continue;
		write_reason(why, size, "descriptor ", fd, name_kind(d));
		rc = d->kind == ABI_DESC_DIR ? ABI_SNAP_SOON : 1;
	}
	return rc;
}

/*
 * A shared mapping becomes memory of its own, so nobody may write to it, or to
 * its file: no program does below /usr (Filesystem Hierarchy Standard). glibc
 * maps the cache of its character sets so.
 */
static int is_constant(struct abi_proc *p, const struct abi_area *a)
{
	static const char below[] = "/usr/";
	u32 file = p->space.backing[a->backing].file;

	return a->bits & ABI_AREA_NOWRITE && a->backing && file &&
	       !abi_memcmp(abi_fd_pinned_path(p, file - 1), below,
			   sizeof(below) - 1);
}

static int judge_areas(struct abi_proc *p, char *why, u64 size)
{
	struct abi_area a;
	u64 at;

	for (at = 0; abi_space_next(p, at, &a); at = a.end) {
		if (a.segment)
			return write_reason(why, size,
					    "it has System V shared memory",
					    ~0ull, "");
		if (a.bits & ABI_AREA_SHARED && !is_constant(p, &a))
			return write_reason(
				why, size,
				"it has a shared mapping (MAP_SHARED)", ~0ull,
				"");
		if (a.prot & ABI_PROT_EXEC &&
		    !(a.bits & (ABI_AREA_IMAGE | ABI_AREA_TEXT)))
			return write_reason(
				why, size, "it has code that it made or mapped",
				~0ull, "");
	}
	return 0;
}

int abi_snap_judge(struct abi_proc *p, char *why, u64 size)
{
	int rc;

	if (p->vfork.thread) {
		write_reason(why, size, "it is starting a program", ~0ull, "");
		return ABI_SNAP_SOON;
	}
	if (p->threads.thread[0].state != ABI_THREAD_LIVE)
		return write_reason(why, size, "its first thread has ended",
				    ~0ull, "");
	if (p->fds.locked_files)
		return write_reason(why, size, "it holds locks of files", ~0ull,
				    "");
	rc = judge_numbers(p, why, size);
	return rc != 1 && judge_areas(p, why, size) ? 1 : rc;
}

/* Records ------------------------------------------------------------------ */

void abi_snap_process(struct abi_proc *p, struct abi_snap_process *out)
{
	u32 i;

	abi_memset(out, 0, sizeof(*out));
	out->start_ns = p->start_ns;
	out->brk = p->space.brk;
	out->arg_start = p->arg_start;
	out->arg_end = p->arg_end;
	out->env_start = p->env_start;
	out->env_end = p->env_end;
	out->auxv_start = p->auxv_start;
	out->auxv_end = p->auxv_end;
	out->pid = p->info.pid;
	out->umask = p->umask;
	out->cursor = p->threads.cursor;
	out->high = p->threads.high;
	out->nice = p->threads.nice;
	out->bits = (p->child ? ABI_SNAP_CHILD : 0) |
		    (p->forked ? ABI_SNAP_FORKED : 0);
	for (i = 0; i < ABI_RLIMITS; i++) {
		out->limit[i][0] = p->limit[i].cur;
		out->limit[i][1] = p->limit[i].max;
	}
	abi_memcpy(out->action, p->signals.action, sizeof(out->action));
	abi_memcpy(out->itimer, p->alarms.itimer, sizeof(out->itimer));
	abi_memcpy(out->timer, p->alarms.alarm, sizeof(out->timer));
	abi_memcpy(out->comm, p->comm, sizeof(out->comm));
	abi_strcpy(out->cwd, p->cwd, sizeof(out->cwd));
	abi_strcpy(out->exe, p->exe, sizeof(out->exe));
	abi_strcpy(out->interp, p->interp, sizeof(out->interp));
}

int abi_snap_thread(struct abi_proc *p, u32 index, struct abi_snap_thread *out)
{
	const struct abi_thread *t = abi_thread_get(p, index);

	if (index >= p->threads.high)
		return 0;
	abi_memset(out, 0, sizeof(*out));
	out->index = index;
	out->uses = t->uses;
	out->calls = t->calls;
	out->tid = t->state == ABI_THREAD_LIVE ? t->tid : 0;
	if (!out->tid)
		return 1;
	out->redo = t->redo;
	out->tp = t->tp;
	out->clear_child_tid = t->clear_child_tid;
	out->robust_head = t->robust_head;
	out->alt_sp = t->alt_sp;
	out->alt_size = t->alt_size;
	out->alt_flags = t->alt_flags;
	out->again = t->again;
	out->again_deadline = t->again_deadline;
	out->blocked = t->blocked;
	if (p->alarms.share[index].uses == t->uses + 1) {
		out->share[0] = p->alarms.share[index].seen;
		out->share[1] = p->alarms.share[index].charged;
	}
	abi_memcpy(out->affinity, t->affinity, sizeof(out->affinity));
	abi_memcpy(out->comm, t->comm, sizeof(out->comm));
	return 1;
}

/* A signal that found no room in the queue is pending without an entry. */
int abi_snap_signal(struct abi_proc *p, u32 thread, u32 i,
		    struct abi_snap_signal *out)
{
	const struct abi_signals *s = &p->signals;
	u64 left = s->pending;
	u32 at = s->queue;

	if (thread != ABI_NONE) {
		left = abi_thread_get(p, thread)->pending;
		at = abi_thread_get(p, thread)->queue;
	}
	abi_memset(out, 0, sizeof(*out));
	out->thread = thread;
	for (; at != ABI_NONE; at = s->entry[at].next) {
		out->info = s->entry[at].info;
		left &= ~abi_signal_bit((u32)out->info.signo);
		if (!i--)
			return 1;
	}
	for (; left; left &= left - 1) {
		abi_memset(&out->info, 0, sizeof(out->info));
		out->info.signo = __builtin_ctzll(left) + 1;
		if (!i--)
			return 1;
	}
	return 0;
}

int abi_snap_desc(struct abi_proc *p, u32 i, struct abi_snap_desc *out,
		  s32 *handle)
{
	const struct abi_desc *d = &p->fds.desc[i];

	if (i >= p->fds.high)
		return -1;
	if (d->kind == ABI_DESC_FREE || !d->numbers)
		return 0;
	abi_memset(out, 0, sizeof(*out));
	out->index = i;
	out->kind = kind_of(d);
	out->type = d->type;
	out->flags = abi_desc_flags(d);
	out->pos = d->pos;
	*handle = abi_desc_ops(d)->handle ? d->handle : -1;
	if (out->kind == ABI_SNAP_STD)
		out->std = d->std - 1;
	if (out->kind == ABI_SNAP_PIPE) {
		out->pipe = d->pipe;
		out->writes = (out->flags & ABI_O_ACCMODE) == ABI_O_WRONLY;
	}
	if (out->kind == ABI_SNAP_EVENT || out->kind == ABI_SNAP_SIGNAL)
		out->pos = d->value;
	if (out->kind == ABI_SNAP_EVENT)
		out->semaphore = d->code;
	if (out->kind == ABI_SNAP_TIMER) {
		out->pos = d->timer.ticks;
		out->next_ns = d->timer.next_ns;
		out->interval_ns = d->timer.interval_ns;
		out->clock = d->timer.clock;
	}
	if (d->inherited) /* the host has the position */
		out->pos = ~0ull;
	out->shared = d->inherited && out->kind == ABI_SNAP_FILE;
	out->handle = (u32)*handle;
	if (out->kind == ABI_SNAP_FILE || out->kind == ABI_SNAP_DIR ||
	    out->kind == ABI_SNAP_NULL)
		abi_strcpy(out->path, d->path, sizeof(out->path));
	return 1;
}

int abi_snap_number(struct abi_proc *p, u32 fd, struct abi_snap_number *out)
{
	const struct abi_slot *slot = &p->fds.slot[fd];

	if (fd >= ABI_FD_MAX)
		return -1;
	if (!slot->desc)
		return 0;
	*out = (struct abi_snap_number){fd, slot->desc - 1u, slot->cloexec, 0};
	return 1;
}

int abi_snap_watch(struct abi_proc *p, u32 epoll, u32 i,
		   struct abi_snap_watch *out)
{
	const struct abi_watch *w;

	if (epoll >= p->fds.high || !p->fds.desc[epoll].numbers)
		return 0;
	w = abi_epoll_entry(p, &p->fds.desc[epoll], i);
	if (!w)
		return 0;
	*out = (struct abi_snap_watch){epoll,  w->desc, w->fd,	w->events,
				       w->off, 0,	w->data};
	return 1;
}

int abi_snap_area(struct abi_proc *p, u64 addr, struct abi_snap_area *out,
		  u32 *file)
{
	struct abi_area a;

	if (!abi_space_next(p, addr, &a))
		return 0;
	*out = (struct abi_snap_area){
		a.start, a.end, a.prot,
		a.bits & (ABI_SNAP_COMMITTED | ABI_SNAP_IMAGE | ABI_SNAP_BRK |
			  ABI_SNAP_STACK | ABI_SNAP_TEXT)};
	*file = a.backing != 0;
	return 1;
}
