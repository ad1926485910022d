/* SPDX-License-Identifier: MIT */
/*
 * Operations on the address map: first the host's memory is changed, then the
 * array. The caller holds space.change: the functions of space.h lock it, and
 * unlock it before files are released.
 *
 * The host may be unable to overcommit (Windows), so accessible memory is
 * committed when it is mapped, even with MAP_NORESERVE, and counted against the
 * limit; PROT_NONE costs nothing until mprotect makes it accessible.
 */
#include "map.h"
#include "space.h"
#include "text.h"
#include "trampoline.h"
#include "abi/fs/fd.h"
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/page.h"
#include "abi/include/user.h"
#include "abi/proc/log.h"
#include "abi/proc/refuse.h"
#include "abi/state/proc.h"
#include "abi/thread/lock.h"
#include "abi/uapi/ipc.h"
#include "abi/uapi/linux.h"
#include "build/gen/abi/numbers.h"

#define RW (ABI_PROT_READ | ABI_PROT_WRITE)

void abi_map_begin(struct abi_proc *p)
{
	abi_lock(p, &p->space.change);
}

/* Releases the files to which no area refers any more, one at a time. */
void abi_map_end(struct abi_proc *p)
{
	struct abi_space *s = &p->space;
	u32 drop[8], n, i;

	do {
		for (i = 1, n = 0; s->orphans && i < ABI_BACKINGS_MAX && n < 8;
		     i++) {
			if (s->backing[i].areas || !s->backing[i].file)
				continue;
			drop[n++] = s->backing[i].file - 1;
			s->backing[i].file = 0;
			s->orphans--;
		}
		abi_unlock(p, &s->change);
		for (i = 0; i < n; i++)
			abi_fd_release(p, drop[i]);
		if (n == 8)
			abi_lock(p, &s->change);
	} while (n == 8);
}

static s64 refuse_wx(struct abi_proc *p, u64 addr, u64 len)
{
	char line[128];
	struct abi_text t;

	abi_text_init(&t, line, sizeof(line));
	abi_text_str(&t, "memory both writable and executable refused at 0x");
	abi_text_hex(&t, addr, 1);
	abi_text_str(&t, ", length 0x");
	abi_text_hex(&t, len, 1);
	abi_text_str(&t, ": map it writable, then mprotect it executable");
	p->host->log(line);
	return -LINUX_EACCES;
}

/* Whether `more` committed and `mapped` mapped bytes are within the limits. */
static int is_allowed(struct abi_proc *p, u64 more, u64 mapped)
{
	struct abi_space *s = &p->space;
	u64 most = p->limit[ABI_RLIMIT_AS].cur;

	return (!more ||
		(more <= s->limit && s->committed <= s->limit - more)) &&
	       (!mapped || (mapped <= most && s->mapped <= most - mapped));
}

u64 abi_map_left(struct abi_proc *p)
{
	struct abi_space *s = &p->space;
	u64 most = p->limit[ABI_RLIMIT_AS].cur;
	u64 left = s->limit > s->committed ? s->limit - s->committed : 0;

	abi_assert_locked(&s->change);
	if (most <= s->mapped)
		return 0;
	return left < most - s->mapped ? left : most - s->mapped;
}

void abi_map_say_limit(struct abi_proc *p)
{
	abi_log_once(p, &p->space.said_limit,
		     "more memory refused (ENOMEM): the limit of this run is "
		     "reached, see --memory and ulimit -v");
}

/* Filling ------------------------------------------------------------------ */

/* Reads bytes of a file into new memory; the rest remains zero. */
static s64 load_bytes(struct abi_proc *p, u64 addr, u64 len, u32 file,
		      u64 offset)
{
	u64 done = 0;
	s64 rc;

	while (done < len) {
		rc = abi_fd_pinned_pread(p, file, abi_user_ptr(addr + done),
					 len - done, offset + done);
		if (rc < 0)
			return rc;
		if (!rc)
			break;
		done += (u64)rc;
	}
	return 0;
}

/* Changes readable and writable memory to `prot`; text is sealed first. */
static s64 finish_protection(struct abi_proc *p, u64 addr, u64 len, u32 prot)
{
	s64 rc = 0;

	if (prot & ABI_PROT_EXEC)
		rc = p->host->text_seal(addr, len);
	if (!rc && prot != RW)
		rc = p->host->mem_protect(addr, len, prot);
	return rc;
}

/* The host's own mapping of the file. */
static s64 fill_direct(struct abi_proc *p, const struct abi_area *a)
{
	u32 file = p->space.backing[a->backing].file - 1;
	struct abi_mem_file map = {.addr = a->start,
				   .len = a->end - a->start,
				   .offset = a->offset,
				   .handle = p->fds.desc[file].handle,
				   .prot = a->prot & (u32)~ABI_PROT_EXEC,
				   .shared = !!(a->bits & ABI_AREA_SHARED)};
	s64 rc = p->host->mem_file(&map);

	if (rc)
		p->host->mem_release(a->start, map.len);
	return rc;
}

/* Refused because another process could write to the text while it runs. */
static s64 refuse_text(struct abi_proc *p)
{
	p->host->log("shared memory cannot become executable: map it private");
	return -LINUX_EACCES;
}

static s64 fill_shared(struct abi_proc *p, const struct abi_area *a)
{
	struct abi_mem_file map = {.addr = a->start,
				   .len = a->end - a->start,
				   .handle = -1,
				   .prot = a->prot,
				   .shared = 1};

	return p->host->mem_file(&map);
}

/* An attached segment of System V; mem_release detaches it. */
static s64 fill_segment(struct abi_proc *p, const struct abi_area *a)
{
	struct abi_ipc_op op = {
		.call = ABI_NR_shmat,
		.arg = {a->segment - 1, a->start,
			a->bits & ABI_AREA_NOWRITE ? ABI_SHM_RDONLY : 0}};
	s64 rc = p->host->ipc(&op, 0);

	return rc < 0 ? rc : 0;
}

static void say_copy(struct abi_proc *p, const struct abi_area *a)
{
	if (!a->backing || !(a->bits & ABI_AREA_SHARED) ||
	    (a->bits & ABI_AREA_NOWRITE) || p->space.said_copy)
		return;
	p->space.said_copy = 1;
	p->host->log("shared file mappings are copies on this system, written "
		     "back by msync, munmap and exit: other mappings and other "
		     "programs see changes only then");
}

/* Creates memory with its final contents, or none. */
static s64 fill_area(struct abi_proc *p, const struct abi_area *a)
{
	u64 len = a->end - a->start;
	s64 rc;

	if (!(a->bits & ABI_AREA_COMMITTED))
		return 0;
	if (a->bits & ABI_AREA_DIRECT && a->backing)
		return fill_direct(p, a);
	if (a->segment)
		return fill_segment(p, a);
	if (abi_space_is_common(p, a))
		return a->prot & ABI_PROT_EXEC ? refuse_text(p)
					       : fill_shared(p, a);
	say_copy(p, a);
	rc = p->host->mem_commit(a->start, len, RW);
	if (rc)
		return rc;
	if (a->backing)
		rc = load_bytes(p, a->start, len,
				p->space.backing[a->backing].file - 1,
				a->offset);
	if (!rc)
		rc = finish_protection(p, a->start, len, a->prot);
	if (rc)
		p->host->mem_release(a->start, len);
	return rc;
}

/* Shared files ------------------------------------------------------------- */

static s64 file_size(struct abi_proc *p, u32 desc)
{
	struct abi_stat st;
	struct abi_file_op op = {.verb = ABI_FILE_STAT, .stat = &st};
	s64 rc = p->host->file(p->fds.desc[desc].handle, &op);

	return rc < 0 ? rc : (s64)st.size;
}

/*
 * Copies [start, end) of a shared mapping back to its file, but not beyond the
 * file's present end: as on Linux, a mapping never extends a file.
 */
static s64 write_back(struct abi_proc *p, const struct abi_area *a, u64 start,
		      u64 end)
{
	u32 file = p->space.backing[a->backing].file - 1;
	u64 offset = a->offset + (start - a->start);
	s64 size, rc = 0;

	if (!a->backing || !(a->bits & ABI_AREA_SHARED) ||
	    (a->bits & (ABI_AREA_NOWRITE | ABI_AREA_DIRECT)))
		return 0;
	size = file_size(p, file);
	if (size <= 0 || (u64)size <= offset)
		return size < 0 ? size : 0;
	if (end - start > (u64)size - offset)
		end = start + ((u64)size - offset);
	if (!(a->prot & ABI_PROT_READ))
		p->host->mem_protect(a->start, a->end - a->start,
				     ABI_PROT_READ);
	for (; start < end && rc >= 0; start += (u64)rc, offset += (u64)rc) {
		rc = abi_fd_pinned_pwrite(p, file, abi_user_ptr(start),
					  end - start, offset);
		if (!rc)
			rc = -LINUX_EIO;
	}
	if (!(a->prot & ABI_PROT_READ))
		p->host->mem_protect(a->start, a->end - a->start, a->prot);
	return rc < 0 ? rc : 0;
}

/* The part of area `i` inside [start, end); 0 if there is none. */
int abi_map_part(const struct abi_space *s, u32 i, u64 start, u64 end,
		 struct abi_area *part)
{
	abi_assert_locked(&s->change);
	if (i >= s->areas || s->area[i].start >= end)
		return 0;
	*part = s->area[i];
	if (part->start < start) {
		if (part->backing || part->segment)
			part->offset += start - part->start;
		part->start = start;
	}
	if (part->end > end)
		part->end = end;
	return 1;
}

/*
 * Unmaps [start, end): shared pages are written to their files (an error is
 * logged, because munmap cannot report it), and memory is returned to the host.
 */
s64 abi_map_clear(struct abi_proc *p, u64 start, u64 end)
{
	struct abi_space *s = &p->space;
	u32 i = abi_space_index(s, start);
	struct abi_area a;
	s64 rc;

	abi_assert_locked(&p->space.change);
	if (abi_text_has_stubs(p, start, end))
		return -LINUX_EINVAL;
	if (!abi_space_room(s))
		return -LINUX_ENOMEM;
	for (; abi_map_part(s, i, start, end, &a); i++) {
		if (write_back(p, &a, a.start, a.end) < 0)
			p->host->log("a shared file mapping could not be "
				     "written back to its file");
		if (!(a.bits & ABI_AREA_COMMITTED))
			continue;
		rc = p->host->mem_release(a.start, a.end - a.start);
		if (rc)
			return rc;
		abi_text_drop(p, &a);
	}
	abi_space_cut(p, start, end);
	abi_text_reap(p);
	return 0;
}

/* map ---------------------------------------------------------------------- */

void abi_space_say_room(struct abi_proc *p)
{
	abi_log_once(
		p, &p->space.said_room,
		"mmap refused (ENOMEM): the mappings of a program, reserved "
		"ones included, must fit into 256 GiB of addresses");
}

/* Bytes of [start, end) that are mapped and committed now. */
static void count_used(const struct abi_space *s, u64 start, u64 end,
		       u64 *mapped, u64 *committed)
{
	u32 i = abi_space_index(s, start);
	struct abi_area a;

	*mapped = *committed = 0;
	for (; abi_map_part(s, i, start, end, &a); i++) {
		*mapped += a.end - a.start;
		if (abi_area_counted(&a))
			*committed += a.end - a.start;
	}
}

/* Checks space and limits, then replaces the old areas with the new one. */
s64 abi_map_put(struct abi_proc *p, struct abi_area *a)
{
	u64 len = a->end - a->start, mapped, committed;
	u64 need = abi_area_counted(a) ? len : 0;
	s64 rc;

	abi_assert_locked(&p->space.change);
	count_used(&p->space, a->start, a->end, &mapped, &committed);
	if (!abi_space_room(&p->space) ||
	    !is_allowed(p, need > committed ? need - committed : 0,
			len - mapped)) {
		abi_map_say_limit(p);
		return -LINUX_ENOMEM;
	}
	rc = mapped ? abi_map_clear(p, a->start, a->end) : 0;
	if (!rc && abi_text_is_file(p, a)) {
		rc = abi_text_put(p, a);
		if (rc <= 0)
			return rc;
		rc = 0;
	}
	if (!rc)
		rc = fill_area(p, a);
	if (!rc)
		abi_space_insert(p, a);
	return rc;
}

/*
 * Text is checked and rewritten, so it is a private copy, and a shared mapping
 * of it never becomes writable, because stores would not reach the file. If
 * they must reach it, only trampolines run there.
 */
static u32 file_bits(const struct abi_proc *p, const struct abi_map *m)
{
	if (m->prot & ABI_PROT_EXEC && !(m->bits & ABI_AREA_SHARED))
		return 0;
	if (m->prot & ABI_PROT_EXEC && m->bits & ABI_AREA_NOWRITE)
		return ABI_AREA_NOWRITE;
	if (p->host->mem_place && !(m->bits & ABI_AREA_SHARED))
		return 0;
	return p->host->mem_file ? ABI_AREA_DIRECT : 0;
}

static s64 map_locked(struct abi_proc *p, const struct abi_map *m, u64 len,
		      u32 backing)
{
	struct abi_area a = {.prot = (u8)m->prot,
			     .bits = (u8)m->bits,
			     .backing = (u16)backing};
	s64 rc;

	abi_assert_locked(&p->space.change);
	if (!backing && abi_map_is_sharable(p, m))
		a.bits |= ABI_AREA_DIRECT;
	/* A file's bytes are read now, so memory is needed now. Memory that is
	 * shared with a child must exist before the fork. */
	if (m->prot || backing || abi_space_is_common(p, &a))
		a.bits |= ABI_AREA_COMMITTED;
	if (backing) {
		a.offset = m->offset;
		a.bits |= (u8)file_bits(p, m);
	}
	rc = abi_map_choose(p, m, len, &a);
	if (rc < 0)
		return rc;
	a.start = (u64)rc;
	a.end = a.start + len;
	rc = abi_map_put(p, &a);
	return rc ? rc : (s64)a.start;
}

s64 abi_space_map(struct abi_proc *p, const struct abi_map *m)
{
	u64 len = ABI_PAGE_UP(m->len);
	u32 backing = 0;
	s64 rc = -LINUX_ENOMEM;

	if ((m->prot & ABI_PROT_WRITE) && (m->prot & ABI_PROT_EXEC))
		rc = refuse_wx(p, m->addr, m->len);
	else if (len && len <= SKEP_ARENA_SIZE)
		rc = 0;
	abi_map_begin(p);
	if (!rc && m->has_file) {
		backing = abi_space_back(&p->space, m->file);
		if (!backing)
			rc = -LINUX_ENFILE;
	}
	if (!rc)
		rc = map_locked(p, m, len, backing);
	if (rc < 0)
		abi_space_unback(&p->space, backing);
	abi_map_end(p);
	if (m->has_file && !backing)
		abi_fd_release(p, m->file);
	return rc;
}

s64 abi_space_unmap(struct abi_proc *p, u64 addr, u64 len)
{
	u64 end;
	s64 rc;

	len = ABI_PAGE_UP(len);
	if ((addr & ABI_PAGE_MASK) || !len ||
	    __builtin_add_overflow(addr, len, &end))
		return -LINUX_EINVAL;
	abi_map_begin(p);
	rc = abi_map_clear(p, addr, end);
	abi_map_end(p);
	return rc;
}

s64 abi_space_enter(struct abi_proc *p, u64 start, u64 end, u32 prot)
{
	struct abi_area a = {.start = start, .end = end, .prot = (u8)prot};
	s64 rc = 0;

	a.bits = ABI_AREA_IMAGE | ABI_AREA_COMMITTED;
	abi_map_begin(p);
	if (!abi_space_range(start, end) ||
	    !abi_space_free(&p->space, start, end))
		rc = -LINUX_EINVAL;
	else if (!abi_space_room(&p->space) ||
		 !is_allowed(p, end - start, end - start))
		rc = -LINUX_ENOMEM;
	else if (start < end)
		abi_space_insert(p, &a);
	abi_map_end(p);
	return rc;
}

/* protect ------------------------------------------------------------------ */

/*
 * Replaces pages of a file by private copies before they may run, because the
 * file can change or shrink at any time. Another thread that reads there
 * meanwhile can see a page of zeros.
 */
static s64 detach_area(struct abi_proc *p, struct abi_area *a)
{
	u8 page[SKEP_PAGE_SIZE];
	u64 at;
	s64 rc;

	if (a->bits & ABI_AREA_SHARED) {
		p->host->log("a shared file mapping cannot become executable: "
			     "map it private");
		return -LINUX_EACCES;
	}
	if (!(a->prot & ABI_PROT_READ)) {
		rc = p->host->mem_protect(a->start, a->end - a->start,
					  ABI_PROT_READ);
		if (rc)
			return rc;
	}
	for (at = a->start; at < a->end; at += SKEP_PAGE_SIZE) {
		abi_memset(page, 0, sizeof(page)); /* behind the file's end */
		(void)abi_user_move(page, abi_user_ptr(at), sizeof(page));
		rc = p->host->mem_commit(at, SKEP_PAGE_SIZE, RW);
		if (rc)
			return rc;
		abi_memcpy(abi_user_ptr(at), page, sizeof(page));
	}
	p->space.backing[a->backing].areas++; /* the cut drops one count */
	abi_space_cut(p, a->start, a->end);
	a->bits &= (u8)~ABI_AREA_DIRECT;
	a->prot = RW;
	abi_space_insert(p, a);
	return 0;
}

/* Changes the host's memory for a part of an area, or leaves it unchanged. */
static s64 protect_part(struct abi_proc *p, struct abi_area *a, u32 prot)
{
	u64 len = a->end - a->start;
	s64 rc;

	if (!(a->bits & ABI_AREA_COMMITTED)) {
		struct abi_area new = *a;

		if (!prot)
			return 0;
		if (!is_allowed(p, len, 0))
			return -LINUX_ENOMEM;
		new.prot = (u8)prot;
		new.bits |= ABI_AREA_COMMITTED;
		return fill_area(p, &new);
	}
	if (a->bits & ABI_AREA_TEXT)
		return abi_text_protect(p, a, prot);
	if (abi_area_is_alias(a))
		return p->host->mem_protect(a->start, len,
					    prot & (u32)~ABI_PROT_EXEC);
	if (!(prot & ABI_PROT_EXEC) || (a->prot & ABI_PROT_EXEC))
		return p->host->mem_protect(a->start, len, prot);
	if (abi_space_is_common(p, a))
		return refuse_text(p);
	if (a->bits & ABI_AREA_DIRECT) {
		rc = detach_area(p, a);
		if (rc)
			return rc;
	}
	if ((a->prot & RW) != RW) {
		rc = p->host->mem_protect(a->start, len, RW);
		if (rc)
			return rc;
	}
	rc = finish_protection(p, a->start, len, prot);
	if (rc)
		p->host->mem_protect(a->start, len, a->prot);
	return rc;
}

static s64 protect_locked(struct abi_proc *p, u64 addr, u64 end, u32 prot)
{
	struct abi_space *s = &p->space;
	struct abi_area a;
	s64 rc;

	abi_assert_locked(&p->space.change);
	if (!abi_space_full(s, addr, end))
		return -LINUX_ENOMEM;
	while (addr < end &&
	       abi_map_part(s, abi_space_index(s, addr), addr, end, &a)) {
		addr = a.end;
		if (a.prot == prot)
			continue;
		if ((prot & ABI_PROT_WRITE) && (a.bits & ABI_AREA_NOWRITE))
			return -LINUX_EACCES;
		if (!abi_space_room(s))
			return -LINUX_ENOMEM;
		rc = protect_part(p, &a, prot);
		if (rc)
			return rc;
		abi_space_mark(p, a.start, a.end, prot,
			       prot ? ABI_AREA_COMMITTED : 0);
	}
	return 0;
}

s64 abi_space_protect(struct abi_proc *p, u64 addr, u64 len, u32 prot)
{
	u64 end;
	s64 rc;

	if ((prot & ABI_PROT_WRITE) && (prot & ABI_PROT_EXEC))
		return abi_text_is_at(p, addr) ? abi_text_refuse(p)
					       : refuse_wx(p, addr, len);
	if (__builtin_add_overflow(addr, ABI_PAGE_UP(len), &end) ||
	    (len && !ABI_PAGE_UP(len)))
		return -LINUX_ENOMEM;
	abi_map_begin(p);
	rc = protect_locked(p, addr, end, prot);
	abi_map_end(p);
	return rc;
}

/* discard, sync ------------------------------------------------------------ */

static s64 discard_part(struct abi_proc *p, const struct abi_area *a)
{
	u64 len = a->end - a->start;
	s64 rc = 0;

	/* Shared pages keep their contents, and text is derived from the file.
	 */
	if (!(a->bits & ABI_AREA_COMMITTED) || (a->prot & ABI_PROT_EXEC) ||
	    (a->bits & ABI_AREA_TEXT) || a->segment ||
	    (a->backing && (a->bits & ABI_AREA_SHARED)) ||
	    abi_space_is_common(p, a))
		return 0;
	if (a->bits & ABI_AREA_IMAGE)
		return abi_refuse(p, ABI_REFUSE_ADVICE, -LINUX_EINVAL);
	if (a->bits & ABI_AREA_DIRECT)
		return p->host->mem_discard(a->start, len);
	if (a->prot != RW)
		rc = p->host->mem_protect(a->start, len, RW);
	if (!rc)
		rc = p->host->mem_discard(a->start, len);
	if (!rc && a->backing)
		rc = load_bytes(p, a->start, len,
				p->space.backing[a->backing].file - 1,
				a->offset);
	if (!rc && a->prot != RW)
		rc = p->host->mem_protect(a->start, len, a->prot);
	return rc;
}

/* Calls `act` for every part of [addr, end); -ENOMEM if there are holes. */
static s64 for_each_part(struct abi_proc *p, u64 addr, u64 len,
			 s64 (*act)(struct abi_proc *p,
				    const struct abi_area *a))
{
	struct abi_space *s = &p->space;
	struct abi_area a;
	u64 end;
	s64 rc = 0;
	u32 i;

	if (__builtin_add_overflow(addr, ABI_PAGE_UP(len), &end) ||
	    (len && !ABI_PAGE_UP(len)))
		return -LINUX_EINVAL;
	abi_map_begin(p);
	i = abi_space_index(s, addr);
	for (; !rc && abi_map_part(s, i, addr, end, &a); i++)
		rc = act(p, &a);
	if (!rc && !abi_space_full(s, addr, end))
		rc = -LINUX_ENOMEM;
	abi_map_end(p);
	return rc;
}

s64 abi_space_discard(struct abi_proc *p, u64 addr, u64 len)
{
	return for_each_part(p, addr, len, discard_part);
}

static s64 sync_later(struct abi_proc *p, const struct abi_area *a)
{
	return write_back(p, a, a->start, a->end);
}

static s64 sync_now(struct abi_proc *p, const struct abi_area *a)
{
	struct abi_file_op op = {.verb = ABI_FILE_SYNC};
	u32 direct = ABI_AREA_SHARED | ABI_AREA_DIRECT, file;
	s64 rc;

	if ((a->bits & direct) != direct || !a->backing ||
	    (a->bits & ABI_AREA_NOWRITE))
		return sync_later(p, a);
	if (p->host->mem_sync) {
		rc = p->host->mem_sync(a->start, a->end - a->start);
		if (rc)
			return rc;
	}
	file = p->space.backing[a->backing].file - 1;
	return p->host->file(p->fds.desc[file].handle, &op);
}

s64 abi_space_sync(struct abi_proc *p, u64 addr, u64 len, int now)
{
	return for_each_part(p, addr, len, now ? sync_now : sync_later);
}

/* brk ---------------------------------------------------------------------- */

static s64 brk_move(struct abi_proc *p, u64 old_end, u64 new_end)
{
	struct abi_area a = {.start = old_end, .end = new_end, .prot = RW};

	abi_assert_locked(&p->space.change);
	if (new_end < old_end)
		return abi_map_clear(p, new_end, old_end);
	if (new_end == old_end)
		return 0;
	if (!abi_space_free(&p->space, old_end, new_end))
		return -LINUX_ENOMEM;
	a.bits = ABI_AREA_BRK | ABI_AREA_COMMITTED;
	return abi_map_put(p, &a);
}

u64 abi_space_brk(struct abi_proc *p, u64 brk)
{
	struct abi_space *s = &p->space;
	u64 most = SKEP_BRK_SIZE;

	if (most > p->limit[ABI_RLIMIT_DATA].cur)
		most = p->limit[ABI_RLIMIT_DATA].cur;
	abi_map_begin(p);
	if (brk >= SKEP_BRK_START && brk - SKEP_BRK_START <= most &&
	    !brk_move(p, ABI_PAGE_UP(s->brk), ABI_PAGE_UP(brk)))
		s->brk = brk;
	brk = s->brk;
	abi_map_end(p);
	return brk;
}

void abi_space_flush(struct abi_proc *p)
{
	u64 start = 0;
	struct abi_area a;

	while (abi_space_next(p, start, &a)) {
		start = a.end;
		if (a.backing && (a.bits & ABI_AREA_SHARED) &&
		    abi_space_sync(p, a.start, a.end - a.start, 0) < 0)
			p->host->log("a shared file mapping could not be "
				     "written back to its file");
	}
}
