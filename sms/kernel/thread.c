// SPDX-License-Identifier: MIT
/*
 * Threads of the program: each core runs one, and has a queue of other runnable
 * threads. While there are no more runnable threads than cores, the queues are
 * empty, nothing is switched, and a thread that waits polls its word.
 *
 * sms_thread_lock guards queues and states. It stays locked while a core
 * switches from one thread's stack to another's, so no core runs a thread
 * before its context is saved. It is locked with no other lock of sms held;
 * events.c's lock is locked inside it.
 *
 * Threads are switched where they wait in abi's park or in poll.c, where they
 * yield, and on the way to ring 3: never with a lock of abi held.
 */
#include "abi/include/thread_state.h"
#include "kernel.h"

#define MSR_FS 0xc0000100

struct spin sms_thread_lock;
static u32 waiting; /* threads in TASK_WAITS; atomic */

struct core *sms_core_at(u32 number)
{
	return (struct core *)(sms_blocks + (u64)number * BLOCK_SIZE);
}

static void make_ready(struct task *t)
{
	if (t->state == TASK_WAITS)
		__atomic_sub_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
	sms_queue_place(t);
}

/* Where a new thread begins, on its own stack. */
void sms_task_begin(void)
{
	struct core *c = sms_core();

	SMS_COUNT(c, threads);
	sms_spin_unlock(&sms_thread_lock);
}

/* Frees the stack and the index of a thread that has ended on this core. */
static void free_ended(struct core *c)
{
	u32 thread = c->ended;

	if (thread == NO_THREAD)
		return;
	c->ended = NO_THREAD;
	sms_spin_lock(&sms_thread_lock);
	sms_task_free(thread);
	sms_spin_unlock(&sms_thread_lock);
	abi_thread_gone(sms_proc, thread);
}

/* Runs threads on this core until none is ready. */
void sms_core_work(struct core *c)
{
	struct task *t;

	do {
		free_ended(c);
		sms_events_take();
		sms_poll_look(c);
		sms_spin_lock(&sms_thread_lock);
		t = sms_queue_pick(c);
		if (t)
			sms_task_go(c, 0, t);
		sms_spin_unlock(&sms_thread_lock);
	} while (t);
}

int sms_core_quiet(struct core *c)
{
	return !__atomic_load_n(&c->queued, __ATOMIC_SEQ_CST) &&
	       !sms_events_is_here() && !sms_poll_is_answered(c);
}

/* Start and end -------------------------------------------------------- */

static s64 refuse_thread(void)
{
	static u32 said;

	SMS_COUNT(sms_core(), crowded);
	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		sms_forward_log("no memory for the stack of another thread: "
				"further threads are refused with EAGAIN");
	return -LINUX_EAGAIN;
}

/* The first threads may be created before all cores have started. */
static void wait_for_cores(void)
{
	u32 i;

	for (i = 0; i < sms_partition->cores; i++)
		while (__atomic_load_n(&sms_core_at(i)->state,
				       __ATOMIC_ACQUIRE) == CORE_OFF)
			__builtin_ia32_pause();
}

s64 sms_thread_start(u32 thread)
{
	int err;

	wait_for_cores();
	sms_spin_lock(&sms_thread_lock);
	err = sms_task_make(thread);
	if (!err)
		make_ready(sms_task_at(thread));
	sms_spin_unlock(&sms_thread_lock);
	return err ? refuse_thread() : 0;
}

void sms_thread_main(void)
{
	struct task *t = sms_task_at(0);

	sms_spin_lock(&sms_thread_lock);
	if (sms_task_make(0))
		sms_panic("no memory for the first thread", 0, 0);
	t->mxcsr = 0x1f80;
	t->control = 0x37f;
	sms_queue_add(sms_core(), t);
	sms_spin_unlock(&sms_thread_lock);
}

void sms_thread_exit(u32 thread)
{
	struct core *c;

	sms_spin_lock(&sms_thread_lock);
	c = sms_core();
	c->ended = thread;
	sms_task_go(c, sms_task_at(thread), 0);
	__builtin_unreachable();
}

/* Switching ------------------------------------------------------------- */

static void kick_core(struct core *c)
{
	__atomic_store_n(&c->kicked, 1, __ATOMIC_SEQ_CST);
	if (c != sms_core())
		sms_cpu_nmi(c, MAIL_NMI_SIGNAL);
}

/* Kicks a thread; one that polls is kicked by its core, which made the call. */
void sms_thread_kick(u32 thread)
{
	struct task *t = sms_task_at(thread);
	struct core *c;

	sms_spin_lock(&sms_thread_lock);
	c = sms_core_at(t->core);
	if (t->state == TASK_RUNS) {
		kick_core(c);
	} else if (t->state != TASK_FREE) {
		__atomic_store_n(&t->kicked, 1, __ATOMIC_SEQ_CST);
		if (t->state == TASK_WAITS && t->list) {
			__atomic_store_n(&c->poll_kick, 1, __ATOMIC_SEQ_CST);
			kick_core(c);
		}
	}
	sms_spin_unlock(&sms_thread_lock);
}

void sms_thread_ready(struct task *t)
{
	sms_spin_lock(&sms_thread_lock);
	if (t->state == TASK_WAITS)
		make_ready(t);
	sms_spin_unlock(&sms_thread_lock);
}

int sms_thread_pass(const u32 *word, u32 expect, u64 deadline_ns)
{
	struct task *t, *next;
	struct core *c;

	if (!sms_queue_ready() || sms_poll_leave(sms_core()))
		return 0;
	sms_spin_lock(&sms_thread_lock);
	c = sms_core();
	next = sms_queue_pick(c);
	if (!next) {
		sms_spin_unlock(&sms_thread_lock);
		return 0;
	}
	if (deadline_ns != ABI_FOREVER)
		sms_events_sleep(deadline_ns);
	t = sms_task_at(c->thread);
	t->word = word;
	t->expect = expect;
	t->deadline = deadline_ns;
	t->state = TASK_WAITS;
	__atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
	/* A core that changed the word before this point did not see that the
	 * thread waits. */
	if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != expect) {
		__atomic_sub_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
		sms_queue_add(c, t);
	}
	sms_task_go(c, t, next);
	sms_spin_unlock(&sms_thread_lock);
	return 1;
}

/*
 * Runs the next thread of this core's queue. The current one is queued again,
 * or moves to a core that has become idle.
 */
static void take_turns(void)
{
	struct task *next, *t;
	struct core *c;

	sms_spin_lock(&sms_thread_lock);
	c = sms_core();
	t = sms_task_at(c->thread);
	next = sms_queue_take(c, c);
	if (next || !sms_task_fits(t, c->number)) {
		sms_queue_place(t);
		sms_task_go(c, t, next);
	}
	sms_spin_unlock(&sms_thread_lock);
}

void sms_thread_turn(void)
{
	if (__atomic_exchange_n(&sms_core()->turn, 0, __ATOMIC_SEQ_CST))
		take_turns();
}

s64 sms_thread_yield(void)
{
	if (__atomic_load_n(&sms_core()->queued, __ATOMIC_RELAXED))
		take_turns();
	else
		__builtin_ia32_pause();
	return 0;
}

/* Moves the thread from a core that its affinity excludes. The caller holds the
 * lock. */
static void send_away(struct task *t)
{
	struct core *c = sms_core_at(t->core);

	sms_spin_assert(&sms_thread_lock);
	if (t->state == TASK_READY) {
		sms_queue_remove(t);
		sms_queue_place(t);
	} else if (t->state == TASK_RUNS) {
		__atomic_store_n(&c->turn, 1, __ATOMIC_SEQ_CST);
		kick_core(c);
	}
}

s64 sms_thread_affinity(u32 thread, const void *mask, u64 bytes)
{
	struct task *t = sms_task_at(thread);

	wait_for_cores();
	sms_spin_lock(&sms_thread_lock);
	abi_memcpy(t->allowed, mask,
		   bytes < sizeof(t->allowed) ? bytes : sizeof(t->allowed));
	if (!sms_task_fits(t, t->core))
		send_away(t);
	sms_spin_unlock(&sms_thread_lock);
	return 0;
}

u32 sms_thread_self(void)
{
	return sms_core()->thread;
}

void sms_thread_tp(u32 thread, u64 tp)
{
	if (sms_core()->thread == thread)
		sms_msr_write(MSR_FS, tp);
}

/* A wait for a lock of abi keeps its core, because the holder runs on another
 * core. The child of a vfork may be without one. */
static int may_pass(const u32 *word)
{
	u32 thread = sms_core()->thread;

	return thread != NO_THREAD &&
	       (word == &abi_thread_get(sms_proc, thread)->park ||
		word == abi_vfork_turn(sms_proc));
}

void sms_thread_loosen(void)
{
	__atomic_store_n(&sms_core()->loose, 1, __ATOMIC_SEQ_CST);
}

void sms_thread_stay(void)
{
	struct core *c = sms_core();

	__atomic_store_n(&c->loose, 0, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&c->queued, __ATOMIC_SEQ_CST))
		return;
	sms_spin_lock(&sms_thread_lock);
	if (c->queued)
		sms_queue_slice(c);
	sms_spin_unlock(&sms_thread_lock);
}

static int is_late(u64 deadline_ns)
{
	return deadline_ns != ABI_FOREVER &&
	       (u64)sms_time_clock(ABI_CLOCK_MONOTONIC) >= deadline_ns;
}

s64 sms_thread_wait(u32 *word, u32 expect, u64 deadline_ns)
{
	int passes = may_pass(word);
	s64 err = 0;

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == expect) {
		if (is_late(deadline_ns)) {
			err = -LINUX_ETIMEDOUT;
			break;
		}
		sms_events_take();
		if (passes) {
			sms_thread_loosen();
			sms_poll_look(sms_core());
		}
		if (!passes || !sms_thread_pass(word, expect, deadline_ns))
			sms_cpu_wait(word, expect, deadline_ns);
	}
	if (passes)
		sms_thread_stay();
	return err;
}

/* A thread that waits on its core polls the word; other threads are made
 * ready. */
void sms_thread_wake(u32 *word, u32 count)
{
	struct task *t;
	u32 i;

	(void)count;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&waiting, __ATOMIC_SEQ_CST))
		return;
	sms_spin_lock(&sms_thread_lock);
	for (i = 0; i < sms_task_high(); i++) {
		t = sms_task_at(i);
		if (t->state == TASK_WAITS && t->word == word)
			make_ready(t);
	}
	sms_spin_unlock(&sms_thread_lock);
}

u64 sms_thread_expire(u64 now)
{
	u64 next = ABI_FOREVER;
	struct task *t;
	u32 i;

	if (!__atomic_load_n(&waiting, __ATOMIC_SEQ_CST))
		return next;
	sms_spin_lock(&sms_thread_lock);
	for (i = 0; i < sms_task_high(); i++) {
		t = sms_task_at(i);
		if (t->state != TASK_WAITS)
			continue;
		if (t->deadline <= now)
			make_ready(t);
		else if (t->deadline < next)
			next = t->deadline;
	}
	sms_spin_unlock(&sms_thread_lock);
	return next;
}

/* Runs on the double fault's stack, with the trampoline's page tables. */
void sms_core_begin(struct core *c)
{
	sms_cpu_begin(c);
	sms_core_enter(c);
}

/* Core 0 becomes the program's first thread. */
void sms_core_run(struct core *c)
{
	sms_cpu_open(c);
	if (!c->number)
		sms_load((const void *)(AT_MAIL + MAIL_BOOT));
	sms_spin_lock(&sms_thread_lock);
	__atomic_store_n(&c->state, CORE_IDLE, __ATOMIC_SEQ_CST);
	sms_spin_unlock(&sms_thread_lock);
	if (!c->number)
		sms_thread_main();
	sms_core_idle(c);
}
