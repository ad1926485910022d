// SPDX-License-Identifier: MIT
/*
 * Threads without a core: a stack in ring 0, on which the thread continues, and
 * its vector state; and the switch between threads. Callers hold
 * sms_thread_lock, if a function changes a task or the list of stacks.
 */
#include "abi/include/thread_state.h"
#include "kernel.h"

#define MSR_FS 0xc0000100

static struct task *task; /* by abi's index */
static u32 high;	  /* one more than the highest index used so far */
static u64 spare[STACKS]; /* ends of unused stacks */
static u32 spares, stacks;

struct task *sms_task_at(u32 thread)
{
	return &task[thread];
}

u32 sms_task_high(void)
{
	return high;
}

/* Called before a second core runs. */
int sms_task_setup(void)
{
	task = sms_page_reserve(ABI_THREADS_MAX * sizeof(*task));
	stacks = sms_partition->cores;
	return task ? 0 : -LINUX_ENOMEM;
}

int sms_task_fits(const struct task *t, u32 core)
{
	return t->allowed[core / 64] >> core % 64 & 1;
}

/* Returns the end of a new stack, where its frame is; 0: no memory. */
static u64 stack_take(void)
{
	u64 frames, stack, at;

	sms_spin_assert(&sms_thread_lock);
	if (spares)
		return spare[--spares];
	frames = stacks < STACKS ? sms_page_frames(STACK_SIZE) : 0;
	if (!frames)
		return 0;
	stack = AT_STACKS + (u64)(stacks + 1) * STACK_STEP - STACK_SIZE;
	for (at = 0; at < STACK_SIZE; at += PAGE)
		if (sms_page_map(stack + at,
				 frames + at - AT_KERNEL +
					 sms_partition->kernel_start,
				 SMS_PAGE_WRITE | SMS_PAGE_NX, 0))
			return 0;
	stacks++;
	return stack + STACK_SIZE - SMS_VEC_AREA - FRAME_BELOW;
}

/* Prepares the stack as if sms_task_first had called sms_task_switch. */
static void fill_task(struct task *t, u32 thread, u64 stack)
{
	u64 *top = (u64 *)stack - 2;

	*t = (struct task){.thread = thread, .stack = stack, .fresh = 1};
	top[0] = (u64)sms_task_first;
	abi_memset(top - 6, 0, 6 * sizeof(*top));
	t->rsp = (u64)(top - 6);
	*(struct abi_regs *)stack = *abi_thread_regs(sms_proc, thread);
	abi_memcpy(t->allowed, abi_thread_get(sms_proc, thread)->affinity,
		   sizeof(t->allowed));
	__asm__ volatile("stmxcsr %0\n\tfnstcw %1"
			 : "=m"(t->mxcsr), "=m"(t->control));
	high = thread < high ? high : thread + 1;
}

int sms_task_make(u32 thread)
{
	u64 stack = stack_take();

	sms_spin_assert(&sms_thread_lock);
	if (!stack)
		return -LINUX_ENOMEM;
	fill_task(&task[thread], thread, stack);
	task[thread].core = sms_core()->number;
	return 0;
}

void sms_task_free(u32 thread)
{
	sms_spin_assert(&sms_thread_lock);
	task[thread].state = TASK_FREE;
	spare[spares++] = task[thread].stack;
}

/* Above the frame; used while the thread has no core. */
static void *vec_of(const struct task *t)
{
	return (void *)(t->stack + FRAME_BELOW);
}

static void leave_core(struct core *c, struct task *t)
{
	sms_cpu_vec_keep(vec_of(t));
	t->used += sms_tsc() - c->thread_tsc;
	if (__atomic_load_n(&c->kicked, __ATOMIC_SEQ_CST))
		__atomic_store_n(&t->kicked, 1, __ATOMIC_SEQ_CST);
}

static void enter_core(struct core *c, struct task *t)
{
	t->state = TASK_RUNS;
	t->core = c->number;
	c->thread = t->thread;
	c->thread_tsc = sms_tsc();
	__atomic_store_n(&c->loose, 0, __ATOMIC_SEQ_CST);
	if (c->queued)
		sms_queue_slice(c);
	if (c->state != CORE_BUSY)
		sms_core_busy(c);
	if (!c->born_tsc)
		c->born_tsc = c->thread_tsc;
	sms_cpu_frame(c, t->stack);
	sms_msr_write(MSR_FS, abi_thread_tp(sms_proc, t->thread));
	if (t->fresh)
		sms_cpu_vec_fresh(t->mxcsr, t->control);
	else
		sms_cpu_vec_bring(vec_of(t));
	/* A kick before the thread was registered must not be lost. */
	if (__atomic_exchange_n(&t->kicked, 0, __ATOMIC_SEQ_CST) || t->fresh)
		__atomic_store_n(&c->kicked, 1, __ATOMIC_SEQ_CST);
	t->fresh = 0;
}

/* NULL: the idle loop. The lock is held before and after; afterwards the core
 * may be another. */
void sms_task_go(struct core *c, struct task *from, struct task *to)
{
	sms_spin_assert(&sms_thread_lock);
	if (from)
		leave_core(c, from);
	if (from && to)
		SMS_COUNT(c, switches);
	if (to) {
		enter_core(c, to);
	} else {
		c->thread = NO_THREAD;
		__atomic_store_n(&c->state, CORE_IDLE, __ATOMIC_SEQ_CST);
	}
	sms_task_switch(from ? &from->rsp : &c->idle_rsp,
			to ? to->rsp : c->idle_rsp);
}
