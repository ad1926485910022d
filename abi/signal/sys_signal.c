/* SPDX-License-Identifier: MIT */
/*
 * The signal system calls. They own nothing: the functions of signal.c change
 * the data, under signals.lock.
 */
#include "sigframe.h"
#include "signal.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/proc/vfork.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/thread/thread.h"
#include "abi/time/time.h"

#define SIG_BLOCK 0
#define SIG_UNBLOCK 1
#define SIG_SETMASK 2

struct altstack {
	u64 sp;
	u32 flags, pad;
	u64 size;
};

/* Whether a number is invalid; 0 only asks whether the target exists. */
static int signo_bad(u64 signo)
{
	return (u32)signo > ABI_SIGNALS;
}

/* The host needs to know whether children that end become zombies. */
static void reap_children(struct abi_call *c, const struct abi_sigaction *fresh)
{
	struct abi_family_op op = {
		.verb = ABI_FAMILY_REAP,
		.status = fresh->handler == ABI_SIG_IGN ||
			  (fresh->flags & ABI_SA_NOCLDWAIT) != 0};

	if (c->p->host->family)
		c->p->host->family(&op, c->t->index);
}

s64 abi_sys_rt_sigaction(struct abi_call *c)
{
	struct abi_sigaction fresh, old;
	u32 signo = (u32)c->a[0];

	if (c->a[3] != 8 || !signo || signo_bad(signo))
		return -LINUX_EINVAL;
	if (c->a[1] && (signo == ABI_SIGKILL || signo == ABI_SIGSTOP))
		return -LINUX_EINVAL;
	if (c->a[1] && ABI_GET(c->p, &fresh, c->a[1]))
		return -LINUX_EFAULT;
	abi_signal_action(c->p, signo, c->a[1] ? &fresh : 0, &old);
	if (c->a[1] && signo == ABI_SIGCHLD && !abi_vfork_is(c->p))
		reap_children(c, &fresh);
	if (c->a[2] && ABI_PUT(c->p, c->a[2], &old))
		return -LINUX_EFAULT;
	return 0;
}

s64 abi_sys_rt_sigprocmask(struct abi_call *c)
{
	u32 child = abi_vfork_is(c->p);
	u64 old = child ? c->p->vfork.blocked : c->t->blocked, set;

	if (c->a[3] != 8)
		return -LINUX_EINVAL;
	if (c->a[1]) {
		if (ABI_GET(c->p, &set, c->a[1]))
			return -LINUX_EFAULT;
		switch ((u32)c->a[0]) {
		case SIG_BLOCK:
			set |= old;
			break;
		case SIG_UNBLOCK:
			set = old & ~set;
			break;
		case SIG_SETMASK:
			break;
		default:
			return -LINUX_EINVAL;
		}
		if (child)
			c->p->vfork.blocked = set;
		else
			abi_signal_mask_set(c->p, c->t, set);
	}
	if (c->a[2] && ABI_PUT(c->p, c->a[2], &old))
		return -LINUX_EFAULT;
	return 0;
}

s64 abi_sys_rt_sigpending(struct abi_call *c)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_SETTLE};
	u64 set;

	if (c->a[1] > 8)
		return -LINUX_EINVAL;
	if (c->p->host->family)
		c->p->host->family(&op, c->t->index);
	set = __atomic_load_n(&c->t->pending, __ATOMIC_SEQ_CST) |
	      __atomic_load_n(&c->p->signals.pending, __ATOMIC_SEQ_CST);
	set &= c->t->blocked;
	return abi_user_put(c->p, c->a[0], &set, c->a[1]);
}

/* Sleeps until a signal is deliverable. */
static s64 pause_here(struct abi_call *c)
{
	while (!abi_pending(c->p, c->t->index))
		abi_thread_park(c->p, c->t, ABI_FOREVER, 1);
	return -ABI_ERESTARTNOHAND;
}

s64 abi_sys_pause(struct abi_call *c)
{
	return pause_here(c);
}

s64 abi_sys_rt_sigsuspend(struct abi_call *c)
{
	s64 rc;

	if (!c->a[0])
		return -LINUX_EFAULT;
	rc = abi_signal_mask_push(c, c->a[0], c->a[1]);
	return rc ? rc : pause_here(c);
}

static void sigwait_set(struct abi_call *c, u64 set)
{
	abi_lock(c->p, &c->p->signals.lock);
	c->t->sigwait = set;
	abi_unlock(c->p, &c->p->signals.lock);
}

/* Waits for one of `set`; its number, -EAGAIN or -EINTR. */
static s64 wait_for(struct abi_call *c, u64 set, u64 deadline,
		    struct abi_siginfo *info)
{
	s64 rc = 0;

	sigwait_set(c, set);
	while (!abi_signal_take(c->p, c->t, set, info)) {
		if (rc) {
			info->signo = 0;
			break;
		}
		rc = abi_thread_park(c->p, c->t, deadline, 1);
	}
	sigwait_set(c, 0);
	if (info->signo)
		return info->signo;
	return rc == -LINUX_ETIMEDOUT ? -LINUX_EAGAIN : rc;
}

s64 abi_sys_rt_sigtimedwait(struct abi_call *c)
{
	struct abi_siginfo info;
	u64 set, ns, deadline = ABI_FOREVER;
	s64 rc;

	if (c->a[3] != 8)
		return -LINUX_EINVAL;
	if (ABI_GET(c->p, &set, c->a[0]))
		return -LINUX_EFAULT;
	set &= ~(abi_signal_bit(ABI_SIGKILL) | abi_signal_bit(ABI_SIGSTOP));
	if (c->a[2]) {
		rc = abi_time_get(c->p, c->a[2], &ns);
		if (rc)
			return rc;
		deadline = abi_thread_deadline(c, ns);
	}
	rc = wait_for(c, set, deadline, &info);
	if (rc > 0 && c->a[1] && ABI_PUT(c->p, c->a[1], &info))
		return -LINUX_EFAULT;
	return rc;
}

s64 abi_sys_rt_sigreturn(struct abi_call *c)
{
	u64 rsp = c->regs->rsp;
	u32 again;

	c->how = ABI_RETURN_FULL;
	if (abi_sigframe_pop(c->p, c->t, c->regs, &again))
		abi_signal_segv(c->p, c->t, c->regs, rsp);
	else
		c->t->rerun = again != ABI_NONE;
	return 0;
}

s64 abi_sys_sigaltstack(struct abi_call *c)
{
	struct altstack fresh, old = {c->t->alt_sp, 0, 0, c->t->alt_size};
	u64 rsp = c->regs->rsp;
	s64 rc;

	old.flags = abi_signal_altstack_flags(c->t, rsp);
	if (c->a[0]) {
		if (ABI_GET(c->p, &fresh, c->a[0]))
			return -LINUX_EFAULT;
		rc = abi_signal_altstack(c->t, rsp, fresh.sp, fresh.size,
					 fresh.flags);
		if (rc)
			return rc;
	}
	if (c->a[1] && ABI_PUT(c->p, c->a[1], &old))
		return -LINUX_EFAULT;
	return 0;
}

/* Sending ------------------------------------------------------------------ */

/* Signal 0 only checks that the target exists; others are sent. */
static s64 send_or_probe(struct abi_call *c, u32 tid,
			 const struct abi_siginfo *info)
{
	if (info->signo)
		return abi_signal_send(c->p, c->t, tid, info);
	return tid && !abi_thread_find(c->p, tid) ? -LINUX_ESRCH : 0;
}

static s64 send_user(struct abi_call *c, u32 tid, u64 signo, s32 code)
{
	struct abi_siginfo info = {(s32)signo, 0, code, 0, {{0}}};

	if (signo_bad(signo))
		return -LINUX_EINVAL;
	info.user.pid = c->p->info.pid;
	info.user.uid = c->p->info.uid;
	return send_or_probe(c, tid, &info);
}

/* Signals other processes, and groups: -1 is the whole family except the
 * caller. */
static s64 kill_family(struct abi_call *c, s32 pid, s32 signo)
{
	struct abi_family_op op = {
		.verb = ABI_FAMILY_KILL, .pid = pid, .status = signo};
	s64 rc = c->p->host->family(&op, c->t->index);

	if (!rc && op.status)
		rc = send_user(c, 0, (u64)signo, ABI_SI_USER);
	return rc;
}

s64 abi_sys_kill(struct abi_call *c)
{
	s32 pid = (s32)c->a[0], own = (s32)c->p->info.pid;
	s64 rc;

	if (signo_bad(c->a[1]))
		return -LINUX_EINVAL;
	if (abi_vfork_is(c->p)) {
		rc = abi_vfork_kill(c, c->a[0], c->a[1]);
		if (rc <= 0 || c->how == ABI_RETURN_FULL)
			return rc;
		return kill_family(c, pid, (s32)c->a[1]);
	}
	if (pid > 0 && pid != own && abi_thread_find(c->p, (u32)pid))
		pid = own; /* a thread's number is its process's too */
	if (pid != own && c->p->host->family)
		return kill_family(c, pid, (s32)c->a[1]);
	/* alone in its process group; -1 excludes the sender */
	if (pid != own && pid != 0 && pid != -own)
		return -LINUX_ESRCH;
	return send_user(c, 0, c->a[1], ABI_SI_USER);
}

/* By a child of vfork, which has one thread. */
static s64 kill_thread(struct abi_call *c, u64 tid, u64 signo)
{
	s64 rc = abi_vfork_kill(c, tid, signo);

	return rc == 1 && c->how != ABI_RETURN_FULL ? -LINUX_ESRCH : rc;
}

s64 abi_sys_tkill(struct abi_call *c)
{
	if ((s32)c->a[0] <= 0)
		return -LINUX_EINVAL;
	if (abi_vfork_is(c->p))
		return kill_thread(c, c->a[0], c->a[1]);
	return send_user(c, (u32)c->a[0], c->a[1], ABI_SI_TKILL);
}

s64 abi_sys_tgkill(struct abi_call *c)
{
	if ((s32)c->a[0] <= 0 || (s32)c->a[1] <= 0)
		return -LINUX_EINVAL;
	if (abi_vfork_is(c->p) && (u32)c->a[0] == c->p->vfork.pid)
		return kill_thread(c, c->a[1], c->a[2]);
	if ((u32)c->a[0] != c->p->info.pid)
		return -LINUX_ESRCH;
	return send_user(c, (u32)c->a[1], c->a[2], ABI_SI_TKILL);
}

/*
 * As on Linux, only a thread that signals its own number may say that the
 * kernel sent the signal, or tgkill. 0, or an error.
 */
static s64 queue_get(struct abi_call *c, u64 number, u64 signo, u64 gaddr,
		     struct abi_siginfo *info)
{
	if (ABI_GET(c->p, info, gaddr))
		return -LINUX_EFAULT;
	if (signo_bad(signo))
		return -LINUX_EINVAL;
	if ((info->code >= 0 || info->code == ABI_SI_TKILL) &&
	    (u32)number != c->t->tid)
		return -LINUX_EPERM;
	info->signo = (s32)signo;
	return 0;
}

static s64 queue_family(struct abi_call *c, struct abi_siginfo *info)
{
	struct abi_family_op op = {
		.verb = ABI_FAMILY_QUEUE, .pid = (s32)c->a[0], .info = info};

	if (!c->p->host->family)
		return -LINUX_ESRCH;
	return c->p->host->family(&op, c->t->index);
}

s64 abi_sys_rt_sigqueueinfo(struct abi_call *c)
{
	struct abi_siginfo info;
	u32 pid = (u32)c->a[0];
	s64 rc = queue_get(c, pid, c->a[1], c->a[2], &info);

	if (rc)
		return rc;
	if (pid != c->p->info.pid && !abi_thread_find(c->p, pid))
		return queue_family(c, &info);
	return send_or_probe(c, 0, &info);
}

s64 abi_sys_rt_tgsigqueueinfo(struct abi_call *c)
{
	struct abi_siginfo info;
	s64 rc;

	if ((s32)c->a[0] <= 0 || (s32)c->a[1] <= 0)
		return -LINUX_EINVAL;
	if ((u32)c->a[0] != c->p->info.pid)
		return -LINUX_ESRCH;
	rc = queue_get(c, c->a[1], c->a[2], c->a[3], &info);
	return rc ? rc : send_or_probe(c, (u32)c->a[1], &info);
}
