// SPDX-License-Identifier: MIT
/* Owns abi_proc.vfork: vfork.h. */
#include "vfork.h"
#include "call.h"
#include "refuse.h"
#include "abi/fs/desc.h"
#include "abi/fs/fd.h"
#include "abi/include/mem.h"
#include "abi/include/siginfo.h"
#include "abi/signal/signal.h"
#include "abi/thread/lock.h"
#include "abi/thread/thread.h"
#include "base/errno.h"

#define ALL_SIGNALS (~0ull)

/* One child at a time: the second vfork waits until the first child has
 * executed or ended, which no signal interrupts. */
static void take_turn(struct abi_call *c)
{
	struct abi_proc *p = c->p;
	u32 none = 0;

	while (!__atomic_compare_exchange_n(
		&p->vfork.thread, &none, c->t->index + 1, 0, __ATOMIC_SEQ_CST,
		__ATOMIC_SEQ_CST)) {
		p->host->wait(&p->vfork.thread, none, ABI_FOREVER);
		none = 0;
	}
}

const u32 *abi_vfork_turn(const struct abi_proc *p)
{
	return &p->vfork.thread;
}

static void leave_turn(struct abi_proc *p)
{
	__atomic_store_n(&p->vfork.thread, 0, __ATOMIC_SEQ_CST);
	p->host->wake(&p->vfork.thread, ABI_THREADS_MAX);
}

static void copy_slots(struct abi_proc *p)
{
	struct abi_desc *d;
	u32 i;

	abi_lock(p, &p->fds.lock);
	abi_memcpy(p->vfork.slot, p->fds.slot, sizeof(p->vfork.slot));
	for (i = 0; i < ABI_FD_MAX; i++) {
		if (!p->vfork.slot[i].desc)
			continue;
		d = &p->fds.desc[p->vfork.slot[i].desc - 1];
		d->refs++;
		d->numbers++;
	}
	abi_unlock(p, &p->fds.lock);
}

static void copy_rest(struct abi_call *c)
{
	struct abi_proc *p = c->p;
	struct abi_vfork *v = &p->vfork;

	abi_lock(p, &p->lock);
	abi_strcpy(v->cwd, p->cwd, sizeof(v->cwd));
	v->umask = p->umask;
	abi_memcpy(v->limit, p->limit, sizeof(v->limit));
	abi_unlock(p, &p->lock);
	v->blocked = v->mask = c->t->blocked;
	abi_lock(p, &p->signals.lock);
	abi_memcpy(v->action, p->signals.action, sizeof(v->action));
	abi_unlock(p, &p->signals.lock);
	v->regs = *c->regs;
	(void)p->host->vec_save(v->vec, p->info.xsave_size);
	/* signals of the parent wait, since its handlers are not the child's */
	abi_signal_mask_set(p, c->t, ALL_SIGNALS);
}

s64 abi_vfork_begin(struct abi_call *c, u64 stack)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_FORK, .status = 1};
	struct abi_proc *p = c->p;
	s64 rc;

	take_turn(c);
	rc = p->host->family(&op, c->t->index);
	if (rc < 0) {
		leave_turn(p);
		return rc;
	}
	p->vfork.pid = (u32)op.pid;
	copy_rest(c);
	copy_slots(p);
	__atomic_store_n(&p->forked, 1, __ATOMIC_RELAXED);
	if (stack)
		c->regs->rsp = stack;
	return 0;
}

/* The calling thread is the parent again, after its vfork(2). It still has the
 * turn. */
static void become_parent(struct abi_proc *p, struct abi_thread *t,
			  struct abi_regs *regs)
{
	struct abi_vfork *v = &p->vfork;

	abi_fd_close_all(p);
	*regs = v->regs;
	regs->rax = v->pid;
	(void)p->host->vec_load(v->vec, p->info.xsave_size);
	t->restore_blocked = 0;
	abi_signal_mask_set(p, t, v->mask);
}

s64 abi_vfork_finish(struct abi_call *c)
{
	become_parent(c->p, c->t, c->regs);
	leave_turn(c->p);
	c->how = ABI_RETURN_FULL;
	return (s64)c->regs->rax;
}

s64 abi_vfork_end(struct abi_proc *p, struct abi_thread *t,
		  struct abi_regs *regs, u32 status)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_ENDED,
				   .pid = (s32)p->vfork.pid,
				   .status = (s32)status};

	become_parent(p, t, regs);
	p->host->family(&op, t->index);
	leave_turn(p); /* a host has one such child at a time */
	return (s64)regs->rax;
}

s64 abi_vfork_exit(struct abi_call *c, u32 status)
{
	c->how = ABI_RETURN_FULL;
	return abi_vfork_end(c->p, c->t, c->regs, status);
}

s64 abi_vfork_kill(struct abi_call *c, u64 pid, u64 signo)
{
	struct abi_proc *p = c->p;
	u64 handler;

	if ((u32)pid != p->vfork.pid)
		return 1;
	if (signo > ABI_SIGNALS)
		return -LINUX_EINVAL;
	handler = signo ? p->vfork.action[signo - 1].handler : ABI_SIG_IGN;
	if (handler == ABI_SIG_IGN)
		return 0;
	if (handler == ABI_SIG_DFL &&
	    !(p->vfork.blocked & abi_signal_bit((u32)signo)))
		return abi_vfork_exit(c, (u32)signo);
	return abi_refuse(p, ABI_REFUSE_VFORK, -LINUX_EPERM);
}
