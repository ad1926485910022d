/* SPDX-License-Identifier: GPL-2.0-only */
/* Slots, for apply.c, hook.c and drain.c. */
#ifndef DYNAMOS_KMOD_SLOT_H
#define DYNAMOS_KMOD_SLOT_H

#include <linux/ftrace.h>

#include <dynamos/core/drain.h>

#include "internal.h"

struct dynamos_slot {
	struct dynamos_version *first; /* read by every call */
	struct dynamos_version kernel;
	struct dynamos_tally gone; /* counts of versions that left the chain */
	u64 gone_lost;
	unsigned long place; /* where ftrace calls it; 0: the slot is free */
	char symbol[DYNAMOS_SYMBOL];
	u32 installer; /* enum dynamos_installer */
	u32 retire;    /* enum dynamos_retire */
	bool settling; /* the wait of this state has begun */
	u32 probes;    /* of it: they need the slot, as updates do */
	u32 timed;     /* probes of which every call is timed */
	unsigned long entry, wrapper, wrapper_length;
	struct ftrace_ops ops;
};

extern struct dynamos_slot dynamos_slots[DYNAMOS_SLOTS];

/* The text of each slot (call.c). */
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

/* Reserves a slot for a function, without a hook; -ENOSPC if none is free, and
 * -ENOMEM if there is no memory for its counts. */
struct dynamos_slot *dynamos_slot_take(const char *symbol,
				       unsigned long address,
				       unsigned long length,
				       unsigned long place);
void dynamos_slot_free(struct dynamos_slot *slot);
/* Takes a step of enum dynamos_retire_step. */
void dynamos_slot_step(struct dynamos_slot *slot, u32 step);
/* The slot whose ftrace hook is at this place, or NULL. */
struct dynamos_slot *dynamos_slot_of(unsigned long place);
void dynamos_slot_link(struct dynamos_slot *slot,
		       struct dynamos_version *version);
void dynamos_slot_unlink(struct dynamos_version *version);
/* Sums all calls of older versions since the slot was reserved; returns how
 * many of them are lost. */
u64 dynamos_slot_older(const struct dynamos_version *version,
		       struct dynamos_tally *sum);

/* The same for all versions. */
u64 dynamos_slot_all(const struct dynamos_slot *slot,
		     struct dynamos_tally *sum);
/* Sets how many calls of the kernel's own version are timed. */
void dynamos_slot_sample(struct dynamos_slot *slot);

/* Without a lock: */

/* The next slot in use from number *n on, or NULL; sets *n to the number after
 * it. Without dynamos_lock the slot may become free at any time. */
struct dynamos_slot *dynamos_slot_next(u32 *n);
/* How many calls are inside a version. */
u64 dynamos_version_inside(const struct dynamos_version *version);

/* Removes the hook if no update needs it. The caller holds dynamos_hooks, not
 * dynamos_lock. */
void dynamos_slot_unhook(struct dynamos_slot *slot);

/* hook.c. The caller holds dynamos_hooks, not dynamos_lock. ftrace then calls
 * the slot's entry, or sets the instruction pointer to its wrapper. `why` has
 * room for DYNAMOS_WHY bytes. */
int dynamos_hook_set(struct dynamos_slot *slot, char *why);
/* After an error the hook is still set. */
int dynamos_hook_clear(struct dynamos_slot *slot);

#endif
