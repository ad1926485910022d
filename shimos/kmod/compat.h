/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between the kernels that this module is built for. */
#ifndef SHIMOS_KMOD_COMPAT_H
#define SHIMOS_KMOD_COMPAT_H

#include <linux/mm.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void shimos_compat_vm_flags(struct vm_area_struct *vma,
					  vm_flags_t set, vm_flags_t clear)
{
	vma->vm_flags = (vma->vm_flags & ~clear) | set;
}
#else
static inline void shimos_compat_vm_flags(struct vm_area_struct *vma,
					  vm_flags_t set, vm_flags_t clear)
{
	vm_flags_mod(vma, set, clear);
}
#endif

#endif
