// SPDX-License-Identifier: GPL-2.0-only
/* Memory that lacks, for tests: of the allocations for each processor that
 * programs called `skep` make, the one of number `fails`, counted from 1, gets
 * none. */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/version.h>

static int fails;
module_param(fails, int, 0444);

static atomic_t seen;

/* The caller gets NULL instead of the memory, which is free again. */
static int give_nothing(struct kretprobe_instance *instance,
			struct pt_regs *regs)
{
	if (strcmp(current->comm, "skep") || atomic_inc_return(&seen) != fails)
		return 0;
	free_percpu((void __percpu *)regs_return_value(regs));
	regs_set_return_value(regs, 0);
	return 0;
}

static struct kretprobe probe = {
	.handler = give_nothing,
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
	.kp.symbol_name = "pcpu_alloc_noprof",
#else
	.kp.symbol_name = "__alloc_percpu",
#endif
};

static int __init scarce_init(void)
{
	return register_kretprobe(&probe);
}

static void __exit scarce_exit(void)
{
	unregister_kretprobe(&probe);
}

module_init(scarce_init);
module_exit(scarce_exit);
MODULE_DESCRIPTION("Memory that lacks, for tests of DynAMOS");
MODULE_LICENSE("GPL");
