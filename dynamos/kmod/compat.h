/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between the kernels that this module is built for. */
#ifndef DYNAMOS_KMOD_COMPAT_H
#define DYNAMOS_KMOD_COMPAT_H

#include <linux/ftrace.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
static inline int dynamos_compat_direct(struct ftrace_ops *ops,
					unsigned long entry)
{
	return register_ftrace_direct_multi(ops, entry);
}

static inline int dynamos_compat_undirect(struct ftrace_ops *ops,
					  unsigned long entry)
{
	return unregister_ftrace_direct_multi(ops, entry);
}
#else
static inline int dynamos_compat_direct(struct ftrace_ops *ops,
					unsigned long entry)
{
	return register_ftrace_direct(ops, entry);
}

static inline int dynamos_compat_undirect(struct ftrace_ops *ops,
					  unsigned long entry)
{
	return unregister_ftrace_direct(ops, entry, false);
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
static inline void dynamos_compat_go(struct ftrace_regs *regs,
				     unsigned long address)
{
	ftrace_instruction_pointer_set(regs, address);
}
#else
static inline void dynamos_compat_go(struct ftrace_regs *regs,
				     unsigned long address)
{
	ftrace_regs_set_instruction_pointer(regs, address);
}
#endif

/* The current task, loaded again at each call. */
static __always_inline const struct task_struct *dynamos_compat_current(void)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
	return this_cpu_read(current_task);
#else
	return this_cpu_read(pcpu_hot.current_task);
#endif
}

/* A module's read-only data. */
static inline const void *dynamos_compat_rodata(const struct module *module,
						size_t *size)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
	*size = module->core_layout.ro_size;
	return module->core_layout.base;
#else
	*size = module->mem[MOD_RODATA].size;
	return module->mem[MOD_RODATA].base;
#endif
}

/* preempt_count() in a die notifier, without what the interrupted code had:
 * since 6.12 an oops prints with preemption off (nbcon_cpu_emergency_enter). */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#define DYNAMOS_COMPAT_OOPS_COUNT 0
#else
#define DYNAMOS_COMPAT_OOPS_COUNT 1
#endif

#endif
