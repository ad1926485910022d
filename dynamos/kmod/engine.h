/* SPDX-License-Identifier: GPL-2.0-only */
/* What the engine's own parts share: updates, their application, their end.
 * dynamos_lock guards all of it unless a comment says otherwise. */
#ifndef DYNAMOS_KMOD_ENGINE_H
#define DYNAMOS_KMOD_ENGINE_H

#include "slot.h"

struct dynamos_patch;

/* A function of the kernel, and the calls of its older version. */
struct dynamos_place {
	unsigned long address, length, place;
	struct dynamos_tally before; /* when the update was applied */
	u64 before_lost;
	struct dynamos_tally after; /* when it had drained */
	u64 after_lost;
	u32 installer; /* of the time that it was last applied */
};

struct dynamos_engine {
	u32 leave;	/* enum dynamos_leave */
	bool settling;	/* the wait of that state has begun */
	bool starting;	/* APPLY is in progress, without dynamos_lock */
	bool unsettled; /* an APPLY that failed was in the chains for a while */
	bool held;	/* it was applied, and others may have pointers to it */
	bool supersedes; /* older updates, when it is committed */
	bool bound;    /* livepatch has written a module's addresses into it */
	bool admitted; /* together: every task switched once */
	u64 turn;      /* of its last APPLY; an older update has a lower one */
	unsigned long enter_until;
	struct dynamos_patch *patch;
	struct dynamos_place at[];
};

static inline bool dynamos_uncounted(const struct dynamos_function *f)
{
	return f->args == DYNAMOS_UNCOUNTED;
}

/* update.c */
/* The update of this name; or an error, with `why` unless that is NULL. */
struct dynamos_update_state *dynamos_update_find(const char *name, char *why);
/* Takes the step; if it is refused, `why` gets the reason. */
int dynamos_update_step(struct dynamos_update_state *update, u32 step,
			char *why);
/* APPLY has ended, with or without success. */
void dynamos_update_started(struct dynamos_update_state *update);
/* How many calls are inside this update's versions. */
u64 dynamos_update_inside(const struct dynamos_update_state *update);
bool dynamos_node_advised(void);

/* apply.c */
/* Takes the locks that it needs; waits some seconds for a hook that is being
 * removed, then -EAGAIN. */
int dynamos_apply_begin(struct dynamos_apply *a);
/* Whether an APPLY waits for dynamos_hooks. */
bool dynamos_apply_waits(void);
int dynamos_apply_policy(struct dynamos_update_state *update,
			 struct dynamos_change *change);
/* Keeps the update, whose policy is in force, and ends what it supersedes. */
int dynamos_apply_commit(struct dynamos_update_state *update, char *why);
/* Requests that drain.c retires the slot if its chain is empty. */
void dynamos_apply_release(struct dynamos_slot *slot);

/* drain.c */
int dynamos_drain_init(void);
void dynamos_drain_exit(void);
/* Schedules a poll. Any context but NMI. */
void dynamos_drain_kick(void);
/* Enters the state `leaving` after dynamos_update_end(). */
void dynamos_drain_end(struct dynamos_update_state *update);
/* Frees a table once no call can read it. */
void dynamos_drain_table(struct dynamos_table *table);

/* patch.c: livepatch, for class together */
int dynamos_patch_enable(struct dynamos_update_state *update, char *why);
/* Begins the reverse transition; -EBUSY: another one is in progress. Both take
 * livepatch's mutex, which may be held for as long as a task loops in the
 * kernel: dynamos_lock is not held. */
int dynamos_patch_disable(struct dynamos_patch *patch);
bool dynamos_patch_entered(const struct dynamos_patch *patch);
/* All tasks have switched back, and livepatch has released it. */
bool dynamos_patch_left(const struct dynamos_patch *patch);
/* Names the tasks that block the transition, here and in the kernel's log. */
void dynamos_patch_blockers(struct dynamos_update_state *update, char *text,
			    size_t room);
const struct klp_patch *dynamos_patch_klp(const struct dynamos_patch *patch);
void dynamos_patch_free(struct dynamos_patch *patch);
/* Whether the module that an update changes is named in full. */
bool dynamos_patch_object_valid(const struct dynamos_update *update);

/* stand.c */
int dynamos_stand_init(void);
/* Whether a task may stand in the module of an update that has functions whose
 * calls are not counted. After the reverse transition none enters any more. */
bool dynamos_stand_inside(const struct dynamos_update_state *update);

/* device.c */
int dynamos_device_init(void);
void dynamos_device_exit(void);

#endif
