// SPDX-License-Identifier: MIT
/*
 * LockFileEx keeps others from reading and writing, so bee's locks are not
 * Windows' locks. But programs that share a file by locks of bytes that are
 * never transferred must see each other, native or not. There are two such
 * ranges, both of SQLite's file format: the lock bytes of a database (its page
 * at 1 GiB is never used) and those of a file whose name ends in -shm.
 *
 * Windows' locks belong to an open file, so a process has one of its own for
 * each such file, which exists as long as it holds a lock there. They neither
 * split nor merge and cannot change their kind: a range that changes is
 * unlocked and what is left of it locked again. SQLite holds the pending byte
 * then, so no other program gets the lock in between.
 *
 * Owns `files`, which bee_filelock guards.
 */
#include "lockmirror.h"

#define DATABASE_FIRST 0x40000000ull /* pending, reserved, 510 shared */
#define DATABASE_LAST 0x400001ffull
#define SHM_FIRST 120
#define SHM_LAST 128

struct mirror {
	struct win_file_id id;
	HANDLE h; /* NULL: the entry is free */
	u32 count;
	struct lockmirror_range
		range[LOCKMIRROR_RANGES]; /* Windows' locks; they do not overlap
					   */
};

static struct mirror files[LOCKMIRROR_FILES];

static s64 say_once(u32 *said, const char *line)
{
	if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED))
		bee_log(line);
	return 0;
}

/* Windows ------------------------------------------------------------------ */

static s64 range_lock(HANDLE h, const struct lockmirror_range *r)
{
	static u32 said;
	OVERLAPPED at = {.Offset = (DWORD)r->first,
			 .OffsetHigh = (DWORD)(r->first >> 32)};
	DWORD how = LOCKFILE_FAIL_IMMEDIATELY, error;

	if (r->type == ABI_FILELOCK_WRITE)
		how |= LOCKFILE_EXCLUSIVE_LOCK;
	if (LockFileEx(h, how, 0, (DWORD)(r->last - r->first + 1), 0, &at))
		return 0;
	error = GetLastError();
	if (error == ERROR_LOCK_VIOLATION || error == ERROR_IO_PENDING)
		return -LINUX_EAGAIN;
	say_once(&said, "locks of a file are not seen by native programs: its "
			"file system refuses LockFileEx");
	return 0;
}

static void range_unlock(HANDLE h, const struct lockmirror_range *r)
{
	OVERLAPPED at = {.Offset = (DWORD)r->first,
			 .OffsetHigh = (DWORD)(r->first >> 32)};

	UnlockFileEx(h, 0, (DWORD)(r->last - r->first + 1), 0, &at);
}

/* Locks again what this process had unlocked for a short time. */
static void range_relock(HANDLE h, const struct lockmirror_range *r)
{
	static u32 said;

	if (r->first <= r->last && range_lock(h, r))
		say_once(&said, "a native program took a file lock while bee "
				"changed its own: both hold it now");
}

/* Ranges ------------------------------------------------------------------- */

static int ranges_overlap(const struct lockmirror_range *a,
			  const struct lockmirror_range *b)
{
	return a->first <= b->last && b->first <= a->last;
}

/*
 * The parts of `old` before, inside and after `r`. A part is empty if first >
 * last.
 */
static void range_split(const struct lockmirror_range *old,
			const struct lockmirror_range *r,
			struct lockmirror_range part[3])
{
	u64 first = old->first > r->first ? old->first : r->first;
	u64 last = old->last < r->last ? old->last : r->last;

	part[0] = (struct lockmirror_range){old->first, first - 1, old->type};
	part[1] = (struct lockmirror_range){first, last, old->type};
	part[2] = (struct lockmirror_range){last + 1, old->last, old->type};
}

static void range_add(struct mirror *m, const struct lockmirror_range *r)
{
	if (r->first <= r->last && r->type != ABI_FILELOCK_NONE)
		m->range[m->count++] = *r;
}

/*
 * Unlocks all ranges that overlap `r`, and locks their parts outside `r` again.
 * Then locks `r`; if that fails, it restores the old locks.
 */
static s64 ranges_change(struct mirror *m, const struct lockmirror_range *r)
{
	struct mirror old = *m;
	struct lockmirror_range part[3];
	s64 err = 0;
	u32 i;

	if (old.count + 3 > LOCKMIRROR_RANGES)
		return -LINUX_ENOLCK;
	m->count = 0;
	for (i = 0; i < old.count; i++) {
		if (!ranges_overlap(&old.range[i], r)) {
			range_add(m, &old.range[i]);
			continue;
		}
		range_unlock(m->h, &old.range[i]);
		range_split(&old.range[i], r, part);
		range_relock(m->h, &part[0]);
		range_relock(m->h, &part[2]);
		range_add(m, &part[0]);
		range_add(m, &part[2]);
	}
	if (r->type != ABI_FILELOCK_NONE)
		err = range_lock(m->h, r);
	if (!err) {
		range_add(m, r);
		return 0;
	}
	for (i = 0; i < old.count; i++) {
		if (!ranges_overlap(&old.range[i], r))
			continue;
		range_split(&old.range[i], r, part);
		range_relock(m->h, &part[1]);
		range_add(m, &part[1]);
	}
	return err;
}

/* Files -------------------------------------------------------------------- */

static int name_is_shm(HANDLE h)
{
	WCHAR path[WIN_PATH_MAX];
	DWORD n = GetFinalPathNameByHandleW(h, path, WIN_PATH_MAX, 0);

	return n > 4 && n < WIN_PATH_MAX && !wcsncmp(path + n - 4, L"-shm", 5);
}

/* Returns the part of `want` that is mirrored; 0: there is none. */
static int range_mirrored(struct win_handle *h, const struct lock_entry *want,
			  struct lockmirror_range *r)
{
	u64 first = DATABASE_FIRST, last = DATABASE_LAST;

	if (want->kind != ABI_FILELOCK_RECORD)
		return 0;
	*r = (struct lockmirror_range){want->first, want->last, want->type};
	if (r->first <= SHM_LAST && r->last >= SHM_FIRST && name_is_shm(h->h)) {
		first = SHM_FIRST;
		last = SHM_LAST;
	}
	/* Other bytes have no mirror, and need none to be unlocked. */
	if (want->type == ABI_FILELOCK_NONE) {
		r->first = r->first > first ? r->first : first;
		r->last = r->last < last ? r->last : last;
	}
	return r->first >= first && r->last <= last && r->first <= r->last;
}

static struct mirror *mirror_find(const struct win_file_id *id)
{
	u32 i;

	for (i = 0; i < LOCKMIRROR_FILES; i++)
		if (files[i].h && bee_file_same(&files[i].id, id))
			return &files[i];
	return NULL;
}

/*
 * The file is opened separately, so that its locks remain if the program closes
 * its handle.
 */
static struct mirror *mirror_new(struct win_handle *h)
{
	static u32 said;
	u32 i;

	for (i = 0; i < LOCKMIRROR_FILES; i++)
		if (!files[i].h)
			break;
	if (i < LOCKMIRROR_FILES)
		files[i].h = ReOpenFile(h->h, GENERIC_READ,
					FILE_SHARE_READ | FILE_SHARE_WRITE |
						FILE_SHARE_DELETE,
					0);
	if (i < LOCKMIRROR_FILES && files[i].h != INVALID_HANDLE_VALUE) {
		files[i].id = h->lock_file;
		files[i].count = 0;
		return &files[i];
	}
	if (i < LOCKMIRROR_FILES)
		files[i].h = NULL;
	say_once(&said, "locks of a file are not seen by native programs: it "
			"cannot be opened once more, or 128 others are locked");
	return NULL;
}

static void mirror_close(struct mirror *m)
{
	CloseHandle(m->h);
	m->h = NULL;
}

s64 lockmirror_set(struct win_handle *h, const struct lock_entry *want)
{
	struct mirror *m = mirror_find(&h->lock_file);
	struct lockmirror_range r;
	s64 err;

	bee_filelock_assert();
	if (!m && want->type == ABI_FILELOCK_NONE)
		return 0;
	if (!range_mirrored(h, want, &r))
		return 0;
	if (!m)
		m = mirror_new(h);
	if (!m)
		return 0;
	err = ranges_change(m, &r);
	if (!m->count)
		mirror_close(m);
	return err;
}

int lockmirror_is_taken(struct win_handle *h, const struct lock_entry *want)
{
	struct mirror *m;
	struct lockmirror_range r;
	int taken;
	u32 i;

	bee_filelock_assert();
	if (want->type == ABI_FILELOCK_NONE || !range_mirrored(h, want, &r))
		return 0;
	m = mirror_find(&h->lock_file);
	for (i = 0; m && i < m->count; i++)
		if (ranges_overlap(&m->range[i], &r))
			return 0;
	if (!m)
		m = mirror_new(h);
	if (!m)
		return 0;
	taken = range_lock(m->h, &r) != 0;
	if (!taken)
		range_unlock(m->h, &r);
	if (!m->count)
		mirror_close(m);
	return taken;
}

/* execve ------------------------------------------------------------------- */

int lockmirror_save(const struct win_handle *h, struct lockmirror_saved *to)
{
	const struct mirror *m = mirror_find(&h->lock_file);

	bee_filelock_assert();
	if (!m)
		return 0;
	to->count = m->count;
	memcpy(to->range, m->range, sizeof(to->range));
	return 1;
}

void lockmirror_restore(struct win_handle *h,
			const struct lockmirror_saved *from)
{
	struct mirror *m = mirror_new(h);
	u32 i;

	bee_filelock_assert();
	for (i = 0; m && i < from->count && i < LOCKMIRROR_RANGES; i++) {
		range_relock(m->h, &from->range[i]);
		range_add(m, &from->range[i]);
	}
}
