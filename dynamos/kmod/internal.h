/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the files of dynamos.ko share.
 *
 * A slot is a hooked function of the kernel. Its chain has one version for each
 * update of that function, newest first, and ends with the kernel's own. A call
 * (call.c) walks the chain with preemption off, takes the first version whose
 * policy chooses it, and is counted there on entry and on exit.
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
#define DYNAMOS_SAMPLE 63 /* one call in 64 is timed */
#define DYNAMOS_FRAMES 2  /* most updates of class task or object per chain */

/* How a version is chosen: one word, so that a single write stops new calls. */
enum {
	DYNAMOS_PASS, /* no call takes it: try the older version */
	DYNAMOS_TAKE, /* every call takes it */
	DYNAMOS_ASK,  /* dynamos_version_ask() decides */
	DYNAMOS_TABLE /* class any: the version's table alone decides */
};

/* Counts of one version on one CPU. A call may return on another CPU. */
struct dynamos_tally {
	u64 in, out, errors, outside, sampled;
	u64 latency[DYNAMOS_BUCKETS];
};

struct dynamos_version {
	/* read by every call: */
	u32 choice;
	u32 sample; /* a call is timed if (entries & sample) is 0 */
	void *call; /* NULL: a function of the group without a new version */
	/* A call counts its entry and its exit in the same tally. health.c
	 * swaps the two to see how long calls have been inside. */
	struct dynamos_tally __percpu *tally, *other;
	struct dynamos_version *older; /* NULL: this is the kernel's own */

	/* not read by every call: */
	const struct dynamos_table *table;   /* when choice is ASK or TABLE */
	struct dynamos_update_state *update; /* NULL: the kernel's own */
	struct dynamos_slot *slot;
	const struct dynamos_function *function; /* NULL: the kernel's own */
	unsigned long address, length; /* of the text; length 0: unknown */
	u8 result;		       /* enum dynamos_result */
	bool task_terms; /* its policy has one of DYNAMOS_TERMS_TASK */
	atomic64_t lost;
};

/* On the kernel stack of a task, in its outermost call to a group. */
struct dynamos_frame {
	struct hlist_bl_node link;
	struct task_struct *task;
	u64 group; /* no pointer: the group may be freed first */
	struct dynamos_group *held; /* NULL: the task has the older version */
};

#define DYNAMOS_CALL_TIMED 1u
#define DYNAMOS_CALL_HELD 2u /* has frames or objects to release */

/* A call's own data, on its stack. At first only `flags` is set. Whoever sets a
 * flag fills the fields that belong to it, and dynamos_call_end() runs when the
 * call returns. */
struct dynamos_call {
	u32 flags, frames, ends;
	u64 began; /* ktime_get_mono_fast_ns() */
	struct {
		struct dynamos_objects *objects;
		u64 object;
	} ending[DYNAMOS_FRAMES]; /* objects whose life this call ends */
	struct dynamos_frame frame[DYNAMOS_FRAMES];
};

/* A reference to the BPF program of each rule that has one. */
struct dynamos_programs {
	struct bpf_prog *of[DYNAMOS_RULES];
};

/* What a program is asked about. */
struct dynamos_program_call {
	const struct dynamos_version *version;
	const unsigned long *args; /* six */
};

struct dynamos_update_state {
	struct list_head link; /* in dynamos_updates, an RCU list */
	struct dynamos_update *update;
	char name[DYNAMOS_NAME];
	u32 class, state; /* state: with dynamos_lock, or by READ_ONCE */
	u32 count;
	struct dynamos_version *version[DYNAMOS_FUNCTIONS];
	struct dynamos_table *table; /* the compiled policy, of all versions */
	struct dynamos_health health;
	char end[DYNAMOS_WHY]; /* why it was last reverted */

	/* written by the first dynamos_update_end(), in any context: */
	atomic_t ending; /* enum dynamos_ending */
	u32 cause;
	s32 pid; /* the task that caused it, if any */
	char comm[TASK_COMM_LEN];
	char text[DYNAMOS_WHY];
	struct irq_work kick;

	/* data of each part, freed by its _drop function: */
	struct dynamos_group *group; /* class task */
	struct dynamos_objects *objects;
	struct dynamos_watch *watch;
	struct dynamos_engine *engine; /* engine.h */
};

extern struct mutex dynamos_lock;
extern struct list_head dynamos_updates;

/* update.c ------------------------------------------------------------- */

/* Stops new calls at once and starts to drain the update; for class together it
 * begins the reverse transition. Any context, NMI too. The first cause is kept;
 * has no effect if the update is not applied. `by`: the task that caused it, or
 * NULL. */
void dynamos_update_end(struct dynamos_update_state *update,
			enum dynamos_cause cause, const struct task_struct *by,
			const char *text);
/* The update whose module contains this address, applied or not, or NULL. Any
 * context, preemption off. */
struct dynamos_update_state *dynamos_update_at(unsigned long address);
/* After this no call reads what was unlinked before, and every call that made
 * its choice before is counted. Sleeps. */
void dynamos_settle(void);
/* Records that the node must be rebooted: every later APPLY is refused. */
void dynamos_advise(void);

/* slot.c --------------------------------------------------------------- */

/* The slot whose wrapper contains this address, or NULL. Any context. */
struct dynamos_slot *dynamos_slot_at(unsigned long address);
/* Whether this address is in the slow path of the wrappers. */
bool dynamos_call_at(unsigned long address);
struct dynamos_version *dynamos_version_at(unsigned long address);
/* The versions of a slot, newest first; with preemption off, or dynamos_lock
 * held. */
struct dynamos_version *dynamos_slot_first(struct dynamos_slot *slot);
/* Sums `out` first, then `in`, so that the difference is never too small. */
void dynamos_version_sum(const struct dynamos_version *version,
			 struct dynamos_tally *sum);
void dynamos_tally_sum(const struct dynamos_tally __percpu *tally,
		       struct dynamos_tally *sum);

/* group.c: class task, and the facts about a call that a policy asks for
 * -------- */

/* Called for each call whose version has the choice ASK; preemption off, any
 * context. `args` has six elements. True: the call takes this version; never
 * for a version without a function. */
bool dynamos_version_ask(struct dynamos_version *version,
			 struct dynamos_call *call, const unsigned long *args);
/* Called for each call whose flags are not 0, after its version returned and
 * before its exit is counted. Preemption may be on. */
void dynamos_call_end(struct dynamos_version *version,
		      struct dynamos_call *call, unsigned long result);

/* Whether the version's table chooses it for this call; for any class. */
bool dynamos_policy_ask(const struct dynamos_version *version,
			const unsigned long *args);
/* Reserves space in a call for frames and ending objects. */
void dynamos_call_hold(struct dynamos_call *call);

/* 0, or a negative errno and in `why` what is wrong with the policy. */
int dynamos_policy_allowed(const struct dynamos_policy *policy, u32 class,
			   char *why, size_t room);
/* Compiles a valid policy for calls, or NULL. It takes over the references to
 * `programs`, and frees them with itself. Free it only when no call can read
 * it: after dynamos_settle(). */
struct dynamos_table *dynamos_table_make(const struct dynamos_policy *policy,
					 struct dynamos_programs *programs);
void dynamos_table_free(struct dynamos_table *table);
/* For lists of tables that are to be freed. */
struct list_head *dynamos_table_link(struct dynamos_table *table);
void dynamos_tables_free(struct list_head *links);
/* The choice for all calls: PASS, TAKE or TABLE if the class keeps no record of
 * the calls inside, else ASK. An update of class task or object returns ASK
 * even while it drains: nested calls keep their version. */
u32 dynamos_policy_choice(const struct dynamos_policy *policy, u32 class);

int dynamos_group_init(void);
/* Called at APPLY, for every class; allocates what the class needs. */
int dynamos_group_begin(struct dynamos_update_state *update, char *why,
			size_t room);
/* Admits no task and no object to the new version. Any context. */
void dynamos_group_stop(struct dynamos_update_state *update);
/* The number of tasks and objects that still have the new version, in any
 * function. The update is drained only when it is 0. */
u64 dynamos_group_left(struct dynamos_update_state *update);
/* Call dynamos_settle() before. */
void dynamos_group_drop(struct dynamos_update_state *update);
/* Removes the frames of a task that died inside a call. Any context. */
void dynamos_group_forget(struct task_struct *task);

/* program.c: BPF programs, which choose the version of a call. */

/* Refers to the programs of a checked policy, whose descriptors are the calling
 * process's, and puts the kernel's numbers of them in their place. 0, or a
 * negative errno and in `why` what is wrong. Sleeps. */
int dynamos_programs_get(struct dynamos_policy *policy,
			 struct dynamos_programs *programs, char *why,
			 size_t room);
/* Process context. */
void dynamos_programs_put(struct dynamos_programs *programs);
/* Whether a program chooses the call's new version; preemption is off, in task
 * context. */
bool dynamos_program_ask(const struct bpf_prog *program,
			 const struct dynamos_program_call *call);

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
/* _begin is called at APPLY, _anew at POLICY (restarts the comparison), _commit
 * at COMMIT (stops the timer), _drop once no call is inside. The caller holds
 * dynamos_lock. */
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
