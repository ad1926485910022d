// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finds the update to blame for a kernel's report: the innermost version of an
 * update on the stack, because it, or a function that it called, caused the
 * report.
 *
 * The calls of a task that dies or exits never return: they are counted as
 * lost, by version. The frame inside a wrapper's frame shows which version it
 * called. If that version made a tail call, its frame is missing; then the
 * newest version with a call inside is assumed.
 *
 * Context: that of the report: any, with any lock held. seek_stack() runs in an
 * IPI (hardirq), on_exit() in a task that ends, with preemption off.
 */
#include <linux/cpumask.h>
#include <linux/kdebug.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/stacktrace.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <trace/events/error_report.h>

#include "compat.h"
#include "slot.h"
#include "stack.h"

#define FRAMES 64

/* A stack trace, from the report outwards. */
struct trace {
	unsigned long all[FRAMES];
	u32 first, end;
};

static bool is_entry(unsigned long address)
{
	char name[KSYM_NAME_LEN];

	snprintf(name, sizeof(name), "%ps", (void *)address);
	return !strncmp(name, "asm_", 4);
}

/* An update on a stack: the first frame of its module, and the first version of
 * it from there outwards, if any. */
struct culprit {
	struct dynamos_update_state *update;
	struct dynamos_version *version;
	unsigned long at;
};

/* The frames before `from` belong to the report itself. Those after an
 * interrupt's entry belong to the interrupted code. */
static void save_trace(struct trace *trace, unsigned long from)
{
	u32 i;

	trace->end = stack_trace_save(trace->all, FRAMES, 0);
	trace->first = 0;
	for (i = 0; i < trace->end; i++)
		if (trace->all[i] == from)
			break;
	if (i < trace->end)
		trace->first = i;
	if (in_task())
		return;
	for (i = trace->first; i < trace->end; i++)
		if (is_entry(trace->all[i]))
			trace->end = i;
}

static bool find_culprit(const struct trace *trace, struct culprit *culprit)
{
	struct dynamos_version *version;
	struct dynamos_update_state *update;
	u32 i;

	culprit->update = NULL;
	for (i = trace->first; i < trace->end; i++) {
		version = dynamos_version_at(trace->all[i]);
		update = version ? version->update
				 : dynamos_update_at(trace->all[i]);
		if (!update)
			continue;
		if (!culprit->update)
			*culprit =
				(struct culprit){update, NULL, trace->all[i]};
		if (version && update == culprit->update) {
			culprit->version = version;
			break;
		}
	}
	return culprit->update;
}

/* Writes "WHAT at ADDRESS, in FUNCTION": the changed function, or another
 * function of the module. */
static void describe_report(char *text, const char *what, unsigned long at,
			    const struct culprit *culprit)
{
	if (culprit->version)
		snprintf(text, DYNAMOS_WHY, "%s at %pS, in %s", what,
			 (void *)at, culprit->version->function->symbol);
	else
		snprintf(text, DYNAMOS_WHY, "%s at %pS, in %ps", what,
			 (void *)at, (void *)culprit->at);
}

/* An update that is not applied cannot be reverted; a fault in its text, which
 * others may still call, is only reported. */
static void end_update(const struct culprit *culprit, enum dynamos_cause cause,
		       const char *text)
{
	struct dynamos_update_state *update = culprit->update;

	if (READ_ONCE(update->state) == DYNAMOS_LOADED)
		dynamos_event_add(update->name, cause, DYNAMOS_LOADED,
				  task_pid_nr(current), current->comm, text);
	else
		dynamos_update_end(update, cause, current, text);
}

bool dynamos_stack_accuse(const char *what, bool interrupted,
			  unsigned long address)
{
	struct trace trace = {.all = {address}, .end = !!address};
	char text[DYNAMOS_WHY];
	struct culprit culprit;

	if (!address && interrupted)
		trace.end = stack_trace_save(trace.all, FRAMES, 0);
	else if (!address)
		save_trace(&trace, 0);
	if (!find_culprit(&trace, &culprit))
		return false;
	describe_report(text, what, culprit.at, &culprit);
	end_update(&culprit, DYNAMOS_WARNED, text);
	return true;
}

static void on_report(void *data, enum error_detector detector,
		      unsigned long id)
{
	char text[DYNAMOS_WHY];
	struct culprit culprit;
	struct trace trace;

	save_trace(&trace, id);
	if (!find_culprit(&trace, &culprit))
		return;
	describe_report(text,
			detector == ERROR_DETECTOR_WARN ? "WARN"
							: "a memory error",
			trace.all[trace.first], &culprit);
	end_update(&culprit, DYNAMOS_WARNED, text);
}

static struct dynamos_version *guess_version(struct dynamos_slot *slot)
{
	struct dynamos_version *version = dynamos_slot_first(slot);

	while (version->older && !dynamos_version_inside(version))
		version = version->older;
	return version;
}

/* The frame that the wrapper at frame `i` called. */
static unsigned long callee_of(const struct trace *trace, u32 i)
{
	if (dynamos_call_at(trace->all[--i]) && i > trace->first)
		i--;
	return trace->all[i];
}

static void count_lost(const struct trace *trace)
{
	struct dynamos_version *version;
	struct dynamos_slot *slot;
	unsigned long address;
	u32 i;

	for (i = trace->first + 1; i < trace->end; i++) {
		slot = dynamos_slot_at(trace->all[i]);
		address = callee_of(trace, i);
		if (!slot || within_module(address, THIS_MODULE))
			continue;
		version = dynamos_version_at(address);
		if (!version || version->slot != slot)
			version = guess_version(slot);
		atomic64_inc(&version->lost);
	}
}

/* Whether a dead task may still hold a lock. Disabled preemption or interrupts
 * and RCU sections can be detected (one RCU section is the notifier's own);
 * mutexes and semaphores cannot, so the author's statement decides. */
static bool may_hold(const struct trace *trace, const struct pt_regs *regs)
{
	const struct dynamos_version *version;
	u32 i;

	if (preempt_count() != DYNAMOS_COMPAT_OOPS_COUNT ||
	    !(regs->flags & X86_EFLAGS_IF) || rcu_preempt_depth() > 1)
		return true;
	for (i = trace->first; i < trace->end; i++) {
		version = dynamos_version_at(trace->all[i]);
		if (version && version->update && !version->function->bare)
			return true;
	}
	return false;
}

/* Task context only: after an oops elsewhere the kernel panics. */
static int on_die(struct notifier_block *block, unsigned long what, void *data)
{
	const struct die_args *args = data;
	struct culprit culprit;
	char text[DYNAMOS_WHY];
	struct trace trace;

	if (what != DIE_OOPS || !args->regs || !in_task())
		return NOTIFY_DONE;
	save_trace(&trace, args->regs->ip);
	count_lost(&trace);
	dynamos_group_forget(current);
	if (!find_culprit(&trace, &culprit))
		return NOTIFY_DONE;
	if (!culprit.version || may_hold(&trace, args->regs))
		dynamos_advise();
	describe_report(text, args->str, trace.all[trace.first], &culprit);
	end_update(&culprit, DYNAMOS_DIED, text);
	return NOTIFY_DONE;
}

static struct notifier_block death = {.notifier_call = on_die};

/* Runs in an IPI on each processor and reads the stack that it interrupted. */
static void seek_stack(void *data)
{
	struct culprit culprit;
	char text[DYNAMOS_WHY];
	struct trace trace;
	u32 i;

	trace.end = stack_trace_save(trace.all, FRAMES, 0);
	for (i = 0; i < trace.end; i++)
		if (is_entry(trace.all[i]))
			break;
	trace.first = i + 1;
	if (trace.first >= trace.end)
		return;
	if (!find_culprit(&trace, &culprit))
		return;
	describe_report(text, "running", trace.all[trace.first], &culprit);
	dynamos_event_add(culprit.update->name, DYNAMOS_STUCK,
			  READ_ONCE(culprit.update->state),
			  task_pid_nr(current), current->comm, text);
}

/* Initialized at run time: a module's per-CPU data is not relocated. */
static DEFINE_PER_CPU(call_single_data_t, seeker);

/* A processor that is offline, or has not answered the last request, is
 * skipped. */
void dynamos_stack_seek(void)
{
	int cpu;

	for_each_online_cpu(cpu)
		smp_call_function_single_async(cpu, per_cpu_ptr(&seeker, cpu));
}

/* A task that a signal kills ends inside calls, in do_exit(): they are lost,
 * but that is no fault. A task that died of an oops also gets here, on a
 * rewound stack. */
static void on_exit(void *data, struct task_struct *task)
{
	struct trace trace;
	u32 n = 0;

	if (!dynamos_slot_next(&n))
		return;
	dynamos_group_forget(task);
	save_trace(&trace, 0);
	count_lost(&trace);
}

static struct tracepoint *exits;

static void find_exits(struct tracepoint *point, void *data)
{
	if (!strcmp(point->name, "sched_process_exit"))
		exits = point;
}

static int watch_exits(void)
{
	for_each_kernel_tracepoint(find_exits, NULL);
	return exits ? tracepoint_probe_register(exits, on_exit, NULL)
		     : -ENOENT;
}

/* A CPU handles its IPIs in order, so after this it has handled all earlier
 * ones. */
static void sync_cpu(void *data)
{
}

void dynamos_stack_exit(void)
{
	unregister_die_notifier(&death);
	unregister_trace_error_report_end(on_report, NULL);
	if (exits)
		tracepoint_probe_unregister(exits, on_exit, NULL);
	tracepoint_synchronize_unregister();
	on_each_cpu(sync_cpu, NULL, 1);
}

int dynamos_stack_init(void)
{
	int err, cpu;

	for_each_possible_cpu(cpu)
		INIT_CSD(per_cpu_ptr(&seeker, cpu), seek_stack, NULL);
	err = register_trace_error_report_end(on_report, NULL);
	if (err)
		return err;
	err = watch_exits();
	if (!err)
		err = register_die_notifier(&death);
	if (err)
		dynamos_stack_exit();
	return err;
}
