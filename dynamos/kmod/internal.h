/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of dynamos.ko share.
 *
 * A slot is a hooked function of the kernel. Its chain has one version per
 * update of that function, newest first, and ends with the kernel's own. A call
 * (call.c) walks the chain with preemption off, takes the first version that
 * wants it, and is counted there on entry and on exit.
 *
 * dynamos_lock guards the structure: updates, slots, chains, states. Calls take
 * no lock: what they may read is freed only after dynamos_settle().
 */
#ifndef DYNAMOS_KMOD_INTERNAL_H
#define DYNAMOS_KMOD_INTERNAL_H

#include <linux/atomic.h>
#include <linux/irq_work.h>
#include <linux/list.h>
#include <linux/list_bl.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include <skep/assert.h>
#include <skep/dynamos_update.h>

struct dynamos_engine;
struct dynamos_table;
struct file;
struct notifier_block;
struct poll_table_struct;
struct pt_regs;
struct task_struct;

#define DYNAMOS_SLOTS 128
#define DYNAMOS_FRAMES 2 /* updates of class task, or object, in one chain */

/* How a version is chosen: one word, so that one write stops new calls. */
enum {
	DYNAMOS_PASS, /* no call: try the older version */
	DYNAMOS_TAKE, /* every call */
	DYNAMOS_ASK,  /* dynamos_version_ask() decides */
	DYNAMOS_TABLE /* class any: the version's table alone decides */
};

/* Of one version on one CPU. A call may leave on another CPU. */
struct dynamos_tally {
	u64 in, out, errors, outside, sampled;
	u64 latency[DYNAMOS_BUCKETS];
};

struct dynamos_version {
	/* read by every call */
	u32 choice;
	u32 sample; /* a call is timed when the count before it & sample is 0 */
	void *call; /* NULL: a function of the group without a new version */
	/* A call counts its entry and its exit in the same tally. health.c
	 * swaps the two, and then knows how old the remaining calls are. */
	struct dynamos_tally __percpu *tally, *other;
	struct dynamos_version *older; /* NULL: this is the kernel's own */

	/* read by some */
	const struct dynamos_table *table;   /* when choice is ASK or TABLE */
	struct dynamos_update_state *update; /* NULL: the kernel's own */
	struct dynamos_slot *slot;
	const struct dynamos_function *function; /* NULL: the kernel's own */
	unsigned long address, length; /* of the text; length 0: unknown */
	u8 result;		       /* enum dynamos_result */
	bool task_terms; /* its policy has one of DYNAMOS_TERMS_TASK */
	atomic64_t lost;
};

/* On the kernel stack of the outermost call that a task makes to a group. */
struct dynamos_frame {
	struct hlist_bl_node link;
	struct task_struct *task;
	u64 group; /* a number, because its update may be freed before the end
		    */
	struct dynamos_group *held; /* by this frame: new version; or NULL */
};

#define DYNAMOS_CALL_TIMED 1u
#define DYNAMOS_CALL_HELD 2u /* frame or object: dynamos_call_end() */

/* A call's own data, on its stack. Only `flags` is set to begin with: what
 * sets a flag fills the rest, and dynamos_call_end() then runs on return. */
struct dynamos_call {
	u32 flags, frames, ends;
	u64 began; /* ktime_get_mono_fast_ns() */
	struct {
		struct dynamos_objects *objects;
		u64 object;
	} ending[DYNAMOS_FRAMES]; /* objects that end with this call */
	struct dynamos_frame frame[DYNAMOS_FRAMES];
};

struct dynamos_update_state {
	struct list_head link; /* of dynamos_updates, RCU: add at the end */
	struct dynamos_update *update;
	char name[DYNAMOS_NAME];
	u32 class, state; /* state: dynamos_lock, or READ_ONCE */
	u32 count;
	struct dynamos_version *version[DYNAMOS_FUNCTIONS];
	struct dynamos_table *table; /* of all versions: the policy, compiled */
	struct dynamos_health health;
	char end[DYNAMOS_WHY]; /* why it was last reverted */

	/* dynamos_update_end() from anywhere: the first one counts */
	atomic_t ending; /* enum dynamos_ending */
	u32 cause;
	s32 pid; /* the task that caused it, if any */
	char comm[TASK_COMM_LEN];
	char text[DYNAMOS_WHY];
	struct irq_work kick;

	/* data of the parts; each frees its own in its _drop */
	struct dynamos_group *group; /* class task */
	struct dynamos_objects *objects;
	struct dynamos_watch *watch;
	struct dynamos_engine *engine; /* engine.h */
};

extern struct mutex dynamos_lock;
extern struct list_head dynamos_updates;

/* update.c ------------------------------------------------------------- */

/* Stops new calls at once and starts to drain the update. Any context, NMI too;
 * the first cause wins; no effect if the update is not applied. Class together
 * begins the reverse transition. `by`: the task that caused it, or NULL. */
void dynamos_update_end(struct dynamos_update_state *update,
			enum dynamos_cause cause, const struct task_struct *by,
			const char *text);
/* The update whose module has this text, applied or not; NULL: none. Any
 * context, preemption off. */
struct dynamos_update_state *dynamos_update_at(unsigned long address);
/* After this no call reads what was unlinked before, and every call that chose
 * before is counted. Sleeps. */
void dynamos_settle(void);
/* The node must be rebooted: every later APPLY is refused. */
void dynamos_advise(void);

/* slot.c --------------------------------------------------------------- */

/* The owner of this text. For a wrapper: its slot. Any context. */
struct dynamos_slot *dynamos_slot_at(unsigned long address);
/* Whether this is in the slow path of a wrapper. */
bool dynamos_call_at(unsigned long address);
struct dynamos_version *dynamos_version_at(unsigned long address);
/* The versions of a slot, newest first: preemption off, or dynamos_lock. */
struct dynamos_version *dynamos_slot_first(struct dynamos_slot *slot);
/* Sums `out` first, then `in`, so that the difference is never too small. */
void dynamos_version_sum(const struct dynamos_version *version,
			 struct dynamos_tally *sum);
void dynamos_tally_sum(const struct dynamos_tally __percpu *tally,
		       struct dynamos_tally *sum);

/* policy of class any and the first half of class task: policy.c of core with
 * the facts of this call; group.c ------------------------------------------ */

/* Called for each call whose version has the choice ASK; preemption off, any
 * context. `args` has six. True: take it; never for a version without a
 * function. */
bool dynamos_version_ask(struct dynamos_version *version,
			 struct dynamos_call *call, const unsigned long *args);
/* Called for each call whose flags are not 0, after its version returned and
 * before its exit is counted. Preemption may be on. */
void dynamos_call_end(struct dynamos_version *version,
		      struct dynamos_call *call, unsigned long result);

/* The answer of the table, for any class. */
bool dynamos_policy_ask(const struct dynamos_version *version);
/* Reserves space in a call for frames and ending objects. */
void dynamos_call_hold(struct dynamos_call *call);

/* The error in a policy for this update, or 0. */
int dynamos_policy_allowed(const struct dynamos_policy *policy, u32 class,
			   char *why, size_t room);
/* A valid policy in the form that calls read, or NULL. Free it only when no
 * call can read it: after settle. */
struct dynamos_table *dynamos_table_make(const struct dynamos_policy *policy);
void dynamos_table_free(struct dynamos_table *table);
/* Links of tables to be freed. */
struct list_head *dynamos_table_link(struct dynamos_table *table);
void dynamos_tables_free(struct list_head *links);
/* PASS, TAKE, TABLE or ASK for all calls. Anything but ASK only if the class
 * needs no table of the calls inside. An update of class task or object that
 * drains still returns ASK: nested calls keep their version. */
u32 dynamos_policy_choice(const struct dynamos_policy *policy, u32 class);

int dynamos_group_init(void);
/* At APPLY, for every class; does what the class needs. */
int dynamos_group_begin(struct dynamos_update_state *update, char *why,
			size_t room);
/* Admits no task and no object to the new version. Any context. */
void dynamos_group_stop(struct dynamos_update_state *update);
/* Tasks and objects that still have the new version, in any function: wait for
 * 0 as for calls. */
u64 dynamos_group_left(struct dynamos_update_state *update);
void dynamos_group_drop(struct dynamos_update_state *update); /* after settle */
/* Removes the frames of a task that died inside. Any context. */
void dynamos_group_forget(struct task_struct *task);

/* object.c: class object, for group.c. */
struct dynamos_objects *dynamos_objects_make(void);
void dynamos_objects_put(struct dynamos_objects *objects);
bool dynamos_objects_ask(struct dynamos_version *version,
			 struct dynamos_call *call, const unsigned long *args);
void dynamos_objects_end(struct dynamos_call *call);
void dynamos_objects_stop(struct dynamos_objects *objects);
u64 dynamos_objects_left(struct dynamos_objects *objects);

/* health.c ------------------------------------------------------------- */

int dynamos_watch_init(void);
void dynamos_watch_exit(void);
/* At APPLY and POLICY (compare from now on), at COMMIT (no more timer), and
 * once nobody is inside. dynamos_lock is held. */
int dynamos_watch_begin(struct dynamos_update_state *update, u32 confirm_ms,
			char *why, size_t room);
void dynamos_watch_anew(struct dynamos_update_state *update);
void dynamos_watch_commit(struct dynamos_update_state *update);
void dynamos_watch_drop(struct dynamos_update_state *update);
s64 dynamos_watch_left(
	struct dynamos_update_state *update); /* ms; -1: no timer */

/* event.c: any context, NMI too --------------------------------------- */

int dynamos_event_init(void);
void dynamos_event_exit(void);
void dynamos_event_add(const char *name, u32 cause, u32 state, s32 pid,
		       const char *comm, const char *text);
ssize_t dynamos_event_read(struct file *file, char __user *to, size_t size,
			   loff_t *at);
__poll_t dynamos_event_poll(struct file *file, struct poll_table_struct *wait);

#endif
