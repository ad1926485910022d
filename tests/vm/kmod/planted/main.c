// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults on demand, for tests of the guards that must notice them. Root writes
 * one word to /proc/skep_planted; reading it lists the words. A report names
 * the function plant_WORD. Load it in a machine to throw away only.
 *
 *   word        the kernel reports         the write        noticed by
 *   warn        WARNING                    returns          every kernel
 *   bug         kernel BUG (invalid op)    kills the writer every kernel
 *   null        NULL dereference, Oops     kills the writer every kernel
 *   panic       panic                      never returns    every kernel
 *   spin        nothing: all CPUs stand    never returns    the host alone
 *               still, interrupts off
 *   softlockup  RCU stall after 21 seconds returns after    every kernel
 *               and, later, soft lockup    60 seconds
 *   hung        hung task, once its time   never returns    every kernel
 *               (120 seconds) is over
 *   atomic      scheduling while atomic    returns          every kernel
 *   uaf         KASAN use-after-free       returns          debug kernels
 *   lockorder   circular locking           returns          debug kernels
 *   leak        kmemleak, after two scans  returns          debug kernels
 *   ubsan       shift-out-of-bounds        returns          debug kernels
 *
 * An unknown word is refused with EINVAL. A writer that was killed or never
 * returns keeps the module from being unloaded: rmmod waits for ever. This file
 * owns the two mutexes that a fault abuses; nothing else is guarded.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <linux/uaccess.h>

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);

/* Each is noinline, so that a report names it, and hides what it does wrong
 * from a compiler that would refuse it or make something else of it.
 */
static noinline void plant_warn(void)
{
	WARN_ON(true);
}

static noinline void plant_bug(void)
{
	bool wrong = true;

	OPTIMIZER_HIDE_VAR(wrong);
	BUG_ON(wrong);
}

static noinline void plant_null(void)
{
	int *nowhere = NULL;

	OPTIMIZER_HIDE_VAR(nowhere);
	WRITE_ONCE(*nowhere, 1);
}

static noinline void plant_panic(void)
{
	panic("skep_planted: panic was asked for");
}

static void stand_still(void *unused)
{
	for (;;)
		cpu_relax();
}

static noinline void plant_spin(void)
{
	preempt_disable();
	smp_call_function(stand_still, NULL, 0);
	local_irq_disable();
	stand_still(NULL);
}

static noinline void plant_softlockup(void)
{
	unsigned long end = jiffies + 60 * HZ;

	preempt_disable();
	while (time_before(jiffies, end))
		cpu_relax();
	preempt_enable();
}

static noinline void plant_hung(void)
{
	DECLARE_COMPLETION_ONSTACK(never);

	wait_for_completion(&never);
}

/* The scheduler counts from zero after its report, so to enable again would
 * be a second fault.
 */
static noinline void plant_atomic(void)
{
	preempt_disable();
	msleep(20);
}

static noinline void plant_uaf(void)
{
	char *gone = kmalloc(64, GFP_KERNEL);

	if (!gone)
		return;
	kfree(gone);
	OPTIMIZER_HIDE_VAR(gone);
	WRITE_ONCE(gone[8], 1);
}

static noinline void plant_lockorder(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);

	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

/* Several, because a word left on some stack may still point at one. */
static noinline void plant_leak(void)
{
	char *lost;
	int i;

	for (i = 0; i < 16; i++) {
		lost = kmalloc(1000, GFP_KERNEL);
		OPTIMIZER_HIDE_VAR(lost);
	}
}

static noinline void plant_ubsan(void)
{
	int bits = 40;
	int value = 1;

	OPTIMIZER_HIDE_VAR(bits);
	value <<= bits;
	OPTIMIZER_HIDE_VAR(value);
	barrier(); /* the report's call is not the last thing, so not a jump */
}

static const struct fault {
	const char *word;
	void (*plant)(void);
} faults[] = {
	{"warn", plant_warn}, {"bug", plant_bug},
	{"null", plant_null}, {"panic", plant_panic},
	{"spin", plant_spin}, {"softlockup", plant_softlockup},
	{"hung", plant_hung}, {"atomic", plant_atomic},
	{"uaf", plant_uaf},   {"lockorder", plant_lockorder},
	{"leak", plant_leak}, {"ubsan", plant_ubsan},
};

static int planted_show(struct seq_file *file, void *unused)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(faults); i++)
		seq_printf(file, "%s\n", faults[i].word);
	return 0;
}

static int planted_open(struct inode *inode, struct file *file)
{
	return single_open(file, planted_show, NULL);
}

static ssize_t planted_write(struct file *file, const char __user *text,
			     size_t size, loff_t *pos)
{
	char word[16];
	size_t i;

	if (size >= sizeof(word))
		return -EINVAL;
	if (copy_from_user(word, text, size))
		return -EFAULT;
	word[size] = '\0';
	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		if (!sysfs_streq(word, faults[i].word))
			continue;
		faults[i].plant();
		return size;
	}
	return -EINVAL;
}

static const struct proc_ops planted_ops = {
	.proc_open = planted_open,
	.proc_read = seq_read,
	.proc_lseek = seq_lseek,
	.proc_write = planted_write,
	.proc_release = single_release,
};

static int __init planted_init(void)
{
	if (!proc_create("skep_planted", 0600, NULL, &planted_ops))
		return -ENOMEM;
	return 0;
}

static void __exit planted_exit(void)
{
	remove_proc_entry("skep_planted", NULL);
}

module_init(planted_init);
module_exit(planted_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("faults on demand, for tests");
