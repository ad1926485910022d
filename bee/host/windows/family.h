/* SPDX-License-Identifier: MIT */
/*
 * The processes of one run, in a section that all of them and the parent share.
 * The parent, which debugs all of them, sees each end, also one by
 * TerminateProcess. No lock: a process may end at any time. Fields are atomic;
 * a record belongs to whoever set its state with compare and exchange.
 */
#ifndef BEE_HOST_WINDOWS_FAMILY_H
#define BEE_HOST_WINDOWS_FAMILY_H

#include "win.h"

#define WIN_MEMBERS 1024
#define WIN_THREADS 1024	     /* of a process, as in abi */
#define WIN_ENV_FAMILY L"BEE_FAMILY" /* the section */
#define WIN_ENV_MEMBER L"BEE_MEMBER" /* the pid of a new process */

enum win_member_state {
	WIN_MEMBER_FREE,
	WIN_MEMBER_BORN, /* a child of vfork that has executed nothing yet */
	WIN_MEMBER_LIVE,
	WIN_MEMBER_ZOMBIE,
};

#define WIN_STATUS_STOPPED 0x7f /* and the signal << 8: as wait(2) says */
#define WIN_STATUS_CONTINUED 0xffff

/* A signal with a value, or a real-time signal: each of them arrives. */
#define WIN_QUEUED 16
struct win_queued {
	u32 state; /* atomic: 0: free, 1: being written, 2: complete */
	s32 signo, code;
	s32 pid;
	u64 value, ticket; /* they arrive in the order of tickets */
};

struct win_member {
	u32 state;
	s32 pid, parent, group, session;
	u32 process;	 /* Windows' id */
	u32 status;	 /* as wait(2) gives it */
	u32 said;	 /* `status` is known; otherwise it died unexpectedly */
	u32 told;	 /* its parent got SIGCHLD */
	u32 reap;	 /* its children leave no zombies */
	u32 death;	 /* PR_SET_PDEATHSIG */
	u64 pending;	 /* signals to it, by number - 1 */
	u32 stopped;	 /* atomic: the signal that stopped it */
	u32 change;	 /* atomic: a status for wait(2), of one that lives */
	u32 change_told; /* its parent got SIGCHLD for it */
	u32 robust, killed;	/* atomic: robust.c */
	s64 user_ns, system_ns; /* valid when it has ended */
};

/* Apart from the records, which are searched often. */
struct win_mail {
	s32 sender[64]; /* of the last signal of each number; 0: none */
	u32 full;	/* atomic: the process can take no more for now */
	struct win_queued queue[WIN_QUEUED];
};

struct win_family {
	u64 run; /* part of the names of events */
	u64 ticket;
	s32 last_pid; /* of processes and threads; atomic */
	struct win_member member[WIN_MEMBERS];
	struct win_mail mail[WIN_MEMBERS];
	/* numbers of threads, by index; 0: there is none. Atomic. */
	s32 thread[WIN_MEMBERS][WIN_THREADS];
};

extern struct win_family *bee_family_table; /* NULL: there is none */
extern struct win_member *bee_family_own;   /* this process's record */

u32 bee_member_state(const struct win_member *m);
struct win_mail *bee_member_mail(const struct win_member *m);
int bee_member_change(struct win_member *m, u32 from, u32 to); /* 1: done */
struct win_member *bee_member_find(s32 pid);		       /* or NULL */
void bee_member_signal(struct win_member *m, u32 signo);
void bee_member_wake(const struct win_member *m); /* its signal thread */
struct abi_siginfo;
/* 0, or -EAGAIN: as many signals wait as the process can keep, or it does not
 * take them. */
s64 bee_member_queue(struct win_member *m, const struct abi_siginfo *info);
/* It has ended: its parent is told, and its children have none any more. */
void bee_member_end(struct win_member *m, u32 status);
/* What SIGCHLD and waitid(2) say of a process with this status. */
void bee_member_info(struct abi_siginfo *info, s32 pid, u32 status);

/* In the parent. The section that children inherit, or NULL. */
HANDLE bee_family_new(void);
/* The first process has been created. */
void bee_family_first(DWORD process);
/* A process has ended with this exit code. 1: it was the first one of the run,
 * or what that executed. */
int bee_family_ended(DWORD process, HANDLE h, DWORD code);
/* The status of the first one, as wait(2) gives it. 0: it died unexpectedly,
 * with the exit code in *status. */
int bee_family_status(u32 *status);
u32 bee_family_count(void); /* processes that are left */

/* In a child. 0, or a Win32 error; without a section nothing is done. */
int bee_family_join(void);
int bee_family_start(void); /* after bee_load: signals arrive from now on */
/* ABI_FAMILY_HOLD */
void bee_family_hold(int on);
/* In a child of fork: its record is its own from now on. 0, or a Win32 error:
 * the parent has ended. */
int bee_family_live(void);
u32 bee_family_pid(void); /* 0: there is no family */
/* A new thread's number, from the same sequence as pids; 0: as above. */
s64 bee_family_number(u32 thread);
/* The thread ends, and has released its futexes. */
void bee_family_thread_gone(u32 thread);
s64 bee_family_lives(u32 tid); /* host->thread_lives */
/* The pid of a process of Windows. 0: it is not of this run, as in fcntl(2) a
 * process of another pid namespace. */
s32 bee_family_pid_of(u32 process);
/* Sends SIGCHLD for children that have ended, unless that was done. */
void bee_family_tell(void);
void bee_family_end(u32 status);
/* stop.c: this process stops, until another thread calls bee_stop_end. */
s64 bee_stop(u32 signo);
void bee_stop_end(void);
/* robust.c */
#define WIN_SIGKILL 9
/* This process is about to end: releases its robust futexes. self: 1 if the
 * caller is a guest thread. No other thread executes guest code afterwards. */
void bee_robust_end(u32 self);
void bee_robust_killed(void); /* does not return if it is to end by SIGKILL */
/* Returns when the process has ended by itself, or will not. */
void bee_robust_kill(struct win_member *m, HANDLE process);
/* kin.c */
s64 bee_family(struct abi_family_op *op, u32 thread);
/* The process `process` is member `pid` from now on. 0 or -ESRCH. */
s64 bee_family_set_process(s32 pid, DWORD process);
void bee_family_child_ended(s32 pid, u32 status);

/* Execution: spawn.c ------------------------------------------------------ */

s64 bee_exec_file(void);
/* pid 0: the new process replaces this one, and the call returns only errors.
 */
s64 bee_exec(const struct abi_family_op *op, s32 pid);
/* In the new process: takes over handles, and unless it is forked, arguments
 * and environment. 0, or a Win32 error. */
struct win_spawn;
int bee_exec_take(struct bee_options *o, char ***env, struct win_spawn **from);
void *bee_exec_memory(struct win_handle *h, u64 offset, u64 len);
void bee_exec_close(struct win_handle *h);

#endif
