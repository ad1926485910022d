// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sees whether a lent core still writes to memory when the machine goes down:
 * the last of those who are told of a reboot, a kexec or a panic says on the
 * console whether a counter, `at` a physical address, moves. One that does not
 * move from the beginning is refused: it would show nothing.
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/limits.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/panic_notifier.h>
#include <linux/reboot.h>

/* An emulator on a crowded computer may not run a core for a while: one look
 * that sees nothing does not tell.
 */
#define LOOK_MS 1000
#define LOOKS 30
#define STILL 4

static unsigned long long at;
module_param(at, ullong, 0400);
MODULE_PARM_DESC(at, "physical address of the counter, 8 bytes");
static const u64 *counter;

/* Whether there are so many looks in a row that agree. */
static bool seen(bool still, int in_a_row)
{
	int i, agree = 0;
	u64 was;

	for (i = 0; i < LOOKS && agree < in_a_row; i++) {
		was = READ_ONCE(*counter);
		mdelay(LOOK_MS);
		agree = (was == READ_ONCE(*counter)) == still ? agree + 1 : 0;
	}
	return agree == in_a_row;
}

static int tell(const char *when)
{
	pr_warn("witness: %s: the counter %s\n", when,
		seen(true, STILL) ? "stands still" : "moves");
	return NOTIFY_OK;
}

static int reboots(struct notifier_block *nb, unsigned long event, void *data)
{
	return tell("reboot");
}

static int panics(struct notifier_block *nb, unsigned long event, void *data)
{
	return tell("panic");
}

static struct notifier_block reboot_block = {.notifier_call = reboots,
					     .priority = INT_MIN};
static struct notifier_block panic_block = {.notifier_call = panics,
					    .priority = INT_MIN};

static int __init witness_init(void)
{
	int err;

	if (at % sizeof(*counter) || !pfn_valid(PHYS_PFN(at)))
		return -EFAULT;
	counter = phys_to_virt(at);
	if (!seen(false, 1))
		return -ENODATA;
	err = register_reboot_notifier(&reboot_block);
	if (!err)
		atomic_notifier_chain_register(&panic_notifier_list,
					       &panic_block);
	return err;
}

static void __exit witness_exit(void)
{
	atomic_notifier_chain_unregister(&panic_notifier_list, &panic_block);
	unregister_reboot_notifier(&reboot_block);
}

module_init(witness_init);
module_exit(witness_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("sees whether lent cores run when a machine goes down");
