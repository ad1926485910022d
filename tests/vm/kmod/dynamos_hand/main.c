// SPDX-License-Identifier: GPL-2.0-only
/*
 * An update by hand for tests of the engine. It is built under two names with
 * two answers, so that one can follow the other. `kind` says what it changes,
 * `build_id` is the running kernel's.
 *
 *   kind      class     changes
 *   one       any       getpgid: ANSWER
 *   two       any       getpgid and getsid: ANSWER
 *   together  together  the same two
 *   both      any       getpgid, and pause as below
 *   pause     any       pause: sleeps like the old one, for a signal
 *   blocked   together  pause, which a sleeper keeps from changing over
 *   exit      any       exit_group, for nobody: the old one does not return
 *   signal    any       get_signal, for nobody: the old one may not return
 *   die       any       getpgid: ends its task
 *   held      any       getpgid: ANSWER, and others may have pointers to it
 *   straight  together  getpgid without counts, and getsid with: ANSWER
 *   tail      together  pause without counts: jumps to what sleeps
 *   relies    any       getpgid: ANSWER, and relies on what objects lack
 *   module    together  dummy_get_stats64 of the module dummy, whose build-id
 *                       is `object_id`: a number; with `relies` it relies on
 *                       what objects lack
 *
 * and what the engine must refuse:
 *
 *   absent    a function that is not there
 *   size      one that has another size
 *   notrace   one where ftrace may not call
 *   double    one twice
 *   outside   a new version that is not in this module
 *   none      no function at all
 *   dead      one that is only left by a task's end
 *   narrow    one whose calls are not counted, in class any
 */
#include <linux/kernel.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>

#include <skep/dynamos_update.h>

static char *kind = "one", *build_id = "", *object_id;
module_param(kind, charp, 0444);
module_param(build_id, charp, 0444);
module_param(object_id, charp, 0444);
static bool relies;
module_param(relies, bool, 0444);

static noinline long new_answer(const struct pt_regs *regs)
{
	return ANSWER;
}

static noinline long new_pause(const struct pt_regs *regs)
{
	while (!signal_pending(current)) {
		__set_current_state(TASK_INTERRUPTIBLE);
		schedule();
	}
	return -ERESTARTNOHAND;
}

/* While a task sleeps here, no frame of this function is on its stack. */
static noinline long new_tail(const struct pt_regs *regs)
{
	return new_pause(regs);
}

static noinline void new_stats(struct net_device *device,
			       struct rtnl_link_stats64 *stats)
{
	stats->collisions = 4242;
}

static void (*end_task)(int code);

static noinline long new_die(const struct pt_regs *regs)
{
	end_task(7 << 8);
	return 0;
}

#define FUNCTION(name, new)                                                    \
	{                                                                      \
		.symbol = name, .version = new, .args = 1,                     \
		.result = DYNAMOS_LONG, .object = DYNAMOS_NO_ARG               \
	}

#define UNCOUNTED(name, new)                                                   \
	{                                                                      \
		.symbol = name, .version = new, .args = DYNAMOS_UNCOUNTED,     \
		.result = DYNAMOS_LONG, .object = DYNAMOS_NO_ARG               \
	}

static const struct dynamos_function answers[] = {
	FUNCTION("__x64_sys_getpgid", new_answer),
	FUNCTION("__x64_sys_getsid", new_answer),
};
static const struct dynamos_function pause[] = {
	FUNCTION("__x64_sys_pause", new_pause),
};
static const struct dynamos_function both[] = {
	FUNCTION("__x64_sys_getpgid", new_answer),
	FUNCTION("__x64_sys_pause", new_pause),
};
static const struct dynamos_function exits[] = {
	FUNCTION("__x64_sys_exit_group", new_answer),
};
static const struct dynamos_function signals[] = {
	FUNCTION("get_signal", new_answer),
};
static const struct dynamos_function die[] = {
	FUNCTION("__x64_sys_getpgid", new_die),
};
static const struct dynamos_function dead[] = {
	FUNCTION("do_task_dead", new_answer),
};
static const struct dynamos_function absent[] = {
	FUNCTION("no_such_function", new_answer),
};
static const struct dynamos_function notrace_one[] = {
	FUNCTION("exc_page_fault", new_answer),
};
static const struct dynamos_function twice[] = {
	FUNCTION("__x64_sys_getpgid", new_answer),
	FUNCTION("__x64_sys_getpgid", new_answer),
};
static const struct dynamos_function outside[] = {
	FUNCTION("__x64_sys_getpgid", schedule),
};
static const struct dynamos_function size[] = {
	{.symbol = "__x64_sys_getpgid",
	 .old_size = 4000,
	 .version = new_answer,
	 .args = 1,
	 .result = DYNAMOS_LONG,
	 .object = DYNAMOS_NO_ARG},
};

static const struct dynamos_function straight[] = {
	UNCOUNTED("__x64_sys_getpgid", new_answer),
	FUNCTION("__x64_sys_getsid", new_answer),
};
static const struct dynamos_function tail[] = {
	UNCOUNTED("__x64_sys_pause", new_tail),
};
static const struct dynamos_function module_one[] = {
	UNCOUNTED("dummy_get_stats64", new_stats),
};

static const struct {
	const char *kind;
	u32 class, count;
	const struct dynamos_function *functions;
} kinds[] = {
	{"one", DYNAMOS_ANY, 1, answers},
	{"two", DYNAMOS_ANY, 2, answers},
	{"together", DYNAMOS_TOGETHER, 2, answers},
	{"held", DYNAMOS_ANY, 1, answers},
	{"relies", DYNAMOS_ANY, 1, answers},
	{"pause", DYNAMOS_ANY, 1, pause},
	{"both", DYNAMOS_ANY, 2, both},
	{"blocked", DYNAMOS_TOGETHER, 1, pause},
	{"exit", DYNAMOS_ANY, 1, exits},
	{"signal", DYNAMOS_ANY, 1, signals},
	{"die", DYNAMOS_ANY, 1, die},
	{"dead", DYNAMOS_ANY, 1, dead},
	{"absent", DYNAMOS_ANY, 1, absent},
	{"size", DYNAMOS_ANY, 1, size},
	{"notrace", DYNAMOS_ANY, 1, notrace_one},
	{"double", DYNAMOS_ANY, 2, twice},
	{"outside", DYNAMOS_ANY, 1, outside},
	{"straight", DYNAMOS_TOGETHER, 2, straight},
	{"tail", DYNAMOS_TOGETHER, 1, tail},
	{"module", DYNAMOS_TOGETHER, 1, module_one},
	{"narrow", DYNAMOS_ANY, 2, straight},
	{"none", DYNAMOS_ANY, 0, answers},
};

static struct dynamos_update update = {
	.revision = DYNAMOS_UPDATE_REVISION,
	.module = THIS_MODULE,
};

/* do_group_exit() is not exported; a probe of it says where it is. */
static int find_end(void)
{
	struct kprobe probe = {.symbol_name = "do_group_exit"};
	int err = register_kprobe(&probe);

	if (err)
		return err;
	end_task = (void *)probe.addr;
	unregister_kprobe(&probe);
	return 0;
}

static int __init hand_init(void)
{
	int err = strcmp(kind, "die") ? 0 : find_end();
	u32 i;

	if (err)
		return err;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strcmp(kind, kinds[i].kind))
			continue;
		update.class = kinds[i].class;
		update.functions = kinds[i].functions;
		update.count = kinds[i].count;
		update.build_id = build_id;
		if (!strcmp(kind, "module")) {
			update.object = "dummy";
			update.object_id = object_id;
		}
		if (!strcmp(kind, "held"))
			update.held = "a queue has its address";
		if (relies || !strcmp(kind, "relies"))
			update.flags = DYNAMOS_RELIES;
		return dynamos_update_add(&update);
	}
	pr_err("%s: there is no kind \"%s\"\n", KBUILD_MODNAME, kind);
	return -EINVAL;
}

static void __exit hand_exit(void)
{
	dynamos_update_remove(&update);
}

module_init(hand_init);
module_exit(hand_exit);
MODULE_LICENSE("GPL");
MODULE_INFO(livepatch, "Y");
MODULE_DESCRIPTION("an update by hand, for tests");
