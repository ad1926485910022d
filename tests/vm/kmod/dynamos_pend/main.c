// SPDX-License-Identifier: GPL-2.0-only
/*
 * RCU callbacks that stay pending, for tests: those of the processor `cpu` run
 * only after the callback of this module, which waits until `go` is written.
 * It reads `held` as Y when it waits.
 *
 * A thread must run this processor's callbacks (rcu_nocbs=). It sleeps, so
 * everything else goes on: grace periods end, and each task switches.
 *
 * Context: process; hold_back() in that thread, queue_callback() in hardirq.
 */
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>
#include <linux/version.h>
#include <linux/wait.h>

static int cpu = 1;
static bool held, go;
static DECLARE_WAIT_QUEUE_HEAD(queue);
static struct rcu_head head;

static int set_go(const char *text, const struct kernel_param *param)
{
	int err = param_set_bool(text, param);

	wake_up_all(&queue);
	return err;
}

static const struct kernel_param_ops go_ops = {
	.set = set_go,
	.get = param_get_bool,
};

module_param(cpu, int, 0444);
module_param(held, bool, 0444);
module_param_cb(go, &go_ops, &go, 0644);

/* The thread disabled softirqs, which forbids sleeping, and nothing else. */
static void hold_back(struct rcu_head *unused)
{
	if (in_serving_softirq()) {
		pr_err("dynamos_pend: a softirq runs the callbacks of CPU %d\n",
		       cpu);
		return;
	}
	WRITE_ONCE(held, true);
	local_bh_enable();
	wait_event_idle(queue, READ_ONCE(go));
	local_bh_disable();
}

/* call_rcu() itself may wait for ten seconds there until it begins. */
static void queue_callback(void *unused)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	call_rcu_hurry(&head, hold_back);
#else
	call_rcu(&head, hold_back);
#endif
}

static int __init pend_init(void)
{
	return smp_call_function_single(cpu, queue_callback, NULL, 1);
}

static void __exit pend_exit(void)
{
	WRITE_ONCE(go, true);
	wake_up_all(&queue);
	rcu_barrier();
}

module_init(pend_init);
module_exit(pend_exit);
MODULE_DESCRIPTION("RCU callbacks that stay pending, for tests of DynAMOS");
MODULE_LICENSE("GPL");
