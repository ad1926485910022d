// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ways to count the calls of eight functions, to weigh what each costs. The
 * parameter `kind` chooses:
 *
 *   update     an update of class `class` (1 or 4) whose new versions are jumps
 *              into the old ones, so that what a call needs more is all the
 *              engine's; `build_id` is the running kernel's
 *   livepatch  a livepatch by itself
 *   kprobe     counts entries only
 *   kretprobe  counts entries and exits, as all others do
 */
#include <linux/kprobes.h>
#include <linux/livepatch.h>
#include <linux/module.h>
#include <linux/percpu.h>

#include <skep/dynamos_update.h>

#define FUNCTIONS 8

static int class = DYNAMOS_ANY;
static char *kind = "update", *build_id = "";
module_param(class, int, 0444);
module_param(kind, charp, 0444);
module_param(build_id, charp, 0444);

extern void *weigh_place[]; /* of same.S */
void *weigh_place[FUNCTIONS];

typedef long weigh_function(long, long, long, long, long, long);
weigh_function weigh_same_0, weigh_same_1, weigh_same_2, weigh_same_3,
	weigh_same_4, weigh_same_5, weigh_same_6, weigh_same_7;

#define CHANGED(name, new, registers)                                          \
	{                                                                      \
		.symbol = name, .version = new, .size = 16, .args = registers, \
		.result = DYNAMOS_LONG, .object = DYNAMOS_NO_ARG               \
	}

static const struct dynamos_function functions[FUNCTIONS] = {
	CHANGED("__x64_sys_brk", weigh_same_0, 1),
	CHANGED("__x64_sys_kill", weigh_same_1, 1),
	CHANGED("ksys_read", weigh_same_2, 3),
	CHANGED("ksys_write", weigh_same_3, 3),
	CHANGED("do_sys_openat2", weigh_same_4, 3),
	CHANGED("handle_mm_fault", weigh_same_5, 4),
	CHANGED("kernel_clone", weigh_same_6, 1),
	CHANGED("__x64_sys_execve", weigh_same_7, 1),
};

static struct dynamos_update update = {
	.revision = DYNAMOS_UPDATE_REVISION,
	.module = THIS_MODULE,
	.functions = functions,
	.count = FUNCTIONS,
};

static DEFINE_PER_CPU(u64[FUNCTIONS], counts);

#define COUNTS(n)                                                              \
	static long count_##n(long a, long b, long c, long d, long e, long f)  \
	{                                                                      \
		long result;                                                   \
                                                                               \
		this_cpu_inc(counts[n]);                                       \
		result = weigh_same_##n(a, b, c, d, e, f);                     \
		this_cpu_inc(counts[n]);                                       \
		return result;                                                 \
	}
COUNTS(0)
COUNTS(1)
COUNTS(2)
COUNTS(3)
COUNTS(4)
COUNTS(5)
COUNTS(6)
COUNTS(7)

static struct klp_func patched[FUNCTIONS + 1] = {
	{.new_func = count_0}, {.new_func = count_1}, {.new_func = count_2},
	{.new_func = count_3}, {.new_func = count_4}, {.new_func = count_5},
	{.new_func = count_6}, {.new_func = count_7},
};

static struct klp_object objects[] = {{.funcs = patched}, {}};
static struct klp_patch patch = {.mod = THIS_MODULE, .objs = objects};

/* Behind the five bytes that ftrace owns, which follow an ENDBR or what is
 * left of one. */
static int find_site(int n)
{
	struct kprobe probe = {.symbol_name = functions[n].symbol};
	int err = register_kprobe(&probe);
	u8 *at = (u8 *)probe.addr;

	if (err)
		return err;
	unregister_kprobe(&probe);
	if (at[0] == 0xf3 || at[0] == 0x66)
		at += 4;
	weigh_place[n] = at + 5;
	patched[n].old_name = functions[n].symbol;
	return 0;
}

static struct kprobe probes[FUNCTIONS];
static struct kretprobe returns[FUNCTIONS];
static int probed, returned;

static int on_probe(struct kprobe *probe, struct pt_regs *regs)
{
	this_cpu_inc(counts[probe - probes]);
	return 0;
}

static int on_entry(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	this_cpu_inc(counts[0]);
	return 0;
}

static int on_return(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	this_cpu_inc(counts[1]);
	return 0;
}

static void probe_end(void)
{
	while (probed)
		unregister_kprobe(&probes[--probed]);
	while (returned)
		unregister_kretprobe(&returns[--returned]);
}

static int probe_begin(void)
{
	int err = 0;

	while (!err && probed < FUNCTIONS) {
		probes[probed].symbol_name = functions[probed].symbol;
		probes[probed].pre_handler = on_probe;
		err = register_kprobe(&probes[probed]);
		probed += !err;
	}
	if (err)
		probe_end();
	return err;
}

static int return_begin(void)
{
	struct kretprobe *r;
	int err = 0;

	while (!err && returned < FUNCTIONS) {
		r = &returns[returned];
		r->kp.symbol_name = functions[returned].symbol;
		r->entry_handler = on_entry;
		r->handler = on_return;
		r->maxactive = 64;
		err = register_kretprobe(r);
		returned += !err;
	}
	if (err)
		probe_end();
	return err;
}

static int __init weigh_init(void)
{
	int i, err;

	for (i = 0; i < FUNCTIONS; i++) {
		err = find_site(i);
		if (err)
			return err;
	}
	if (!strcmp(kind, "livepatch"))
		return klp_enable_patch(&patch);
	if (!strcmp(kind, "kprobe"))
		return probe_begin();
	if (!strcmp(kind, "kretprobe"))
		return return_begin();
	if (strcmp(kind, "update"))
		return -EINVAL;
	update.class = class;
	update.build_id = build_id;
	return dynamos_update_add(&update);
}

static void __exit weigh_exit(void)
{
	probe_end();
	if (!strcmp(kind, "update"))
		dynamos_update_remove(&update);
}

module_init(weigh_init);
module_exit(weigh_exit);
MODULE_INFO(livepatch, "Y");
MODULE_DESCRIPTION("An update that changes nothing, to be weighed");
MODULE_LICENSE("GPL");
