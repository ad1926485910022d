// SPDX-License-Identifier: MIT
/*
 * Waits for handles, on sms' side, step by step: what is asked of the proxy,
 * when a call is taken back, and which wait an answer ends. reply.c has the
 * same code against random answers.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sms/kernel/kernel.h"
#include "sms/test/play.h"
#include "tests/tap.h"

#define ROOM ((u32)(MAIL_BULK_SIZE / sizeof(struct abi_poll)))
#define NOW 1000 /* the clock */

static struct core core;
static struct mail_slot *slot;
static struct task task[3];
static u32 calls, cancelled, readied, passes, loosened, stayed, steps, events;
/* What happens while the thread has nothing else to do. */
static void (*at_step)(u32 step);
static int passing; /* another thread ran until something happened */

struct core *sms_core_at(u32 number)
{
	must(!number);
	return &core;
}

struct task *sms_task_at(u32 thread)
{
	must(thread < 3);
	return &task[thread];
}

void sms_cpu_doorbell_call(struct core *c)
{
	must(c == &core && slot->state == MAIL_CALL && !slot->cancel);
	must(slot->op == MAIL_IO_WAIT && slot->handle == -1);
	calls++;
}

static void answer_call(s64 result)
{
	slot->result = result;
	slot->state = MAIL_DONE;
}

/* The proxy has lost its copy of the list when it gives a call back. */
void sms_cpu_doorbell(void)
{
	must(slot->cancel == 1 && slot->state == MAIL_CALL);
	cancelled++;
	answer_call(-LINUX_EINTR);
}

static void step_once(void)
{
	must(at_step && ++steps < 10);
	at_step(steps);
}

void sms_cpu_wait(const u32 *word, u32 expect, u64 deadline_ns)
{
	must(word == &slot->state && expect == MAIL_CALL);
	must(deadline_ns == ABI_FOREVER && !passing);
	step_once();
}

int sms_thread_pass(const u32 *word, u32 expect, u64 deadline_ns)
{
	must(word == &task[0].polled && !expect && deadline_ns == ABI_FOREVER);
	passes++;
	if (passing)
		step_once();
	return passing;
}

void sms_thread_ready(struct task *t)
{
	must(t->polled && !t->list);
	readied++;
}

void sms_thread_loosen(void)
{
	loosened++;
}

void sms_thread_stay(void)
{
	stayed++;
}

void sms_events_take(void)
{
	events++;
}

s64 sms_time_clock(u32 clock)
{
	must(clock == ABI_CLOCK_MONOTONIC);
	return NOW;
}

static struct abi_poll *bulk_at(u32 i)
{
	return (struct abi_poll *)(slot->data + MAIL_BULK) + i;
}

static void reset_all(void)
{
	u32 i;

	if (!slot) {
		slot = mmap(NULL, sizeof(*slot), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		must(slot != MAP_FAILED);
		must(!syscall(SYS_arch_prctl, ARCH_SET_GS, &core));
	}
	memset(slot, 0, sizeof(*slot));
	memset(&core, 0, sizeof(core));
	core.self = &core;
	core.slot = slot;
	core.ledger = &slot->ledger;
	core.poller = NO_THREAD;
	for (i = 0; i < 3; i++)
		task[i] = (struct task){.thread = i};
	calls = cancelled = readied = passes = loosened = stayed = steps =
		events = 0;
	passing = 0;
	at_step = 0;
}

/* A thread that has left the core while it waits; the first one comes last. */
static void add_waiter(u32 thread, struct abi_poll *list, u32 count, u64 until)
{
	task[thread].list = list;
	task[thread].count = count;
	task[thread].until = until;
	task[thread].next = core.poller;
	core.poller = thread;
	core.pollers++;
}

static void answer_first(u32 step)
{
	must(step == 1);
	bulk_at(0)->revents = 7;
	answer_call(1);
}

/* Nothing has happened, and then two have. */
static void answer_second(u32 step)
{
	answer_call(step == 1 ? 0 : 2);
	bulk_at(0)->revents = bulk_at(1)->revents = 1;
}

static void test_asked(void)
{
	struct abi_poll mine = {.handle = 3, .events = 5, .revents = 9};
	struct abi_poll pair[2] = {{.handle = 3}, {.handle = 4}};

	reset_all();
	slot->cancel = slot->arg[0] = 77;
	core.listing.left = 2;
	at_step = answer_first;
	tap_ok(sms_poll_wait(&mine, 1, NOW + 1, 0) == 1 && mine.revents == 7,
	       "asked: the answer of the only handle");
	tap_ok(slot->arg[0] == 1 && slot->arg[1] == NOW + 1 &&
		       bulk_at(0)->handle == 3 && bulk_at(0)->events == 5,
	       "asked: the handles, their number and the deadline");
	tap_ok(calls == 1 && !cancelled && !slot->notify && passes == 1,
	       "asked: once, and the thread itself looks for the answer");
	tap_ok(!core.polling && !core.pollers && !core.listing.left &&
		       readied == 1 && loosened && stayed == 1 && events,
	       "asked: afterwards the slot is free, and the thread stays");
	at_step = answer_second;
	steps = 0;
	tap_ok(sms_poll_wait(pair, 2, NOW + 1, 0) == 2 && calls == 3 &&
		       steps == 2 && pair[1].revents == 1,
	       "asked: a second time, until something has happened");
}

static void kick_thread(u32 step)
{
	must(step == 1);
	core.kicked = 1;
}

static void test_kicked(void)
{
	struct abi_poll mine = {.handle = 3}, other = {.handle = 4};

	reset_all();
	core.kicked = 1;
	tap_ok(sms_poll_wait(&mine, 1, ABI_FOREVER, 0) == -LINUX_EINTR &&
		       !calls && !core.pollers && !core.kicked,
	       "kicked: before the wait");
	reset_all();
	at_step = kick_thread;
	add_waiter(1, &other, 1, ABI_FOREVER);
	tap_ok(sms_poll_wait(&mine, 1, ABI_FOREVER, 0) == -LINUX_EINTR &&
		       cancelled == 1 && !core.kicked && !core.polling,
	       "kicked: during the wait the call is taken back");
	tap_ok(core.pollers == 1 && core.poller == 1 && task[1].list == &other,
	       "kicked: another thread's wait goes on");
	reset_all();
	passing = 1;
	at_step = kick_thread;
	tap_ok(sms_poll_wait(&mine, 1, ABI_FOREVER, 0) == -LINUX_EINTR,
	       "kicked: while another thread runs on the core");
}

static void test_joined(void)
{
	struct abi_poll mine[2] = {{.handle = 3}, {.handle = 4}};
	struct abi_poll other = {.handle = 5};

	reset_all();
	add_waiter(1, &other, 1, 5000);
	sms_poll_look(&core);
	tap_ok(calls == 1 && slot->notify == 1 && slot->arg[1] == 5000,
	       "joined: an NMI comes for a thread that has left the core");
	at_step = kick_thread;
	sms_poll_wait(mine, 2, 4000, 0);
	tap_ok(calls == 2 && slot->arg[0] == 3 && slot->arg[1] == 4000 &&
		       bulk_at(0)->handle == 3 && bulk_at(1)->handle == 4 &&
		       bulk_at(2)->handle == 5,
	       "joined: both lists, and the earlier deadline");
	tap_ok(cancelled == 2, "joined: the first call was taken back");
	reset_all();
	add_waiter(1, &other, 1, 4000);
	at_step = kick_thread;
	sms_poll_wait(mine, 2, 5000, 0);
	tap_ok(slot->arg[1] == 4000, "joined: whichever thread's it is");
}

static void test_room(void)
{
	static struct abi_poll most[ROOM + 1], other;
	u32 i;

	for (i = 0; i <= ROOM; i++)
		most[i].handle = (s32)i;
	reset_all();
	tap_ok(sms_poll_wait(most, ROOM + 1, ABI_FOREVER, 0) == -LINUX_ENOMEM &&
		       !calls && !core.pollers,
	       "room: a handle too many is refused");
	reset_all();
	at_step = answer_first;
	tap_ok(sms_poll_wait(most, ROOM, ABI_FOREVER, 0) == 1 && calls == 1 &&
		       slot->arg[0] == ROOM &&
		       bulk_at(ROOM - 1)->handle == (s32)ROOM - 1,
	       "room: as many as the slot has room for");
	reset_all();
	at_step = answer_first;
	add_waiter(1, &other, 1, ABI_FOREVER);
	tap_ok(sms_poll_wait(most, ROOM, ABI_FOREVER, 0) == 1 &&
		       task[1].result == -LINUX_ENOMEM && readied == 2 &&
		       slot->arg[0] == ROOM,
	       "room: together too many end an earlier wait");
	reset_all();
	add_waiter(1, most, ROOM + 1, ABI_FOREVER);
	tap_ok(!sms_poll_look(&core) && !calls && !core.polling &&
		       task[1].result == -LINUX_ENOMEM,
	       "room: no call is made for nobody");
}

/* Two threads wait, and the proxy answers: how many waits are over. */
static u32 answer_two(s64 result, u16 first, u16 second)
{
	static struct abi_poll list[2];
	u32 i;

	reset_all();
	for (i = 0; i < 2; i++) {
		list[i] = (struct abi_poll){.handle = 3, .revents = 9};
		add_waiter(i + 1, &list[i], 1, i ? NOW + 1 : ABI_FOREVER);
	}
	must(!sms_poll_look(&core) && calls == 1);
	bulk_at(0)->revents = first;
	bulk_at(1)->revents = second;
	answer_call(result);
	return sms_poll_look(&core);
}

static int has_ended(u32 thread, s64 result)
{
	return task[thread].polled && task[thread].result == result;
}

static void test_answers(void)
{
	static const struct {
		s64 result, each;
	} errors[] = {{-LINUX_EBADF, -LINUX_EBADF},
		      {-4095, -4095},
		      {-4096, -LINUX_EIO},
		      {(s64)(1ull << 63), -LINUX_EIO}};
	u32 i;

	tap_ok(answer_two(1, 1, 0) == 1 && has_ended(2, 1) && core.pollers == 1,
	       "answers: for the last one that waits");
	tap_ok(answer_two(1, 0, 1) == 1 && has_ended(1, 1) &&
		       core.poller == 2 && core.pollers == 1 && calls == 2,
	       "answers: for the first one; the other one is asked for again");
	tap_ok(answer_two(2, 1, 1) == 2 && readied == 2 && calls == 1,
	       "answers: for both, and nothing is asked again");
	tap_ok(!answer_two(0, 1, 1) && core.pollers == 2 && calls == 2,
	       "answers: none, whatever the list has");
	tap_ok(!answer_two(-LINUX_EINTR, 1, 1) && core.pollers == 2,
	       "answers: a call that was taken back ends no wait");
	for (i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		tap_ok(answer_two(errors[i].result, 1, 1) == 2 &&
			       has_ended(1, errors[i].each) &&
			       has_ended(2, errors[i].each),
		       "answers: error %lld ends all waits",
		       (long long)errors[i].result);
}

static void test_deadlines(void)
{
	struct abi_poll list[2] = {{.handle = 3, .revents = 9}, {.handle = 4}};

	reset_all();
	add_waiter(1, &list[0], 1, NOW);
	add_waiter(2, &list[1], 1, NOW + 1);
	sms_poll_look(&core);
	answer_call(0);
	tap_ok(sms_poll_look(&core) == 1 && has_ended(1, 0) &&
		       !task[2].polled && !list[0].revents,
	       "deadlines: one that is reached ends its wait, without events");
	tap_ok(calls == 2 && slot->arg[1] == NOW + 1 && slot->arg[0] == 1,
	       "deadlines: the later one is asked for again");
}

/* A thread without the core was kicked while another one ran there. */
static void test_withdrawn(void)
{
	struct abi_poll list[2] = {{.handle = 3}, {.handle = 4}};

	reset_all();
	add_waiter(1, &list[0], 1, ABI_FOREVER);
	add_waiter(2, &list[1], 1, ABI_FOREVER);
	sms_poll_look(&core);
	task[1].kicked = core.poll_kick = 1;
	tap_ok(sms_poll_is_answered(&core) && sms_poll_look(&core) == 1 &&
		       has_ended(1, -LINUX_EINTR) && !task[2].polled,
	       "withdrawn: only the thread that was kicked");
	tap_ok(cancelled == 1 && !core.poll_kick && calls == 2 &&
		       slot->arg[0] == 1 && bulk_at(0)->handle == 4,
	       "withdrawn: the others' handles are asked for again");
	tap_ok(!sms_poll_is_answered(&core) && !sms_poll_look(&core) &&
		       cancelled == 1,
	       "withdrawn: once");
	reset_all();
	add_waiter(1, &list[0], 1, ABI_FOREVER);
	task[1].kicked = core.poll_kick = 1;
	tap_ok(sms_poll_look(&core) == 1 && !cancelled && !calls,
	       "withdrawn: where no call was made none is taken back");
}

static void test_slot(void)
{
	struct abi_poll other = {.handle = 4};

	reset_all();
	sms_poll_release(&core);
	tap_ok(!cancelled && !sms_poll_leave(&core) && !slot->notify,
	       "slot: nothing to release or leave");
	add_waiter(1, &other, 1, ABI_FOREVER);
	sms_poll_look(&core);
	slot->notify = 0;
	tap_ok(!sms_poll_leave(&core) && slot->notify == 1,
	       "slot: a core that leaves it asks for an NMI");
	answer_call(0);
	tap_ok(sms_poll_leave(&core) == 1 && sms_poll_is_answered(&core),
	       "slot: and sees an answer that came before");
	sms_poll_look(&core);
	sms_poll_release(&core);
	tap_ok(cancelled == 1 && !core.polling && core.pollers == 1,
	       "slot: one that needs it takes the call back");
	slot->state = MAIL_DONE;
	tap_ok(!sms_poll_is_answered(&core),
	       "slot: another call's answer is not the wait's");
}

int main(void)
{
	test_asked();
	test_kicked();
	test_joined();
	test_room();
	test_answers();
	test_deadlines();
	test_withdrawn();
	test_slot();
	return tap_done();
}
