// SPDX-License-Identifier: GPL-2.0-only
/*
 * Updates by hand, most of them bad, for tests of what the engine does about
 * them. The parameter `kind` chooses one, `build_id` is the running kernel's.
 * Load it in a machine to throw away only.
 *
 *   kind     changes               the new version
 *   fine     getpgid               answers 4242
 *   warn     getpgid               the same, with a WARN
 *   null     getpgid               dies, with nothing locked
 *   mutex    getpgid               dies, with a mutex locked
 *   loop     getpgid               goes round until `stop` is written
 *   round    getpgid               the same, and lets others have its processor
 *   sleep    getpgid               sleeps until `stop` is written
 *   errors   getpgid               fails each fourth time
 *   slow     getpgid               is late
 *   atomic   getpgid               sleeps with preemption off
 *   helper   getpgid               has work done, in which there is a WARN
 *   leak     getpgid               has work done that leaves preemption off
 *   task     wait4, getrusage      class task: 4242 as ru_maxrss; wait4 asks
 *                                  for the resources when its child is dead
 *   object   fallocate, file_free  class object, the file: fails by EXDEV
 *   comm     bpf_get_current_comm  answers "new"
 *   apart    getpgid               answers 4242; no program may be asked
 */
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/kallsyms.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/resource.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/workqueue.h>

#include <skep/dynamos_update.h>

static char *kind = "fine", *build_id = "";
static bool stop;
module_param(kind, charp, 0444);
module_param(build_id, charp, 0444);
module_param(stop, bool, 0644);

static DEFINE_MUTEX(held);

/* Each is noinline, so that a report names it. */
static noinline long try_fine(const struct pt_regs *regs)
{
	return 4242;
}

static noinline long try_warn(const struct pt_regs *regs)
{
	WARN_ON(true);
	return 4242;
}

static noinline long try_null(const struct pt_regs *regs)
{
	int *nowhere = NULL;

	OPTIMIZER_HIDE_VAR(nowhere);
	WRITE_ONCE(*nowhere, 1);
	return 4242;
}

static noinline long try_mutex(const struct pt_regs *regs)
{
	int *nowhere = NULL;

	mutex_lock(&held);
	OPTIMIZER_HIDE_VAR(nowhere);
	WRITE_ONCE(*nowhere, 1);
	mutex_unlock(&held);
	return 4242;
}

static noinline long try_loop(const struct pt_regs *regs)
{
	while (!READ_ONCE(stop))
		cpu_relax();
	return 4242;
}

static noinline long try_round(const struct pt_regs *regs)
{
	while (!READ_ONCE(stop))
		cond_resched();
	return 4242;
}

static noinline long try_sleep(const struct pt_regs *regs)
{
	while (!READ_ONCE(stop))
		msleep(10);
	return 4242;
}

static noinline long try_errors(const struct pt_regs *regs)
{
	static atomic_t calls;

	return atomic_inc_return(&calls) & 3 ? 4242 : -EIO;
}

/* By the clock that times calls: udelay() counts loops, and how many are a
 * microsecond was measured at boot, when the machine may have stood still. */
static noinline long try_slow(const struct pt_regs *regs)
{
	u64 end = ktime_get_mono_fast_ns() + 300 * NSEC_PER_USEC;

	while (ktime_get_mono_fast_ns() < end)
		cpu_relax();
	return 4242;
}

static noinline long try_atomic(const struct pt_regs *regs)
{
	preempt_disable();
	schedule_timeout_uninterruptible(1); /* preemption is on again */
	return 4242;
}

static noinline void try_helper(struct work_struct *work)
{
	WARN_ON(true);
}

static noinline void try_leak(struct work_struct *work)
{
	preempt_disable();
}

static DECLARE_WORK(help, try_helper);
static DECLARE_WORK(leak, try_leak);

static noinline long try_help(const struct pt_regs *regs)
{
	schedule_work(&help);
	return 4242;
}

static noinline long try_leaking(const struct pt_regs *regs)
{
	queue_work(system_highpri_wq, &leak); /* others rarely use it */
	return 4242;
}

static noinline void try_rusage(struct task_struct *task, int who,
				struct rusage *usage)
{
	memset(usage, 0, sizeof(*usage));
	usage->ru_maxrss = 4242;
}

static noinline int try_fallocate(struct file *file, int mode, loff_t offset,
				  loff_t length)
{
	return -EXDEV;
}

/* As BPF programs call it. */
static noinline u64 try_comm(u64 to, u64 size, u64 c, u64 d, u64 e)
{
	strscpy((char *)to, "new", size);
	return 0;
}

static struct dynamos_function helper[] = {
	{.symbol = "bpf_get_current_comm",
	 .version = try_comm,
	 .args = 5,
	 .result = DYNAMOS_LONG,
	 .object = DYNAMOS_NO_ARG},
};

static struct dynamos_function changed[] = {
	{.symbol = "__x64_sys_getpgid",
	 .args = 1,
	 .result = DYNAMOS_LONG,
	 .object = DYNAMOS_NO_ARG},
};

static struct dynamos_function group[] = {
	{.symbol = "__x64_sys_wait4",
	 .args = 1,
	 .result = DYNAMOS_LONG,
	 .object = DYNAMOS_NO_ARG},
	{.symbol = "getrusage",
	 .version = try_rusage,
	 .args = 3,
	 .result = DYNAMOS_VOID,
	 .object = DYNAMOS_NO_ARG},
};

static struct dynamos_function files[] = {
	{.symbol = "vfs_fallocate",
	 .version = try_fallocate,
	 .args = 4,
	 .result = DYNAMOS_INT,
	 .object = 0},
	{.symbol = "security_file_free",
	 .args = 1,
	 .result = DYNAMOS_VOID,
	 .object = 0,
	 .ends = 1},
};

static struct dynamos_update update = {
	.revision = DYNAMOS_UPDATE_REVISION,
	.module = THIS_MODULE,
};

static const struct {
	const char *kind;
	long (*version)(const struct pt_regs *regs);
	bool bare;
} kinds[] = {
	{"fine", try_fine, true},   {"warn", try_warn, true},
	{"null", try_null, true},   {"mutex", try_mutex, false},
	{"loop", try_loop, true},   {"round", try_round, true},
	{"sleep", try_sleep, true}, {"errors", try_errors, true},
	{"slow", try_slow, true},   {"atomic", try_atomic, true},
	{"helper", try_help, true}, {"leak", try_leaking, true},
	{"apart", try_fine, true},
};

/* The kernel knows how long a function is. */
static unsigned long size_of(const void *function)
{
	char name[KSYM_SYMBOL_LEN];
	unsigned long offset, size;
	char *plus;

	snprintf(name, sizeof(name), "%pS", function);
	plus = strchr(name, '+');
	if (!plus || sscanf(plus, "+0x%lx/0x%lx", &offset, &size) != 2)
		return 0;
	return size;
}

static int register_update(u32 class, struct dynamos_function *functions,
			   u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (functions[i].version)
			functions[i].size = size_of(functions[i].version);
	update.class = class;
	update.functions = functions;
	update.count = count;
	return 0;
}

static int choose_kind(void)
{
	int i;

	if (!strcmp(kind, "task"))
		return register_update(DYNAMOS_TASK, group, ARRAY_SIZE(group));
	if (!strcmp(kind, "object"))
		return register_update(DYNAMOS_OBJECT, files,
				       ARRAY_SIZE(files));
	if (!strcmp(kind, "comm"))
		return register_update(DYNAMOS_ANY, helper, ARRAY_SIZE(helper));
	if (!strcmp(kind, "apart"))
		update.flags = DYNAMOS_NO_PROGRAM;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (strcmp(kind, kinds[i].kind))
			continue;
		changed[0].version = kinds[i].version;
		changed[0].bare = kinds[i].bare;
		return register_update(DYNAMOS_ANY, changed,
				       ARRAY_SIZE(changed));
	}
	pr_err("dynamos_try: there is no kind \"%s\"\n", kind);
	return -EINVAL;
}

static int __init try_init(void)
{
	int err = choose_kind();

	update.build_id = build_id;
	return err ? err : dynamos_update_add(&update);
}

static void __exit try_exit(void)
{
	flush_work(&help);
	flush_work(&leak);
	dynamos_update_remove(&update);
}

module_init(try_init);
module_exit(try_exit);
MODULE_DESCRIPTION("Updates for tests of DynAMOS");
MODULE_LICENSE("GPL");
