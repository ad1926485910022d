/* SPDX-License-Identifier: MIT */
/*
 * System calls on memory: they check arguments as the man pages say, then call
 * one operation of map.c, which takes the locks.
 */
#include "space.h"
#include "abi/fs/desc.h"
#include "abi/fs/fd.h"
#include "base/errno.h"
#include "abi/include/page.h"
#include "abi/include/user.h"
#include "abi/proc/call.h"
#include "abi/proc/log.h"
#include "abi/proc/refuse.h"
#include "abi/proc/own.h"
#include "abi/state/proc.h"
#include "abi/thread/robust.h"
#include "abi/uapi/linux.h"

#define PROT_KNOWN (ABI_PROT_READ | ABI_PROT_WRITE | ABI_PROT_EXEC)

/* Flags without effect here; MAP_SHARED_VALIDATE allows no others. */
#define MAP_KNOWN                                                              \
	(ABI_MAP_TYPE | ABI_MAP_FIXED | ABI_MAP_ANONYMOUS |                    \
	 ABI_MAP_GROWSDOWN | ABI_MAP_DENYWRITE | ABI_MAP_EXECUTABLE |          \
	 ABI_MAP_LOCKED | ABI_MAP_NORESERVE | ABI_MAP_POPULATE |               \
	 ABI_MAP_NONBLOCK | ABI_MAP_STACK | ABI_MAP_FIXED_NOREPLACE)

/* Allocates memory before it is touched, if the host allocates on first
 * touch. */
static s64 range_populate(struct abi_proc *p, u64 addr, u64 len)
{
	return p->host->mem_populate
		       ? p->host->mem_populate(addr, ABI_PAGE_UP(len))
		       : 0;
}

static s64 map_flags(struct abi_proc *p, u64 flags)
{
	u64 type = flags & ABI_MAP_TYPE;

	if (!type || type > ABI_MAP_SHARED_VALIDATE)
		return -LINUX_EINVAL;
	if (type == ABI_MAP_SHARED_VALIDATE && (flags & ~(u64)MAP_KNOWN))
		return -LINUX_EOPNOTSUPP;
	if (flags & (ABI_MAP_HUGETLB | ABI_MAP_32BIT)) {
		abi_log_once(p, &p->space.said_kind,
			     "mmap with MAP_HUGETLB or MAP_32BIT refused "
			     "(ENOMEM): huge pages and addresses below 2 GiB "
			     "are not available");
		return -LINUX_ENOMEM;
	}
	if (flags & ABI_MAP_GROWSDOWN)
		abi_log_once(p, &p->space.said_grows,
			     "mmap with MAP_GROWSDOWN: the mapping will not "
			     "grow; an access below it ends with SIGSEGV");
	return 0;
}

/* Trampolines need a mapping of the host (trampoline.c). */
static s64 refuse_alias(struct abi_proc *p, u32 file)
{
	abi_fd_release(p, file);
	abi_log_once(p, &p->space.said_alias,
		     "mmap refused (EACCES): code in a shared mapping of a "
		     "file that is open for writing (callbacks of libffi "
		     "need it)");
	return -LINUX_EACCES;
}

/* The file of a mapping, with a reference; its rights become bits of the
 * area. */
static s64 map_file(struct abi_call *c, struct abi_map *m, u32 shared)
{
	u64 offset = c->a[5], end;
	const struct abi_desc *desc;
	s64 file;

	if (__builtin_add_overflow(offset, ABI_PAGE_UP(m->len), &end) ||
	    end >> 63)
		return -LINUX_EOVERFLOW;
	file = abi_fd_pin(c->p, (u32)c->a[4], m->prot, shared);
	if (file < 0)
		return file;
	m->file = (u32)file;
	m->has_file = 1;
	m->offset = offset;
	desc = &c->p->fds.desc[m->file];
	if (shared && (abi_desc_flags(desc) & ABI_O_ACCMODE) != ABI_O_RDWR)
		m->bits |= ABI_AREA_NOWRITE;
	else if (shared && m->prot & ABI_PROT_EXEC && !c->p->host->mem_file)
		return refuse_alias(c->p, m->file);
	return 0;
}

s64 abi_sys_mmap(struct abi_call *c)
{
	u64 flags = c->a[3];
	struct abi_map m = {.addr = c->a[0],
			    .len = c->a[1],
			    .prot = (u32)c->a[2] & PROT_KNOWN,
			    .flags = (u32)flags};
	u32 shared = (flags & ABI_MAP_TYPE) != ABI_MAP_PRIVATE;
	s64 rc = map_flags(c->p, flags);

	if (rc)
		return rc;
	if (!m.len || (c->a[5] & ABI_PAGE_MASK))
		return -LINUX_EINVAL;
	if (m.len > SKEP_ARENA_SIZE) {
		abi_space_say_room(c->p);
		return -LINUX_ENOMEM;
	}
	if (shared)
		m.bits |= ABI_AREA_SHARED;
	if (!(flags & ABI_MAP_ANONYMOUS))
		rc = map_file(c, &m, shared);
	if (!rc)
		rc = abi_space_map(c->p, &m);
	if (rc > 0 && shared && m.prot & ABI_PROT_WRITE)
		abi_robust_shared(c->p);
	/* As on Linux, the mapping succeeds even without memory for it. */
	if (rc > 0 && flags & (ABI_MAP_POPULATE | ABI_MAP_LOCKED) &&
	    !(flags & ABI_MAP_NONBLOCK))
		(void)range_populate(c->p, (u64)rc, m.len);
	return rc;
}

s64 abi_sys_munmap(struct abi_call *c)
{
	return abi_space_unmap(c->p, c->a[0], c->a[1]);
}

/* Memory at this address has become writable. */
static void note_shared(struct abi_proc *p, u64 addr)
{
	struct abi_area a;

	if (!__atomic_load_n(&p->threads.shares, __ATOMIC_RELAXED) &&
	    abi_space_next(p, addr, &a) && a.bits & ABI_AREA_SHARED)
		abi_robust_shared(p);
}

s64 abi_sys_mprotect(struct abi_call *c)
{
	u64 prot = c->a[2];
	s64 rc;

	if ((c->a[0] & ABI_PAGE_MASK) || (prot & ~(u64)PROT_KNOWN))
		return -LINUX_EINVAL;
	rc = abi_space_protect(c->p, c->a[0], c->a[1], (u32)prot);
	if (!rc && prot & ABI_PROT_WRITE)
		note_shared(c->p, c->a[0]);
	return rc;
}

s64 abi_sys_mremap(struct abi_call *c)
{
	if (c->a[3] >> 32)
		return -LINUX_EINVAL;
	return abi_space_move(c->p, c->a[0], c->a[1], c->a[2], (u32)c->a[3],
			      c->a[4]);
}

s64 abi_sys_brk(struct abi_call *c)
{
	return (s64)abi_space_brk(c->p, c->a[0]);
}

/* -ENOMEM unless all of the range is mapped; lengths as for madvise. */
static s64 check_mapped(struct abi_proc *p, u64 addr, u64 len)
{
	u64 end;

	if (__builtin_add_overflow(len, ABI_PAGE_MASK, &len) ||
	    __builtin_add_overflow(addr, ABI_PAGE_DOWN(len), &end))
		return -LINUX_EINVAL;
	return abi_space_check(p, ABI_PAGE_DOWN(addr),
			       end - ABI_PAGE_DOWN(addr), 0)
		       ? 0
		       : -LINUX_ENOMEM;
}

/* The same for the mapped pages, from the start of the first one. */
static s64 populate_mapped(struct abi_proc *p, u64 addr, u64 len)
{
	s64 rc = check_mapped(p, addr, len);

	return rc ? rc
		  : range_populate(p, ABI_PAGE_DOWN(addr),
				   len + (addr & ABI_PAGE_MASK));
}

#define MADV_DONTNEED_LOCKED 24
#define MADV_COLLAPSE 25
#define MADV_HWPOISON 100
#define MADV_SOFT_OFFLINE 101

/*
 * abi stores no advice about forks. Without forks there is nothing to do.
 */
static s64 advise_fork(struct abi_proc *p, u64 addr, u64 len)
{
	if (!p->host->family || abi_spawns_helpers(p))
		return check_mapped(p, addr, len);
	abi_log_once(p, &p->space.said_fork,
		     "madvise refused (EINVAL): MADV_DONTFORK and "
		     "MADV_WIPEONFORK are not supported; a child of fork gets "
		     "a copy of all memory");
	return -LINUX_EINVAL;
}

s64 abi_sys_madvise(struct abi_call *c)
{
	u64 addr = c->a[0], len = c->a[1], advice = c->a[2];

	if (addr & ABI_PAGE_MASK)
		return -LINUX_EINVAL;
	if (advice == ABI_MADV_DONTNEED || advice == ABI_MADV_FREE)
		return len ? abi_space_discard(c->p, addr, len) : 0;
	if (advice == ABI_MADV_POPULATE_READ ||
	    advice == ABI_MADV_POPULATE_WRITE)
		return populate_mapped(c->p, addr, len);
	if (advice == ABI_MADV_DONTFORK || advice == ABI_MADV_WIPEONFORK)
		return advise_fork(c->p, addr, len);
	if (advice <= ABI_MADV_WILLNEED || advice == ABI_MADV_DOFORK ||
	    (advice >= ABI_MADV_MERGEABLE && advice <= ABI_MADV_POPULATE_WRITE))
		return check_mapped(c->p, addr, len);
	if (advice == ABI_MADV_REMOVE || advice == MADV_DONTNEED_LOCKED ||
	    advice == MADV_COLLAPSE || advice == MADV_HWPOISON ||
	    advice == MADV_SOFT_OFFLINE)
		return abi_refuse(c->p, ABI_REFUSE_ADVICE, -LINUX_EINVAL);
	return -LINUX_EINVAL;
}

s64 abi_sys_msync(struct abi_call *c)
{
	u64 flags = c->a[2];
	u32 known = ABI_MS_ASYNC | ABI_MS_INVALIDATE | ABI_MS_SYNC;

	if ((flags & ~(u64)known) || (c->a[0] & ABI_PAGE_MASK) ||
	    ((flags & ABI_MS_ASYNC) && (flags & ABI_MS_SYNC)))
		return -LINUX_EINVAL;
	return abi_space_sync(c->p, c->a[0], c->a[1], !!(flags & ABI_MS_SYNC));
}

/* Committed pages count as resident. */
s64 abi_sys_mincore(struct abi_call *c)
{
	u64 addr = c->a[0], len = c->a[1], at, i = 0;
	struct abi_area area;
	s64 rc;
	u8 byte;

	if (addr & ABI_PAGE_MASK)
		return -LINUX_EINVAL;
	rc = check_mapped(c->p, addr, len);
	if (rc)
		return -LINUX_ENOMEM;
	len = ABI_PAGE_UP(len);
	if (abi_user_check(c->p, c->a[2], len / SKEP_PAGE_SIZE, ABI_PROT_WRITE))
		return -LINUX_EFAULT;
	for (at = addr; at < addr + len;) {
		if (!abi_space_next(c->p, at, &area))
			return -LINUX_ENOMEM;
		byte = !!(area.bits & ABI_AREA_COMMITTED);
		for (; at < area.end && at < addr + len; at += SKEP_PAGE_SIZE)
			if (abi_user_move(abi_user_ptr(c->a[2] + i++), &byte,
					  1))
				return -LINUX_EFAULT;
	}
	return 0;
}

#define MPOL_DEFAULT 0u
#define MPOL_PREFERRED 1u
#define MPOL_LOCAL 4u
#define MPOL_MAX 6u
#define MPOL_MODE_FLAGS 0xe000u /* static, relative, balancing */
#define MPOL_MF_KNOWN 3u	/* strict, move */
#define MPOL_MF_MOVE_ALL 4u
#define NODES_MAX 32768u

/* Reads a mask of `bits` nodes: 1 if it is not empty, else 0; *first: whether
 * node 0 is in it. */
static s64 nodes_any(struct abi_proc *p, u64 gaddr, u64 bits, u32 *first)
{
	u64 at, word, any = 0;

	*first = 0;
	if (!gaddr || !bits)
		return 0;
	if (bits > NODES_MAX)
		return -LINUX_EINVAL;
	for (at = 0; at < bits; at += 64) {
		if (ABI_GET(p, &word, gaddr + at / 8))
			return -LINUX_EFAULT;
		if (bits - at < 64)
			word &= (1ull << (bits - at)) - 1;
		if (!at)
			*first = word & 1;
		any |= word;
	}
	return any != 0;
}

static s64 policy_check(struct abi_call *c)
{
	u32 mode = (u32)c->a[2] & ~MPOL_MODE_FLAGS, first;
	s64 any = nodes_any(c->p, c->a[3], c->a[4] ? c->a[4] - 1 : 0, &first);

	if (any < 0)
		return any;
	if (mode >= MPOL_MAX || (any && !first))
		return -LINUX_EINVAL;
	if (mode == MPOL_DEFAULT || mode == MPOL_LOCAL)
		return any ? -LINUX_EINVAL : 0;
	return any || mode == MPOL_PREFERRED ? 0 : -LINUX_EINVAL;
}

/*
 * The guest sees one NUMA node with all memory: a policy that allows node 0 is
 * accepted without effect, others are refused.
 */
s64 abi_sys_mbind(struct abi_call *c)
{
	u64 flags = c->a[5];
	s64 rc;

	if (c->a[0] & ABI_PAGE_MASK ||
	    flags & ~(u64)(MPOL_MF_KNOWN | MPOL_MF_MOVE_ALL))
		return -LINUX_EINVAL;
	if (flags & MPOL_MF_MOVE_ALL)
		return -LINUX_EPERM;
	rc = policy_check(c);
	if (!rc && c->a[1])
		rc = check_mapped(c->p, c->a[0], c->a[1]);
	return rc == -LINUX_ENOMEM ? -LINUX_EFAULT : rc;
}

/*
 * Locking: committed memory is not locked, so these calls only check their
 * arguments. A program must not rely on them to keep secrets from being swapped
 * out.
 */
s64 abi_sys_mlock(struct abi_call *c)
{
	return populate_mapped(c->p, c->a[0], c->a[1]);
}

s64 abi_sys_mlock2(struct abi_call *c)
{
	if (c->a[2] & ~(u64)ABI_MLOCK_ONFAULT)
		return -LINUX_EINVAL;
	return c->a[2] ? check_mapped(c->p, c->a[0], c->a[1])
		       : populate_mapped(c->p, c->a[0], c->a[1]);
}

s64 abi_sys_munlock(struct abi_call *c)
{
	return check_mapped(c->p, c->a[0], c->a[1]);
}

/* After MCL_FUTURE, too, later mappings are populated on first touch; the
 * ledger's count of faults shows that. */
s64 abi_sys_mlockall(struct abi_call *c)
{
	u64 known = ABI_MCL_CURRENT | ABI_MCL_FUTURE | ABI_MCL_ONFAULT;
	struct abi_area area;
	u64 at = 0;
	s64 rc = 0;

	if (!c->a[0] || (c->a[0] & ~known) || c->a[0] == ABI_MCL_ONFAULT)
		return -LINUX_EINVAL;
	if (!(c->a[0] & ABI_MCL_CURRENT) || c->a[0] & ABI_MCL_ONFAULT)
		return 0;
	for (; !rc && abi_space_next(c->p, at, &area); at = area.end)
		rc = range_populate(c->p, area.start, area.end - area.start);
	return rc;
}

s64 abi_sys_munlockall(struct abi_call *c)
{
	(void)c;
	return 0;
}
