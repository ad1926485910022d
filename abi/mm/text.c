/* SPDX-License-Identifier: MIT */
/*
 * Text of libraries. A dynamic loader maps it from a file, and the host
 * rewrites it there before it can run. Owns the areas with ABI_AREA_TEXT: the
 * text, and its stubs, which have ABI_AREA_IMAGE too. The caller holds
 * space.change.
 */
#include "text.h"
#include "map.h"
#include "abi/fs/fd.h"
#include "abi/include/page.h"
#include "abi/include/user.h"
#include "abi/proc/log.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "base/errno.h"

#define RW (ABI_PROT_READ | ABI_PROT_WRITE)
#define RX (ABI_PROT_READ | ABI_PROT_EXEC)
#define ROOM_MIN 0x10000ull
#define AREAS_NEEDED 6 /* text, its rest, stubs, and what a cut splits */

int abi_text_is_file(const struct abi_proc *p, const struct abi_area *a)
{
	return p->host->text_file && a->backing && a->prot & ABI_PROT_EXEC &&
	       !(a->bits & (ABI_AREA_SHARED | ABI_AREA_DIRECT));
}

/* The free range directly below area `i`, which may be empty. */
static u64 gap_below(const struct abi_space *s, u32 i, u64 floor, u64 top)
{
	u64 end = i && s->area[i - 1].end > floor ? s->area[i - 1].end : floor;

	return end < top ? end : top;
}

/*
 * Finds free addresses for stubs of the text [start, end), at most
 * ABI_TEXT_REACH away and as near as there are `want` bytes; below rather than
 * above. 0: there are none.
 */
static int find_room(const struct abi_space *s, u64 start, u64 end, u64 want,
		     struct abi_text_file *t)
{
	int image = start < SKEP_IMAGE_END;
	u64 floor = image ? SKEP_IMAGE_START : SKEP_MMAP_START;
	u64 top = image ? SKEP_IMAGE_END : s->top, low, high;
	u32 i = abi_space_index(s, start), at;

	if (floor + ABI_TEXT_REACH < end)
		floor = end - ABI_TEXT_REACH;
	if (top > start + ABI_TEXT_REACH)
		top = start + ABI_TEXT_REACH;
	for (at = i, high = start; high > floor; high = s->area[--at].start) {
		low = gap_below(s, at, floor, high);
		if (high - low >= want) {
			t->room = low;
			t->room_end = high;
			return 1;
		}
		if (!at)
			break;
	}
	for (at = i, low = end; low < top; low = s->area[at++].end) {
		high = at < s->areas && s->area[at].start < top
			       ? s->area[at].start
			       : top;
		if (high > low && high - low >= want) {
			t->room = low;
			t->room_end = high;
			return 1;
		}
		if (at == s->areas)
			break;
	}
	return 0;
}

/* When the host has seen the text, it reports how much room is missing. */
static s64 ask_host(struct abi_proc *p, const struct abi_area *a,
		    struct abi_text_file *t)
{
	u32 file = p->space.backing[a->backing].file - 1, tries;
	u64 want = ROOM_MIN + ABI_PAGE_UP((a->end - a->start) / 4);
	u64 left = abi_map_left(p);
	s64 rc = -LINUX_ENOMEM;

	t->verb = ABI_TEXT_MAP;
	t->addr = a->start;
	t->len = a->end - a->start;
	t->offset = a->offset;
	t->handle = p->fds.desc[file].handle;
	t->name = abi_fd_pinned_path(p, file);
	t->most = left > t->len ? left - t->len : 0;
	for (tries = 0; tries < 2 && rc == -LINUX_ENOMEM; tries++) {
		t->need = 0;
		if (!find_room(&p->space, a->start, a->end, want, t)) {
			abi_log_once(p, &p->space.said_reach,
				     "text of a library refused (ENOMEM): no "
				     "free addresses for its stubs within 2 "
				     "GiB");
			return -LINUX_ENOMEM;
		}
		rc = p->host->text_file(t);
		if (t->need > t->most)
			abi_map_say_limit(p);
		if (t->need <= want || t->need > t->most)
			break;
		want = t->need;
	}
	return rc;
}

static void enter_area(struct abi_proc *p, const struct abi_area *like,
		       u64 start, u64 end, u32 prot, u32 bits)
{
	struct abi_area a = {.start = start,
			     .end = end,
			     .prot = (u8)prot,
			     .bits = (u8)(bits | ABI_AREA_COMMITTED)};

	if (start == end)
		return;
	if (like) {
		a.backing = like->backing;
		a.offset = like->offset + (start - like->start);
	}
	abi_space_insert(p, &a);
}

/* After the text there may be more of the file, which must not run. */
static s64 fill_rest(struct abi_proc *p, const struct abi_area *a, u64 text_end)
{
	u32 file = p->space.backing[a->backing].file - 1;
	u64 at = text_end;
	s64 n = 1;

	for (; at < a->end && n > 0; at += (u64)n) {
		n = abi_fd_pinned_pread(p, file, abi_user_ptr(at), a->end - at,
					a->offset + (at - a->start));
		if (n < 0)
			return n;
	}
	return text_end < a->end
		       ? p->host->mem_protect(text_end, a->end - text_end,
					      ABI_PROT_READ)
		       : 0;
}

s64 abi_text_put(struct abi_proc *p, const struct abi_area *a)
{
	struct abi_text_file t = {0};
	u64 len = a->end - a->start, end;
	s64 rc;

	abi_assert_locked(&p->space.change);
	if (p->space.areas + AREAS_NEEDED > ABI_AREAS_MAX)
		return -LINUX_ENOMEM;
	rc = p->host->mem_commit(a->start, len, RW);
	if (!rc)
		rc = ask_host(p, a, &t);
	end = a->start + t.len;
	if (!rc)
		rc = fill_rest(p, a, end);
	if (!rc)
		rc = p->host->mem_protect(a->start, t.len, a->prot);
	if (rc) {
		p->host->mem_release(a->start, len);
		return rc == -LINUX_ENOEXEC ? 1 : rc;
	}
	if (end < a->end)
		p->space.backing[a->backing].areas++;
	enter_area(p, a, a->start, end, a->prot, ABI_AREA_TEXT);
	enter_area(p, a, end, a->end, ABI_PROT_READ, 0);
	enter_area(p, 0, t.stubs, t.stubs + t.stubs_len, RX,
		   ABI_AREA_TEXT | ABI_AREA_IMAGE);
	return 0;
}

s64 abi_text_refuse(struct abi_proc *p)
{
	abi_log_once(p, &p->space.said_text,
		     "mprotect refused (EACCES): rewritten text of a library "
		     "cannot become writable (relocations in text, "
		     "DT_TEXTREL: build it with -fPIC)");
	return -LINUX_EACCES;
}

/* The host's text remains valid as long as nobody writes to it. */
s64 abi_text_protect(struct abi_proc *p, const struct abi_area *a, u32 prot)
{
	if (prot & ABI_PROT_WRITE || a->bits & ABI_AREA_IMAGE)
		return abi_text_refuse(p);
	return p->host->mem_protect(a->start, a->end - a->start, prot);
}

int abi_text_is_at(struct abi_proc *p, u64 addr)
{
	struct abi_area a;

	return abi_space_next(p, addr, &a) && a.start <= addr &&
	       a.bits & ABI_AREA_TEXT;
}

void abi_text_drop(struct abi_proc *p, const struct abi_area *a)
{
	struct abi_text_file t = {.verb = ABI_TEXT_DROP,
				  .addr = a->start,
				  .len = a->end - a->start};

	if (a->bits & ABI_AREA_TEXT)
		p->host->text_file(&t);
}

void abi_text_reap(struct abi_proc *p)
{
	struct abi_text_file t = {.verb = ABI_TEXT_REAP};

	abi_assert_locked(&p->space.change);
	while (p->host->text_file && p->host->text_file(&t) > 0) {
		if (!t.stubs_len)
			continue;
		p->host->mem_release(t.stubs, t.stubs_len);
		abi_space_cut(p, t.stubs, t.stubs + t.stubs_len);
	}
}

int abi_text_has_stubs(struct abi_proc *p, u64 start, u64 end)
{
	const u32 stubs = ABI_AREA_TEXT | ABI_AREA_IMAGE;
	const struct abi_space *s = &p->space;
	u32 i = abi_space_index(s, start);

	for (; i < s->areas && s->area[i].start < end; i++) {
		if ((s->area[i].bits & stubs) != stubs)
			continue;
		abi_log_once(p, &p->space.said_stubs,
			     "munmap or mmap with MAP_FIXED refused (EINVAL): "
			     "stubs of a library lie there");
		return 1;
	}
	return 0;
}
