// SPDX-License-Identifier: GPL-2.0-only
/*
 * o2g.ko: MPI messages matched where they arrive. Loads and unloads what the
 * other files are: the device (device.c) and the TCP ULP (ulp.c).
 */
#include <linux/module.h>

#include "inside.h"

static int __init o2g_init(void)
{
	return 0;
}

static void __exit o2g_exit(void)
{
}

module_init(o2g_init);
module_exit(o2g_exit);
MODULE_DESCRIPTION("MPI messages matched where they arrive");
MODULE_LICENSE("GPL");
