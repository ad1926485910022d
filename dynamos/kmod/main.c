// SPDX-License-Identifier: GPL-2.0-only
/*
 * DynAMOS: changes functions of a running kernel, for one process, for some or
 * for all, and takes the change back. include/skep/dynamos.h is the interface
 * for programs and dynamos_update.h the one for updates; docs/design/dynamos.md
 * describes how it works.
 *
 * Context: process, insmod and rmmod.
 */
#include <linux/module.h>

#include "engine.h"
#include "owner.h"
#include "symbol.h"

static const struct part {
	int (*init)(void);
	void (*exit)(void);
} parts[] = {
	{dynamos_symbol_init, NULL},
	{dynamos_owner_init, NULL},
	{dynamos_stand_init, NULL},
	{dynamos_slot_init, NULL},
	{dynamos_drain_init, dynamos_drain_exit},
	{dynamos_event_init, dynamos_event_exit},
	{dynamos_group_init, NULL},
	{dynamos_watch_init, dynamos_watch_exit},
	{dynamos_device_init, dynamos_device_exit},
};

static void exit_parts(u32 n)
{
	while (n--)
		if (parts[n].exit)
			parts[n].exit();
}

static int __init dynamos_init(void)
{
	u32 i;
	int err;

	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		err = parts[i].init();
		if (!err)
			continue;
		exit_parts(i);
		return err;
	}
	return 0;
}

static void __exit dynamos_exit(void)
{
	exit_parts(ARRAY_SIZE(parts));
}

module_init(dynamos_init);
module_exit(dynamos_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("reversible updates of a running kernel");
