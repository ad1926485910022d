// SPDX-License-Identifier: MIT
/*
 * File locks that all bees of a user see. Windows' own, LockFileEx, keep
 * others from reading and writing, belong to a handle and neither split nor
 * merge, so they cannot stand for Linux's: locks are entries of a table
 * (locktable.h) in a named section, guarded by a named mutex.
 *
 * A waiter has an entry too, and a named event, which each change of that
 * file's locks sets. It also waits for the process that owns the conflicting
 * lock, or looks again now and then if that is an open file (lockowner.h):
 * locks whose owner is gone are dropped by the next process that meets them.
 *
 * bee_filelock guards everything here, and is locked before the mutex. Names
 * are of the session: bees of one user in two sessions do not see each other.
 */
#include "win.h"
#include "family.h"
#include "locktable.h"
#include "lockmirror.h"
#include "lockowner.h"
#include "spawn.h"
#include <stdio.h>

#define TABLE L"locks-2"
#define EVENT_FORMAT L"Local\\skep-bee-lock-1-%lx-%x"
#define RECHECK_MS 1000 /* of an owner whose process cannot be opened */
#define OPEN_MS 50	/* of an open file that other processes may have */
#define NATIVE_MS 20	/* of a native program's lock, which wakes no waiter */

#define O_ACCMODE 3
#define O_WRONLY 1

SRWLOCK bee_filelock = SRWLOCK_INIT;
static HANDLE section, mutex;
static struct locktable *table; /* shared with other processes */
static struct locktable_half own_half;
static struct lock_process this_process;

struct wakeup {
	u32 count;
	struct {
		DWORD pid;
		u32 thread;
	} who[LOCKTABLE_WAITERS];
};

/* The table ---------------------------------------------------------------- */

static u64 birth_of(HANDLE process)
{
	FILETIME made, left, k, u;

	if (!GetProcessTimes(process, &made, &left, &k, &u))
		return 0;
	return (u64)made.dwHighDateTime << 32 | made.dwLowDateTime;
}

/* Runs on the first use. */
static s64 table_open(void)
{
	if (table)
		return 0;
	this_process.pid = GetCurrentProcessId();
	this_process.birth = birth_of(GetCurrentProcess());
	table = bee_user_table(TABLE, sizeof(*table), &section, &mutex);
	if (table)
		return 0;
	bee_log("file locks are refused: the table that all bee processes of a "
		"user share can't be opened");
	return -LINUX_ENOLCK;
}

/* An abandoned mutex does no harm, because the table is always consistent. */
static s64 table_lock(void)
{
	s64 err;

	AcquireSRWLockExclusive(&bee_filelock);
	err = table_open();
	if (!err && WaitForSingleObject(mutex, INFINITE) == WAIT_FAILED)
		err = -LINUX_ENOLCK;
	if (err)
		ReleaseSRWLockExclusive(&bee_filelock);
	else
		locktable_load(&own_half, table);
	return err;
}

static void table_unlock(void)
{
	ReleaseMutex(mutex);
	ReleaseSRWLockExclusive(&bee_filelock);
}

/* Waking ------------------------------------------------------------------- */

/*
 * Collects the waiters for locks of this file. The caller has locked the table.
 */
static void wakeup_collect(struct wakeup *w, const struct lock_file *file)
{
	u32 i;

	bee_filelock_assert();
	for (i = 0; i < own_half.waiters; i++) {
		if (!locktable_same_file(&own_half.waiter[i].want.file, file))
			continue;
		w->who[w->count].pid = own_half.waiter[i].want.process.pid;
		w->who[w->count++].thread = (u32)own_half.waiter[i].thread;
	}
}

static void event_name(WCHAR name[64], DWORD pid, u32 thread)
{
	swprintf(name, 64, EVENT_FORMAT, pid, thread);
}

static void wakeup_send(const struct wakeup *w)
{
	WCHAR name[64];
	HANDLE event;
	u32 i;

	for (i = 0; i < w->count; i++) {
		event_name(name, w->who[i].pid, w->who[i].thread);
		event = OpenEventW(EVENT_MODIFY_STATE, FALSE, name);
		if (!event) /* the process has ended */
			continue;
		SetEvent(event);
		CloseHandle(event);
	}
}

/* Owners that died --------------------------------------------------------- */

/*
 * Returns a handle to wait for; NULL: the process is alive, but cannot be
 * opened.
 */
static HANDLE process_open(const struct lock_process *p, int *dead)
{
	HANDLE h = OpenProcess(SYNCHRONIZE | PROCESS_QUERY_LIMITED_INFORMATION,
			       FALSE, p->pid);

	*dead = !h && GetLastError() == ERROR_INVALID_PARAMETER;
	if (h && (WaitForSingleObject(h, 0) == WAIT_OBJECT_0 ||
		  birth_of(h) != p->birth)) {
		*dead = 1;
		CloseHandle(h);
		h = NULL;
	}
	return h;
}

static int is_dead(const struct lock_process *p)
{
	int dead = 0;
	HANDLE h;

	if (locktable_same_process(p, &this_process))
		return 0;
	h = process_open(p, &dead);
	if (h)
		CloseHandle(h);
	return dead;
}

/* 1: nobody has the lock any more, which the caller drops. */
static int owner_is_dead(const struct lock_entry *e)
{
	return e->kind == ABI_FILELOCK_RECORD ? is_dead(&e->process)
					      : lockowner_is_gone(e->open);
}

static u32 owner_drop(const struct lock_entry *e)
{
	struct lock_entry of = *e;

	return of.kind == ABI_FILELOCK_RECORD
		       ? locktable_drop_process(&own_half, &of.process)
		       : locktable_drop_open(&own_half, of.open);
}

static u32 dead_waiters_drop(void)
{
	struct lock_process p;
	u32 i, n = 0;

	for (i = 0; i < own_half.waiters; i++) {
		p = own_half.waiter[i].want.process;
		if (!is_dead(&p))
			continue;
		n += locktable_drop_process(&own_half, &p);
		i = (u32)-1;
	}
	return n;
}

/* Drops the locks and waits of owners that are gone. Returns how many. */
static u32 dead_locks_drop(void)
{
	struct lock_entry last = {.kind = ABI_FILELOCK_RECORD,
				  .process = this_process};
	u32 i, n = dead_waiters_drop();

	bee_filelock_assert();
	for (i = 0; i < own_half.locks; i++) {
		if (locktable_same_owner(&own_half.lock[i], &last))
			continue;
		last = own_half.lock[i];
		if (!owner_is_dead(&last))
			continue;
		n += owner_drop(&last);
		i = (u32)-1;
	}
	if (n)
		locktable_store(table, &own_half);
	return n;
}

/* Returns a conflicting lock whose owner is alive, or NULL. */
static const struct lock_entry *conflict_find(const struct lock_entry *want)
{
	const struct lock_entry *e;

	bee_filelock_assert();
	while ((e = locktable_conflict(&own_half, want)) && owner_is_dead(e)) {
		owner_drop(e);
		locktable_store(table, &own_half);
	}
	return e;
}

/* The calls ---------------------------------------------------------------- */

/*
 * flock(2) drops the handle's lock before it looks for conflicting ones. A
 * waiter can continue only if a lock was dropped or changed from write to read;
 * `w` says whom to wake.
 */
static s64 set_now(struct win_handle *h, const struct lock_entry *want,
		   struct wakeup *w)
{
	struct lock_entry none = *want;
	u32 had = own_half.locks;
	s64 err;

	bee_filelock_assert();
	w->count = 0;
	none.type = ABI_FILELOCK_NONE;
	if (want->kind == ABI_FILELOCK_FLOCK &&
	    !locktable_set(&own_half, &none))
		locktable_store(table, &own_half);
	if (own_half.locks < had)
		wakeup_collect(w, &want->file);
	if (want->type != ABI_FILELOCK_NONE && conflict_find(want))
		return -LINUX_EAGAIN;
	err = locktable_set(&own_half, want);
	if (err) {
		locktable_load(&own_half, table);
		err = dead_locks_drop() ? locktable_set(&own_half, want) : err;
	}
	if (!err)
		err = lockmirror_set(h, want);
	if (err) {
		locktable_load(&own_half, table);
		return err;
	}
	locktable_store(table, &own_half);
	if (want->type != ABI_FILELOCK_WRITE && !w->count)
		wakeup_collect(w, &want->file);
	return 0;
}

static s64 set_lock(struct win_handle *h, const struct lock_entry *want)
{
	struct wakeup w;
	s64 err = table_lock();

	if (err)
		return err;
	err = set_now(h, want, &w);
	table_unlock();
	wakeup_send(&w);
	return err;
}

static s64 get_lock(struct win_handle *h, const struct lock_entry *want,
		    struct abi_filelock *l)
{
	const struct lock_entry *e;
	s64 err = table_lock();

	if (err)
		return err;
	e = conflict_find(want);
	l->type = ABI_FILELOCK_NONE;
	if (e) {
		l->type = e->type;
		l->first = e->first;
		l->last = e->last;
		l->pid = e->kind == ABI_FILELOCK_RECORD
				 ? bee_family_pid_of(e->process.pid)
				 : -1;
	} else if (lockmirror_is_taken(h, want)) {
		l->type = want->type;
		l->pid = -1;
	}
	table_unlock();
	return 0;
}

/* Waiting ------------------------------------------------------------------ */

static HANDLE event_of(struct win_thread *t)
{
	WCHAR name[64];

	if (!t->event) {
		event_name(name, this_process.pid, t->bee.index);
		t->event = CreateEventW(NULL, FALSE, FALSE, name);
	}
	return t->event;
}

/* What a thread waits for after one look at the table. */
struct holder {
	HANDLE process; /* NULL: it waits until `limit` */
	DWORD limit;
};

/* Adds the thread to the waiters for the owner of the conflicting lock. */
static s64 wait_enter(const struct lock_waiter *w, struct holder *in_way)
{
	const struct lock_entry *e;
	int dead = 0;

	bee_filelock_assert();
	if (locktable_wait(&own_half, w) &&
	    (!dead_locks_drop() || locktable_wait(&own_half, w)))
		return -LINUX_ENOLCK;
	e = conflict_find(&w->want);
	if (!e)
		in_way->limit = NATIVE_MS;
	else if (e->kind != ABI_FILELOCK_RECORD)
		in_way->limit = OPEN_MS;
	if (!e || locktable_same_process(&e->process, &this_process))
		return -LINUX_EAGAIN;
	in_way->process = process_open(&e->process, &dead);
	if (e->kind == ABI_FILELOCK_RECORD)
		in_way->limit = in_way->process ? INFINITE : RECHECK_MS;
	return -LINUX_EAGAIN;
}

/* Returns -EAGAIN if the thread is now a waiter, 0 if it has the lock. */
static s64 wait_begin(struct win_handle *h, const struct lock_waiter *w,
		      struct holder *in_way)
{
	struct wakeup wake;
	s64 err = table_lock();

	*in_way = (struct holder){NULL, INFINITE};
	if (err)
		return err;
	locktable_unwait(&own_half, w);
	err = set_now(h, &w->want, &wake);
	if (err == -LINUX_EAGAIN && locktable_is_ring(&own_half, &w->want) &&
	    dead_locks_drop())
		err = set_now(h, &w->want, &wake);
	if (err == -LINUX_EAGAIN && locktable_is_ring(&own_half, &w->want))
		err = -LINUX_EDEADLK;
	if (err == -LINUX_EAGAIN) {
		/* set_now may have loaded the table again */
		locktable_unwait(&own_half, w);
		err = wait_enter(w, in_way);
	}
	locktable_store(table, &own_half);
	table_unlock();
	wakeup_send(&wake);
	return err;
}

static void wait_end(const struct lock_waiter *w)
{
	if (table_lock())
		return;
	locktable_unwait(&own_half, w);
	locktable_store(table, &own_half);
	table_unlock();
}

static s64 wait_loop(struct win_handle *h, struct win_thread *t,
		     const struct lock_waiter *w)
{
	HANDLE list[2] = {event_of(t), NULL};
	struct holder in_way;
	s64 err;

	if (!list[0])
		return -LINUX_ENOLCK;
	for (;;) {
		if (__atomic_exchange_n(&t->kick, 0, __ATOMIC_SEQ_CST))
			return -LINUX_EINTR;
		err = wait_begin(h, w, &in_way);
		if (err != -LINUX_EAGAIN)
			return err;
		list[1] = in_way.process;
		WaitForMultipleObjects(list[1] ? 2 : 1, list, FALSE,
				       in_way.limit);
		if (list[1])
			CloseHandle(list[1]);
	}
}

static s64 wait_lock(struct win_handle *h, const struct lock_entry *want)
{
	struct win_thread *t = bee_thread_self();
	struct lock_waiter w = {.want = *want, .thread = t->bee.index};
	s64 err;

	__atomic_store_n(&t->asleep, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&t->wake_used, WIN_WAKE_EVENT, __ATOMIC_SEQ_CST);
	err = wait_loop(h, t, &w);
	__atomic_store_n(&t->wake_used, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&t->asleep, 0, __ATOMIC_SEQ_CST);
	if (err)
		wait_end(&w);
	return err;
}

/* From outside --------------------------------------------------------------
 */

static s64 may_lock(const struct win_handle *h, const struct abi_filelock *l)
{
	u32 access = h->flags & O_ACCMODE;

	if (h->kind != WIN_FILE && h->kind != WIN_DIR)
		return -LINUX_ENOLCK;
	if (l->kind == ABI_FILELOCK_FLOCK || l->verb == ABI_FILELOCK_GET)
		return 0;
	if (l->type == ABI_FILELOCK_READ && access == O_WRONLY)
		return -LINUX_EBADF;
	if (l->type == ABI_FILELOCK_WRITE && !access)
		return -LINUX_EBADF;
	return 0;
}

/* Asks Windows only once. */
static s64 file_identify(struct win_handle *h)
{
	s64 err;

	if (h->lock_known)
		return 0;
	err = bee_file_identify(h->h, &h->lock_file);
	h->lock_known = !err;
	return err;
}

s64 bee_file_lock(s32 handle, struct abi_filelock *l, u32 thread)
{
	struct win_handle *h = bee_handle_get(handle);
	struct lock_entry want = {.kind = l->kind,
				  .type = l->type,
				  .first = l->first,
				  .last = l->last};
	s64 err;

	(void)thread;
	err = h ? may_lock(h, l) : -LINUX_EBADF;
	if (!err)
		err = file_identify(h);
	if (err)
		return err;
	AcquireSRWLockExclusive(&bee_filelock);
	err = table_open();
	if (!err && l->kind != ABI_FILELOCK_RECORD)
		err = lockowner_make(h);
	want.process = this_process;
	ReleaseSRWLockExclusive(&bee_filelock);
	if (err)
		return err;
	want.file = (struct lock_file){h->lock_file.index, h->lock_file.volume};
	if (l->kind != ABI_FILELOCK_RECORD) {
		want.open = h->lock_id;
		h->lock_held = 1;
	}
	if (l->verb == ABI_FILELOCK_GET)
		return get_lock(h, &want, l);
	return l->verb == ABI_FILELOCK_WAIT ? wait_lock(h, &want)
					    : set_lock(h, &want);
}

/* Whoever asks if the owner is gone has it for a moment, and the table too. */
void bee_file_unlock(struct win_handle *h)
{
	struct lock_file file = {h->lock_file.index, h->lock_file.volume};
	struct wakeup w;

	w.count = 0;
	if (!h->lock_held || table_lock()) {
		if (h->lock_owner)
			CloseHandle(h->lock_owner);
		return;
	}
	CloseHandle(h->lock_owner);
	if (lockowner_is_gone(h->lock_id) &&
	    locktable_drop_open(&own_half, h->lock_id)) {
		locktable_store(table, &own_half);
		wakeup_collect(&w, &file);
	}
	table_unlock();
	wakeup_send(&w);
}

/* Other processes -----------------------------------------------------------
 */

HANDLE bee_filelock_share(struct win_handle *h)
{
	s64 err;

	AcquireSRWLockExclusive(&bee_filelock);
	if (!section)
		section = bee_user_section(TABLE, sizeof(*table));
	err = lockowner_make(h);
	ReleaseSRWLockExclusive(&bee_filelock);
	return err ? NULL : section;
}

void bee_filelock_inherit(HANDLE inherited)
{
	section = inherited;
}

/* execve ------------------------------------------------------------------- */

static HANDLE heir; /* the event by which the next process says that it waits */

static void records_drop(s32 handle)
{
	struct lock_entry none = {.kind = ABI_FILELOCK_RECORD,
				  .type = ABI_FILELOCK_NONE,
				  .process = this_process,
				  .last = ABI_FILELOCK_END};
	struct win_handle *h = bee_handle_get(handle);

	bee_filelock_assert();
	if (!h || file_identify(h))
		return;
	none.file = (struct lock_file){h->lock_file.index, h->lock_file.volume};
	(void)locktable_set(&own_half, &none); /* whole entries, so it fits */
	(void)lockmirror_set(h, &none);
}

/*
 * Windows' locks end with this process, and no other one can have them before.
 * So the new process waits for that end, and this one ends when it does so.
 */
static s64 mirrors_save(HANDLE process, struct win_spawn *e)
{
	HANDLE self = GetCurrentProcess(), given[2];
	struct win_handle *h;
	u32 i;

	for (i = 0; i < e->passed && e->mirrored < LOCKMIRROR_FILES; i++) {
		h = bee_handle_get(e->list[i].number);
		if (!h || h->kind != WIN_FILE || file_identify(h) ||
		    !lockmirror_save(h, &e->mirror[e->mirrored]))
			continue;
		e->mirror[e->mirrored++].number = e->list[i].number;
	}
	if (!e->mirrored)
		return 0;
	heir = CreateEventW(NULL, TRUE, FALSE, NULL);
	if (!heir ||
	    !DuplicateHandle(self, heir, process, &given[0], 0, FALSE,
			     DUPLICATE_SAME_ACCESS) ||
	    !DuplicateHandle(self, self, process, &given[1], SYNCHRONIZE, FALSE,
			     0))
		return bee_win_last();
	e->heir = (u64)given[0];
	e->before = (u64)given[1];
	return 0;
}

/*
 * After success bee_filelock stays locked, so that no thread gets a lock before
 * all of them end. Whoever waits for a lock also waits for the end of this
 * process.
 */
s64 bee_filelock_move(const PROCESS_INFORMATION *to, struct win_spawn *e,
		      const struct abi_family_op *op)
{
	struct lock_process next = {.pid = to->dwProcessId,
				    .birth = birth_of(to->hProcess)};
	s64 err;
	u32 i;

	if (!op->locked)
		return 0;
	err = table_lock();
	if (err)
		return err;
	err = mirrors_save(to->hProcess, e);
	if (err) {
		e->mirrored = 0;
		table_unlock();
		return err;
	}
	for (i = 0; i < op->unlocked_count; i++)
		records_drop(op->unlocked[i]);
	locktable_move_records(&own_half, &this_process, &next);
	locktable_store(table, &own_half);
	ReleaseMutex(mutex);
	return 0;
}

void bee_filelock_await(HANDLE process)
{
	HANDLE list[2] = {heir, process};

	WaitForMultipleObjects(2, list, FALSE, INFINITE);
}

void bee_filelock_take(const struct win_spawn *e)
{
	HANDLE before = (HANDLE)e->before;
	struct win_handle *h;
	u32 i;

	AcquireSRWLockExclusive(&bee_filelock);
	SetEvent((HANDLE)e->heir);
	WaitForSingleObject(before, INFINITE);
	for (i = 0; i < e->mirrored && i < LOCKMIRROR_FILES; i++) {
		h = bee_handle_get(e->mirror[i].number);
		if (h && !file_identify(h))
			lockmirror_restore(h, &e->mirror[i]);
	}
	ReleaseSRWLockExclusive(&bee_filelock);
	CloseHandle((HANDLE)e->heir);
	CloseHandle(before);
}
