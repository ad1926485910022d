/* SPDX-License-Identifier: MIT */
/* mremap: an area that grows, shrinks or moves. Runs under space.change. */
#include "map.h"
#include "space.h"
#include "base/errno.h"
#include "abi/include/page.h"
#include "abi/include/user.h"
#include "abi/proc/refuse.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/linux.h"

#define MREMAP_DONTUNMAP 4u
#define RW (ABI_PROT_READ | ABI_PROT_WRITE)

struct move {
	u64 old, old_len, len, to;
	u32 flags;
	struct abi_area area; /* the old range, as one piece */
};

static s64 bad_args(const struct move *m)
{
	u32 known = ABI_MREMAP_MAYMOVE | ABI_MREMAP_FIXED;

	if ((m->old & ABI_PAGE_MASK) || !m->len || !m->old_len ||
	    (m->flags & ~known) || m->len > SKEP_ARENA_SIZE ||
	    m->old_len > SKEP_ARENA_SIZE)
		return 1;
	if (!(m->flags & ABI_MREMAP_FIXED))
		return 0;
	return !(m->flags & ABI_MREMAP_MAYMOVE) || (m->to & ABI_PAGE_MASK) ||
	       !abi_space_range(m->to, m->to + m->len) ||
	       (m->to < m->old + m->old_len && m->old < m->to + m->len);
}

/* Adds memory directly after a range. */
static s64 grow_area(struct abi_proc *p, const struct move *m)
{
	struct abi_area tail = m->area;
	s64 rc;

	tail.start = m->old + m->old_len;
	tail.end = m->old + m->len;
	tail.offset += tail.backing ? m->old_len : 0;
	if (tail.backing)
		p->space.backing[tail.backing].areas++;
	rc = abi_map_put(p, &tail);
	if (rc)
		abi_space_unback(&p->space, tail.backing);
	return rc;
}

/* A host's mapping of a file cannot grow beyond its end. */
static int can_grow(const struct abi_space *s, const struct move *m)
{
	u64 end = m->old + m->old_len;

	return m->old + m->len <= (end <= s->top ? s->top : end) &&
	       abi_space_range(m->old, m->old + m->len) &&
	       abi_space_free(s, end, m->old + m->len);
}

/* Page by page, because a mapped file may end before its mapping does. */
static void copy_pages(u64 to, u64 from, u64 len)
{
	u64 at;

	for (at = 0; at < len; at += SKEP_PAGE_SIZE)
		(void)abi_user_move(abi_user_ptr(to + at),
				    abi_user_ptr(from + at), SKEP_PAGE_SIZE);
}

/* Copies the old bytes to the new place, whatever the protection is. */
static s64 copy_area(struct abi_proc *p, const struct move *m, u64 to)
{
	u64 len = m->old_len < m->len ? m->old_len : m->len;
	u32 prot = m->area.prot;
	s64 rc = 0;

	if (!(m->area.bits & ABI_AREA_COMMITTED) ||
	    (m->area.bits & ABI_AREA_DIRECT && m->area.bits & ABI_AREA_SHARED &&
	     m->area.backing))
		return 0; /* zeros, or the file's contents */
	if (!(prot & ABI_PROT_READ))
		rc = p->host->mem_protect(m->old, m->old_len, ABI_PROT_READ);
	if (!rc && prot != RW)
		rc = p->host->mem_protect(to, m->len, RW);
	if (rc)
		return rc;
	copy_pages(to, m->old, len);
	return prot != RW ? p->host->mem_protect(to, m->len, prot) : 0;
}

static s64 refuse_text(struct abi_proc *p)
{
	p->host->log("mremap of executable memory refused: rewritten code "
		     "cannot be moved");
	return -LINUX_EACCES;
}

static s64 refuse_common(struct abi_proc *p)
{
	p->host->log("mremap refused (ENOMEM): memory that processes share "
		     "cannot be moved");
	return -LINUX_ENOMEM;
}

/*
 * Moves to [to, to + len). Only the grown part keeps the new area's contents;
 * the rest is overwritten with the old bytes.
 */
static s64 move_area(struct abi_proc *p, const struct move *m, u64 to)
{
	struct abi_area new = m->area;
	s64 rc;

	if (new.prot & ABI_PROT_EXEC)
		return refuse_text(p);
	if (abi_space_is_common(p, &new) && p->forked)
		return refuse_common(p);
	new.start = to;
	new.end = to + m->len;
	if (new.backing)
		p->space.backing[new.backing].areas++;
	rc = abi_map_put(p, &new);
	if (rc) {
		abi_space_unback(&p->space, new.backing);
		return rc;
	}
	rc = copy_area(p, m, to);
	if (!rc)
		rc = abi_map_clear(p, m->old, m->old + m->old_len);
	return rc ? rc : (s64)to;
}

static s64 move_locked(struct abi_proc *p, struct move *m)
{
	struct abi_space *s = &p->space;
	u64 end = m->old + m->old_len;
	s64 rc;

	abi_assert_locked(&p->space.change);
	if (!abi_map_part(s, abi_space_index(s, m->old), m->old, end,
			  &m->area) ||
	    m->area.start != m->old || m->area.end != end)
		return -LINUX_EFAULT;
	if (m->area.bits & ABI_AREA_TEXT)
		return refuse_text(p);
	if (m->area.segment &&
	    (m->flags & ABI_MREMAP_FIXED || m->len > m->old_len))
		return refuse_common(p);
	if (!(m->flags & ABI_MREMAP_FIXED)) {
		if (m->len < m->old_len)
			rc = abi_map_clear(p, m->old + m->len, end);
		else if (m->len > m->old_len && can_grow(s, m))
			rc = grow_area(p, m);
		else
			rc = m->len > m->old_len;
		if (rc <= 0)
			return rc ? rc : (s64)m->old;
		if (!(m->flags & ABI_MREMAP_MAYMOVE))
			return -LINUX_ENOMEM;
	}
	rc = abi_map_place(p, &m->area, m->len,
			   m->flags & ABI_MREMAP_FIXED ? m->to : 0);
	return rc < 0 ? rc : move_area(p, m, (u64)rc);
}

s64 abi_space_move(struct abi_proc *p, u64 old, u64 old_len, u64 len, u32 flags,
		   u64 to)
{
	struct move m = {.old = old,
			 .old_len = ABI_PAGE_UP(old_len),
			 .len = ABI_PAGE_UP(len),
			 .to = to,
			 .flags = flags};
	s64 rc;

	if (flags & MREMAP_DONTUNMAP)
		return abi_refuse(p, ABI_REFUSE_MREMAP, -LINUX_EINVAL);
	if (bad_args(&m))
		return -LINUX_EINVAL;
	abi_map_begin(p);
	rc = move_locked(p, &m);
	abi_map_end(p);
	return rc;
}
