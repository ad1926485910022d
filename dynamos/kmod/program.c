// SPDX-License-Identifier: GPL-2.0-only
/*
 * BPF programs as terms of a policy: the program chooses between the versions
 * of each call. The verifier bounds what it may do and how long it runs.
 *
 * A program is of type raw_tracepoint, since modules can run no other type on
 * 6.1 and 6.12 alike, and it runs as the kernel runs these programs: with
 * preemption off, under RCU, and not within itself on one processor. Its
 * helpers may call changed functions, and such a call asks no program.
 *
 * Context: dynamos_program_ask() runs where the hooked function is called, in a
 * task; all else in process context under dynamos_lock.
 */
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>

#include "internal.h"

static DEFINE_PER_CPU(int, running);

static bool run_program(const struct bpf_prog *program,
			const struct dynamos_program_call *call)
{
	const struct dynamos_update *update = call->version->update->update;
	struct bpf_trace_run_ctx run = {};
	u64 context[DYNAMOS_PROGRAM_ARGS];
	struct bpf_run_ctx *before;
	bool yes;
	u32 i;

	for (i = 0; i < DYNAMOS_PROGRAM_ARGS - 1; i++)
		context[i] = call->args[i];
	context[i] = call->version->function - update->functions;
	before = bpf_set_run_ctx(&run.run_ctx);
	rcu_read_lock();
	yes = bpf_prog_run(program, context);
	rcu_read_unlock();
	bpf_reset_run_ctx(before);
	return yes;
}

bool dynamos_program_ask(const struct bpf_prog *program,
			 const struct dynamos_program_call *call)
{
	bool yes = false;

	if (this_cpu_inc_return(running) == 1 && rcu_is_watching())
		yes = run_program(program, call);
	this_cpu_dec(running);
	return yes;
}

static int get_program(struct dynamos_rule *rule, struct bpf_prog **to,
		       const char **why)
{
	struct bpf_prog *program = bpf_prog_get_type_dev(
		rule->program, BPF_PROG_TYPE_RAW_TRACEPOINT, false);

	*why = "is no BPF program of type raw_tracepoint";
	if (IS_ERR(program))
		return PTR_ERR(program);
	*to = program;
	*why = "reads more of its context than a call's six arguments and the "
	       "number of the function";
	if (program->aux->max_ctx_offset > DYNAMOS_PROGRAM_ARGS * sizeof(u64))
		return -EINVAL;
	rule->program = program->aux->id;
	return 0;
}

int dynamos_programs_get(struct dynamos_policy *policy,
			 struct dynamos_programs *programs, char *why,
			 size_t room)
{
	const char *wrong;
	int err = 0;
	u32 i;

	memset(programs, 0, sizeof(*programs));
	for (i = 0; i < policy->rules && !err; i++) {
		if (!(policy->rule[i].terms & DYNAMOS_PROGRAM))
			continue;
		err = get_program(&policy->rule[i], &programs->of[i], &wrong);
		if (err)
			snprintf(why, room, "rule %u: its program %s", i + 1,
				 wrong);
	}
	if (err)
		dynamos_programs_put(programs);
	return err;
}

void dynamos_programs_put(struct dynamos_programs *programs)
{
	u32 i;

	for (i = 0; i < DYNAMOS_RULES; i++)
		if (programs->of[i])
			bpf_prog_put(programs->of[i]);
	memset(programs, 0, sizeof(*programs));
}
