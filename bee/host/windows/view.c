// SPDX-License-Identifier: MIT
/*
 * Shared mappings, of files and without: views of sections in a window at the
 * end of ARENA. A view cannot lie inside a reservation, so the window is not
 * reserved; Windows places nothing there by itself.
 *
 * Windows requires address and offset of a view to be multiples of 64 KiB, and
 * a view ends where the file ended when its section was made. So a view begins
 * at the multiple below, and pages that the guest does not map are closed. When
 * the guest touches a page behind the end of a view and the file has grown,
 * a longer view replaces it at the same address. Threads that use the view
 * meanwhile fault, wait for the lock, and try again.
 *
 * Windows keeps a view whole, so the part of a mapping that the guest unmaps
 * is closed, and its addresses are free when all of the view is unmapped.
 *
 * Owns the views and `state`, all guarded by `lock`. Calls with a buffer in the
 * window hold it shared, because Windows' own copying does not try again.
 */
#include "win.h"
#include "view.h"

#define GRANULE 0x10000ull
#define VIEWS 4096
#define LIVE 0x80 /* in state: the guest maps this page; the rest is PROT_* */
#define WINDOW_PAGES ((SKEP_MMAP_END - WIN_WINDOW_START) / SKEP_PAGE_SIZE)

#define O_ACCMODE 3
#define O_RDWR 2

struct view {
	u64 start;  /* a multiple of GRANULE */
	u64 end;    /* of the mapping when it was made; a multiple of a page */
	u64 reach;  /* Windows has pages up to here; start: no view */
	u64 offset; /* of start in the file */
	u64 live;   /* number of pages that the guest maps */
	u32 writable;
	u32 anonymous; /* memory without a file; `file` is its section */
	HANDLE file;   /* its own, because the guest may close the descriptor */
	struct win_file_id id;
};

static SRWLOCK lock = SRWLOCK_INIT;
static struct view view[VIEWS]; /* sorted by start */
static u32 views;		/* also read without the lock */
static u8 *state;		/* the state of each page of the window */

static u64 granule_down(u64 n)
{
	return n & ~(GRANULE - 1);
}

static u64 granule_up(u64 n)
{
	return granule_down(n + GRANULE - 1);
}

static u64 page_up(u64 n)
{
	return (n + SKEP_PAGE_SIZE - 1) & ~(u64)(SKEP_PAGE_SIZE - 1);
}

static u64 u64_min(u64 a, u64 b)
{
	return a < b ? a : b;
}

static u64 u64_max(u64 a, u64 b)
{
	return a > b ? a : b;
}

static u64 page_index(u64 addr)
{
	return (addr - WIN_WINDOW_START) / SKEP_PAGE_SIZE;
}

/* Returns the index of the first view whose granules end after addr. */
static u32 view_index(u64 addr)
{
	u32 low = 0, high = views, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (granule_up(view[mid].end) > addr)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* Logs a message once. `said` belongs to the caller. */
static s64 refuse_once(u32 *said, const char *line, s64 err)
{
	if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED))
		bee_log(line);
	return err;
}

/* Pages -------------------------------------------------------------------- */

static DWORD page_protection(u8 page)
{
	if (page & ABI_PROT_WRITE)
		return PAGE_READWRITE;
	return page & ABI_PROT_READ ? PAGE_READONLY : PAGE_NOACCESS;
}

/*
 * Sets the protection of Windows for [start, end) from `state`, one run of
 * pages at a time.
 */
static s64 protection_apply(const struct view *v, u64 start, u64 end)
{
	u64 at, run;
	DWORD old;

	end = u64_min(end, v->reach);
	for (at = start; at < end; at = run) {
		for (run = at + SKEP_PAGE_SIZE; run < end;
		     run += SKEP_PAGE_SIZE)
			if (state[page_index(run)] != state[page_index(at)])
				break;
		if (!VirtualProtect((void *)at, run - at,
				    page_protection(state[page_index(at)]),
				    &old))
			return bee_win_last();
	}
	return 0;
}

/* Views -------------------------------------------------------------------- */

static s64 section_map(struct view *v, u64 len)
{
	HANDLE section =
		v->anonymous ? v->file
			     : CreateFileMappingW(v->file, NULL,
						  v->writable ? PAGE_READWRITE
							      : PAGE_READONLY,
						  0, 0, NULL);
	s64 err = 0;

	if (!section)
		return bee_win_last();
	if (!MapViewOfFileEx(section,
			     v->writable ? FILE_MAP_WRITE : FILE_MAP_READ,
			     (DWORD)(v->offset >> 32), (DWORD)v->offset, len,
			     (void *)v->start))
		err = bee_win_last();
	if (!v->anonymous)
		CloseHandle(section);
	return err;
}

/*
 * Returns how many bytes of the mapping the file has now, or a negative errno.
 */
static s64 view_length(const struct view *v)
{
	LARGE_INTEGER size;

	if (v->anonymous)
		return (s64)(v->end - v->start);
	if (!GetFileSizeEx(v->file, &size))
		return bee_win_last();
	if ((u64)size.QuadPart <= v->offset)
		return 0;
	return (s64)u64_min((u64)size.QuadPart - v->offset, v->end - v->start);
}

/* Maps the view up to the page in which the file ends now. */
static s64 view_open(struct view *v)
{
	s64 len = view_length(v), err;

	v->reach = v->start;
	if (len <= 0)
		return len;
	err = section_map(v, (u64)len);
	if (err)
		return err;
	v->reach = v->start + page_up((u64)len);
	return protection_apply(v, v->start, v->reach);
}

static void view_close(struct view *v)
{
	if (v->reach > v->start)
		UnmapViewOfFile((void *)v->start);
	v->reach = v->start;
}

static void view_drop(struct view *v)
{
	u32 i = (u32)(v - view);

	view_close(v);
	CloseHandle(v->file);
	memmove(v, v + 1, (views - i - 1) * sizeof(*v));
	__atomic_store_n(&views, views - 1, __ATOMIC_RELAXED);
}

/* Inserts the view into the array, which stays sorted. */
static struct view *view_add(const struct view *new)
{
	u32 i = view_index(new->start);

	memmove(&view[i + 1], &view[i], (views - i) * sizeof(*new));
	view[i] = *new;
	__atomic_store_n(&views, views + 1, __ATOMIC_RELAXED);
	return &view[i];
}

/* Places ------------------------------------------------------------------- */

/* Returns the first gap of this length; 0: there is none. */
static u64 gap_find(u64 len)
{
	u64 at = WIN_WINDOW_START;
	u32 i;

	for (i = 0; i < views; i++) {
		if (view[i].start - at >= len)
			return at;
		at = granule_up(view[i].end);
	}
	return SKEP_MMAP_END - at >= len ? at : 0;
}

/*
 * Returns whether [start, end) contains all pages of the view that the guest
 * maps, so that the view can be unmapped.
 */
static int gives_way(const struct view *v, u64 start, u64 end)
{
	u64 at, live = 0;

	for (at = u64_max(start, v->start); at < u64_min(end, v->end);
	     at += SKEP_PAGE_SIZE)
		live += !!state[page_index(at)];
	return live == v->live;
}

static int is_placeable(const struct abi_mem_file *m)
{
	u64 end = m->addr + m->len;
	u32 i;

	if (m->addr < WIN_WINDOW_START || end > SKEP_MMAP_END ||
	    (m->addr ^ m->offset) & (GRANULE - 1))
		return 0;
	for (i = view_index(granule_down(m->addr));
	     i < views && view[i].start < end; i++)
		if (!gives_way(&view[i], m->addr, end))
			return 0;
	return 1;
}

static s64 file_check(const struct win_handle *h)
{
	static u32 said;
	FILE_REMOTE_PROTOCOL_INFO remote;

	if (!h || h->kind != WIN_FILE)
		return -LINUX_ENODEV;
	if (!GetFileInformationByHandleEx(h->h, FileRemoteProtocolInfo, &remote,
					  sizeof(remote)))
		return 0;
	return refuse_once(
		&said,
		"mmap with MAP_SHARED refused (ENODEV): the file is on a "
		"network share, where other computers would not see stores",
		-LINUX_ENODEV);
}

s64 bee_view_place(const struct abi_mem_file *m)
{
	static u32 said_fixed, said_full;
	u64 shift = m->offset & (GRANULE - 1), at = 0;
	s64 err = m->handle == -1 ? 0 : file_check(bee_handle_get(m->handle));

	if (err)
		return err;
	AcquireSRWLockShared(&lock);
	if (m->addr)
		at = is_placeable(m) ? m->addr : 0;
	else if (views < VIEWS)
		at = gap_find(granule_up(shift + m->len));
	ReleaseSRWLockShared(&lock);
	if (at)
		return (s64)(m->addr ? at : at + shift);
	if (m->addr)
		return refuse_once(
			&said_fixed,
			"mmap with MAP_SHARED and MAP_FIXED refused (EINVAL): "
			"Windows maps files only where bee chooses",
			-LINUX_EINVAL);
	return refuse_once(&said_full,
			   "mmap with MAP_SHARED refused (ENOMEM): shared "
			   "mappings of files have 64 GiB of addresses and "
			   "4096 places",
			   -LINUX_ENOMEM);
}

/* What abi calls ----------------------------------------------------------- */

static s64 state_commit(u64 addr, u64 len)
{
	if (!state)
		state = VirtualAlloc(NULL, WINDOW_PAGES, MEM_RESERVE,
				     PAGE_READWRITE);
	if (!state ||
	    !VirtualAlloc(state + page_index(addr), len / SKEP_PAGE_SIZE,
			  MEM_COMMIT, PAGE_READWRITE))
		return -LINUX_ENOMEM;
	return 0;
}

/* A section in the page file, which a child inherits; no file has its id. */
static s64 section_fill(struct view *v)
{
	u64 len = v->end - v->start;
	s64 err = bee_random(&v->id, sizeof(v->id));

	v->writable = v->anonymous = 1;
	v->offset = 0;
	v->id.volume |= 1ull << 63;
	if (err)
		return err;
	v->file = CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE,
				     (DWORD)(len >> 32), (DWORD)len, NULL);
	return v->file ? 0 : bee_win_last();
}

static s64 view_fill(struct view *v, const struct abi_mem_file *m)
{
	struct win_handle *h = bee_handle_get(m->handle);
	HANDLE self = GetCurrentProcess();
	s64 err;

	v->start = granule_down(m->addr);
	v->end = m->addr + m->len;
	v->reach = v->start;
	v->live = m->len / SKEP_PAGE_SIZE;
	if (m->handle == -1)
		return section_fill(v);
	if (!h)
		return -LINUX_EBADF;
	v->offset = granule_down(m->offset);
	v->anonymous = 0;
	v->writable = (h->flags & O_ACCMODE) == O_RDWR;
	err = bee_file_identify(h->h, &v->id);
	if (err)
		return err;
	if (!DuplicateHandle(self, h->h, self, &v->file, 0, FALSE,
			     DUPLICATE_SAME_ACCESS))
		return bee_win_last();
	return 0;
}

s64 bee_view_map(const struct abi_mem_file *m)
{
	struct view new, *v;
	s64 err;

	if (!m->shared || m->prot & ABI_PROT_EXEC)
		return -LINUX_EINVAL;
	AcquireSRWLockExclusive(&lock);
	err = views < VIEWS ? state_commit(granule_down(m->addr),
					   granule_up(m->addr + m->len) -
						   granule_down(m->addr))
			    : -LINUX_ENOMEM;
	if (!err)
		err = view_fill(&new, m);
	if (!err) {
		v = view_add(&new);
		memset(state + page_index(m->addr), LIVE | (u8)m->prot,
		       new.live);
		err = view_open(v);
		if (err) {
			memset(state + page_index(m->addr), 0, new.live);
			view_drop(v);
		}
	}
	ReleaseSRWLockExclusive(&lock);
	return err;
}

s64 bee_view_protect(u64 addr, u64 len, u32 prot)
{
	u64 start, stop, end = addr + len;
	s64 err = 0;
	u32 i;

	AcquireSRWLockExclusive(&lock);
	for (i = view_index(addr); !err && i < views && view[i].start < end;
	     i++) {
		start = u64_max(addr, view[i].start);
		stop = u64_min(end, view[i].end);
		if (start >= stop)
			continue;
		memset(state + page_index(start), LIVE | (u8)prot,
		       page_index(stop) - page_index(start));
		err = protection_apply(&view[i], start, stop);
	}
	ReleaseSRWLockExclusive(&lock);
	return err;
}

/* 1: the guest maps no page of the view any more. */
static int part_release(struct view *v, u64 start, u64 end)
{
	u64 at;

	for (at = start; at < end; at += SKEP_PAGE_SIZE) {
		v->live -= !!state[page_index(at)];
		state[page_index(at)] = 0;
	}
	if (v->live)
		return 0;
	view_drop(v);
	return 1;
}

s64 bee_view_release(u64 addr, u64 len)
{
	u64 start, stop, end = addr + len;
	s64 err = 0;
	u32 i;

	AcquireSRWLockExclusive(&lock);
	i = view_index(addr);
	while (!err && i < views && view[i].start < end) {
		start = u64_max(addr, view[i].start);
		stop = u64_min(end, view[i].end);
		if (start < stop && part_release(&view[i], start, stop))
			continue;
		if (start < stop)
			err = protection_apply(&view[i], start, stop);
		i++;
	}
	ReleaseSRWLockExclusive(&lock);
	return err;
}

/* The file may have grown, or another program may have truncated it. */
static s64 view_renew(struct view *v, u64 wanted)
{
	s64 len = view_length(v), err;
	u64 end;

	if (len < 0)
		return -LINUX_EFAULT;
	end = v->start + page_up((u64)len);
	if (end > v->reach) {
		view_close(v);
		err = view_open(v);
		if (err)
			return err;
	}
	return wanted <= u64_min(end, v->reach) ? 0 : -LINUX_EFAULT;
}

s64 bee_view_reach(u64 addr, u64 len, u32 fault)
{
	u64 end = addr + len, stop;
	s64 err = 0;
	u32 i;

	AcquireSRWLockShared(&lock);
	for (i = view_index(addr); !err && !fault && addr < end; i++) {
		if (i == views || view[i].start > addr)
			err = -LINUX_EFAULT;
		else if (u64_min(end, view[i].end) > view[i].reach)
			fault = 1;
		else
			addr = view[i].end;
	}
	ReleaseSRWLockShared(&lock);
	if (err || !fault)
		return err;
	AcquireSRWLockExclusive(&lock);
	for (i = view_index(addr); !err && addr < end; i++) {
		stop = i < views ? u64_min(end, view[i].end) : 0;
		if (!stop || view[i].start > addr)
			err = -LINUX_EFAULT;
		else
			err = view_renew(&view[i], stop);
		addr = stop;
	}
	ReleaseSRWLockExclusive(&lock);
	return err;
}

static s64 view_flush(const struct view *v, u64 start, u64 end)
{
	end = u64_min(end, v->reach);
	if (start >= end || !v->writable)
		return 0;
	return FlushViewOfFile((void *)start, end - start) ? 0 : bee_win_last();
}

s64 bee_view_sync(u64 addr, u64 len)
{
	u64 end = addr + len;
	s64 err = 0;
	u32 i;

	AcquireSRWLockShared(&lock);
	for (i = view_index(addr); !err && i < views && view[i].start < end;
	     i++)
		err = view_flush(&view[i], u64_max(addr, view[i].start),
				 u64_min(end, view[i].end));
	ReleaseSRWLockShared(&lock);
	return err;
}

/* The memory at an address, as all processes name it ------------------------
 */

int bee_view_word(u64 addr, struct win_file_id *id, u64 *offset)
{
	int found = 0;
	u32 i;

	AcquireSRWLockShared(&lock);
	i = view_index(addr);
	if (i < views && view[i].start <= addr && addr < view[i].end) {
		*id = view[i].id;
		*offset = view[i].offset + (addr - view[i].start);
		found = 1;
	}
	ReleaseSRWLockShared(&lock);
	return found;
}

/* A copy ------------------------------------------------------------------- */

u32 bee_view_count(void)
{
	return views;
}

HANDLE bee_view_handle(u32 i)
{
	return view[i].file;
}

static u64 state_size(const struct view *v)
{
	return (v->end - v->start) / SKEP_PAGE_SIZE;
}

u64 bee_view_save_size(void)
{
	u64 size = sizeof(views);
	u32 i;

	for (i = 0; i < views; i++)
		size += sizeof(*view) + state_size(&view[i]);
	return size;
}

void bee_view_save(u8 *to, const HANDLE *handles)
{
	struct view v;
	u32 i;

	memcpy(to, &views, sizeof(views));
	to += sizeof(views);
	for (i = 0; i < views; i++) {
		v = view[i];
		v.file = handles[i];
		memcpy(to, &v, sizeof(v));
		to += sizeof(v);
		memcpy(to, state + page_index(view[i].start),
		       state_size(&view[i]));
		to += state_size(&view[i]);
	}
}

s64 bee_view_restore(const u8 *from)
{
	u32 i, n;
	s64 err = 0;

	memcpy(&n, from, sizeof(n));
	from += sizeof(n);
	AcquireSRWLockExclusive(&lock);
	for (i = 0; i < n && !err; i++) {
		struct view *v = &view[i];

		memcpy(v, from, sizeof(*v));
		from += sizeof(*v);
		SetHandleInformation(v->file, HANDLE_FLAG_INHERIT, 0);
		err = state_commit(v->start, granule_up(v->end) - v->start);
		if (err)
			break;
		memcpy(state + page_index(v->start), from, state_size(v));
		from += state_size(v);
		views = i + 1;
		err = view_open(v);
	}
	ReleaseSRWLockExclusive(&lock);
	return err;
}

/* Files that have views ---------------------------------------------------- */

s64 bee_view_flush(HANDLE h)
{
	struct win_file_id id;
	s64 err;
	u32 i;

	if (!__atomic_load_n(&views, __ATOMIC_RELAXED))
		return 0;
	err = bee_file_identify(h, &id);
	AcquireSRWLockShared(&lock);
	for (i = 0; !err && i < views; i++)
		if (bee_file_same(&view[i].id, &id))
			err = view_flush(&view[i], view[i].start, view[i].end);
	ReleaseSRWLockShared(&lock);
	return err;
}

static s64 size_set(HANDLE h, u64 len)
{
	static u32 said;
	FILE_END_OF_FILE_INFO end = {.EndOfFile.QuadPart = (LONGLONG)len};

	if (SetFileInformationByHandle(h, FileEndOfFileInfo, &end, sizeof(end)))
		return 0;
	if (GetLastError() != ERROR_USER_MAPPED_FILE)
		return bee_win_last();
	return refuse_once(&said,
			   "truncation of a file refused (ETXTBSY): another "
			   "program has it mapped, and Windows then lets no "
			   "file become shorter",
			   -LINUX_ETXTBSY);
}

/*
 * Windows does not truncate a file that has views, so bee's views are unmapped
 * before and mapped again afterwards.
 */
s64 bee_view_truncate(HANDLE h, u64 len)
{
	struct win_file_id id;
	s64 err, again;
	u32 i;

	if (!__atomic_load_n(&views, __ATOMIC_RELAXED))
		return size_set(h, len);
	err = bee_file_identify(h, &id);
	if (err)
		return err;
	AcquireSRWLockExclusive(&lock);
	for (i = 0; i < views; i++)
		if (bee_file_same(&view[i].id, &id) &&
		    view[i].offset + (view[i].reach - view[i].start) > len)
			view_close(&view[i]);
	err = size_set(h, len);
	for (i = 0; i < views; i++)
		if (bee_file_same(&view[i].id, &id) &&
		    view[i].reach == view[i].start) {
			again = view_open(&view[i]);
			err = err ? err : again;
		}
	ReleaseSRWLockExclusive(&lock);
	return err;
}

int bee_view_hold(const void *buf)
{
	u64 addr = (u64)(ULONG_PTR)buf;

	if (addr < WIN_WINDOW_START || addr >= SKEP_MMAP_END)
		return 0;
	AcquireSRWLockShared(&lock);
	return 1;
}

void bee_view_unhold(int held)
{
	if (held)
		ReleaseSRWLockShared(&lock);
}
