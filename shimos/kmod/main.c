// SPDX-License-Identifier: GPL-2.0-only
/*
 * SHIMOS: lends cores and memory of a running Linux to a compute kernel and
 * reclaims them. include/skep/shimos.h is its interface for programs,
 * include/skep/partition.h the one for images; docs/design/shimos.md describes
 * how it works. It knows nothing of ELF files or system calls.
 *
 * Process context: the module is loaded and unloaded.
 */
#include <linux/module.h>

#include "partition.h"

static const struct part {
	int (*init)(void);
	void (*exit)(void);
} parts[] = {
	{shimos_boot_find, NULL},
	{shimos_cpu_init, shimos_cpu_exit},
	{shimos_clock_init, shimos_clock_exit},
	{shimos_guard_init, shimos_guard_exit},
	{shimos_clear_init, shimos_clear_exit},
	{shimos_device_init, shimos_device_exit},
};

static void exit_subsystems(u32 n)
{
	while (n--)
		if (parts[n].exit)
			parts[n].exit();
	shimos_image_exit();
}

/* The image was read when the parameters were set. */
static int __init shimos_init(void)
{
	u32 i;
	int err;

	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		err = parts[i].init();
		if (!err)
			continue;
		exit_subsystems(i);
		return err;
	}
	return 0;
}

static void __exit shimos_exit(void)
{
	exit_subsystems(ARRAY_SIZE(parts));
}

module_init(shimos_init);
module_exit(shimos_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("lends cores and memory to a compute kernel");
