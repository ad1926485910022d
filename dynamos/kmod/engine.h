/* SPDX-License-Identifier: GPL-2.0-only */
/* What apply.c, drain.c, patch.c, stand.c, update.c and device.c share.
 * dynamos_lock guards all of it unless a comment says otherwise. */
#ifndef DYNAMOS_KMOD_ENGINE_H
#define DYNAMOS_KMOD_ENGINE_H

#include "slot.h"

struct dynamos_patch;

/* A function of the kernel, and the calls of its older version. */
struct dynamos_place {
	unsigned long address, length, place;
	struct dynamos_tally before; /* counts when the update was applied */
	u64 before_lost;
	struct dynamos_tally after; /* counts when it had drained */
	u64 after_lost;
	u32 installer; /* at its last APPLY */
};

/* The module that an update changes. */
enum dynamos_bound {
	DYNAMOS_UNBOUND,
	DYNAMOS_BOUND,	  /* livepatch has resolved its symbols in the update */
	DYNAMOS_SHUT_OUT, /* an update that is DYNAMOS_RELIES leaves: the module
			     cannot be loaded, as its objects would be the new
			     code's */
};

struct dynamos_engine {
	u32 leave;	 /* enum dynamos_leave */
	bool settling;	 /* the wait of this state has begun */
	bool starting;	 /* APPLY is in progress, without dynamos_lock */
	bool unsettled;	 /* after a failed APPLY calls may still walk it */
	bool held;	 /* was applied; others may have pointers into it */
	bool supersedes; /* COMMIT ends older updates */
	atomic_t bound;	 /* enum dynamos_bound; any context */
	bool absent;	 /* this APPLY needs its module not to be loaded */
	bool admitted;	 /* class together: every task has switched once */
	u64 turn;	 /* number of its last APPLY */
	unsigned long enter_until;
	struct dynamos_patch *patch;
	struct dynamos_place at[];
};

static inline bool dynamos_uncounted(const struct dynamos_function *f)
{
	return f->args == DYNAMOS_UNCOUNTED;
}

/* update.c */
/* The update with this name, or an error pointer and, unless `why` is NULL, the
 * reason. */
struct dynamos_update_state *dynamos_update_find(const char *name, char *why);
/* Takes the step. If it is not allowed, writes the reason to `why`. */
int dynamos_update_step(struct dynamos_update_state *update, u32 step,
			char *why);
/* Records that APPLY has ended, with or without success. */
void dynamos_update_started(struct dynamos_update_state *update);
/* Whether there may be objects that only code of this update, which is
 * DYNAMOS_RELIES, has set up. If not, there will be none until the next
 * APPLY. */
bool dynamos_update_leaves_objects(struct dynamos_update_state *update);
/* How many calls are inside this update's versions. */
u64 dynamos_update_inside(const struct dynamos_update_state *update);
bool dynamos_node_advised(void);

/* apply.c */
/* Takes the locks that it needs. If a hook is being removed, waits some seconds
 * for it, then returns -EAGAIN. */
int dynamos_apply_begin(struct dynamos_apply *a);
/* Calls `try` with dynamos_hooks held, again for some seconds while the hooks
 * are in use or it returns -EAGAIN. */
int dynamos_apply_retry(int (*try)(void *arg), void *arg, char *why);
/* Whether an APPLY waits for dynamos_hooks. */
bool dynamos_apply_waits(void);
int dynamos_apply_policy(struct dynamos_update_state *update,
			 struct dynamos_change *change);
/* Reverts the update; flags of REVERT. */
int dynamos_apply_revert(struct dynamos_update_state *update, u32 flags,
			 char *why);
/* Keeps the update, whose policy is in force, and ends what it supersedes. */
int dynamos_apply_commit(struct dynamos_update_state *update, char *why);
/* Requests that drain.c retires the slot if its chain is empty. */
void dynamos_apply_release(struct dynamos_slot *slot);

/* drain.c */
int dynamos_drain_init(void);
void dynamos_drain_exit(void);
/* Schedules a poll. Any context but NMI. */
void dynamos_drain_kick(void);
/* Brings an update to the state `leaving` if dynamos_update_end() was
 * called. */
void dynamos_drain_end(struct dynamos_update_state *update);
/* Frees a table once no call can read it. */
void dynamos_drain_table(struct dynamos_table *table);

/* patch.c: livepatch, for class together */
int dynamos_patch_enable(struct dynamos_update_state *update, char *why);
/* Begins the reverse transition; -EBUSY if another one is in progress. Call
 * these two without dynamos_lock: both take livepatch's mutex, which may be
 * held for as long as a task loops in the kernel. */
int dynamos_patch_disable(struct dynamos_patch *patch);
bool dynamos_patch_entered(const struct dynamos_patch *patch);
/* Whether all tasks have switched back and livepatch has released the patch. */
bool dynamos_patch_left(const struct dynamos_patch *patch);
/* Writes the names of the tasks that block the transition to `text` and to the
 * kernel's log. */
void dynamos_patch_blockers(struct dynamos_update_state *update, char *text,
			    size_t room);
const struct klp_patch *dynamos_patch_klp(const struct dynamos_patch *patch);
void dynamos_patch_free(struct dynamos_patch *patch);
/* Whether the update gives the name and the build-id of the module that it
 * changes. */
bool dynamos_patch_object_valid(const struct dynamos_update *update);

/* stand.c */
int dynamos_stand_init(void);
/* Whether a task may be inside the module of an update that has functions whose
 * calls are not counted. After the reverse transition no task enters it. */
bool dynamos_stand_inside(const struct dynamos_update_state *update);

/* device.c */
int dynamos_device_init(void);
void dynamos_device_count(struct dynamos_count *c,
			  const struct dynamos_tally *t);
void dynamos_device_exit(void);

#endif
