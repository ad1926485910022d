/* SPDX-License-Identifier: MIT */
/*
 * What one processor of a guest executed between marks. Pure: no QEMU, no
 * files, no locks. A tally belongs to the thread of its processor; what
 * others may read, and under whose lock, is said at each part.
 *
 * Counted are instructions that were started. One that starts again at once,
 * with nothing in between, is still one: the next round of a `rep`, or an
 * atomic instruction that QEMU repeats alone. A branch to itself is the
 * exception. One that faults starts again after the kernel dealt with the
 * fault, and counts twice; `restarts` says how often user space resumed at
 * the instruction that it had started last.
 */
#ifndef LAB_COUNT_TALLY_H
#define LAB_COUNT_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <skep/mark.h>

#define TALLY_INTERVALS SKEP_MARK_INTERVALS
#define TALLY_RANGES 16
#define TALLY_POINTS 32
#define TALLY_ENTRIES 64

/* Figures that only grow. */
struct tally_sum {
	uint64_t user;	   /* instructions in the lower half of addresses */
	uint64_t kernel;   /* in the upper half */
	uint64_t restarts; /* in user space, see above */
	uint64_t entries;  /* from user space into the kernel */
	uint64_t entries_other;	       /* those beyond the table of addresses */
	uint64_t entry[TALLY_ENTRIES]; /* by tally.entry_address */
	uint64_t range[TALLY_RANGES];  /* instructions in a range */
	uint64_t range_restarts[TALLY_RANGES]; /* those of `restarts` there */
	uint64_t point[TALLY_POINTS];	       /* executions of one address */
};

/* What is known of an instruction when it is translated. */
struct tally_kind {
	uint32_t ranges; /* bit i: it is in range i */
	int8_t point;	 /* it is that point, or -1 */
	bool mark;
	bool end;	  /* of mark: it ends an interval */
	uint8_t interval; /* of mark */
	bool self_branch;
};

struct tally {
	/* Its own thread's alone. */
	struct tally_sum now;
	uint64_t last; /* the instruction started last */
	uint64_t last_user;
	bool was_user;
	struct tally_sum begun[TALLY_INTERVALS];

	/* Written at marks and at new entries; see tally_quiet. */
	uint16_t open; /* bit n: interval n has begun */
	struct tally_sum sum[TALLY_INTERVALS];
	uint64_t times[TALLY_INTERVALS]; /* how often n was ended */
	uint64_t lost; /* marks that did not fit: begun twice, ended unbegun */
	uint64_t entry_address[TALLY_ENTRIES];
	unsigned int entry_count;
};

/* True if an instruction of these bytes is a relative branch to itself. */
bool count_tally_self_branch(const uint8_t *bytes, size_t size);

/* Fills mark, end and interval if the bytes are a mark. */
void count_tally_read_mark(struct tally_kind *kind, const uint8_t *bytes,
			   size_t size);

/*
 * True if counting that instruction writes to the thread's own part alone, so
 * that no lock is needed for it.
 */
bool count_tally_quiet(const struct tally *t, uint64_t address,
		       const struct tally_kind *kind);

/* Counts one started instruction. */
void count_tally_step(struct tally *t, uint64_t address,
		      const struct tally_kind *kind);

#endif
