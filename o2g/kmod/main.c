// SPDX-License-Identifier: GPL-2.0-only
/*
 * o2g.ko: matches MPI messages in the kernel. Initializes the device (device.c)
 * and the TCP ULP (ulp.c), and shows totals as module parameters.
 *
 * Context: process, of whoever loads, unloads or reads a parameter.
 */
#include <linux/module.h>

#include "internal.h"

struct o2g_totals o2g_totals;

static int total_get(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%lld\n",
			  (long long)atomic64_read(param->arg));
}

static const struct kernel_param_ops total_ops = {.get = total_get};

module_param_cb(engines, &total_ops, &o2g_totals.engines, 0444);
MODULE_PARM_DESC(engines, "number of endpoints");
module_param_cb(links, &total_ops, &o2g_totals.links, 0444);
MODULE_PARM_DESC(links, "number of attached sockets");
module_param_cb(memory, &total_ops, &o2g_totals.memory, 0444);
MODULE_PARM_DESC(memory, "bytes of rings and of the engines' own state");
module_param_cb(pages, &total_ops, &o2g_totals.pages, 0444);
MODULE_PARM_DESC(pages, "pages of slabs");

static int __init o2g_init(void)
{
	int rc = o2g_ulp_register();

	if (rc)
		return rc;
	rc = o2g_device_register();
	if (rc)
		o2g_ulp_unregister();
	return rc;
}

static void __exit o2g_exit(void)
{
	o2g_device_unregister();
	o2g_ulp_unregister();
}

module_init(o2g_init);
module_exit(o2g_exit);
MODULE_DESCRIPTION("matches MPI messages in the kernel");
MODULE_LICENSE("GPL");
