/* SPDX-License-Identifier: MIT */
/*
 * The state of a process in records that a snapshot stores and a later process
 * takes over: docs/design/snapshot.md. They contain guest addresses, guest
 * numbers and names, and no object of a host. Fields are little-endian.
 *
 * Saving reads records while all guest threads are at rest. Restoring comes
 * after abi_proc_init, in place of abi_exec, before a guest thread runs:
 * abi_restore_process, then areas in order, threads, descriptors, numbers and
 * signals, then abi_restore_finish. Every field is checked, because a snapshot
 * may be hostile: -EINVAL is a record that no bee wrote.
 */
#ifndef ABI_INCLUDE_SNAPSHOT_H
#define ABI_INCLUDE_SNAPSHOT_H

#include "abi.h"
#include "siginfo.h"
#include "thread_state.h"

#define ABI_SNAP_LIMITS 16
#define ABI_SNAP_SIGNALS 64
#define ABI_SNAP_ITIMERS 3
#define ABI_SNAP_TIMERS 32

struct abi_snap_action {
	u64 handler, flags, restorer, mask;
};

/* The fields of struct abi_alarm. */
struct abi_snap_alarm {
	u32 used, clock, notify, signo, tid, overrun;
	u64 value, deadline, interval;
	u32 source, thread, uses, zero;
	u64 check;
};

struct abi_snap_process {
	u64 start_ns, brk;
	u64 arg_start, arg_end, env_start, env_end, auxv_start, auxv_end;
	u32 pid, umask, cursor, high;
	s32 nice;
	u32 bits;		       /* ABI_SNAP_CHILD, ABI_SNAP_FORKED */
	u64 limit[ABI_SNAP_LIMITS][2]; /* cur, max */
	struct abi_snap_action action[ABI_SNAP_SIGNALS];
	struct abi_snap_alarm itimer[ABI_SNAP_ITIMERS];
	struct abi_snap_alarm timer[ABI_SNAP_TIMERS];
	char comm[16];
	char cwd[ABI_PATH_MAX], exe[ABI_PATH_MAX];
	char interp[ABI_ELF_INTERP_MAX]; /* the dynamic loader, or empty */
};

#define ABI_SNAP_CHILD 1u  /* it came of a fork */
#define ABI_SNAP_FORKED 2u /* it has had children, or came of a fork */

struct abi_snap_thread {
	u32 index, uses;
	u32 tid;  /* 0: it has ended, only `uses` and `calls` count */
	u32 redo; /* its call is to be made again */
	struct abi_regs regs;
	u64 tp, clear_child_tid, robust_head;
	u64 alt_sp, alt_size;
	u32 alt_flags, again;
	u64 again_deadline, blocked, calls;
	u64 cpu_ns; /* CPU time; the host's */
	/* What rewritten text keeps outside of the guest's memory: its copy of
	 * the stack protector's word, which functions that are on the stack
	 * have stored, and two saved registers. The substrate's. */
	u64 slot[3];
	u64 share[2];
	u64 affinity[ABI_AFFINITY_WORDS];
	char comm[16];
};

/* A pending signal; thread ABI_NONE: of the process. */
struct abi_snap_signal {
	u32 thread, zero;
	struct abi_siginfo info;
};

enum abi_snap_kind {
	ABI_SNAP_FILE = 1, /* a regular file, by path, digest and position */
	ABI_SNAP_DIR,	   /* a folder, by path */
	ABI_SNAP_NULL,	   /* /dev/null and its like, by path */
	ABI_SNAP_STD,	   /* the host's stream `std` */
	ABI_SNAP_PIPE,	   /* an end of pipe `pipe` of this run */
	ABI_SNAP_REMOVED,  /* a regular file without a name: number `pipe` */
	ABI_SNAP_EVENT,	   /* an eventfd of this process */
	ABI_SNAP_EPOLL,	   /* its entries are struct abi_snap_watch */
	ABI_SNAP_TIMER,	   /* a timerfd */
	ABI_SNAP_SIGNAL,   /* a signalfd */
};

struct abi_snap_desc {
	u32 index; /* number of the record */
	u32 kind;  /* enum abi_snap_kind */
	u32 type, flags;
	u32 std;
	u32 pipe, writes; /* PIPE: its number; 1: the end to write to;
			     REMOVED: which file */
	u32 semaphore;	  /* EVENT: 1 if it is one (EFD_SEMAPHORE) */
	/* pos of EVENT: its counter; of TIMER: expirations that were not read;
	 * of SIGNAL: its set */
	u64 pos, size;
	u64 next_ns, interval_ns; /* TIMER: on the guest's CLOCK_MONOTONIC */
	u32 clock;		  /* TIMER: of timerfd_create */
	u32 shared; /* FILE: 1: the host keeps the position, since processes may
		       share it */
	u32 handle, zero; /* of the process that was saved: only a number, by
			     which it is named (BEE_SNAP_SHARED) */
	u8 sha256[32];
	char path[ABI_PATH_MAX];
};

struct abi_snap_number {
	u32 fd, desc, cloexec, zero;
};

/* An entry of an interest list. Which edges were reported is not saved: one
 * that the program knows is reported once more. */
struct abi_snap_watch {
	u32 epoll, desc, fd; /* numbers of records; what epoll_ctl got */
	u32 events;
	u32 off, zero; /* EPOLLONESHOT has fired */
	u64 data;
};

struct abi_snap_area {
	u64 start, end;
	u32 prot, bits;
};

#define ABI_SNAP_COMMITTED 1u
#define ABI_SNAP_IMAGE 8u
#define ABI_SNAP_BRK 16u
#define ABI_SNAP_STACK 32u
#define ABI_SNAP_TEXT 128u /* of a library; with IMAGE: its stubs */

/*
 * on: until it is turned off, a call that waits ends as if a signal had come
 * that has no handler; its thread then has `redo` set, and abi_tick makes the
 * call again. Kicks all threads. Called outside of guest threads.
 */
void abi_freeze(struct abi_proc *p, u32 on);

/* The number of threads that have not exited. */
u32 abi_snap_live(const struct abi_proc *p);
/* Why the process cannot be saved: a part of a sentence in why, and 1;
 * ABI_SNAP_SOON if it probably can in a moment; or 0. */
#define ABI_SNAP_SOON 2
int abi_snap_judge(struct abi_proc *p, char *why, u64 size);

void abi_snap_process(struct abi_proc *p, struct abi_snap_process *out);
/* 0: no thread ever had this index. */
int abi_snap_thread(struct abi_proc *p, u32 index, struct abi_snap_thread *out);
/* Pending signal number i of the process (thread ABI_NONE) or a thread; 0:
 * there are fewer. */
int abi_snap_signal(struct abi_proc *p, u32 thread, u32 i,
		    struct abi_snap_signal *out);
/* Description i, and its handle or -1; 0: it has no number. 1 to go on; -1: i
 * is beyond the last. */
int abi_snap_desc(struct abi_proc *p, u32 i, struct abi_snap_desc *out,
		  s32 *handle);
/* 0: fd is closed; -1: beyond the last. */
int abi_snap_number(struct abi_proc *p, u32 fd, struct abi_snap_number *out);
/* Entry i of the interest list of description `epoll`; 0: there are fewer, or
 * it has none. */
int abi_snap_watch(struct abi_proc *p, u32 epoll, u32 i,
		   struct abi_snap_watch *out);
/* The first area that ends after addr: 1; 0: there is none. file: untouched
 * pages are not zero, but a file's. */
int abi_snap_area(struct abi_proc *p, u64 addr, struct abi_snap_area *out,
		  u32 *file);

int abi_restore_process(struct abi_proc *p, const struct abi_snap_process *s);
int abi_restore_area(struct abi_proc *p, const struct abi_snap_area *s);
int abi_restore_thread(struct abi_proc *p, const struct abi_snap_thread *s);
/* Takes over the handle, also after an error; -1: there is none. STD: after an
 * error it is the caller's. */
int abi_restore_desc(struct abi_proc *p, const struct abi_snap_desc *s,
		     s32 handle);
int abi_restore_number(struct abi_proc *p, const struct abi_snap_number *s);
/* When all descriptions and numbers are there. */
int abi_restore_watch(struct abi_proc *p, const struct abi_snap_watch *s);
int abi_restore_signal(struct abi_proc *p, const struct abi_snap_signal *s);
int abi_restore_finish(struct abi_proc *p);

#endif
