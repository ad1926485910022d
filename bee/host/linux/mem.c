/* SPDX-License-Identifier: MIT */
/*
 * Guest memory. IMAGE and ARENA are reserved once, before anything else can be
 * mapped there, and never released; their pages change between reserved (no
 * access) and committed. The kernel's locks serialize the calls; abi knows
 * which page belongs to which mapping.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "host.h"

static void *guest_pointer(u64 addr)
{
	return (void *)(__UINTPTR_TYPE__)addr;
}

static s64 errno_result(int err)
{
	return err ? -errno : 0;
}

static int reserve_range(u64 addr, u64 len)
{
	void *p = mmap(guest_pointer(addr), len, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
			       MAP_FIXED_NOREPLACE,
		       -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	if (p != guest_pointer(addr)) {
		munmap(p, len);
		return -EEXIST;
	}
	return 0;
}

int lin_mem_reserve(void)
{
	int err = reserve_range(SKEP_IMAGE_START,
				SKEP_IMAGE_END - SKEP_IMAGE_START);

	if (!err)
		err = reserve_range(SKEP_ARENA_START, SKEP_ARENA_SIZE);
	if (!err)
		err = reserve_range(LIN_GUARD_START, LIN_GUARD_SIZE);
	return err;
}

/* No call may change memory outside of the two ranges. */
static int is_outside(u64 addr, u64 len)
{
	u64 end;

	if (__builtin_add_overflow(addr, len, &end) || !len ||
	    (addr | len) & (SKEP_PAGE_SIZE - 1))
		return 1;
	return !(addr >= SKEP_IMAGE_START && end <= SKEP_IMAGE_END) &&
	       !(addr >= SKEP_ARENA_START && end <= SKEP_ARENA_END);
}

static s64 map_fixed(u64 addr, u64 len, int prot, int flags)
{
	if (is_outside(addr, len))
		return -EINVAL;
	if (mmap(guest_pointer(addr), len, prot,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags, -1,
		 0) == MAP_FAILED)
		return -errno;
	return 0;
}

s64 lin_mem_commit(u64 addr, u64 len, u32 prot)
{
	if ((prot & PROT_WRITE) && (prot & PROT_EXEC))
		return -EACCES;
	return map_fixed(addr, len, (int)prot, 0);
}

s64 lin_mem_file(const struct abi_mem_file *m)
{
	int flags = (m->shared ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED;

	if (is_outside(m->addr, m->len))
		return -EINVAL;
	if (m->prot & PROT_EXEC)
		return -EACCES;
	if (m->handle == -1 && m->shared)
		flags |= MAP_ANONYMOUS;
	if (mmap(guest_pointer(m->addr), m->len, (int)m->prot, flags, m->handle,
		 (off_t)m->offset) == MAP_FAILED)
		return -errno;
	return 0;
}

s64 lin_mem_protect(u64 addr, u64 len, u32 prot)
{
	if (is_outside(addr, len))
		return -EINVAL;
	if ((prot & PROT_WRITE) && (prot & PROT_EXEC))
		return -EACCES;
	return errno_result(mprotect(guest_pointer(addr), len, (int)prot));
}

s64 lin_mem_release(u64 addr, u64 len)
{
	return map_fixed(addr, len, PROT_NONE, MAP_NORESERVE);
}

s64 lin_mem_discard(u64 addr, u64 len)
{
	if (is_outside(addr, len))
		return -EINVAL;
	return errno_result(madvise(guest_pointer(addr), len, MADV_DONTNEED));
}

/* Memory of bee itself, at an address that the kernel chooses. */
void *bee_os_alloc(u64 len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void bee_os_free(void *p, u64 len)
{
	munmap(p, len);
}
