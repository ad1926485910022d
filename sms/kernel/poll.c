// SPDX-License-Identifier: MIT
/*
 * Threads that wait for handles. A core has one slot, so the handles of all
 * threads that wait on that core are one call there. The call is cancelled when
 * the slot is needed for another call or when a further thread waits, and the
 * next poll issues it again. While other threads run on the core, the proxy
 * sends an NMI with the reply.
 *
 * Only the core uses its list: a thread in it stays with the core until its
 * wait is over. So there is no lock.
 */
#include "kernel.h"

#define POLL_MAX (MAIL_BULK_SIZE / sizeof(struct abi_poll))

static struct abi_poll *bulk_list(const struct core *c)
{
	return (struct abi_poll *)(c->slot->data + MAIL_BULK);
}

static int is_answered(const struct core *c)
{
	return c->polling &&
	       __atomic_load_n(&c->slot->state, __ATOMIC_SEQ_CST) != MAIL_CALL;
}

static void finish_wait(struct core *c, struct task *t, s64 result)
{
	u32 *at = &c->poller;

	skep_assert(c->pollers && t->list);
	while (*at != t->thread)
		at = &sms_task_at(*at)->next;
	*at = t->next;
	c->pollers--;
	t->list = 0;
	t->result = result;
	__atomic_store_n(&t->polled, 1, __ATOMIC_SEQ_CST);
	sms_thread_ready(t);
}

/* Concatenates the lists; a wait for whose handles there is no room ends with
 * -ENOMEM. */
static u64 put_lists(struct core *c, u64 *until)
{
	u32 at = c->poller, left = c->pollers, n = 0;
	struct task *t;

	*until = ABI_FOREVER;
	for (; left; left--) {
		t = sms_task_at(at);
		at = t->next;
		if (t->count > POLL_MAX - n) {
			finish_wait(c, t, -LINUX_ENOMEM);
			continue;
		}
		abi_memcpy(bulk_list(c) + n, t->list,
			   t->count * sizeof(*t->list));
		n += t->count;
		*until = t->until < *until ? t->until : *until;
	}
	return n;
}

/* `looks`: a thread will poll the slot, so no NMI is needed. */
static void issue_call(struct core *c, u32 looks)
{
	struct mail_slot *s = c->slot;
	u64 until, n = put_lists(c, &until);

	skep_assert(!c->polling && n <= POLL_MAX);
	c->listing.left = 0;
	if (!c->pollers)
		return;
	s->op = MAIL_IO_WAIT;
	s->handle = -1;
	s->cancel = 0;
	s->arg[0] = n;
	s->arg[1] = until;
	__atomic_store_n(&s->notify, !looks, __ATOMIC_SEQ_CST);
	SMS_COUNT(c, forwarded[MAIL_IO_WAIT]);
	c->polling = 1;
	__atomic_store_n(&s->state, MAIL_CALL, __ATOMIC_SEQ_CST);
	sms_cpu_doorbell_call(c);
}

static u32 get_list(struct task *t, const struct abi_poll *back, int any)
{
	u32 i, n = 0;

	for (i = 0; i < t->count; i++) {
		t->list[i].revents =
			any ? *(volatile const u16 *)&back[i].revents : 0;
		n += t->list[i].revents != 0;
	}
	return n;
}

/* Passes the reply to the threads; returns the number of waits that ended. */
static u32 collect_answer(struct core *c)
{
	s64 n = *(volatile s64 *)&c->slot->result;
	u64 now = (u64)sms_time_clock(ABI_CLOCK_MONOTONIC);
	const struct abi_poll *back = bulk_list(c);
	u32 at = c->poller, left = c->pollers, over = 0, got;
	struct task *t;

	if (n < -4095)
		n = -LINUX_EIO;
	c->polling = 0;
	for (; left; left--) {
		t = sms_task_at(at);
		at = t->next;
		got = get_list(t, back, n > 0);
		back += t->count;
		over++;
		if (got)
			finish_wait(c, t, got);
		else if (n < 0 && n != -LINUX_EINTR)
			finish_wait(c, t, n);
		else if (t->until <= now)
			finish_wait(c, t, 0);
		else
			over--;
	}
	return over;
}

static u32 take_back(struct core *c)
{
	__atomic_store_n(&c->slot->cancel, 1, __ATOMIC_SEQ_CST);
	sms_cpu_doorbell();
	while (!is_answered(c))
		__builtin_ia32_pause();
	return collect_answer(c);
}

void sms_poll_release(struct core *c)
{
	if (c->polling)
		take_back(c);
}

int sms_poll_leave(struct core *c)
{
	if (!c->polling)
		return 0;
	__atomic_store_n(&c->slot->notify, 1, __ATOMIC_SEQ_CST);
	return is_answered(c);
}

int sms_poll_is_answered(const struct core *c)
{
	return is_answered(c) ||
	       __atomic_load_n(&c->poll_kick, __ATOMIC_SEQ_CST);
}

/* Ends the waits of threads that were kicked while others ran on the core. */
static u32 withdraw_kicked(struct core *c)
{
	u32 over = c->polling ? take_back(c) : 0, at = c->poller;
	u32 left = c->pollers;
	struct task *t;

	for (; left; left--) {
		t = sms_task_at(at);
		at = t->next;
		if (!__atomic_load_n(&t->kicked, __ATOMIC_SEQ_CST))
			continue;
		finish_wait(c, t, -LINUX_EINTR);
		over++;
	}
	return over;
}

u32 sms_poll_look(struct core *c)
{
	u32 over = 0;

	if (__atomic_exchange_n(&c->poll_kick, 0, __ATOMIC_SEQ_CST))
		over = withdraw_kicked(c);
	if (is_answered(c))
		over += collect_answer(c);
	if (c->pollers && !c->polling)
		issue_call(c, 0);
	return over;
}

static void join_poll(struct core *c, struct task *t)
{
	sms_poll_release(c);
	t->next = c->poller;
	c->poller = t->thread;
	c->pollers++;
	issue_call(c, 1);
}

/* Polls once, in a thread that runs on the core; 0: the thread was kicked. */
static int look_once(struct core *c, struct task *t)
{
	if (__atomic_exchange_n(&c->kicked, 0, __ATOMIC_SEQ_CST)) {
		sms_poll_release(c);
		return 0;
	}
	sms_thread_loosen();
	sms_events_take();
	if (is_answered(c))
		collect_answer(c);
	if (t->polled)
		return 1;
	if (!c->polling)
		issue_call(c, 1);
	else if (!sms_thread_pass(&t->polled, 0, ABI_FOREVER))
		sms_cpu_wait(&c->slot->state, MAIL_CALL, ABI_FOREVER);
	return 1;
}

s64 sms_poll_wait(struct abi_poll *list, u32 count, u64 deadline_ns, u32 thread)
{
	struct task *t = sms_task_at(thread);
	struct core *c = sms_core();

	if (__atomic_exchange_n(&c->kicked, 0, __ATOMIC_SEQ_CST))
		return -LINUX_EINTR;
	t->list = list;
	t->count = count;
	t->until = deadline_ns;
	t->polled = 0;
	join_poll(c, t);
	while (!__atomic_load_n(&t->polled, __ATOMIC_SEQ_CST))
		if (!look_once(sms_core(), t) && !t->polled)
			finish_wait(sms_core(), t, -LINUX_EINTR);
	sms_thread_stay();
	return t->result;
}
