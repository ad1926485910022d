// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether a task is inside an update's module whose calls are not counted.
 * Livepatch looks for the new functions on all stacks, but not for what they
 * jump to: the target of a tail call, or a function's cold part. So after the
 * reverse transition, when no call leads inside any more, each task must be
 * seen outside once.
 *
 * A task that does not run keeps its stack while its locks are held. One that
 * runs is interrupted: if it was in user space, its kernel stack is empty;
 * otherwise it is checked again later.
 *
 * Context: process, under dynamos_lock. look_at_sleeper() runs with the task's
 * locks held, look_here() in an IPI (hardirq).
 */
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <linux/stacktrace.h>

#include "engine.h"
#include "jump.h"
#include "symbol.h"

#define ENTRIES 128

enum { OUTSIDE, INSIDE, RUNS };

struct look {
	const struct module *module;
	const struct task_struct *task;
	int found;
};

static void *call_task, *save_stack;
static unsigned long stack[ENTRIES]; /* dynamos_lock */

/* A trace that fills the array may be cut. */
static int judge_stack(const struct module *module, u32 n)
{
	u32 i;

	if (n >= ENTRIES)
		return INSIDE;
	for (i = 0; i < n; i++)
		if (within_module_core(stack[i], module))
			return INSIDE;
	return OUTSIDE;
}

static int stack_save(struct task_struct *task)
{
	return dynamos_jump((unsigned long)task, (unsigned long)stack, ENTRIES,
			    0, 0, save_stack);
}

static int look_at_sleeper(struct task_struct *task, void *arg)
{
	struct look *look = arg;
	int n;

	if (READ_ONCE(task->on_cpu)) {
		look->found = RUNS;
		return 0;
	}
	n = stack_save(task);
	look->found = n < 0 ? INSIDE : judge_stack(look->module, n);
	return 0;
}

static void look_here(void *arg)
{
	struct look *look = arg;
	int n;

	if (current != look->task)
		return;
	n = stack_save(current); /* fails if the IPI interrupted kernel code */
	if (n >= 0)
		look->found = judge_stack(look->module, n);
}

static bool task_outside(struct task_struct *task, const struct module *module)
{
	struct look look = {.module = module, .task = task};

	if (task == current)
		return true;
	dynamos_jump((unsigned long)task, (unsigned long)look_at_sleeper,
		     (unsigned long)&look, 0, 0, call_task);
	if (look.found == RUNS)
		smp_call_function_single(task_cpu(task), look_here, &look, 1);
	return look.found == OUTSIDE;
}

static bool any_uncounted(const struct dynamos_update_state *u)
{
	u32 i;

	for (i = 0; i < u->count; i++)
		if (dynamos_uncounted(&u->update->functions[i]))
			return true;
	return false;
}

bool dynamos_stand_inside(const struct dynamos_update_state *u)
{
	struct task_struct *process, *task;
	bool inside = false;

	lockdep_assert_held(&dynamos_lock);
	if (!any_uncounted(u))
		return false;
	rcu_read_lock();
	for_each_process_thread(process, task)
		inside = inside || !task_outside(task, u->update->module);
	rcu_read_unlock();
	return inside;
}

int dynamos_stand_init(void)
{
	call_task = (void *)dynamos_symbol_find("task_call_func");
	save_stack =
		(void *)dynamos_symbol_find("stack_trace_save_tsk_reliable");
	if (call_task && save_stack)
		return 0;
	pr_err("this kernel does not show the stacks of its tasks\n");
	return -ENOENT;
}
