/* SPDX-License-Identifier: GPL-2.0-only */
/* What a slot is, for those who fill, hook and empty it. */
#ifndef DYNAMOS_KMOD_SLOT_H
#define DYNAMOS_KMOD_SLOT_H

#include <linux/ftrace.h>

#include <dynamos/core/drain.h>

#include "internal.h"

struct dynamos_slot {
	struct dynamos_version *first; /* read by every call */
	struct dynamos_version kernel;
	struct dynamos_tally gone; /* of versions that left the chain */
	u64 gone_lost;
	unsigned long place; /* where ftrace calls; 0: the slot is free */
	char symbol[DYNAMOS_SYMBOL];
	u32 installer; /* enum dynamos_installer */
	u32 retire;    /* enum dynamos_retire */
	bool settling; /* the wait of that state has begun */
	unsigned long entry, wrapper, wrapper_length;
	struct ftrace_ops ops;
};

extern struct dynamos_slot dynamos_slots[DYNAMOS_SLOTS];

/* call.c: where calls go for each slot. */
struct dynamos_text {
	void *entry, *kernel, *wrapper;
};
extern const struct dynamos_text dynamos_texts[DYNAMOS_SLOTS];
/* The slow path of the wrappers. */
unsigned long dynamos_call_slow(unsigned long a, unsigned long b,
				unsigned long c, unsigned long d,
				unsigned long e, unsigned long f,
				const struct dynamos_slot *slot);

/* Serializes setting and clearing of hooks. Locked before dynamos_lock, because
 * ftrace waits for all tasks when a hook is removed, and a task may loop in the
 * kernel. */
extern struct mutex dynamos_hooks;

int dynamos_slot_init(void);

/* With dynamos_lock held: */

/* A slot for a function, not hooked yet; NULL: none is free. */
struct dynamos_slot *dynamos_slot_take(const char *symbol,
				       unsigned long address,
				       unsigned long length,
				       unsigned long place);
void dynamos_slot_free(struct dynamos_slot *slot);
/* A step of enum dynamos_retire_step. */
void dynamos_slot_step(struct dynamos_slot *slot, u32 step);
/* The slot that hooks this place by ftrace, or NULL. */
struct dynamos_slot *dynamos_slot_of(unsigned long place);
void dynamos_slot_link(struct dynamos_slot *slot,
		       struct dynamos_version *version);
void dynamos_slot_unlink(struct dynamos_version *version);
/* All calls since the slot was taken that passed this version over; returns how
 * many of them are lost. */
u64 dynamos_slot_older(const struct dynamos_version *version,
		       struct dynamos_tally *sum);

/* Without a lock: */

/* The n-th that is not free, or NULL. Unless dynamos_lock is held, it may
 * become free at any time. */
struct dynamos_slot *dynamos_slot_next(u32 *n);
/* How many are inside a version. */
u64 dynamos_version_inside(const struct dynamos_version *version);

/* Removes the hook if it is not needed. Under dynamos_hooks alone. */
void dynamos_slot_unhook(struct dynamos_slot *slot);

/* hook.c, under dynamos_hooks alone: ftrace calls the slot's entry, or changes
 * the address to its wrapper. Why: room for DYNAMOS_WHY. */
int dynamos_hook_set(struct dynamos_slot *slot, char *why);
/* An error leaves it hooked. */
int dynamos_hook_clear(struct dynamos_slot *slot);

#endif
