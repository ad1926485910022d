/* SPDX-License-Identifier: MIT */
/* What the files of the Linux host share. Handles are file descriptors. */
#ifndef BEE_HOST_LINUX_HOST_H
#define BEE_HOST_LINUX_HOST_H

#include <signal.h>
#include <skep/snapshot.h>

#include "abi/include/lin.h"
#include "bee/core/bee.h"

/* The signal that interrupts guest code or ppoll; it has no other use. */
#define LIN_KICK 40

/* FS base while guest code runs: the middle of 4 GiB that are never mapped. */
#define LIN_GUARD 0x300080000000ull
#define LIN_GUARD_START 0x300000000000ull
#define LIN_GUARD_SIZE 0x100000000ull

/* The index of the process's first thread, which handles timers and signals,
 * and never runs guest code. */
#define LIN_NO_INDEX 0xffffffffu

/* The child's pipe for its exit report to the parent. */
#define BEE_WORD_FD 3
/* The child's descriptor for the stream of --stream, or for --control. */
#define BEE_STREAM_FD 4
/* One memfd for all processes of a run: a process that has it at this number is
 * in the family. */
#define BEE_FAMILY_FD 5
/* The guest's inherited descriptor n is the child's n + LIN_INHERITED. */
#define LIN_INHERITED (BEE_FAMILY_FD + 1 - 3)

#define LIN_HOST_STACK 0x40000u /* stack of a guest thread in bee's code */
#define LIN_HELPER_STACK 0x20000u
#define LIN_ALT_STACK 0x8000u /* stack of signal handlers */

/*
 * One mapping per guest thread, at which its GS base points. The thread owns
 * it; others may read tid and write kicked and wake under thread.c's lock.
 */
struct lin_thread {
	u8 teb[0x2000]; /* laid out as in guest.h: slots from 0x1480 */
	u8 vec[BEE_VEC_SIZE];
	u8 alt[LIN_ALT_STACK];
	struct bee_thread bee;
	s32 tid;
	s32 wake;	/* eventfd that ends io_wait */
	u32 waiting;	/* in io_wait, or about to be; atomic */
	u32 begun;	/* it may run; atomic */
	void *leave[5]; /* for __builtin_longjmp to the thread's start */
};

extern const struct abi_host lin_host;

/* mem.c */
int lin_mem_reserve(void);
s64 lin_mem_commit(u64 addr, u64 len, u32 prot);
s64 lin_mem_file(const struct abi_mem_file *map);
s64 lin_mem_protect(u64 addr, u64 len, u32 prot);
s64 lin_mem_release(u64 addr, u64 len);
s64 lin_mem_discard(u64 addr, u64 len);

/* thread.c */
struct lin_thread *lin_thread_new(u32 index);
void lin_thread_enable(struct lin_thread *t);
void lin_thread_leave(struct lin_thread *t);
struct lin_thread *lin_self(void);
s64 lin_thread_first(s64 (*run)(void));
s64 lin_thread_start(u32 thread);
/* Creates the thread, which waits for lin_thread_start. */
s64 lin_thread_number(u32 thread);
void lin_thread_exit(u32 thread);
void lin_thread_kick(u32 thread);
s64 lin_thread_yield(void);
s64 lin_thread_clock(u32 thread);
/* CPU time that the thread had before it was restored; 0 again when it ends. */
void lin_thread_before(u32 thread, u64 ns);
s64 lin_thread_affinity(u32 thread, const void *mask, u64 bytes);
/* fork(2); in the child the caller becomes thread 0, and there are no
 * others. */
s32 lin_thread_fork(void);
/* No process is forked in between. */
void lin_thread_hold(void);
void lin_thread_unhold(void);
/*
 * A descriptor of the helper's own, which a child of fork closes: who reads a
 * pipe would wait for the child's end, too. Called between hold and unhold, in
 * which the descriptor was created. Returns it; -1: it is -1, or there is no
 * room, and it is closed.
 */
int lin_private_keep(int fd);
/* Closes it, unless it is -1. */
void lin_private_close(int fd);
/* A thread of bee's own, which accepts no signal. 0, or a negative errno. */
s64 lin_thread_own(void *(*run)(void *), void *arg);
/* Starts the helper of a forked child. 0, or a negative errno. */
s64 lin_helper_start(void);

/* signal.c, handler.S */
int lin_signal_init(void);
void lin_signal_entry(void);

/* wait.c */
s64 lin_wait(u32 *word, u32 expect, u64 deadline_ns);
void lin_wake(u32 *word, u32 count);
s64 lin_futex(const struct abi_futex_op *op, u32 thread);
s64 lin_io_wait(struct abi_poll *list, u32 count, u64 deadline_ns, u32 thread);
void lin_timer_arm(u64 deadline_ns);
/*
 * When it returns, the program has received all signals that the process got
 * before. A guest thread calls it, with no lock held.
 */
void lin_signals_settle(void);
/* ABI_FAMILY_HOLD. Afterwards the helper takes no signals, until as many calls
 * with 0 as with 1 were made. */
void lin_signals_hold(int on);
/* A signal of faults came from a process, not from this thread's code; only
 * from its handler. */
void lin_signal_sent(int sig, const siginfo_t *info);
/*
 * 1: this thread, which blocks them, is about to execute a program. Such
 * signals that the old program has not received become pending for the thread,
 * where they outlast the execve. 0: that failed.
 */
void lin_sent_keep(int on);
/* The helper's loop: timers and signals of the process. */
__attribute__((noreturn)) void lin_helper_run(void);
/* Passes on a call to the helper (ask.c); only from a handler. */
void lin_helper_call(siginfo_t *info);
/* In the helper, while it does something else. */
void lin_helper_settle(void);
/* The same, also without a request: the program has all signals that its
 * process got before. */
void lin_helper_pass(void);
void lin_helper_forget(void);

/* open.c, filelock.c, block.S */
s64 lin_file_open(struct abi_open *open);
s64 lin_file_lock(s32 handle, struct abi_filelock *lock, u32 thread);
s64 lin_block(u32 *kicked, u64 nr, const u64 arg[6]);
/* The same for the calling guest thread: a kick ends one call with -EINTR. */
s64 lin_wait_call(u64 nr, const u64 arg[6]);
extern const u8 lin_block_begin[], lin_block_end[], lin_block_out[];

/* ipc.c */
s64 lin_watch(struct abi_watch_op *op);
s64 lin_ipc(const struct abi_ipc_op *op, u32 thread);

/* clock.c, vdso.c */
s64 lin_clock(u32 clock);
/* What a restored program's clocks show beyond the kernel's; written before
 * there are guest threads. Monotonic time, and CPU time of the process. */
extern s64 lin_clock_ahead;
extern u64 lin_cpu_before, lin_user_before, lin_system_before;
/* as the process inherited it; the process's own umask is 0 */
extern u32 lin_umask;
void lin_vdso_init(void);
s64 lin_random(void *buf, u64 len);
s64 lin_info(struct abi_host_info *info);
s64 lin_rusage(s64 *user_ns, s64 *system_ns);

/* cache.c: 0, -EIO at the end of the file before `len` bytes, or -errno. */
s64 lin_read_all(int fd, u8 *bytes, u64 len);
/* 0 or -errno. */
s64 lin_write_all(int fd, const u8 *bytes, u64 len);

/* robust.c */
s64 lin_robust_watch(void);
/* In a child of fork: the watcher is the parent's. */
void lin_robust_forget(void);
/* This process ended; returns when its robust futexes are released. */
void lin_robust_await(s32 pid);
/* Whether a process has ended whose robust futexes are not released yet. */
int lin_robust_busy(void);
/* After an execve: returns when those of the old program are. */
void lin_robust_executed(void);

/* family.c */
s64 lin_family(struct abi_family_op *op, u32 thread);
s64 lin_pipe(s32 handle[2], u32 type);
s64 lin_counter(u64 value, u32 semaphore);
s64 lin_sock(s32 handle, struct abi_sock_op *op);
s32 lin_family_guest(s32 pid); /* the guest's number of a process */
int lin_family_has(s32 pid);

/* A restored process has the guest's number `guest`, and the kernel's `pid`; 0:
 * none has. -1: there are too many. lin_family_restored: 0: there is no i-th
 * one. */
int lin_family_restore(s32 guest, s32 pid);
int lin_family_restored(u32 i, s32 *guest, s32 *pid);
/* The guest's number of a new thread of this process. */
s32 lin_family_number(s32 tid);
/* host->thread_lives */
s64 lin_family_lives(u32 tid);
/* Whether a thread of the kernel's exists, and is no zombie. */
int lin_proc_runs(s32 tid);
/* A restored thread has the guest's number `tid`: no new one gets it. */
void lin_family_numbered(s32 tid);
s32 lin_family_base(void);

/* snapshot.c: in the helper; `token` names the socket of who asks, 0: it is
 * that of --control. */
void lin_snapshot_answer(u64 token);
/* Reads options->restore into bee.snapshot. 0, or -1 after a message. */
int lin_restore_open(struct bee_options *options);
/* written.c: which pages were written since the last look; open: a descriptor,
 * or -1 if the kernel cannot tell. `look` gets enum bee_look for each page. */
struct lin_written {
	s32 fd, map;
	u32 protect;
};
int lin_written_open(void);
void lin_written_area(int fd, u64 start, u64 end);
void lin_written_look(const struct lin_written *w, u64 addr, u64 pages,
		      u8 *look);

struct bee_snapshot;
struct bee_save;
/* source.c: for struct bee_save. */
s64 lin_source_memory(struct bee_save *s, u64 addr, void *buf, u64 len);
u64 lin_source_touched(struct bee_save *s, u64 addr, u64 end);
const char *lin_source_judge(struct bee_save *s, s32 handle);
s64 lin_source_peek(struct bee_save *s, s32 handle, void *buf, u64 len);
s64 lin_source_data(struct bee_save *s, s32 handle, u64 *offset, void *buf,
		    u64 len);

/*
 * members.c: the other processes of the run, in the helper of the first one,
 * which is at rest. Brings all to rest; `how`: enum skep_snapshot_end. 0, or -1
 * and a part of a sentence in why; either way lin_members_end follows.
 */
int lin_members_rest(u32 how, char *why, u64 size);
/* Before that, while the processes run, so that what lasts is refused before
 * any of them rests: the same result, and nothing follows. */
int lin_members_look(char *why, u64 size);
/* For struct bee_save. */
void lin_members_save(struct bee_save *s);
/* 1: they end, and have ended when it returns; 0: they go on. */
void lin_members_end(u32 end);

/*
 * regroup.c: the processes of a snapshot with more than one. Called before this
 * process has threads: forks the others, in each of which it returns with that
 * one's snapshot in *s, in bytes that are then the caller's. 0, or -1 and what
 * is wrong in why.
 */
int lin_regroup(struct bee_snapshot *s, u8 **bytes, u64 *length, char *why,
		u64 size);
/* Returns when all processes are restored; then their groups are, too. 0, or
 * -1: another one could not be. */
int lin_regroup_await(void);

/* receive.c: reads a snapshot from a pipe. NULL, or what is wrong; in any case
 * *bytes has *room bytes, or is NULL. The mirror is freed when the program has
 * its memory. */
const char *lin_receive(int fd, struct bee_snapshot *s, u8 **bytes, u64 *room);
void lin_mirror_free(void);
/* What execve passes on of a restored process; NULL: nothing. */
const char *lin_restored_text(void);
int lin_restored_take(const char *text);
/* After bee_load: starts the other threads. 0, or -1 after a message. */
int lin_restore_start(void);

/* The program starts another one: what is saved while it runs is given up. */
void lin_live_cancel(void);
/* In the child of a fork. */
void lin_live_forget(void);

/* digest.c; the key is aligned to 16 bytes. */
#define LIN_DIGEST_KEY (SKEP_PAGE_SIZE + 16u)
struct bee_page_digest;
void lin_page_digest(const u8 key[LIN_DIGEST_KEY], const void *page,
		     struct bee_page_digest *out);

/* ask.c: the command bee --snapshot; the exit code. */
int lin_ask(const struct bee_options *o);
/* Has process `pid`, which runs a guest, connect to this one, in `tries` times
 * 0.2 s: its socket, or one of LIN_ASK. */
enum { LIN_ASK_SOCKET = -3, LIN_ASK_ENDED, LIN_ASK_SILENT };
int lin_ask_connect(s32 pid, u32 tries);
/* 0, or -1. */
int lin_ask_send(int sock, const struct skep_snapshot_ask *ask, int fd);
/* The socket of --control; -1: there is none, or it is another process's. */
extern int lin_control;
/* Fills a struct sockaddr_un with the socket's name; its length. */
struct sockaddr_un;
u32 lin_ask_name(struct sockaddr_un *to, u64 token);

/* procfs.c: kernel's pids. The text's length, or a negative errno. */
s64 lin_family_text(s32 pid, u32 which, char *text, u64 len);
s32 lin_family_next(s32 pid);
void lin_proc_name(const char *name);
/* A file of /proc/PID: at most `len` bytes and a NUL. Their number, or -errno.
 */
s64 lin_proc_read(s32 pid, const char *name, char *buf, u64 len);

/* exec.c */
s64 lin_exec_file(void);
s64 lin_exec(const struct abi_family_op *op);
int lin_exec_resume(s32 handle, s32 wake);

/* main.c */
extern int lin_message_fd; /* -1: bee's messages are discarded */
void lin_proc_resumed(u32 forked);
s64 lin_file_close(s32 handle);
void lin_proc_exit(u32 status);
/* This process is a child of fork: its parent is told of its end. */
void lin_proc_child(void);
u32 lin_proc_is_child(void);

/*
 * vfork.c. A child begins with its end of a socket pair and the part of its
 * parent's stack that it may change; `end` is -1 for a child of fork. Before it
 * executes or ends, it sends its changes. The parent waits for them at its own
 * end.
 */
void lin_vfork_begin(int end, u64 stack, u32 len);
void lin_vfork_report(void);
void lin_vfork_wait(int end, u64 stack, u32 len);
/* 1: the parent waits for this process, so it cannot come to rest first. */
int lin_vfork_is_awaited(void);
void lin_log(const char *line);
/* parent.c: exit code of the whole run. */
int lin_parent(char **argv, const struct bee_options *o);
int lin_probe(void);
int lin_cpu_answer(const char *text);

/* A number above all that lin_inherited_move uses. */
int lin_inherited_end(void);
/* In the child before it executes bee: moves the inherited descriptors to where
 * bee_os_inherited finds them. 0, or -1 after a message. */
int lin_inherited_move(void);
/* In the parent, which would otherwise keep files and pipes open that the
 * program closes. */
void lin_inherited_close(void);

#endif
