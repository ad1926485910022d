// SPDX-License-Identifier: MIT
/*
 * fork: a new bee.exe gets a copy of this process in a section and goes on in
 * the guest's child. Its addresses are the same, because bee.exe has a fixed
 * base and ARENA a fixed place; if ARENA is taken there, another process is
 * tried. Only pages that are not zero are copied. Meanwhile abi holds all of
 * its locks, and the guest's other threads stand still; while the process
 * starts, they go on. Owns `copy`, and in the child `ready`.
 *
 * The section is a struct win_spawn, and in `state` struct head, then blocks in
 * the order in which both sides name them. A block of memory is a struct region
 * and for each run of pages its address, its length and its bytes; an empty run
 * ends it.
 */
#include "spawn.h"
#include "view.h"
#include "abi/include/fork.h"
#include "abi/include/page.h"
#include "bee/core/image.h"

#define TRIES 3
#define PAGE SKEP_PAGE_SIZE
#define NO_REGION 0 /* `start` of the last one */

struct head {
	u64 ready;		 /* an event: the child goes on */
	u64 views, images, proc; /* offsets in the section of what follows */
	u64 tp, canary;		 /* as bee.canary_tp and bee.canary */
};

/* Committed memory of one protection. */
struct region {
	u64 start, end;
	u32 prot; /* PAGE_* */
};

struct run {
	u64 addr, len;
};

static HANDLE ready;

/* From bee_fork_copy to bee_fork_start; bee_spawn_lock guards it. */
static struct {
	HANDLE section, ready;
	struct win_spawn *e;
	u32 views;
	HANDLE view[WIN_VIEWS_COPIED]; /* the child's */
} copy;

/* Memory -------------------------------------------------------------------
 */

static int in_image(u64 addr)
{
	return addr >= SKEP_IMAGE_START && addr < SKEP_IMAGE_END;
}

/* Pages of IMAGE that were never used are like those of the child. */
static int is_used(const struct region *r)
{
	u64 at;

	if (!in_image(r->start) || r->prot != PAGE_READONLY)
		return 1;
	for (at = r->start; at < r->end; at += PAGE)
		if (bee_mem_page_touched(at))
			return 1;
	return 0;
}

/* The next region of [*at, end) that must be copied. 0: there is none. */
static int region_next(u64 *at, u64 end, struct region *r)
{
	MEMORY_BASIC_INFORMATION m;

	while (*at < end && VirtualQuery((void *)*at, &m, sizeof(m))) {
		r->start = *at;
		r->end = (u64)m.BaseAddress + m.RegionSize;
		if (r->end > end)
			r->end = end;
		*at = r->end;
		r->prot = m.Protect == PAGE_WRITECOPY ? PAGE_READWRITE
						      : m.Protect;
		if (m.State == MEM_COMMIT && is_used(r))
			return 1;
	}
	return 0;
}

static const u64 range[][2] = {
	{SKEP_IMAGE_START, SKEP_IMAGE_END},
	{SKEP_ARENA_START, WIN_WINDOW_START},
};
#define RANGES (sizeof(range) / sizeof(range[0]))

/* An upper bound of what regions_save writes. */
static u64 regions_size(void)
{
	struct region r;
	u64 at, size = sizeof(r);
	u32 i;

	for (i = 0; i < RANGES; i++)
		for (at = range[i][0]; region_next(&at, range[i][1], &r);)
			size += sizeof(r) + sizeof(struct run) +
				(r.end - r.start) / PAGE *
					(PAGE + sizeof(struct run));
	return size;
}

static int is_copied(u64 page, int guest)
{
	if (guest && in_image(page) && !bee_mem_page_touched(page))
		return 0;
	return !abi_page_is_zero((const void *)page);
}

/* Writes the runs of [start, end); `base` is subtracted from addresses. */
static u8 *runs_save(u8 *to, u64 start, u64 end, u64 base)
{
	struct run run;
	u64 at = start, stop;

	while (at < end) {
		for (stop = at; stop < end && is_copied(stop, !base);
		     stop += PAGE)
			;
		run = (struct run){at - base, stop - at};
		if (run.len) {
			memcpy(to, &run, sizeof(run));
			memcpy(to + sizeof(run), (void *)at, run.len);
			to += sizeof(run) + run.len;
		}
		at = stop + PAGE;
	}
	run = (struct run){0, 0};
	memcpy(to, &run, sizeof(run));
	return to + sizeof(run);
}

static const u8 *runs_restore(const u8 *from, u64 base)
{
	struct run run;

	for (;;) {
		memcpy(&run, from, sizeof(run));
		from += sizeof(run);
		if (!run.len)
			return from;
		memcpy((void *)(run.addr + base), from, run.len);
		from += run.len;
	}
}

/* Other threads stand still, so nothing misses the right to read that a region
 * has for a moment. */
static u8 *region_save(u8 *to, const struct region *r)
{
	int closed = r->prot == PAGE_NOACCESS;
	DWORD old;

	if (closed && !VirtualProtect((void *)r->start, r->end - r->start,
				      PAGE_READONLY, &old))
		return to;
	memcpy(to, r, sizeof(*r));
	to = runs_save(to + sizeof(*r), r->start, r->end, 0);
	if (closed)
		VirtualProtect((void *)r->start, r->end - r->start, r->prot,
			       &old);
	return to;
}

static u8 *regions_save(u8 *to)
{
	struct region r;
	u64 at;
	u32 i;

	for (i = 0; i < RANGES; i++)
		for (at = range[i][0]; region_next(&at, range[i][1], &r);)
			to = region_save(to, &r);
	r = (struct region){.start = NO_REGION};
	memcpy(to, &r, sizeof(r));
	return to + sizeof(r);
}

static int region_open(const struct region *r)
{
	DWORD old;

	if (in_image(r->start))
		return VirtualProtect((void *)r->start, r->end - r->start,
				      PAGE_READWRITE, &old);
	return bee_mem_open(r->start, r->end - r->start);
}

static int regions_restore(const u8 *from)
{
	struct region r;
	DWORD old;

	for (;;) {
		memcpy(&r, from, sizeof(r));
		from += sizeof(r);
		if (r.start == NO_REGION)
			return 0;
		if (!region_open(&r))
			return (int)GetLastError();
		from = runs_restore(from, 0);
		if (r.prot != PAGE_READWRITE &&
		    !VirtualProtect((void *)r.start, r.end - r.start, r.prot,
				    &old))
			return (int)GetLastError();
	}
}

/* abi's data, whose parts begin anywhere ------------------------------------
 */

static u64 proc_size(void)
{
	u64 offset, len, size = 0;
	u32 i;

	for (i = 0; abi_fork_part(bee.proc, i, &offset, &len); i++)
		size += sizeof(struct run) +
			(len / PAGE + 2) * (PAGE + sizeof(struct run));
	return size;
}

/* Ends of parts are copied as they are, whole pages between only if used. */
static u8 *part_save(u8 *to, u64 offset, u64 len)
{
	u64 base = (u64)bee.proc, start = base + offset, end = start + len;
	u64 first = (start + PAGE - 1) & ~(u64)(PAGE - 1);
	u64 last = end & ~(u64)(PAGE - 1);
	struct run edge[2] = {{offset, first - start},
			      {last - base, end - last}};
	u32 i;

	if (first > last) {
		edge[0].len = len;
		edge[1].len = 0;
		first = last = start;
	}
	for (i = 0; i < 2; i++) {
		if (!edge[i].len)
			continue;
		memcpy(to, &edge[i], sizeof(edge[i]));
		memcpy(to + sizeof(edge[i]), (void *)(base + edge[i].addr),
		       edge[i].len);
		to += sizeof(edge[i]) + edge[i].len;
	}
	return runs_save(to, first, last, base);
}

static u8 *proc_save(u8 *to)
{
	u64 offset, len;
	u32 i;

	for (i = 0; abi_fork_part(bee.proc, i, &offset, &len); i++)
		to = part_save(to, offset, len);
	return to;
}

static const u8 *proc_restore(const u8 *from)
{
	u64 offset, len;
	u32 i;

	bee.proc = bee_os_alloc(abi_proc_size());
	for (i = 0; bee.proc && abi_fork_part(bee.proc, i, &offset, &len); i++)
		from = runs_restore(from, (u64)bee.proc);
	return bee.proc ? from : NULL;
}

/* The parent --------------------------------------------------------------- */

static s64 refuse_fork(const char *line, s64 error)
{
	static u32 said;

	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		bee_os_message(line);
	return error;
}

static s64 pass_handles(struct win_spawn *e)
{
	s32 number;
	u32 i;

	for (i = 0; (number = abi_fork_handle(bee.proc, i)) != -2; i++)
		if (number >= 0 && bee_spawn_pass(e, number))
			return refuse_fork(
				"fork refused (ENOSYS): a two-way stream or "
				"more than 128 sockets are open, which a child "
				"cannot share; close them, or use posix_spawn",
				-LINUX_ENOSYS);
	bee_spawn_error(e, abi_fork_number(bee.proc, 2));
	return 0;
}

static u64 image_pages_size(void)
{
	u64 len;

	bee_mem_touched(&len);
	return len;
}

static u64 copy_size(void)
{
	return sizeof(struct win_spawn) + sizeof(struct head) +
	       image_pages_size() + bee_view_save_size() + bee_images_size() +
	       proc_size() + regions_size();
}

/* Fills `state` with all that does not change; the caller has stopped the other
 * threads. */
static void copy_fill(struct win_spawn *e)
{
	struct head *h = (void *)e->state;
	u8 *base = (u8 *)e, *at = (u8 *)(h + 1);
	u64 len;
	const u8 *touched = bee_mem_touched(&len);

	h->tp = abi_thread_tp(bee.proc, bee_thread_index());
	h->canary = bee_slots_canary();
	memcpy(at, touched, len);
	at += len;
	h->views = (u64)(at - base);
	bee_view_save(at, copy.view);
	at += bee_view_save_size();
	h->images = (u64)(at - base);
	bee_images_save(at);
	at += bee_images_size();
	h->proc = (u64)(at - base);
	regions_save(proc_save(at));
}

/* Starts the process once. 1: it goes on; 0: it has ended before. */
static s64 start_child(struct win_start *s, s32 pid)
{
	HANDLE both[2] = {copy.ready, NULL};
	WCHAR program[WIN_PATH_MAX];
	DWORD first;
	s64 err;
	u32 i;

	s->count = 0;
	wcscpy(program, L"forked");
	bee_spawn_add(s, copy.ready);
	for (i = 0; i < copy.views; i++)
		bee_spawn_add(s, copy.view[i]);
	err = bee_spawn_start(s, copy.section, copy.e, program, pid, 0);
	if (err)
		return err;
	both[1] = s->info.hProcess;
	if (bee_spawn_sockets(copy.e, s->info.dwProcessId))
		TerminateProcess(s->info.hProcess, 1);
	else
		ResumeThread(s->info.hThread);
	first = WaitForMultipleObjects(2, both, FALSE, INFINITE);
	CloseHandle(s->info.hThread);
	CloseHandle(s->info.hProcess);
	return first == WAIT_OBJECT_0;
}

static s64 start_somehow(struct win_start *s, s32 pid)
{
	s64 rc = 0;
	u32 i;

	for (i = 0; i < TRIES && !rc; i++)
		rc = start_child(s, pid);
	if (rc == 1)
		return 0;
	if (rc < 0)
		return refuse_fork("fork refused (EAGAIN): Windows starts no "
				   "other bee.exe",
				   -LINUX_EAGAIN);
	return refuse_fork("fork refused (EAGAIN): no process could be started "
			   "that has the same addresses free",
			   -LINUX_EAGAIN);
}

static void copy_drop(void)
{
	u32 i;

	for (i = 0; i < copy.views; i++)
		CloseHandle(copy.view[i]);
	if (copy.e)
		UnmapViewOfFile(copy.e);
	if (copy.ready)
		CloseHandle(copy.ready);
	if (copy.section)
		CloseHandle(copy.section);
	memset(&copy, 0, sizeof(copy));
}

/* Views that the guest unmaps before the child has started stay open here. */
static s64 views_hold(void)
{
	HANDLE self = GetCurrentProcess();

	if (bee_view_count() > WIN_VIEWS_COPIED)
		return refuse_fork("fork refused (ENOMEM): more than 512 "
				   "shared mappings",
				   -LINUX_ENOMEM);
	for (; copy.views < bee_view_count(); copy.views++)
		if (!DuplicateHandle(self, bee_view_handle(copy.views), self,
				     &copy.view[copy.views], 0, TRUE,
				     DUPLICATE_SAME_ACCESS))
			return -LINUX_ENOMEM;
	return 0;
}

static s64 copy_open(void)
{
	SECURITY_ATTRIBUTES inherit = {sizeof(inherit), NULL, TRUE};
	u64 size = copy_size();

	copy.section =
		CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE,
				   (DWORD)(size >> 32), (DWORD)size, NULL);
	if (copy.section)
		copy.e = MapViewOfFile(copy.section, FILE_MAP_WRITE, 0, 0, 0);
	copy.ready = CreateEventW(&inherit, TRUE, FALSE, NULL);
	return copy.e && copy.ready ? 0 : -LINUX_ENOMEM;
}

/* The lock is released by bee_fork_start, unless this fails. */
s64 bee_fork_copy(void)
{
	s64 rc;

	bee_spawn_lock();
	rc = views_hold();
	if (!rc)
		rc = copy_open();
	if (!rc)
		rc = pass_handles(copy.e);
	if (rc) {
		copy_drop();
		bee_spawn_unlock();
		return rc;
	}
	((struct head *)(void *)copy.e->state)->ready = (u64)copy.ready;
	copy.e->forked = 1;
	bee_thread_stop_others();
	copy_fill(copy.e);
	bee_thread_resume_others();
	return 0;
}

s64 bee_fork_start(s32 pid)
{
	struct win_start *s = bee_os_alloc(sizeof(*s));
	s64 rc = s ? start_somehow(s, pid) : -LINUX_ENOMEM;

	bee_os_free(s, sizeof(*s));
	copy_drop();
	bee_spawn_unlock();
	return rc;
}

/* The child ----------------------------------------------------------------
 */

int bee_fork_take(const struct win_spawn *e, const struct abi_host *host)
{
	const struct head *h = (const void *)e->state;
	const u8 *base = (const u8 *)e, *at;
	u64 len;
	u8 *touched = bee_mem_touched(&len);
	int err;

	ready = (HANDLE)h->ready;
	bee.canary_tp = h->tp;
	bee.canary = h->canary;
	SetHandleInformation(ready, HANDLE_FLAG_INHERIT, 0);
	memcpy(touched, h + 1, len);
	if (bee_load_forked(bee.options, host, base + h->images))
		return ERROR_NOT_ENOUGH_MEMORY;
	at = proc_restore(base + h->proc);
	err = at ? regions_restore(at) : ERROR_NOT_ENOUGH_MEMORY;
	if (!err && bee_view_restore(base + h->views))
		err = ERROR_NOT_ENOUGH_MEMORY;
	UnmapViewOfFile(e);
	if (err)
		return err;
	abi_fork_resume(bee.proc, bee_family_pid());
	bee.vec = abi_fork_vec(bee.proc);
	return 0;
}

int bee_fork_ready(void)
{
	int err = bee_family_live();

	if (!err)
		SetEvent(ready);
	CloseHandle(ready);
	return err;
}
