/* SPDX-License-Identifier: MIT */
/*
 * Signals: pending sets and their queue, the choice of a thread, delivery at
 * the end of a call. signals.lock guards what signal.h says. It is a leaf, and
 * guest memory is never accessed while it is held, because a fault there would
 * need it.
 */
#include "signal.h"
#include "sigframe.h"
#include "signalfd.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/mm/space.h"
#include "abi/mm/trampoline.h"
#include "abi/proc/call.h"
#include "abi/proc/vsyscall.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/thread/thread.h"

#define UNBLOCKABLE (1ull << (ABI_SIGKILL - 1) | 1ull << (ABI_SIGSTOP - 1))
#define BIT(name) (1ull << (ABI_SIG##name - 1))
#define STOPS (BIT(STOP) | BIT(TSTP) | BIT(TTIN) | BIT(TTOU))
#define IGNORED (BIT(CHLD) | BIT(CONT) | BIT(URG) | BIT(WINCH))
/* Delivered first, because they report the instruction at which regs point. */
#define SYNCHRONOUS                                                            \
	(BIT(SEGV) | BIT(BUS) | BIT(ILL) | BIT(TRAP) | BIT(FPE) | BIT(SYS))

int abi_signals_init(struct abi_proc *p)
{
	struct abi_signals *s = &p->signals;
	u32 i;

	if (p->info.xsave_size < ABI_VEC_MIN ||
	    p->info.xsave_size > ABI_VEC_MAX) {
		p->host->log("the host's vector state does not fit into a "
			     "signal frame: offer XSAVE without AMX");
		return -LINUX_EINVAL;
	}
	for (i = 0; i < ABI_SIGNAL_QUEUE; i++)
		s->entry[i].next = i + 1 < ABI_SIGNAL_QUEUE ? i + 1 : ABI_NONE;
	s->free = 0;
	s->queue = ABI_NONE;
	return 0;
}

/* Pending sets; signals.lock is held --------------------------------------- */

struct set {
	u64 *pending;
	u32 *queue;
};

static struct set set_of(struct abi_proc *p, struct abi_thread *t)
{
	struct set process = {&p->signals.pending, &p->signals.queue};

	abi_assert_locked(&p->signals.lock);
	if (t)
		return (struct set){&t->pending, &t->queue};
	return process;
}

static void set_store(u64 *pending, u64 value)
{
	__atomic_store_n(pending, value, __ATOMIC_SEQ_CST);
}

/* A standard signal that is pending already is not queued twice. */
static s64 set_add(struct abi_proc *p, struct set set,
		   const struct abi_siginfo *info)
{
	struct abi_signals *s = &p->signals;
	u64 bit = abi_signal_bit((u32)info->signo);
	u32 *at = set.queue, index = s->free;

	abi_assert_locked(&p->signals.lock);
	if (info->signo < ABI_SIGNAL_RT && *set.pending & bit)
		return 0;
	if (index == ABI_NONE) {
		if (info->signo >= ABI_SIGNAL_RT && info->code != ABI_SI_USER)
			return -LINUX_EAGAIN;
		set_store(set.pending, *set.pending | bit);
		return 0; /* is delivered, with an empty siginfo */
	}
	s->free = s->entry[index].next;
	s->entry[index].info = *info;
	s->entry[index].next = ABI_NONE;
	while (*at != ABI_NONE)
		at = &s->entry[*at].next;
	*at = index;
	set_store(set.pending, *set.pending | bit);
	return 0;
}

static void set_take(struct abi_proc *p, struct set set, u32 signo,
		     struct abi_siginfo *info)
{
	struct abi_signals *s = &p->signals;
	u32 *at = set.queue, index;
	int found = 0, more = 0;

	abi_assert_locked(&p->signals.lock);
	abi_memset(info, 0, sizeof(*info));
	info->signo = (s32)signo;
	while (*at != ABI_NONE && !more) {
		index = *at;
		if (s->entry[index].info.signo != (s32)signo) {
			at = &s->entry[index].next;
			continue;
		}
		if (found) {
			more = 1;
			continue;
		}
		found = 1;
		*info = s->entry[index].info;
		*at = s->entry[index].next;
		s->entry[index].next = s->free;
		s->free = index;
	}
	if (!more)
		set_store(set.pending, *set.pending & ~abi_signal_bit(signo));
}

static void set_drop(struct abi_proc *p, struct set set, u64 which)
{
	struct abi_siginfo info;
	u32 signo;

	abi_assert_locked(&p->signals.lock);
	for (signo = 1; signo <= ABI_SIGNALS; signo++)
		while (which & *set.pending & abi_signal_bit(signo))
			set_take(p, set, signo, &info);
}

static u32 set_first(u64 ready)
{
	if (ready & SYNCHRONOUS)
		ready &= SYNCHRONOUS;
	return (u32)__builtin_ctzll(ready) + 1;
}

static int take_locked(struct abi_proc *p, struct abi_thread *t, u64 which,
		       struct abi_siginfo *info)
{
	struct set own = set_of(p, t), shared = set_of(p, 0);

	if (*own.pending & which)
		set_take(p, own, set_first(*own.pending & which), info);
	else if (*shared.pending & which)
		set_take(p, shared, set_first(*shared.pending & which), info);
	else
		return 0;
	return 1;
}

int abi_signal_take(struct abi_proc *p, struct abi_thread *t, u64 set,
		    struct abi_siginfo *info)
{
	int found;

	abi_lock(p, &p->signals.lock);
	found = take_locked(p, t, set, info);
	abi_unlock(p, &p->signals.lock);
	return found;
}

int abi_pending(const struct abi_proc *p, u32 index)
{
	const struct abi_thread *t = &p->threads.thread[index];
	u64 all = __atomic_load_n(&t->pending, __ATOMIC_SEQ_CST) |
		  __atomic_load_n(&p->signals.pending, __ATOMIC_SEQ_CST);

	return all & ~__atomic_load_n(&t->blocked, __ATOMIC_RELAXED) ||
	       __atomic_load_n(&p->freeze, __ATOMIC_SEQ_CST);
}

/* Sending --------------------------------------------------------------------
 */

static int is_live(const struct abi_thread *t)
{
	return __atomic_load_n(&t->state, __ATOMIC_ACQUIRE) == ABI_THREAD_LIVE;
}

static u32 threads_high(struct abi_proc *p)
{
	return __atomic_load_n(&p->threads.high, __ATOMIC_ACQUIRE);
}

static int thread_wants(const struct abi_thread *t, u64 bits)
{
	return is_live(t) && bits & (~t->blocked | t->sigwait);
}

/* Only a host with a family can stop and continue a process. */
static int default_stops(struct abi_proc *p, u32 signo)
{
	return p->host->family && STOPS & abi_signal_bit(signo);
}

static int default_ignores(struct abi_proc *p, u32 signo)
{
	u64 ignored = p->host->family ? IGNORED : IGNORED | STOPS;

	return !!(ignored & abi_signal_bit(signo));
}

static int is_ignored(struct abi_proc *p, u32 signo)
{
	u64 handler = p->signals.action[signo - 1].handler;

	return handler == ABI_SIG_IGN ||
	       (handler == ABI_SIG_DFL && default_ignores(p, signo));
}

/* Whether SA_NOCLDSTOP suppresses it: a child stopped or continued. */
static int is_unwanted(struct abi_proc *p, const struct abi_siginfo *info)
{
	return info->signo == ABI_SIGCHLD &&
	       (info->code == ABI_CLD_STOPPED ||
		info->code == ABI_CLD_CONTINUED) &&
	       p->signals.action[ABI_SIGCHLD - 1].flags & ABI_SA_NOCLDSTOP;
}

/* Whether a thread blocks it, so that it may be accepted later (sigwait, a new
 * handler). */
static int is_kept(struct abi_proc *p, struct abi_thread *to, u64 bit)
{
	struct abi_thread *t;
	u32 i;

	if (to)
		return !!((to->blocked | to->sigwait) & bit);
	for (i = 0; i < threads_high(p); i++) {
		t = abi_thread_get(p, i);
		if (is_live(t) && (t->blocked | t->sigwait) & bit)
			return 1;
	}
	return 0;
}

/* The thread that handles a signal for the process; NULL if all block it. */
static struct abi_thread *choose_thread(struct abi_proc *p,
					struct abi_thread *from, u32 signo)
{
	u64 bit = abi_signal_bit(signo);
	u32 i;

	/* a signal that ends the process is delivered to the calling thread */
	if (p->signals.action[signo - 1].handler == ABI_SIG_DFL && from &&
	    thread_wants(from, bit))
		return from;
	for (i = 0; i < threads_high(p); i++)
		if (thread_wants(abi_thread_get(p, i), bit))
			return abi_thread_get(p, i);
	return 0;
}

static void kick_thread(struct abi_proc *p, struct abi_thread *t)
{
	abi_thread_unpark(p, t);
	p->host->thread_kick(t->index);
}

static struct abi_thread *by_tid(struct abi_proc *p, u32 tid)
{
	u32 i;

	for (i = 0; i < threads_high(p); i++)
		if (abi_thread_get(p, i)->tid == tid &&
		    is_live(abi_thread_get(p, i)))
			return abi_thread_get(p, i);
	return 0;
}

s64 abi_signal_send(struct abi_proc *p, struct abi_thread *from, u32 tid,
		    const struct abi_siginfo *info)
{
	u32 signo = (u32)info->signo;
	u64 bit = abi_signal_bit(signo);
	struct abi_thread *to = 0, *target = 0;
	s64 rc = -LINUX_ESRCH;

	abi_lock(p, &p->signals.lock);
	if (tid)
		to = by_tid(p, tid);
	if (tid && !to)
		goto out;
	rc = 0;
	if (is_unwanted(p, info) ||
	    (is_ignored(p, signo) && !is_kept(p, to, bit)))
		goto out;
	rc = set_add(p, set_of(p, to), info);
	if (rc)
		goto out;
	if (!to)
		target = choose_thread(p, from, signo);
	else if (thread_wants(to, bit))
		target = to;
out:
	abi_unlock(p, &p->signals.lock);
	if (target && target != from)
		kick_thread(p, target);
	abi_signalfd_wake(p, signo);
	return rc;
}

s64 abi_signal_queue(struct abi_proc *p, u32 thread,
		     const struct abi_siginfo *info)
{
	struct abi_thread *t = 0;
	s64 rc = -LINUX_EINVAL;

	if (thread != ABI_NONE && thread < ABI_THREADS_MAX)
		t = abi_thread_get(p, thread);
	abi_lock(p, &p->signals.lock);
	if (thread == ABI_NONE || (t && is_live(t)))
		rc = set_add(p, set_of(p, t), info);
	abi_unlock(p, &p->signals.lock);
	return rc;
}

void abi_signal_raise(struct abi_proc *p, struct abi_thread *t, u32 signo)
{
	struct abi_siginfo info = {(s32)signo, 0, ABI_SI_USER, 0, {{0}}};

	info.user.pid = p->info.pid;
	info.user.uid = p->info.uid;
	abi_signal_send(p, t, t->tid, &info);
}

/* Passes signals that `t` no longer accepts to other threads. The caller holds
 * the lock. */
static void retarget_pending(struct abi_proc *p, struct abi_thread *t, u64 bits)
{
	struct abi_thread *other;
	u32 i;

	abi_assert_locked(&p->signals.lock);
	bits &= p->signals.pending;
	if (!bits)
		return;
	for (i = 0; i < threads_high(p); i++) {
		other = abi_thread_get(p, i);
		if (other != t && thread_wants(other, bits))
			kick_thread(p, other);
	}
}

void abi_signal_thread_end(struct abi_proc *p, struct abi_thread *t)
{
	abi_lock(p, &p->signals.lock);
	set_drop(p, set_of(p, t), ~0ull);
	retarget_pending(p, t, ~t->blocked);
	abi_unlock(p, &p->signals.lock);
}

/* Masks and actions -----------------------------------------------------------
 */

void abi_signal_mask_set(struct abi_proc *p, struct abi_thread *t, u64 mask)
{
	u64 newly;

	mask &= ~UNBLOCKABLE;
	if (mask == t->blocked)
		return;
	abi_lock(p, &p->signals.lock);
	newly = mask & ~t->blocked;
	__atomic_store_n(&t->blocked, mask, __ATOMIC_SEQ_CST);
	retarget_pending(p, t, newly);
	abi_unlock(p, &p->signals.lock);
}

s64 abi_signal_mask_push(struct abi_call *c, u64 gaddr, u64 size)
{
	u64 mask;

	if (!gaddr)
		return 0;
	if (size != sizeof(mask))
		return -LINUX_EINVAL;
	if (ABI_GET(c->p, &mask, gaddr))
		return -LINUX_EFAULT;
	c->t->saved_blocked = c->t->blocked;
	c->t->restore_blocked = 1;
	abi_signal_mask_set(c->p, c->t, mask);
	return 0;
}

static void mask_pop(struct abi_proc *p, struct abi_thread *t)
{
	if (!t->restore_blocked)
		return;
	t->restore_blocked = 0;
	abi_signal_mask_set(p, t, t->saved_blocked);
}

void abi_signal_action(struct abi_proc *p, u32 signo,
		       const struct abi_sigaction *fresh,
		       struct abi_sigaction *old)
{
	struct abi_sigaction *action = &abi_actions(p)[signo - 1];
	u32 i;

	abi_lock(p, &p->signals.lock);
	*old = *action;
	if (fresh) {
		*action = *fresh;
		action->mask &= ~UNBLOCKABLE;
	}
	if (fresh && !abi_vfork_is(p) && is_ignored(p, signo)) {
		set_drop(p, set_of(p, 0), abi_signal_bit(signo));
		for (i = 0; i < threads_high(p); i++)
			set_drop(p, set_of(p, abi_thread_get(p, i)),
				 abi_signal_bit(signo));
	}
	abi_unlock(p, &p->signals.lock);
}

/* Delivery
 * --------------------------------------------------------------------- */

/* Sets the mask for the time of the handler. */
static void enter_handler(struct abi_proc *p, struct abi_thread *t,
			  const struct abi_sigaction *action, u32 signo)
{
	u64 mask = t->blocked | action->mask;

	if (!(action->flags & ABI_SA_NODEFER))
		mask |= abi_signal_bit(signo);
	t->restore_blocked = 0;
	abi_signal_mask_set(p, t, mask);
}

static s64 handle_signal(struct abi_proc *p, struct abi_thread *t,
			 struct abi_regs *regs, struct abi_delivery *d)
{
	s64 rc;

	d->mask = t->restore_blocked ? t->saved_blocked : t->blocked;
	rc = abi_sigframe_push(p, t, regs, d);
	if (!rc)
		enter_handler(p, t, d->action, (u32)d->info->signo);
	return rc;
}

/* Reads the action of a signal that is being delivered. */
static void action_take(struct abi_proc *p, u32 signo,
			struct abi_sigaction *action)
{
	struct abi_sigaction *now = &p->signals.action[signo - 1];

	*action = *now;
	if (now->handler > ABI_SIG_IGN && now->flags & ABI_SA_RESETHAND)
		now->handler = ABI_SIG_DFL;
}

/* Returns when the process is continued. */
static void stop_process(struct abi_proc *p, struct abi_thread *t, u32 signo)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_STOP,
				   .status = (s32)signo};

	p->host->family(&op, t->index);
}

/*
 * Delivers one pending signal. 0: there is none; 1: it needed no handler; 2:
 * regs enter a handler. `again`: see abi_delivery.
 */
static int deliver_one(struct abi_proc *p, struct abi_thread *t,
		       struct abi_regs *regs, u32 again)
{
	struct abi_siginfo info;
	struct abi_sigaction action;
	struct abi_delivery d = {&info, &action, 0, 0, ABI_NONE};
	int found;
	u32 signo;

	abi_lock(p, &p->signals.lock);
	found = take_locked(p, t, ~t->blocked, &info);
	if (found)
		action_take(p, (u32)info.signo, &action);
	abi_unlock(p, &p->signals.lock);
	if (!found)
		return 0;
	signo = (u32)info.signo;
	if (action.handler == ABI_SIG_IGN ||
	    (action.handler == ABI_SIG_DFL && default_ignores(p, signo)))
		return 1;
	if (action.handler == ABI_SIG_DFL && default_stops(p, signo)) {
		stop_process(p, t, signo);
		return 1;
	}
	if (action.handler == ABI_SIG_DFL)
		abi_signal_kill(p, t, signo, regs, 0);
	if (action.flags & ABI_SA_RESTART || t->nointr)
		d.again = again;
	if (handle_signal(p, t, regs, &d))
		abi_signal_segv(p, t, regs, regs->rsp);
	return 2;
}

/* Delivers all pending signals; 1 if regs enter a handler. */
static int deliver_pending(struct abi_proc *p, struct abi_thread *t,
			   struct abi_regs *regs, u32 again)
{
	int one, handled = 0;

	while (abi_pending(p, t->index)) {
		one = deliver_one(p, t, regs, handled ? ABI_NONE : again);
		if (!one)
			break;
		handled |= one == 2;
	}
	return handled;
}

enum abi_return abi_tick(struct abi_proc *p, u32 index, struct abi_regs *regs)
{
	struct abi_thread *t = abi_thread_get(p, index);

	if (t->redo)
		return abi_call_redo(p, t, regs);
	return deliver_pending(p, t, regs, ABI_NONE) ? ABI_RETURN_FULL
						     : ABI_RETURN_FAST;
}

static int is_restart(s64 result)
{
	return result == -ABI_ERESTARTSYS || result == -ABI_ERESTARTNOHAND ||
	       result == -ABI_ERESTARTBLOCK || result == -ABI_ERESTARTNOINTR;
}

static u32 is_freezing(const struct abi_proc *p)
{
	return __atomic_load_n(&p->freeze, __ATOMIC_SEQ_CST);
}

/* abi_signal_finish, if there is something to do. */
static int finish_slow(struct abi_call *c, s64 result, u32 nr)
{
	struct abi_thread *t = c->t;
	int restart = is_restart(result), handled;
	u32 again = ABI_NONE;

	t->nointr = result == -ABI_ERESTARTNOINTR;
	if (t->nointr || result == -ABI_ERESTARTSYS)
		again = nr;
	if (!restart && result != -LINUX_EINTR)
		mask_pop(c->p, t);
	handled = deliver_pending(c->p, t, c->regs, again);
	if (!handled && t->restore_blocked) {
		mask_pop(c->p, t);
		handled = deliver_pending(c->p, t, c->regs, again);
	}
	if (!handled &&
	    (restart || (result == -LINUX_EINTR && is_freezing(c->p)))) {
		c->regs->rax = nr;
		t->again = 1;
		t->redo = is_freezing(c->p);
		c->how = t->redo ? ABI_RETURN_FULL : c->how;
		t->full &= !t->redo;
		return !t->redo;
	}
	if (handled || t->full)
		c->how = ABI_RETURN_FULL;
	t->full = 0;
	return 0;
}

int abi_signal_finish(struct abi_call *c, s64 result)
{
	struct abi_thread *t = c->t;
	u32 nr = (u32)c->regs->rax;

	t->again = 0;
	if (c->how == ABI_RETURN_FULL && t->rerun) {
		t->rerun = 0;
		t->full = 1;
		c->how = ABI_RETURN_FAST;
		return 1;
	}
	if (c->how == ABI_RETURN_FULL)
		result = 0;
	else
		c->regs->rax =
			(u64)(is_restart(result) ? -LINUX_EINTR : result);
	if (!t->full && !t->restore_blocked && !is_restart(result) &&
	    !abi_pending(c->p, t->index))
		return 0;
	return finish_slow(c, result, nr);
}

/* Faults
 * ------------------------------------------------------------------------ */

static void force_signal(struct abi_proc *p, struct abi_thread *t,
			 struct abi_regs *regs, const struct abi_siginfo *info,
			 const struct abi_fault *fault)
{
	struct abi_sigaction action;
	struct abi_delivery d = {info, &action, fault, 0, ABI_NONE};
	u32 signo = (u32)info->signo;

	if (abi_vfork_is(p)) {
		abi_vfork_end(p, t, regs, signo);
		return;
	}
	abi_lock(p, &p->signals.lock);
	if (t->blocked & abi_signal_bit(signo))
		p->signals.action[signo - 1].handler = ABI_SIG_DFL;
	action_take(p, signo, &action);
	abi_unlock(p, &p->signals.lock);
	if (action.handler <= ABI_SIG_IGN)
		abi_signal_kill(p, t, signo, regs, fault);
	if (!handle_signal(p, t, regs, &d))
		return;
	if (signo == ABI_SIGSEGV)
		abi_signal_kill(p, t, signo, regs, fault);
	abi_signal_segv(p, t, regs, regs->rsp);
}

#define PF_WRITE 2 /* in the error code of a page fault */

/*
 * An access to the host's window for shared files, which the map allows: 1 if
 * the page is accessible now; otherwise it is beyond the file's end (SIGBUS).
 */
static int fault_in_window(struct abi_proc *p, struct abi_fault *f)
{
	u32 prot = f->error & PF_WRITE ? ABI_PROT_WRITE : ABI_PROT_READ;

	if (!p->host->mem_reach || f->signo != ABI_SIGSEGV ||
	    f->addr < p->space.top || f->addr >= SKEP_MMAP_END ||
	    !abi_mapped(p, f->addr, 1, prot))
		return 0;
	if (!p->host->mem_reach(f->addr, 1, 1))
		return 1;
	f->signo = ABI_SIGBUS;
	f->code = ABI_BUS_ADRERR;
	return 0;
}

void abi_fault(struct abi_proc *p, u32 index, struct abi_regs *regs,
	       const struct abi_fault *fault)
{
	struct abi_siginfo info = {.signo = 0};
	struct abi_fault f = *fault;

	if (f.signo == ABI_SIGSEGV && f.addr == regs->rip &&
	    abi_vsyscall(p, abi_thread_get(p, index), regs))
		return;
	if (f.signo == ABI_SIGSEGV && f.addr == regs->rip &&
	    abi_trampoline_run(p, regs))
		return;
	if (fault_in_window(p, &f))
		return;
	info.signo = (s32)f.signo;
	info.code = f.code;
	info.fault.addr = f.addr;
	force_signal(p, abi_thread_get(p, index), regs, &info, &f);
}

void abi_signal_segv(struct abi_proc *p, struct abi_thread *t,
		     struct abi_regs *regs, u64 addr)
{
	struct abi_fault fault = {ABI_SIGSEGV, ABI_SI_KERNEL, addr, 13, 0};
	struct abi_siginfo info = {ABI_SIGSEGV, 0, ABI_SI_KERNEL, 0, {{0}}};

	force_signal(p, t, regs, &info, &fault);
}

/* The fatal message
 * ------------------------------------------------------------------ */

static const char *const names[] = {
	"SIG0",	   "SIGHUP",  "SIGINT",	   "SIGQUIT", "SIGILL",	   "SIGTRAP",
	"SIGABRT", "SIGBUS",  "SIGFPE",	   "SIGKILL", "SIGUSR1",   "SIGSEGV",
	"SIGUSR2", "SIGPIPE", "SIGALRM",   "SIGTERM", "SIGSTKFLT", "SIGCHLD",
	"SIGCONT", "SIGSTOP", "SIGTSTP",   "SIGTTIN", "SIGTTOU",   "SIGURG",
	"SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH",  "SIGIO",
	"SIGPWR",  "SIGSYS",
};

const char *abi_signal_name(u32 signo)
{
	_Static_assert(sizeof(names) / sizeof(names[0]) == ABI_SIGNAL_RT,
		       "one name for each standard signal");
	return signo < ABI_SIGNAL_RT ? names[signo] : "a real-time signal";
}

static void log_regs(struct abi_proc *p, const struct abi_regs *regs)
{
	static const char *const reg[] = {
		"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8",
		"r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip", "flags",
	};
	const u64 *value = &regs->rax;
	struct abi_text text;
	char line[160];
	u32 i;

	for (i = 0; i < 18; i++) {
		if (i % 4 == 0)
			abi_text_init(&text, line, sizeof(line));
		abi_text_str(&text, i % 4 ? "  " : "  ");
		abi_text_str(&text, reg[i]);
		abi_text_str(&text, " ");
		abi_text_hex(&text, value[i], 16);
		if (i % 4 == 3 || i == 17)
			p->host->log(line);
	}
}

/* Logs the mapping that contains an address, as /proc/self/maps would name
 * it. */
static void log_mapping(struct abi_proc *p, const char *what, u64 addr)
{
	struct abi_text text;
	struct abi_area a;
	char line[160];

	abi_text_init(&text, line, sizeof(line));
	abi_text_str(&text, "  ");
	abi_text_str(&text, what);
	if (addr >= p->vdso && addr < p->vdso_end) {
		abi_text_str(&text, " is in the vDSO");
	} else if (!abi_space_next(p, addr, &a) || a.start > addr) {
		abi_text_str(&text, " is not mapped");
	} else {
		abi_text_str(&text, " is in ");
		abi_text_hex(&text, a.start, 8);
		abi_text_chr(&text, '-');
		abi_text_hex(&text, a.end, 8);
		abi_text_chr(&text, ' ');
		abi_text_chr(&text, a.prot & ABI_PROT_READ ? 'r' : '-');
		abi_text_chr(&text, a.prot & ABI_PROT_WRITE ? 'w' : '-');
		abi_text_chr(&text, a.prot & ABI_PROT_EXEC ? 'x' : '-');
	}
	p->host->log(line);
}

/* The parent reports a child that was ended by a signal; a fault is logged
 * here. */
static int is_reported(const struct abi_proc *p, const struct abi_fault *fault)
{
	return fault || !p->child;
}

void abi_signal_kill(struct abi_proc *p, struct abi_thread *t, u32 signo,
		     const struct abi_regs *regs, const struct abi_fault *fault)
{
	struct abi_text text;
	char line[160];

	if (is_reported(p, fault) &&
	    !__atomic_exchange_n(&p->signals.said_kill, 1, __ATOMIC_RELAXED)) {
		abi_text_init(&text, line, sizeof(line));
		abi_text_str(&text, "killed by ");
		abi_text_str(&text, abi_signal_name(signo));
		abi_text_str(&text, ", thread ");
		abi_text_dec(&text, t->tid);
		abi_text_str(&text, ", at 0x");
		abi_text_hex(&text, regs->rip, 1);
		if (fault) {
			abi_text_str(&text, ", address 0x");
			abi_text_hex(&text, fault->addr, 1);
		}
		p->host->log(line);
		if (abi_signal_bit(signo) & (SYNCHRONOUS | BIT(ABRT)))
			log_regs(p, regs);
		if (fault) {
			log_mapping(p, "the instruction", regs->rip);
			log_mapping(p, "the address", fault->addr);
		}
	}
	abi_thread_end_all(p, t, signo);
}
