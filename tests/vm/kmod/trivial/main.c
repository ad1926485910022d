// SPDX-License-Identifier: GPL-2.0-only
/*
 * The least that a module of ours can be: it loads, says its version in
 * /proc/skep_trivial, and goes. It owns that file and no lock.
 */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#define TRIVIAL_VERSION "1"

static int trivial_show(struct seq_file *file, void *unused)
{
	seq_puts(file, "trivial " TRIVIAL_VERSION "\n");
	return 0;
}

static int __init trivial_init(void)
{
	if (!proc_create_single("skep_trivial", 0444, NULL, trivial_show))
		return -ENOMEM;
	return 0;
}

static void __exit trivial_exit(void)
{
	remove_proc_entry("skep_trivial", NULL);
}

module_init(trivial_init);
module_exit(trivial_exit);
MODULE_LICENSE("GPL");
MODULE_VERSION(TRIVIAL_VERSION);
MODULE_DESCRIPTION("a module that does nothing, for tests");
