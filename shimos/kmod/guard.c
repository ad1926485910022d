// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guards lent cores against a suspend, after which they would resume as
 * Linux's, and against a reboot, kexec or panic, after which they would run in
 * memory that is no longer theirs. A panic with a crash kernel starts that
 * kernel before any notifier.
 *
 * Process context, and may sleep; but panic_notify runs with all other
 * processors stopped, and takes no lock.
 */
#include <linux/notifier.h>
#include <linux/panic_notifier.h>
#include <linux/reboot.h>
#include <linux/suspend.h>

#include "partition.h"

static int pm_notify(struct notifier_block *nb, unsigned long event, void *data)
{
	switch (event) {
	case PM_SUSPEND_PREPARE:
	case PM_HIBERNATION_PREPARE:
	case PM_RESTORE_PREPARE:
		if (!shimos_partition_bar("the machine is suspending"))
			return NOTIFY_OK;
		shimos_partition_bar(NULL);
		pr_warn("shimos: suspend is refused while CPUs are lent: 'skep "
			"part release' returns them\n");
		return notifier_from_errno(-EBUSY);
	case PM_POST_SUSPEND:
	case PM_POST_HIBERNATION:
	case PM_POST_RESTORE:
		shimos_partition_bar(NULL);
		break;
	}
	return NOTIFY_OK;
}

static int reboot_notify(struct notifier_block *nb, unsigned long event,
			 void *data)
{
	shimos_partition_bar("the machine is shutting down");
	shimos_partition_halt(false);
	shimos_partition_settle();
	return NOTIFY_OK;
}

static int panic_notify(struct notifier_block *nb, unsigned long event,
			void *data)
{
	shimos_partition_halt(true);
	return NOTIFY_OK;
}

static struct notifier_block sleep_block = {.notifier_call = pm_notify};
static struct notifier_block reboot_block = {.notifier_call = reboot_notify};
static struct notifier_block panic_block = {.notifier_call = panic_notify,
					    .priority = INT_MAX};

int shimos_guard_init(void)
{
	int err = register_pm_notifier(&sleep_block);

	if (err)
		return err;
	err = register_reboot_notifier(&reboot_block);
	if (err) {
		unregister_pm_notifier(&sleep_block);
		return err;
	}
	atomic_notifier_chain_register(&panic_notifier_list, &panic_block);
	return 0;
}

void shimos_guard_exit(void)
{
	atomic_notifier_chain_unregister(&panic_notifier_list, &panic_block);
	unregister_reboot_notifier(&reboot_block);
	unregister_pm_notifier(&sleep_block);
}
