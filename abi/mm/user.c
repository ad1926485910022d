/* SPDX-License-Identifier: MIT */
/* Checked access to guest memory. No lock; see user.h for what a check means.
 */
#include "space.h"
#include "abi/include/abi.h"
#include "base/errno.h"
#include "abi/include/host.h"
#include "abi/include/page.h"
#include "abi/include/user.h"
#include "abi/state/proc.h"

/* The host's calls will access these bytes, so they must be mapped there. */
static int window_reach(struct abi_proc *p, u64 gaddr, u64 len)
{
	u64 start = gaddr > p->space.top ? gaddr : p->space.top;

	if (gaddr >= SKEP_MMAP_END)
		return 0;
	return (int)p->host->mem_reach(start, gaddr + len - start, 0);
}

int abi_user_check(struct abi_proc *p, u64 gaddr, u64 len, u32 prot)
{
	if (!len)
		return 0;
	if (!abi_space_check(p, gaddr, len, prot))
		return -LINUX_EFAULT;
	if (!p->host->mem_reach || gaddr + len <= p->space.top)
		return 0;
	return window_reach(p, gaddr, len);
}

s64 abi_user_string(struct abi_proc *p, char *to, u64 size, u64 gaddr,
		    s64 too_long)
{
	u64 n = 0, end = 0;

	for (; n < size; n++) {
		if (n == end) {
			/* Stops at the end of the page, because the next one
			 * may be inaccessible. */
			end = n + SKEP_PAGE_SIZE -
			      ((gaddr + n) & ABI_PAGE_MASK);
			end = end < size ? end : size;
			if (abi_user_get(p, to + n, gaddr + n, end - n))
				return -LINUX_EFAULT;
		}
		if (!to[n])
			return (s64)n;
	}
	return too_long;
}

int abi_user_get(struct abi_proc *p, void *to, u64 gaddr, u64 len)
{
	if (abi_user_check(p, gaddr, len, ABI_PROT_READ))
		return -LINUX_EFAULT;
	return abi_user_move(to, abi_user_ptr(gaddr), len) ? -LINUX_EFAULT : 0;
}

int abi_user_put(struct abi_proc *p, u64 gaddr, const void *from, u64 len)
{
	if (abi_user_check(p, gaddr, len, ABI_PROT_WRITE))
		return -LINUX_EFAULT;
	return abi_user_move(abi_user_ptr(gaddr), from, len) ? -LINUX_EFAULT
							     : 0;
}

int abi_mapped(const struct abi_proc *p, u64 addr, u64 len, u32 prot)
{
	/* A reader that meets an edit takes the lock, and so writes to it. */
	return abi_space_check((struct abi_proc *)p, addr, len, prot);
}
