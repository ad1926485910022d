/* SPDX-License-Identifier: GPL-2.0-only */
/* Differences between the kernels that the module is built for. */
#ifndef O2G_KMOD_COMPAT_H
#define O2G_KMOD_COMPAT_H

#include <linux/mm.h>
#include <linux/net.h>
#include <linux/uio.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)

static inline ssize_t o2g_compat_sendpage(struct socket *sock,
					  struct page *page, int offset,
					  size_t size, int flags)
{
	return -EBUSY;
}

static inline int o2g_compat_sendpage_locked(struct sock *sk, struct page *page,
					     int offset, size_t size, int flags)
{
	return -EBUSY;
}

#endif

/* Disables the socket operations that some kernels have and others do not. */
static inline void o2g_compat_refuse(struct proto_ops *ops)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
	ops->sendpage = o2g_compat_sendpage;
	ops->sendpage_locked = o2g_compat_sendpage_locked;
#endif
}

static inline void o2g_compat_vma(struct vm_area_struct *vma, unsigned long set,
				  unsigned long clear)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#else
	vm_flags_mod(vma, set, clear);
#endif
}

/* Initializes an iterator over the program's memory: 0 or -EFAULT. `iovec` must
 * remain valid as long as `iter`. */
static inline int o2g_compat_user(struct iov_iter *iter, int direction,
				  struct iovec *iovec, u64 address, u64 length)
{
	void __user *at = (void __user *)(unsigned long)address;

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
	return import_single_range(direction, at, length, iovec, iter);
#else
	return import_ubuf(direction, at, length, iter);
#endif
}

#endif
