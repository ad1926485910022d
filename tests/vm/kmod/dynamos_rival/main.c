// SPDX-License-Identifier: GPL-2.0-only
/* A livepatch by somebody else, for tests: getpgid answers 777. With `replace`
 * it takes the place of all others. */
#include <linux/livepatch.h>
#include <linux/module.h>

static bool replace;
module_param(replace, bool, 0444);

static long rival_getpgid(const struct pt_regs *regs)
{
	return 777;
}

static struct klp_func functions[] = {
	{.old_name = "__x64_sys_getpgid", .new_func = rival_getpgid},
	{},
};

static struct klp_object objects[] = {
	{.funcs = functions},
	{},
};

static struct klp_patch patch = {.mod = THIS_MODULE, .objs = objects};

static int __init rival_init(void)
{
	patch.replace = replace;
	return klp_enable_patch(&patch);
}

static void __exit rival_exit(void)
{
}

module_init(rival_init);
module_exit(rival_exit);
MODULE_INFO(livepatch, "Y");
MODULE_DESCRIPTION("A livepatch for tests of DynAMOS");
MODULE_LICENSE("GPL");
