/* SPDX-License-Identifier: MIT */
/*
 * Robust futexes of a process that ends without abi: SIGKILL, exit_group with
 * other threads, execve. The kernel's own list is of no use, because words
 * contain the guest's thread numbers, which are not the kernel's. So a second
 * process, the watcher, uses the same memory (CLONE_VM) and outlives the first:
 * it reads from a pipe whose other end only the first process has, closed at
 * exec, and at its end walks the lists of all threads.
 *
 * The watcher belongs to no group or session of the guest, has none of its
 * descriptors and blocks all signals but faults. It is a "clone child", which
 * wait(2) does not see without __WCLONE. It holds a lock on the family's file,
 * at its process's number, until all is released: whoever waits for that
 * process waits for this too.
 *
 * Owns `watcher`, which only the call of abi writes, and a child of fork.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "host.h"

#define STACK 0x8000
#define TLS_ROOM 0x4000 /* below the thread pointer: the libc's variables */
#define READY 1
#define FAILED 2
#define LOOK_MS 100
#define PIDS 0x400000 /* the kernel has no higher one */

/* The watcher's own stack and thread-local storage: its creator's end with
 * that thread. */
static struct {
	u8 stack[STACK];
	u8 tls[TLS_ROOM];
	void *tcb[512];
	int pipe[2]; /* [1]: this process's end, or -1 */
	s32 pid;     /* the kernel's number of this process */
	u32 state;   /* READY or FAILED; atomic */
} watcher __attribute__((aligned(64))) = {.pipe = {-1, -1}};

static void wake_shared(u64 gaddr)
{
	syscall(SYS_futex, gaddr, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Only accesses to the guest's memory may fault. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
	greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
	u64 next = abi_copy_resume((u64)g[REG_RIP]);

	(void)info;
	if (!next)
		_exit(BEE_EXIT_SIGNAL + sig);
	g[REG_RIP] = (greg_t)next;
}

static int catch_faults(void)
{
	struct sigaction sa = {.sa_sigaction = on_fault,
			       .sa_flags = SA_SIGINFO | SA_NODEFER};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	sigaddset(&set, SIGBUS);
	return sigaction(SIGSEGV, &sa, NULL) || sigaction(SIGBUS, &sa, NULL) ||
	       sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int set_lock(int fd, int command, short type, s32 pid)
{
	struct flock lock = {.l_type = type,
			     .l_whence = SEEK_SET,
			     .l_start = pid,
			     .l_len = 1};
	int rc;

	do
		rc = fcntl(fd, command, &lock);
	while (rc && errno == EINTR);
	return rc;
}

/* Keeps the pipe and the family's file, under numbers that a member of the
 * family does not have for it. */
static int keep_two(void)
{
	int fd;

	if (dup2(watcher.pipe[0], 0) < 0 || dup2(BEE_FAMILY_FD, 1) < 0)
		return -1;
	if (!syscall(SYS_close_range, 2, ~0u, 0))
		return 0;
	for (fd = 2; fd < (int)sysconf(_SC_OPEN_MAX); fd++)
		close(fd);
	return 0;
}

static void tell_creator(u32 state)
{
	__atomic_store_n(&watcher.state, state, __ATOMIC_SEQ_CST);
	lin_wake(&watcher.state, 1);
}

static int run_watcher(void *arg)
{
	char byte;

	(void)arg;
	if (keep_two() || setsid() < 0 || catch_faults() ||
	    set_lock(1, F_SETLK, F_WRLCK, watcher.pid)) {
		tell_creator(FAILED);
		_exit(1);
	}
	tell_creator(READY);
	while (read(0, &byte, 1) < 0 && errno == EINTR)
		;
	abi_robust_dead(bee.proc, wake_shared);
	_exit(0);
}

/* It may be killed before it is ready. */
static int await_ready(s32 child)
{
	u64 until;

	for (;;) {
		switch (__atomic_load_n(&watcher.state, __ATOMIC_SEQ_CST)) {
		case READY:
			return 0;
		case FAILED:
			waitpid(child, NULL, __WCLONE);
			return -1;
		}
		until = (u64)lin_clock(ABI_CLOCK_MONOTONIC) + LOOK_MS * 1000000;
		lin_wait(&watcher.state, 0, until);
		if (waitpid(child, NULL, __WCLONE | WNOHANG) == child)
			return -1;
	}
}

static s32 start_watcher(void)
{
	sigset_t all, old;
	void *tp = watcher.tcb;
	s32 pid;

	watcher.tcb[0] = watcher.tcb[2] = tp;
	watcher.pid = getpid();
	watcher.state = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone(run_watcher, watcher.stack + STACK, CLONE_VM | CLONE_SETTLS,
		    NULL, NULL, tp, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return pid;
}

static s64 watch_end(void)
{
	int low[2], i;
	s32 pid = -1;

	if (pipe2(low, O_CLOEXEC))
		return -errno;
	for (i = 0; i < 2; i++) {
		watcher.pipe[i] =
			fcntl(low[i], F_DUPFD_CLOEXEC, BEE_FAMILY_FD + 1);
		close(low[i]);
	}
	if (watcher.pipe[0] >= 0 && watcher.pipe[1] >= 0)
		pid = start_watcher();
	if (pid > 0 && await_ready(pid))
		pid = -1;
	close(watcher.pipe[0]);
	if (pid > 0)
		return 0;
	lin_robust_forget();
	return -EAGAIN;
}

s64 lin_robust_watch(void)
{
	s64 rc;

	lin_thread_hold();
	rc = watch_end();
	lin_thread_unhold();
	return rc;
}

void lin_robust_forget(void)
{
	if (watcher.pipe[1] >= 0)
		close(watcher.pipe[1]);
	watcher.pipe[1] = -1;
}

void lin_robust_await(s32 pid)
{
	if (!set_lock(BEE_FAMILY_FD, F_OFD_SETLKW, F_RDLCK, pid))
		set_lock(BEE_FAMILY_FD, F_OFD_SETLK, F_UNLCK, pid);
}

/* F_OFD_GETLK gives any of the locks in the range, and not the first; it may
 * begin before the range. */
static int has_ended(s64 from, s64 end)
{
	struct flock lock = {.l_type = F_WRLCK,
			     .l_whence = SEEK_SET,
			     .l_start = from,
			     .l_len = end - from};
	s64 at;

	if (from >= end || fcntl(BEE_FAMILY_FD, F_OFD_GETLK, &lock) ||
	    lock.l_type == F_UNLCK)
		return 0;
	at = lock.l_start < from ? from : lock.l_start;
	return !lin_proc_runs((s32)at) || has_ended(from, at) ||
	       has_ended(at + 1, end);
}

int lin_robust_busy(void)
{
	return has_ended(1, PIDS);
}

void lin_robust_executed(void)
{
	while (waitpid(-1, NULL, __WCLONE) < 0 && errno == EINTR)
		;
}
