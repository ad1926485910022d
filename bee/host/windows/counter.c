// SPDX-License-Identifier: MIT
/*
 * eventfd: a number in a section, which the processes that inherit it change
 * without a lock, because any of them may be killed. One event is set while the
 * number is not 0, and one while there is room for more. A process that waits
 * registers a wait for the event, once, which rings its threads.
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

enum counter_side {
	SIDE_INPUT,
	SIDE_ROOM,
	SIDES,
};

struct counter_event {
	HANDLE event, wait;
	u32 armed; /* atomic: `wait` has not rung yet */
};

struct win_counter {
	struct shared *shared;
	HANDLE section;
	struct counter_event side[SIDES];
	SRWLOCK lock;
};

static int side_is_ready(const struct win_counter *c, enum counter_side side)
{
	u64 now = __atomic_load_n(&c->shared->value, __ATOMIC_SEQ_CST);

	return side == SIDE_INPUT ? now != 0 : now < LARGEST;
}

/* Makes the event agree with the number; a later change sets it again. */
static void correct_event(struct win_counter *c, enum counter_side side)
{
	ResetEvent(c->side[side].event);
	if (side_is_ready(c, side))
		SetEvent(c->side[side].event);
}

static void CALLBACK ring_threads(void *arg, BOOLEAN late)
{
	struct counter_event *e = arg;

	(void)late;
	__atomic_store_n(&e->armed, 0, __ATOMIC_SEQ_CST);
	bee_thread_ring_all();
}

static void arm_wait(struct win_counter *c, enum counter_side side)
{
	struct counter_event *e = &c->side[side];

	AcquireSRWLockExclusive(&c->lock);
	if (!__atomic_exchange_n(&e->armed, 1, __ATOMIC_SEQ_CST)) {
		if (e->wait)
			UnregisterWaitEx(e->wait, NULL);
		correct_event(c, side);
		if (!RegisterWaitForSingleObject(&e->wait, e->event,
						 ring_threads, e, INFINITE,
						 WT_EXECUTEONLYONCE)) {
			e->wait = NULL;
			e->armed = 0;
		}
	}
	ReleaseSRWLockExclusive(&c->lock);
}

u32 bee_counter_poll(struct win_counter *c, u32 events)
{
	static const u32 bits[SIDES] = {WIN_POLLIN | WIN_POLLRDNORM,
					WIN_POLLOUT | WIN_POLLWRNORM};
	u32 e = 0, i;

	for (i = 0; i < SIDES; i++) {
		if (side_is_ready(c, i))
			e |= bits[i];
		else if (events & bits[i])
			arm_wait(c, i);
	}
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
		correct_event(c, SIDE_INPUT);
	if (now == LARGEST)
		SetEvent(c->side[SIDE_ROOM].event);
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
		SetEvent(c->side[SIDE_INPUT].event);
	return sizeof(add);
}

struct win_counter *bee_counter_open(HANDLE section, HANDLE input, HANDLE room)
{
	struct win_counter *c = bee_os_alloc(sizeof(*c));

	if (c && section && input && room)
		c->shared = MapViewOfFile(section, FILE_MAP_WRITE, 0, 0, 0);
	if (c && c->shared) {
		c->section = section;
		c->side[SIDE_INPUT].event = input;
		c->side[SIDE_ROOM].event = room;
		InitializeSRWLock(&c->lock);
		return c;
	}
	if (section)
		CloseHandle(section);
	if (input)
		CloseHandle(input);
	if (room)
		CloseHandle(room);
	if (c)
		bee_os_free(c, sizeof(*c));
	return NULL;
}

s64 bee_counter_new(u64 value, u32 semaphore)
{
	struct win_counter *c = bee_counter_open(
		CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE,
				   0, sizeof(struct shared), NULL),
		CreateEventW(NULL, TRUE, value != 0, NULL),
		CreateEventW(NULL, TRUE, value < LARGEST, NULL));
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
	to->out = (u64)c->side[SIDE_INPUT].event;
	to->shut[0] = (u64)c->side[SIDE_ROOM].event;
	return c->section;
}

void bee_counter_close(struct win_counter *c)
{
	u32 i;

	for (i = 0; i < SIDES; i++) {
		if (c->side[i].wait)
			UnregisterWaitEx(c->side[i].wait, INVALID_HANDLE_VALUE);
		CloseHandle(c->side[i].event);
	}
	UnmapViewOfFile(c->shared);
	CloseHandle(c->section);
	bee_os_free(c, sizeof(*c));
}
