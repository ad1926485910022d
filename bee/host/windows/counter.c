// SPDX-License-Identifier: MIT
/*
 * eventfd: a number in a section, which the processes that inherit it change
 * without a lock, because any of them may be killed. An event is set while the
 * number is not 0. Where it is 0, a process that waits for input registers a
 * wait for the event, once, which rings its threads.
 *
 * Whoever changes the number sets the event afterwards, so a process that is
 * killed in between leaves it wrong: before it waits, each process corrects it,
 * and io_wait looks again now and then. counter->lock guards `wait`.
 */
#include "spawn.h"
#include "win.h"

#define LARGEST 0xfffffffffffffffeull

struct shared {
	u64 value; /* atomic */
	u32 semaphore;
};

struct win_counter {
	struct shared *shared;
	HANDLE section, event, wait;
	u32 armed; /* atomic: `wait` has not rung yet */
	SRWLOCK lock;
};

/* Makes the event agree with the number; a later change sets it again. */
static void correct_event(struct win_counter *c)
{
	ResetEvent(c->event);
	if (__atomic_load_n(&c->shared->value, __ATOMIC_SEQ_CST))
		SetEvent(c->event);
}

static void CALLBACK ring_threads(void *arg, BOOLEAN late)
{
	struct win_counter *c = arg;

	(void)late;
	__atomic_store_n(&c->armed, 0, __ATOMIC_SEQ_CST);
	bee_thread_ring_all();
}

static void arm_wait(struct win_counter *c)
{
	AcquireSRWLockExclusive(&c->lock);
	if (!__atomic_exchange_n(&c->armed, 1, __ATOMIC_SEQ_CST)) {
		if (c->wait)
			UnregisterWaitEx(c->wait, NULL);
		correct_event(c);
		if (!RegisterWaitForSingleObject(&c->wait, c->event,
						 ring_threads, c, INFINITE,
						 WT_EXECUTEONLYONCE)) {
			c->wait = NULL;
			c->armed = 0;
		}
	}
	ReleaseSRWLockExclusive(&c->lock);
}

u32 bee_counter_poll(struct win_counter *c, u32 events)
{
	u64 now = __atomic_load_n(&c->shared->value, __ATOMIC_SEQ_CST);
	u32 e = now < LARGEST ? WIN_POLLOUT | WIN_POLLWRNORM : 0;

	if (now)
		e |= WIN_POLLIN | WIN_POLLRDNORM;
	else if (events & (WIN_POLLIN | WIN_POLLRDNORM))
		arm_wait(c);
	return e & events;
}

s64 bee_counter_read(struct win_counter *c, void *buf, u64 len)
{
	u64 now = __atomic_load_n(&c->shared->value, __ATOMIC_SEQ_CST), part;

	if (len < sizeof(part))
		return -LINUX_EINVAL;
	do {
		if (!now)
			return -LINUX_EAGAIN;
		part = c->shared->semaphore ? 1 : now;
	} while (!__atomic_compare_exchange_n(&c->shared->value, &now,
					      now - part, 0, __ATOMIC_SEQ_CST,
					      __ATOMIC_SEQ_CST));
	if (now == part)
		correct_event(c);
	memcpy(buf, &part, sizeof(part));
	return sizeof(part);
}

s64 bee_counter_write(struct win_counter *c, const void *buf, u64 len)
{
	u64 now = __atomic_load_n(&c->shared->value, __ATOMIC_SEQ_CST), add;

	if (len < sizeof(add))
		return -LINUX_EINVAL;
	memcpy(&add, buf, sizeof(add));
	do {
		if (add > LARGEST - now)
			return -LINUX_EAGAIN;
	} while (!__atomic_compare_exchange_n(&c->shared->value, &now,
					      now + add, 0, __ATOMIC_SEQ_CST,
					      __ATOMIC_SEQ_CST));
	if (add)
		SetEvent(c->event);
	return sizeof(add);
}

struct win_counter *bee_counter_open(HANDLE section, HANDLE event)
{
	struct win_counter *c = bee_os_alloc(sizeof(*c));

	if (c && section && event)
		c->shared = MapViewOfFile(section, FILE_MAP_WRITE, 0, 0, 0);
	if (c && c->shared) {
		c->section = section;
		c->event = event;
		InitializeSRWLock(&c->lock);
		return c;
	}
	if (section)
		CloseHandle(section);
	if (event)
		CloseHandle(event);
	if (c)
		bee_os_free(c, sizeof(*c));
	return NULL;
}

s64 bee_counter_new(u64 value, u32 semaphore)
{
	struct win_counter *c = bee_counter_open(
		CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE,
				   0, sizeof(struct shared), NULL),
		CreateEventW(NULL, TRUE, value != 0, NULL));
	struct win_handle *h;
	s32 number;

	if (!c)
		return -LINUX_ENOMEM;
	c->shared->value = value;
	c->shared->semaphore = semaphore;
	h = bee_handle_new(WIN_COUNTER, &number);
	if (!h) {
		bee_counter_close(c);
		return -LINUX_ENFILE;
	}
	h->counter = c;
	return number;
}

HANDLE bee_counter_pass(const struct win_counter *c, struct win_passed *to)
{
	to->out = (u64)c->event;
	return c->section;
}

void bee_counter_close(struct win_counter *c)
{
	if (c->wait)
		UnregisterWaitEx(c->wait, INVALID_HANDLE_VALUE);
	UnmapViewOfFile(c->shared);
	CloseHandle(c->section);
	CloseHandle(c->event);
	bee_os_free(c, sizeof(*c));
}
