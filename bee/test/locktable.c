/* SPDX-License-Identifier: MIT */
/*
 * The table of file locks that bees on Windows share, against a model that
 * knows who holds each byte, and against what others may have written there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/errno.h"
#include "bee/host/windows/locktable.h"
#include "tests/tap.h"

#define OWNERS 4
#define BYTES 24
#define NONE ABI_FILELOCK_NONE
#define READ ABI_FILELOCK_READ
#define WRITE ABI_FILELOCK_WRITE

static struct locktable table;
static struct locktable_half own;
static u8 model[OWNERS][BYTES]; /* type + 1, or 0 */

/* Owners 0 and 1 are processes, 2 and 3 two open files of one. */
static struct lock_entry make_entry(u32 owner, u32 type, u64 first, u64 last)
{
	struct lock_entry e = {
		.file = {7, 9},
		.process = {.birth = 5, .pid = owner < 2 ? owner + 1 : 3},
		.open = owner < 2 ? 0 : owner,
		.kind = owner < 2 ? ABI_FILELOCK_RECORD : ABI_FILELOCK_OPEN,
		.type = type,
		.first = first,
		.last = last,
	};

	return e;
}

static struct lock_waiter make_waiter(u32 owner, u64 byte)
{
	struct lock_waiter w = {.want = make_entry(owner, WRITE, byte, byte),
				.thread = owner};

	return w;
}

static void reset_table(void)
{
	memset(&table, 0, sizeof(table));
	memset(&own, 0, sizeof(own));
	memset(model, 0, sizeof(model));
}

static int model_conflict(u32 owner, u32 type, u32 first, u32 last)
{
	u32 i, b;

	for (i = 0; i < OWNERS; i++)
		for (b = first; b <= last; b++)
			if (i != owner && model[i][b] &&
			    (model[i][b] == WRITE + 1 || type == WRITE))
				return 1;
	return 0;
}

static int table_equals_model(void)
{
	u32 i, b, held, n = 0;

	for (i = 0; i < OWNERS; i++)
		for (b = 0; b < BYTES; b++) {
			struct lock_entry e =
				make_entry((i + 1) % OWNERS, WRITE, b, b);

			/* another owner has it, as the model says */
			held = (u32)model_conflict((i + 1) % OWNERS, WRITE, b,
						   b);
			if (held != !!locktable_conflict(&own, &e))
				return 0;
			/* one run of a type is one entry */
			n += model[i][b] &&
			     (!b || model[i][b - 1] != model[i][b]);
		}
	return own.locks == n;
}

static void check_ranges(void)
{
	u32 i, owner, type, first, last, good = 0, refused = 0;
	const u32 rounds = 20000;

	reset_table();
	srand(1);
	for (i = 0; i < rounds; i++) {
		struct lock_entry e;

		owner = (u32)rand() % OWNERS;
		type = (u32)rand() % 3;
		first = (u32)rand() % BYTES;
		last = first + (u32)rand() % (BYTES - first);
		e = make_entry(owner, type, first, last);
		if (type != NONE && locktable_conflict(&own, &e)) {
			good += model_conflict(owner, type, first, last);
			refused++;
			continue;
		}
		if (type != NONE && model_conflict(owner, type, first, last))
			break;
		if (locktable_set(&own, &e))
			break;
		memset(&model[owner][first], type == NONE ? 0 : (int)type + 1,
		       last - first + 1);
		good += (u32)table_equals_model();
	}
	tap_ok(good == rounds,
	       "ranges split, merge and conflict as a lock per byte does");
	tap_ok(refused > rounds / 10, "the random locks met conflicts");
}

static void check_kinds(void)
{
	struct lock_entry e = make_entry(0, WRITE, 0, ABI_FILELOCK_END);
	struct lock_entry f = e;

	reset_table();
	locktable_set(&own, &e);
	f.kind = ABI_FILELOCK_FLOCK;
	f.process.pid = 8;
	tap_ok(!locktable_conflict(&own, &f),
	       "flock does not conflict with fcntl locks");
	f.kind = ABI_FILELOCK_OPEN;
	tap_ok(!!locktable_conflict(&own, &f),
	       "open file description locks conflict with record locks");
	f.file.index++;
	tap_ok(!locktable_conflict(&own, &f),
	       "locks of another file do not conflict");
	f = e;
	f.process.birth++;
	f.file.volume = 0;
	tap_ok(!!locktable_conflict(&own, &f),
	       "a reused process id is another owner");
	tap_ok(locktable_drop_process(&own, &f.process) == 0 &&
		       locktable_drop_process(&own, &e.process) == 1,
	       "all locks of a process are dropped at once");
	e = make_entry(2, READ, 3, 4);
	f = make_entry(3, READ, 3, 4);
	locktable_set(&own, &e);
	locktable_set(&own, &f);
	tap_ok(locktable_drop_process(&own, &e.process) == 0,
	       "a process that ends keeps the locks of its open files");
	e.process.pid = 4;
	e.type = f.type = WRITE;
	tap_ok(locktable_conflict(&own, &e)->open == f.open &&
		       locktable_drop_open(&own, e.open) == 1 &&
		       own.locks == 1 && own.lock[0].open == f.open,
	       "an open file has its locks in any process, and drops only its");
	e.kind = ABI_FILELOCK_RECORD;
	e.open = 0;
	e.process.pid = 9;
	locktable_set(&own, &e);
	tap_ok(locktable_move_records(&own, &e.process, &f.process) == 1 &&
		       own.locks == 2 && own.lock[0].open &&
		       locktable_same_process(&own.lock[1].process, &f.process),
	       "a process that takes another's place gets its record locks");
}

/* Four processes each hold a lock and wait for another one. */
static void check_dropped(void)
{
	struct lock_entry e[4];
	u32 i, owner;

	for (owner = 0; owner < 4; owner++) {
		reset_table();
		for (i = 0; i < 4; i++) {
			struct lock_waiter w = make_waiter(0, 20 + i);

			e[i] = make_entry(0, WRITE, 2 * i, 2 * i);
			e[i].process.pid = w.want.process.pid = 10 + i;
			w.thread = i;
			TAP(!locktable_set(&own, &e[i]) &&
			    !locktable_wait(&own, &w));
		}
		tap_ok(locktable_drop_process(&own, &e[owner].process) == 2 &&
			       own.locks == 3 && own.waiters == 3,
		       "process %u leaves one lock and one wait", owner);
		for (i = 0; i < 4; i++)
			tap_ok(locktable_drop_process(&own, &e[i].process) ==
				       (i == owner ? 0 : 2),
			       "those of process %u remain", i);
		tap_ok(!own.locks && !own.waiters, "and nothing else");
	}
}

static void check_rings(void)
{
	struct lock_entry e;
	struct lock_waiter w;
	u32 i;

	reset_table();
	for (i = 0; i < 2; i++) {
		e = make_entry(i, WRITE, i, i);
		locktable_set(&own, &e);
	}
	e = make_entry(0, WRITE, 1, 1);
	tap_ok(!locktable_is_ring(&own, &e), "one waiter is no deadlock");
	w = make_waiter(1, 0);
	locktable_wait(&own, &w);
	tap_ok(locktable_is_ring(&own, &e),
	       "two waiters for each other are a deadlock");
	locktable_unwait(&own, &w);
	tap_ok(!locktable_is_ring(&own, &e),
	       "no deadlock once a waiter is gone");
	/* 0 waits for 1, which waits for 9, which waits for 0 */
	e = make_entry(0, WRITE, 2, 2);
	e.process.pid = 9;
	locktable_set(&own, &e);
	w = make_waiter(0, 0);
	w.want.process.pid = 9;
	locktable_wait(&own, &w);
	w = make_waiter(1, 2);
	locktable_wait(&own, &w);
	e = make_entry(0, WRITE, 1, 1);
	tap_ok(locktable_is_ring(&own, &e),
	       "a deadlock of three, found by the last waiter");
}

/* A process that is killed while it stores leaves what was there. */
/* What is loaded is what was stored, also into memory that held other locks. */
static void check_copies(void)
{
	struct lock_entry e[2] = {make_entry(0, WRITE, 1, 2),
				  make_entry(1, READ, 4, 5)};
	struct lock_waiter w[2] = {make_waiter(2, 1), make_waiter(3, 4)};
	u32 i;

	reset_table();
	for (i = 0; i < 2; i++) {
		locktable_set(&own, &e[i]);
		locktable_wait(&own, &w[i]);
	}
	locktable_store(&table, &own);
	memset(&own, 0xa5, sizeof(own));
	locktable_load(&own, &table);
	tap_ok(own.locks == 2 && !memcmp(own.lock, e, sizeof(e)),
	       "the locks that were stored are loaded");
	tap_ok(own.waiters == 2 && !memcmp(own.waiter, w, sizeof(w)),
	       "and so are the waiters");
}

static void check_death(void)
{
	struct lock_entry e = make_entry(0, WRITE, 1, 2);
	struct locktable before;
	u32 good = 0, cut;

	reset_table();
	locktable_set(&own, &e);
	locktable_store(&table, &own);
	before = table;
	e = make_entry(0, NONE, 1, 2);
	locktable_set(&own, &e);
	for (cut = 0; cut < 64; cut++) { /* any bytes of the other half */
		table = before;
		memset(&table.half[!(table.current & 1)], (int)cut * 4,
		       sizeof(table.half[0]) / 64 * (cut + 1));
		locktable_load(&own, &table);
		good += own.locks == 1 && own.lock[0].last == 2;
	}
	tap_ok(good == 64, "a table that is half stored is not loaded");
	table = before;
	own.locks = 0;
	locktable_store(&table, &own);
	locktable_load(&own, &table);
	tap_ok(own.locks == 0, "a table that is completely stored is loaded");
}

static void check_hostile(void)
{
	struct lock_entry e = make_entry(0, WRITE, 0, 5);
	u32 i, j, value, good = 0;

	srand(2);
	for (i = 0; i < 300; i++) {
		u32 *p = (u32 *)&table;

		value = (u32)rand() % 4;
		for (j = 0; j < sizeof(table) / 4; j++)
			p[j] = value == 0   ? ~0u
			       : value == 1 ? (u32)rand()
					    : (u32)rand() % 10;
		locktable_load(&own, &table);
		(void)locktable_conflict(&own, &e);
		(void)locktable_is_ring(&own, &e);
		(void)locktable_set(&own, &e);
		locktable_drop_process(&own, &e.process);
		locktable_store(&table, &own);
		good += own.locks <= LOCKTABLE_LOCKS &&
			own.waiters <= LOCKTABLE_WAITERS;
	}
	tap_ok(good == 300, "random contents stay within bounds");
}

static void check_full(void)
{
	struct lock_entry e;
	struct lock_waiter w = make_waiter(0, 1);
	u64 i;
	s64 err = 0;

	reset_table();
	for (i = 0; !err && i <= LOCKTABLE_LOCKS; i++) {
		e = make_entry(0, WRITE, i * 2, i * 2);
		err = locktable_set(&own, &e);
	}
	tap_ok(err == -LINUX_ENOLCK && i == LOCKTABLE_LOCKS + 1,
	       "a full table returns ENOLCK");
	for (i = 0, err = 0; !err && i <= LOCKTABLE_WAITERS; i++)
		err = locktable_wait(&own, &w);
	tap_ok(err == -LINUX_ENOLCK && i == LOCKTABLE_WAITERS + 1,
	       "a full queue of waiters returns ENOLCK");
}

int main(void)
{
	check_ranges();
	check_kinds();
	check_dropped();
	check_rings();
	check_copies();
	check_death();
	check_hostile();
	check_full();
	return tap_done();
}
