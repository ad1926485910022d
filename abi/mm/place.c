/* SPDX-License-Identifier: MIT */
/* Where a mapping lies. Runs under space.change, and changes nothing. */
#include "map.h"
#include "space.h"
#include "base/errno.h"
#include "abi/include/page.h"
#include "abi/proc/log.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

/*
 * Whether the host places memory without a file where a child can share it. At
 * a fixed address there is none, so such memory is the process's own, and fork
 * is refused. Neither is it for addresses that are only reserved.
 */
int abi_map_is_sharable(const struct abi_proc *p, const struct abi_map *m)
{
	return p->host->mem_place && p->host->family &&
	       m->bits & ABI_AREA_SHARED && m->prot &&
	       !(m->prot & ABI_PROT_EXEC) &&
	       !(m->flags & (ABI_MAP_FIXED | ABI_MAP_FIXED_NOREPLACE));
}

/* Whether the host chooses the address of such an area. */
static int is_placed(const struct abi_proc *p, const struct abi_area *a)
{
	u32 direct = ABI_AREA_SHARED | ABI_AREA_DIRECT;

	return p->host->mem_place && (a->bits & direct) == direct;
}

static s64 refuse_window(struct abi_proc *p)
{
	abi_log_once(p, &p->space.said_window,
		     "mmap with MAP_FIXED refused (ENOMEM): only shared "
		     "mappings of files can lie where one of them was");
	return -LINUX_ENOMEM;
}

s64 abi_map_place(struct abi_proc *p, const struct abi_area *a, u64 len,
		  u64 addr)
{
	struct abi_mem_file map = {.addr = addr, .len = len, .shared = 1};
	s64 rc;

	abi_assert_locked(&p->space.change);
	if (!is_placed(p, a)) {
		if (addr && addr < SKEP_MMAP_END && addr + len > p->space.top)
			return refuse_window(p);
		if (!addr)
			addr = abi_space_find(&p->space, len);
		if (!addr)
			abi_space_say_room(p);
		return addr ? (s64)addr : -LINUX_ENOMEM;
	}
	map.offset = a->offset;
	map.handle = -1;
	if (a->backing)
		map.handle = p->fds.desc[p->space.backing[a->backing].file - 1]
				     .handle;
	map.prot = a->prot & (u32)~ABI_PROT_EXEC;
	rc = p->host->mem_place(&map);
	if (rc > 0 && !addr &&
	    !abi_space_free(&p->space, (u64)rc, (u64)rc + len))
		return -LINUX_ENOMEM;
	return rc;
}

s64 abi_map_choose(struct abi_proc *p, const struct abi_map *m, u64 len,
		   const struct abi_area *a)
{
	struct abi_space *s = &p->space;
	u64 addr = m->addr, end;

	if (m->flags & (ABI_MAP_FIXED | ABI_MAP_FIXED_NOREPLACE)) {
		if (addr & ABI_PAGE_MASK)
			return -LINUX_EINVAL;
		if (__builtin_add_overflow(addr, len, &end) ||
		    !abi_space_range(addr, end))
			return -LINUX_ENOMEM;
		if ((m->flags & ABI_MAP_FIXED_NOREPLACE) &&
		    !abi_space_free(s, addr, end))
			return -LINUX_EEXIST;
		/* Page 0 is in no range, so 0 can mean "anywhere". */
		return abi_map_place(p, a, len, addr);
	}
	addr = ABI_PAGE_UP(addr);
	if (addr && !is_placed(p, a) &&
	    !__builtin_add_overflow(addr, len, &end) &&
	    addr >= SKEP_MMAP_START && end <= s->top &&
	    abi_space_free(s, addr, end))
		return (s64)addr;
	return abi_map_place(p, a, len, 0);
}
