/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * /dev/dynamos: what may be asked of the updates of a running kernel.
 *
 * An update is a kernel module that handed its functions to dynamos.ko
 * (dynamos_update.h). Several updates of one function form a chain: a call asks
 * the policy of the newest first, takes its version if the policy says so, and
 * else asks the next older one; at the end is the kernel's own function.
 *
 *           APPLY               COMMIT
 *   loaded --------> trial --------------> committed
 *     ^  ^             |  confirm_ms over,     |
 *     |  |             |  health, REVERT       | REVERT, health, superseded
 *     |  |             v                       v
 *     |  +---------- leaving <-----------------+
 *     |    drained
 *   the module's init; its exit, or rmmod, only from `loaded`
 *
 * `leaving` admits no call to the new version and waits for those inside; it
 * has no end while one of them sleeps there. A call that never comes back
 * because its task ended inside, by an oops, a signal or of its own will, is
 * `lost`: counted, no longer waited for. If it was an oops and the task may
 * have held a lock, the node is `advised` to reboot, and nothing more is
 * applied.
 *
 * No call waits for a task that loops in the kernel, but what leaves then does
 * not get out, and APPLY may be refused with -EAGAIN after ten seconds.
 *
 * Every call needs CAP_SYS_MODULE and the first user, pid and cgroup
 * namespaces. Calls return 0 or -errno; where one is refused `why` says in a
 * sentence what was wrong and what would work. Reserved fields are zero, else
 * -EINVAL; a revision that is not ours is -EPROTO.
 */
#ifndef SKEP_DYNAMOS_H
#define SKEP_DYNAMOS_H

#include <skep/types.h>

#define DYNAMOS_DEVICE_NAME "dynamos"
#define DYNAMOS_REVISION 3
#define DYNAMOS_NAME 64	   /* of an update: its module's name */
#define DYNAMOS_SYMBOL 128 /* of a function */
#define DYNAMOS_WHY 256
#define DYNAMOS_RULES 16
#define DYNAMOS_CPU_WORDS 64 /* 4096 processors */
#define DYNAMOS_FUNCTIONS 64 /* of one update */
#define DYNAMOS_BUCKETS 40   /* of latency: bucket i from 2^i ns on */

/* How far the versions of an update may mix. A policy is never wider. */
enum dynamos_class {
	DYNAMOS_ANY = 1, /* call by call */
	DYNAMOS_TASK,	 /* chosen where a task enters the group of functions
			    from outside, the same for all calls within */
	DYNAMOS_OBJECT,	 /* chosen once per object, kept for its life */
	DYNAMOS_TOGETHER /* all tasks change over (livepatch); no policy but
			    all or none */
};

enum dynamos_state {
	DYNAMOS_LOADED = 1,
	DYNAMOS_ENTERING, /* together: the tasks are changing over */
	DYNAMOS_TRIAL,
	DYNAMOS_COMMITTED,
	DYNAMOS_LEAVING
};

/* The terms of a rule; all that are named must hold. Those that speak of the
 * current task never hold outside task context. */
#define DYNAMOS_PID 1u	/* one thread */
#define DYNAMOS_TGID 2u /* a process */
#define DYNAMOS_COMM 4u
#define DYNAMOS_UID 8u /* effective */
#define DYNAMOS_GID 16u
#define DYNAMOS_CGROUP 32u /* or a child of it (version 2 hierarchy) */
#define DYNAMOS_CPUS 64u
#define DYNAMOS_SHARE                                                          \
	128u		    /* by a keyed hash of the process, user or cgroup, \
			       so each of them stays with its version */
#define DYNAMOS_WINDOW 256u /* of CLOCK_BOOTTIME */
#define DYNAMOS_PROGRAM                                                        \
	512u /* a BPF program of type raw_tracepoint does not return 0. Its    \
		context is DYNAMOS_PROGRAM_ARGS words: the registers of the    \
		call's first six arguments, and the function's number in its   \
		update, from 0. It runs with preemption off, and not within    \
		itself: a call that it makes does not meet the term. */
#define DYNAMOS_TERMS 1023u
#define DYNAMOS_TERMS_TASK (DYNAMOS_TERMS & ~(DYNAMOS_CPUS | DYNAMOS_WINDOW))

#define DYNAMOS_PROGRAM_ARGS 7

/* Of what DYNAMOS_SHARE is a share. */
enum dynamos_per {
	DYNAMOS_PER_PROCESS,
	DYNAMOS_PER_UID,    /* effective */
	DYNAMOS_PER_CGROUP, /* the task's own, not one above (version 2) */
	DYNAMOS_PERS
};

struct dynamos_rule {
	u32 terms;  /* none: always */
	u32 choice; /* 1: the new version; 0: not (ask the older update) */
	union {
		s32 pid;
		s32 program; /* never with DYNAMOS_PID. APPLY and POLICY: a
				descriptor; INFO: the kernel's number of it */
	};
	s32 tgid;
	u32 uid, gid;
	u32 share;	 /* of 65536 */
	u32 per;	 /* enum dynamos_per; 0 without DYNAMOS_SHARE */
	u64 cgroup;	 /* its id: the inode number of its folder */
	u64 from, until; /* ns */
	char comm[16];	 /* with a NUL */
	u64 cpus[DYNAMOS_CPU_WORDS];
};
SKEP_ASSERT_SIZE(struct dynamos_rule, 584);

/* The first rule that holds decides, `otherwise` where none does. */
struct dynamos_policy {
	u32 rules, otherwise;
	struct dynamos_rule rule[DYNAMOS_RULES];
};

/* What takes an update back by itself; 0: not watched. A comparison is between
 * the calls of the new and the older version since the last APPLY or POLICY,
 * once both have `least` calls. A POLICY that only moves the ends of windows
 * does not count. */
struct dynamos_health {
	u32 least;
	u32 errors;  /* per 1000 calls more than the old version's */
	u32 latency; /* percent of the old version's median, above 100 */
	u32 zero;
	u64 stuck; /* ns that one call may take; reported, and never reverted */
};
SKEP_ASSERT_SIZE(struct dynamos_health, 24);

#define DYNAMOS_SUPERSEDE                                                      \
	1u /* older updates of the same functions leave in                     \
	      the step of COMMIT, and stay in force until then;                \
	      every one of their functions must be among ours */
#define DYNAMOS_BACK                                                           \
	2u /* with SUPERSEDE, both of class any: what leaves may change more   \
	      functions, whose calls then take what is older */

#define DYNAMOS_OBJECTS_EXIST                                                  \
	4u /* of APPLY: an update that is DYNAMOS_RELIES is applied although   \
	      there may be objects that older code set up; of REVERT: it is    \
	      reverted although there may be objects that its code set up */
#define DYNAMOS_OBJECTS_LEFT                                                   \
	8u /* with BACK: what leaves may be DYNAMOS_RELIES */

#define DYNAMOS_ENTER_MS 60000

struct dynamos_apply {
	u32 revision, flags;
	u32 confirm_ms; /* taken back without COMMIT; 0: not */
	u32 enter_ms;	/* together: undone when not all tasks completed the
			   transition by   then; 0: DYNAMOS_ENTER_MS */
	char name[DYNAMOS_NAME];
	char why[DYNAMOS_WHY];
	struct dynamos_health health;
	struct dynamos_policy policy;
};

#define DYNAMOS_COMMITS                                                        \
	1u /* POLICY is a COMMIT too, in one step: no call takes neither the   \
	      update nor what it supersedes */

/* POLICY: replaced at once for all functions. The policy of an update that
 * supersedes has no window once it is committed: after its end neither would
 * run. */
struct dynamos_change {
	u32 revision, flags;
	char name[DYNAMOS_NAME];
	char why[DYNAMOS_WHY];
	struct dynamos_policy policy;
};

struct dynamos_name { /* COMMIT, REVERT */
	u32 revision;
	u32 flags; /* of REVERT: DYNAMOS_OBJECTS_EXIST */
	char name[DYNAMOS_NAME];
	char why[DYNAMOS_WHY];
};

enum dynamos_installer {
	DYNAMOS_NONE,
	DYNAMOS_DIRECT,	  /* ftrace's direct call */
	DYNAMOS_IPMODIFY, /* ftrace changes the address */
	DYNAMOS_LIVEPATCH,
	DYNAMOS_LIVEPATCH_ONLY /* without a wrapper: calls are not counted */
};

/* Whether an update's module can be unloaded once nobody is inside. */
enum dynamos_held {
	DYNAMOS_FREE,
	DYNAMOS_HELD_ONCE, /* not after its first APPLY, of which there was
			      none yet */
	DYNAMOS_HELD	   /* never: it can be reverted, and stays loaded */
};

struct dynamos_info {
	u32 revision;
	u32 index; /* in: the n-th update, from 0; -ENOENT: no more */
	u32 class, state, functions, advised;
	s64 confirm_ms; /* left; -1: no timer */
	u32 held;	/* enum dynamos_held */
	u32 cause;	/* of `end`: enum dynamos_cause, or 0 */
	char name[DYNAMOS_NAME];
	char build_id[64];     /* of the kernel it is for, in hex */
	char end[DYNAMOS_WHY]; /* why it left last, or empty */
	char why_held[DYNAMOS_WHY];
	struct dynamos_policy policy;
	struct dynamos_health health;
};

/* One version of one function; version 0 is what is older. */
struct dynamos_count {
	u32 revision;
	char name[DYNAMOS_NAME]; /* in */
	u32 function, version;	 /* in: from 0; 0 or 1 */
	u32 installer;
	u64 address, length; /* of the version's text; length 0: unknown */
	u64 wrapper, wrapper_length; /* of the text that calls it */
	u64 in, out, lost;	     /* in - out - lost are inside */
	u64 errors;		     /* results from -4095 to -1 */
	u64 outside;		     /* calls outside task context */
	u64 sampled;
	u64 latency[DYNAMOS_BUCKETS];
	char symbol[DYNAMOS_SYMBOL];
	char owner[DYNAMOS_NAME]; /* who else changes this function, or empty */
};

/* read() gives whole records, oldest first, and blocks; poll tells. */
enum dynamos_cause {
	DYNAMOS_ASKED = 1, /* somebody called */
	DYNAMOS_WARNED,	   /* WARN or oops with the update on the stack */
	DYNAMOS_DIED,	   /* a task was killed inside */
	DYNAMOS_ERRORS,
	DYNAMOS_SLOW,
	DYNAMOS_STUCK,
	DYNAMOS_UNCONFIRMED,
	DYNAMOS_UNDONE, /* not all tasks completed the transition in time */
	DYNAMOS_SUPERSEDED,
	DYNAMOS_DROPPED, /* records were lost before this one */
	DYNAMOS_GONE	 /* the module that it changes was unloaded */
};

struct dynamos_event {
	u64 time;	  /* CLOCK_BOOTTIME, ns */
	u32 cause, state; /* state after it */
	s32 pid;
	u32 zero;
	char name[DYNAMOS_NAME];
	char comm[16];
	char text[DYNAMOS_WHY];
};

/* PROBE: counts the calls of a function of the kernel's image, until the file
 * is closed. COUNT with an empty name and version 0 is about the probes of this
 * file, in their order; the kernel reads neither the number nor the kind of
 * arguments: all must be in registers, at most six, and so must the result. */
#define DYNAMOS_PROBES 32 /* of one file */
#define DYNAMOS_PROBE_EACH                                                     \
	1u /* time every call, and not one in 64; but of an update's version   \
	      one in 64 */

struct dynamos_probe {
	u32 revision, flags;
	u32 result; /* enum dynamos_result of dynamos_update.h: what counts as
		       an error */
	u32 zero;
	u64 sympos; /* as in dynamos_update.h */
	char symbol[DYNAMOS_SYMBOL];
	char why[DYNAMOS_WHY];
};
SKEP_ASSERT_SIZE(struct dynamos_probe, 408);

#define DYNAMOS_IOC_APPLY _IOWR('D', 0x60, struct dynamos_apply)
#define DYNAMOS_IOC_POLICY _IOWR('D', 0x61, struct dynamos_change)
#define DYNAMOS_IOC_COMMIT _IOWR('D', 0x62, struct dynamos_name)
#define DYNAMOS_IOC_REVERT _IOWR('D', 0x63, struct dynamos_name)
#define DYNAMOS_IOC_INFO _IOWR('D', 0x64, struct dynamos_info)
#define DYNAMOS_IOC_COUNT _IOWR('D', 0x65, struct dynamos_count)
#define DYNAMOS_IOC_PROBE _IOWR('D', 0x66, struct dynamos_probe)

#endif
