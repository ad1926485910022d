// SPDX-License-Identifier: MIT
/*
 * Owns signalfd(2). desc->value is the set of signals, atomic. As on Linux a
 * descriptor has no signals of its own: a thread that reads or polls it gets
 * those that are pending for itself and its process.
 */
#include "signalfd.h"
#include "signal.h"
#include "abi/fs/desc.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/user.h"
#include "abi/mm/span.h"
#include "abi/poll/wait.h"
#include "abi/proc/call.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/thread/thread.h"
#include "abi/uapi/linux.h"

#define CLD_FIRST 1
#define CLD_LAST 6

/* As in the guest: struct signalfd_siginfo. */
struct record {
	u32 signo;
	s32 err, code;
	u32 pid, uid;
	s32 fd;
	u32 tid, band, overrun, trapno;
	s32 status, number;
	u64 pointer, user_time, system_time, addr;
	u16 addr_lsb, pad[23];
};
SKEP_ASSERT_SIZE(struct record, 128);

static u64 set_of_desc(const struct abi_desc *d)
{
	return __atomic_load_n(&d->value, __ATOMIC_SEQ_CST);
}

static void record_user(struct record *r, const struct abi_siginfo *info)
{
	r->pid = info->user.pid;
	r->uid = info->user.uid;
	if (info->code < 0) {
		r->pointer = info->user.value;
		r->number = (s32)info->user.value;
	}
}

static void record_child(struct record *r, const struct abi_siginfo *info)
{
	r->pid = info->user.pid;
	r->uid = info->user.uid;
	r->status = (s32)info->word[1];
	r->user_time = info->word[2];
	r->system_time = info->word[3];
}

static void record_timer(struct record *r, const struct abi_siginfo *info)
{
	r->tid = (u32)info->timer.id;
	r->overrun = (u32)info->timer.overrun;
	r->pointer = info->timer.value;
	r->number = (s32)info->timer.value;
}

static void fill_record(struct record *r, const struct abi_siginfo *info)
{
	abi_memset(r, 0, sizeof(*r));
	r->signo = (u32)info->signo;
	r->err = info->err;
	r->code = info->code;
	if (info->code == ABI_SI_TIMER)
		record_timer(r, info);
	else if (info->code <= ABI_SI_USER || info->code == ABI_SI_KERNEL)
		record_user(r, info);
	else if (info->signo == ABI_SIGCHLD && info->code >= CLD_FIRST &&
		 info->code <= CLD_LAST)
		record_child(r, info);
	else
		r->addr = info->fault.addr;
}

/* As sigwait: this thread takes a signal that all threads block. 0, or
 * -EINTR. */
static s64 wait_signal(struct abi_call *c, u64 set, struct abi_siginfo *info)
{
	s64 rc = 0;
	int found;

	abi_lock(c->p, &c->p->signals.lock);
	c->t->sigwait = set;
	abi_unlock(c->p, &c->p->signals.lock);
	while (!(found = abi_signal_take(c->p, c->t, set, info)) && !rc)
		rc = abi_thread_park(c->p, c->t, ABI_FOREVER, 1);
	abi_lock(c->p, &c->p->signals.lock);
	c->t->sigwait = 0;
	abi_unlock(c->p, &c->p->signals.lock);
	return found ? 0 : -ABI_ERESTARTSYS;
}

static s64 signalfd_read(struct abi_call *c, struct abi_desc *d,
			 struct abi_span *s, s64 offset)
{
	u64 set = set_of_desc(d);
	struct abi_siginfo info;
	struct record record;
	s64 done = 0, rc;

	(void)offset;
	if (s->left < sizeof(record))
		return -LINUX_EINVAL;
	for (; s->left >= sizeof(record); done += (s64)sizeof(record)) {
		if (!abi_signal_take(c->p, c->t, set, &info)) {
			if (done)
				break;
			if (abi_desc_flags(d) & ABI_O_NONBLOCK)
				return -LINUX_EAGAIN;
			rc = wait_signal(c, set, &info);
			if (rc)
				return rc;
		}
		fill_record(&record, &info);
		if (abi_span_scatter(c->p, s, &record, sizeof(record)) <
		    (s64)sizeof(record))
			return done ? done : -LINUX_EFAULT;
	}
	return done;
}

/* `collect` instead of `ready`, because it depends on the calling thread. */
static u32 signalfd_collect(struct abi_call *c, struct abi_set *set,
			    struct abi_desc *d, u32 tag, u32 nested, u32 depth)
{
	u64 pending = __atomic_load_n(&c->t->pending, __ATOMIC_SEQ_CST) |
		      __atomic_load_n(&c->p->signals.pending, __ATOMIC_SEQ_CST);

	(void)set, (void)tag, (void)nested, (void)depth;
	return pending & set_of_desc(d) ? ABI_POLLIN : 0;
}

const struct abi_desc_ops abi_signalfd_ops = {
	.fs_type = ABI_FS_ANON_INODE,
	.unmoved = 1,
	.read = signalfd_read,
	.collect = signalfd_collect,
};

/* Takes no lock: waiters check again after each change. */
void abi_signalfd_wake(struct abi_proc *p, u32 signo)
{
	u32 left = __atomic_load_n(&p->fds.signalfds, __ATOMIC_SEQ_CST), i;
	struct abi_desc *d;

	for (i = 0; left && i < ABI_DESC_MAX; i++) {
		d = &p->fds.desc[i];
		if (abi_desc_ops(d) == &abi_signalfd_ops &&
		    set_of_desc(d) & abi_signal_bit(signo))
			abi_event_signal(p, &d->event, ABI_EDGE_IN);
	}
}

static s64 change_set(struct abi_call *c, u64 set)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);
	s64 rc = (s64)(u32)c->a[0];

	if (!d)
		return -LINUX_EBADF;
	if (abi_desc_ops(d) == &abi_signalfd_ops) {
		__atomic_store_n(&d->value, set, __ATOMIC_SEQ_CST);
		abi_event_signal(c->p, &d->event, ABI_EDGE_IN);
	} else {
		rc = -LINUX_EINVAL;
	}
	abi_desc_put(c->p, d);
	return rc;
}

static s64 create_signalfd(struct abi_call *c, u32 flags)
{
	struct abi_desc *d;
	u64 set;

	if (flags & ~(ABI_O_NONBLOCK | ABI_O_CLOEXEC) || c->a[2] != 8)
		return -LINUX_EINVAL;
	if (ABI_GET(c->p, &set, c->a[1]))
		return -LINUX_EFAULT;
	set &= ~(abi_signal_bit(ABI_SIGKILL) | abi_signal_bit(ABI_SIGSTOP));
	if ((s32)c->a[0] != -1)
		return change_set(c, set);
	d = abi_desc_new(c->p, ABI_DESC_SIGNAL,
			 ABI_O_RDWR | (flags & ABI_O_NONBLOCK));
	if (!d)
		return -LINUX_ENFILE;
	d->value = set;
	__atomic_store_n(&c->p->fds.signalfds, 1, __ATOMIC_SEQ_CST);
	abi_strcpy(d->path, "anon_inode:[signalfd]", 32);
	return abi_desc_install(c->p, d, 0, flags & ABI_O_CLOEXEC);
}

s64 abi_sys_signalfd(struct abi_call *c)
{
	return create_signalfd(c, 0);
}

s64 abi_sys_signalfd4(struct abi_call *c)
{
	return create_signalfd(c, (u32)c->a[3]);
}
