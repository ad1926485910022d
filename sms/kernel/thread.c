// SPDX-License-Identifier: MIT
/*
 * Threads of the program, one on a core, and what cores tell one another.
 * `lock` guards which thread is where.
 */
#include "abi/proc.h"
#include "kernel.h"

#define MSR_FS 0xc0000100

static struct spin lock;
static u64 changes; /* of mappings that took rights back; atomic */

struct core *sms_core_at(u32 number)
{
	return (struct core *)(sms_blocks + (u64)number * BLOCK_SIZE);
}

/* Will this core be idle soon? abi lets its thread go a moment earlier. */
static int is_leaving(const struct core *c, u32 thread)
{
	u32 state;

	if (c->state == CORE_OFF || c->thread == thread)
		return 1;
	state = __atomic_load_n(&abi_thread_get(sms_proc, c->thread)->state,
				__ATOMIC_ACQUIRE);
	return state != ABI_THREAD_LIVE && state != ABI_THREAD_STARTING;
}

/* A core without a thread; NULL: none. */
static struct core *find_idle(u32 thread, int *leaving)
{
	struct core *c;
	u32 i;

	*leaving = 0;
	for (i = 0; i < sms_partition->cores; i++) {
		c = sms_core_at(i);
		if (c->state == CORE_IDLE)
			return c;
		*leaving |= is_leaving(c, thread);
	}
	return 0;
}

static s64 crowded(void)
{
	static u32 said;

	SMS_COUNT(sms_core(), crowded);
	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		sms_forward_log("the program wants more threads than the "
				"partition has cores: each further one is "
				"refused with EAGAIN");
	return -ABI_EAGAIN;
}

/*
 * A joiner may be here before the thread that it joined has left its core,
 * and the first threads before all cores have come: that is waited for.
 */
s64 sms_thread_start(u32 thread)
{
	struct core *c;
	int leaving;

	for (;;) {
		sms_spin_take(&lock);
		c = find_idle(thread, &leaving);
		if (c)
			break;
		sms_spin_drop(&lock);
		if (!leaving)
			return crowded();
		__builtin_ia32_pause();
	}
	c->state = CORE_BUSY;
	c->thread = thread;
	__asm__ volatile("stmxcsr %0\n\tfnstcw %1"
			 : "=m"(c->mxcsr), "=m"(c->control));
	__atomic_store_n(&c->started, 1, __ATOMIC_RELEASE);
	sms_spin_drop(&lock);
	if (c != sms_core())
		sms_cpu_nmi(c, MAIL_NMI_START);
	return 0;
}

static int has_thread(struct core *c)
{
	return __atomic_load_n(&c->started, __ATOMIC_ACQUIRE) != 0;
}

/* A thread for this core, if there is one: then this never returns. */
void sms_core_work(struct core *c)
{
	sms_post_take();
	if (!has_thread(c))
		return;
	__atomic_store_n(&c->started, 0, __ATOMIC_RELAXED);
	sms_cpu_flush();
	c->thread_tsc = sms_tsc();
	if (!c->born_tsc)
		c->born_tsc = c->thread_tsc;
	SMS_COUNT(c, threads);
	*c->frame = *abi_thread_regs(sms_proc, c->thread);
	sms_msr_write(MSR_FS, abi_thread_tp(sms_proc, c->thread));
	sms_cpu_vec_fresh(c);
	/* A kick that came before the thread was known must not be lost. */
	__atomic_store_n(&c->kicked, 1, __ATOMIC_SEQ_CST);
	sms_thread_enter(c);
}

int sms_core_quiet(struct core *c)
{
	return !has_thread(c) && !sms_post_is_here();
}

void sms_thread_exit(u32 thread)
{
	struct core *c = sms_core();

	abi_thread_gone(sms_proc, thread);
	sms_spin_take(&lock);
	c->state = CORE_IDLE;
	c->thread = NO_THREAD;
	sms_spin_drop(&lock);
	sms_core_idle(c);
}

void sms_thread_kick(u32 thread)
{
	struct core *c;
	u32 i;

	sms_spin_take(&lock);
	for (i = 0; i < sms_partition->cores; i++) {
		c = sms_core_at(i);
		if (c->state != CORE_BUSY || c->thread != thread)
			continue;
		__atomic_store_n(&c->kicked, 1, __ATOMIC_SEQ_CST);
		if (c != sms_core())
			sms_cpu_nmi(c, MAIL_NMI_SIGNAL);
	}
	sms_spin_drop(&lock);
}

s64 sms_thread_yield(void)
{
	__builtin_ia32_pause();
	return 0;
}

/* Each thread has its core for life: what is asked for is as good as done. */
s64 sms_thread_affinity(u32 thread, const void *mask, u64 bytes)
{
	(void)thread;
	(void)mask;
	(void)bytes;
	return 0;
}

void sms_thread_tp(u32 thread, u64 tp)
{
	if (sms_core()->thread == thread)
		sms_msr_write(MSR_FS, tp);
}

s64 sms_thread_wait(u32 *word, u32 expect, u64 deadline_ns)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == expect) {
		if (deadline_ns != ABI_FOREVER &&
		    (u64)sms_time_clock(ABI_CLOCK_MONOTONIC) >= deadline_ns)
			return -ABI_ETIMEDOUT;
		sms_post_take();
		sms_cpu_wait(word, expect, deadline_ns);
	}
	return 0;
}

/* Who waits looks at the word. */
void sms_thread_wake(u32 *word, u32 count)
{
	(void)word;
	(void)count;
}

/* An idle core flushes when it gets a thread. */
static int must_flush(struct core *c)
{
	return c != sms_core() &&
	       __atomic_load_n(&c->state, __ATOMIC_SEQ_CST) == CORE_BUSY;
}

/* The caller holds memory.c's lock: there is one at a time. */
void sms_thread_flush(void)
{
	u64 now = __atomic_add_fetch(&changes, 1, __ATOMIC_SEQ_CST);
	struct core *c;
	u32 i;

	sms_cpu_flush();
	for (i = 0; i < sms_partition->cores; i++)
		if (must_flush(sms_core_at(i)))
			sms_cpu_nmi(sms_core_at(i), MAIL_NMI_MAPPING);
	for (i = 0; i < sms_partition->cores; i++) {
		c = sms_core_at(i);
		while (must_flush(c) &&
		       __atomic_load_n(&c->flushed, __ATOMIC_ACQUIRE) < now)
			__builtin_ia32_pause();
	}
}

/* From the NMI. */
void sms_core_flush(struct core *c)
{
	u64 now = __atomic_load_n(&changes, __ATOMIC_SEQ_CST);

	if (c->flushed == now)
		return;
	sms_cpu_flush();
	__atomic_store_n(&c->flushed, now, __ATOMIC_RELEASE);
}

/* On the stack of a double fault, tables still the trampoline's. */
void sms_core_begin(struct core *c)
{
	sms_cpu_begin(c);
	sms_core_enter(c);
}

/* Core 0 becomes the program's first thread. */
void sms_core_run(struct core *c)
{
	if (!c->number)
		sms_load((const void *)(AT_MAIL + MAIL_BOOT));
	sms_spin_take(&lock);
	c->state = c->number ? CORE_IDLE : CORE_BUSY;
	c->thread = c->number ? NO_THREAD : 0;
	c->started = !c->number;
	c->mxcsr = 0x1f80;
	c->control = 0x37f;
	sms_spin_drop(&lock);
	sms_core_idle(c);
}
