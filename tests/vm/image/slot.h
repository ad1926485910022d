/* SPDX-License-Identifier: MIT */
/* What the test image and the test that drives it share: a slot of the mail for
 * each core.
 */
#ifndef TESTS_VM_IMAGE_SLOT_H
#define TESTS_VM_IMAGE_SLOT_H

#include <skep/types.h>

#define SLOT_AT(core) (0x1000 + 128 * (core))

enum slot_command {
	SLOT_WAIT,	/* look for another command */
	SLOT_RING,	/* ring Linux once */
	SLOT_SPIN,	/* for ever, interrupts off, seeing nothing */
	SLOT_HALT,	/* the same, halted */
	SLOT_INTERRUPT, /* take interrupts from now on */
	SLOT_FILL,	/* write SLOT_SECRET to each word of kernel and pool */
	SLOT_SUM,	/* count words of kernel and pool that are not zero */
	SLOT_QUIET,	/* a loop between marks 8, interrupts off, until it is
			   told to leave */
	SLOT_NOISY,	/* between marks 9, until there was an interrupt */
	SLOT_IDLE,	/* begins interval 10, 11 or 12, and halts */
	SLOT_IDLE_1,
	SLOT_IDLE_2,
	SLOT_BACK, /* ends it, in the next run; 12 does one thing more */
	SLOT_BACK_1,
	SLOT_BACK_2,
	SLOT_STRAY, /* an NMI to the processor `target`, whosever it is */
};

#define SLOT_SECRET 0x5ec2e75ec2e75ec2ull

struct slot {
	volatile u64 command; /* set to SLOT_WAIT when it is done */
	volatile u64 alive;   /* core + 1, then goes up while it waits */
	volatile u64 nmis, interrupts;
	volatile u64 dirty;   /* what SLOT_SUM found */
	volatile u64 apic_id; /* its own */
	volatile u64 tsc;
	volatile u64 pool;	/* where it begins in the machine's memory */
	volatile u64 nodes;	/* of the core, the pool's first and last range:
				   a byte each */
	volatile u64 low, high; /* all of its memory lies from here to there */
	volatile u64 mail;
	volatile u64 kernel; /* the first byte of it that is free */
	volatile u64 inside; /* SLOT_QUIET has begun */
	union {
		volatile u64 leave; /* and ends when this is set */
		volatile u64 target;
	};
	volatile u64 ranges; /* of its pool */
};
SKEP_ASSERT_SIZE(struct slot, 128);

#endif
