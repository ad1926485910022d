/* SPDX-License-Identifier: MIT */
/*
 * Sleeping: on a word, on handles, in a call, and in the helper, which sleeps
 * until a signal or the next guest timer. Owns the timer's deadline; `armed`
 * counts its changes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "abi/include/siginfo.h"
#include "host.h"

#define SECOND 1000000000ull

static u64 deadline = ABI_FOREVER;
static u32 armed;
static s32 helper; /* its tid, or 0; atomic */
/* numbers of requests to lin_signals_settle; atomic */
static u32 asked, settled;
/*
 * Calls of lin_signals_hold that are in force, in the low byte; above it how
 * often that changed. `parked` is the value that the helper has seen. Atomic.
 */
static u32 held, parked;
#define HELD 0xffu
#define CHANGE 0x100u

static struct timespec *timespec_of(struct timespec *ts, u64 ns)
{
	if (ns == ABI_FOREVER)
		return NULL;
	ts->tv_sec = (time_t)(ns / SECOND);
	ts->tv_nsec = (s64)(ns % SECOND);
	return ts;
}

/* The kernel's clock shows what the guest's shows less the offset. */
static u64 kernel_deadline(u64 ns)
{
	u64 ahead = (u64)lin_clock_ahead;

	if (ns == ABI_FOREVER)
		return ns;
	if (lin_clock_ahead > 0)
		return ns > ahead ? ns - ahead : 0;
	return ns - ahead < ns ? ABI_FOREVER : ns - ahead;
}

/* FUTEX_WAIT_BITSET takes an absolute time on CLOCK_MONOTONIC. */
s64 lin_wait(u32 *word, u32 expect, u64 deadline_ns)
{
	struct timespec ts;

	if (!syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, expect,
		     timespec_of(&ts, kernel_deadline(deadline_ns)), NULL,
		     FUTEX_BITSET_MATCH_ANY))
		return 0;
	return errno == ETIMEDOUT ? -ETIMEDOUT : 0;
}

void lin_wake(u32 *word, u32 count)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE,
		count > INT_MAX ? INT_MAX : count, NULL, NULL, 0);
}

/*
 * The kernel has the queues of words that processes share. A kick ends only
 * waits, so no wake-up is lost.
 */
s64 lin_futex(const struct abi_futex_op *op, u32 thread)
{
	struct timespec ts;
	u64 arg[6] = {op->addr,	 op->command, op->value,
		      op->count, op->second,  op->value3};
	s64 n;

	(void)thread;
	if (op->command != FUTEX_WAIT_BITSET) {
		n = syscall(SYS_futex, arg[0], arg[1], arg[2], arg[3], arg[4],
			    arg[5]);
		return n < 0 ? -errno : n;
	}
	arg[3] = (u64)(__UINTPTR_TYPE__)timespec_of(
		&ts, kernel_deadline(op->deadline));
	return lin_wait_call(SYS_futex, arg);
}

static u64 now_ns(void)
{
	return (u64)lin_clock(ABI_CLOCK_MONOTONIC);
}

/* A kick ends one wait with -EINTR; then abi checks for signals. */
static int take_kick(struct lin_thread *t)
{
	u64 count;

	if (!__atomic_exchange_n(&t->bee.kicked, 0, __ATOMIC_SEQ_CST))
		return 0;
	while (read(t->wake, &count, sizeof(count)) < 0 && errno == EINTR)
		;
	return 1;
}

static s64 poll_until(struct lin_thread *t, struct pollfd *fds, u32 count,
		      u64 deadline_ns)
{
	struct timespec ts, *left;
	u64 time;
	int n;

	for (;;) {
		if (take_kick(t))
			return -EINTR;
		left = &ts;
		if (deadline_ns == ABI_FOREVER) {
			left = NULL;
		} else {
			time = deadline_ns ? now_ns() : 0;
			timespec_of(&ts, deadline_ns > time ? deadline_ns - time
							    : 0);
		}
		n = ppoll(fds, count + 1, left, NULL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		/* From a kick that was already handled. */
		if (fds[count].revents && !take_kick(t)) {
			u64 drain;

			if (read(t->wake, &drain, sizeof(drain)) < 0 &&
			    errno != EAGAIN)
				return -errno;
			if (n == 1)
				continue;
		}
		n -= !!fds[count].revents;
		return n || !fds[count].revents ? n : -EINTR;
	}
}

s64 lin_wait_call(u64 nr, const u64 arg[6])
{
	struct lin_thread *t = lin_self();
	s64 n = lin_block(&t->bee.kicked, nr, arg);

	if (n == -EINTR)
		__atomic_store_n(&t->bee.kicked, 0, __ATOMIC_SEQ_CST);
	return n;
}

s64 lin_io_wait(struct abi_poll *list, u32 count, u64 deadline_ns, u32 thread)
{
	struct lin_thread *t = lin_self();
	struct pollfd few[32], *fds = few;
	u64 len = ((u64)count + 1) * sizeof(*fds);
	s64 n;
	u32 i;

	(void)thread;
	if (len > sizeof(few))
		fds = bee_os_alloc(len);
	if (!fds)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		fds[i].fd = list[i].handle;
		fds[i].events = (short)list[i].events;
	}
	fds[count].fd = t->wake;
	fds[count].events = POLLIN;
	__atomic_store_n(&t->waiting, 1, __ATOMIC_SEQ_CST);
	n = poll_until(t, fds, count, deadline_ns);
	__atomic_store_n(&t->waiting, 0, __ATOMIC_SEQ_CST);
	for (i = 0; i < count; i++)
		list[i].revents = n > 0 ? (u16)fds[i].revents : 0;
	if (fds != few)
		bee_os_free(fds, len);
	return n;
}

/* The helper keeps the kick signal blocked and waits for it, so none is
 * lost. */
void lin_timer_arm(u64 deadline_ns)
{
	s32 to;

	__atomic_store_n(&deadline, deadline_ns, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&armed, 1, __ATOMIC_SEQ_CST);
	to = __atomic_load_n(&helper, __ATOMIC_SEQ_CST);
	if (to)
		syscall(SYS_tgkill, getpid(), to, LIN_KICK);
}

/* A deadline that is armed during abi_timer_fire is newer than its result. */
static void timer_fire(u64 time)
{
	u32 before = __atomic_load_n(&armed, __ATOMIC_SEQ_CST);
	u64 due = __atomic_load_n(&deadline, __ATOMIC_SEQ_CST), next;

	next = abi_timer_fire(bee.proc, time);
	if (__atomic_load_n(&armed, __ATOMIC_SEQ_CST) == before)
		__atomic_compare_exchange_n(&deadline, &due, next, 0,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static int ends_by_default(int sig)
{
	return sig != SIGCHLD && sig != SIGCONT && sig != SIGURG &&
	       sig != SIGWINCH && sig != SIGTSTP && sig != SIGTTIN &&
	       sig != SIGTTOU && sig != SIGPIPE;
}

/* Whether the signal has the sender's or child's process number. */
static int names_process(const siginfo_t *info)
{
	return info->si_signo == SIGCHLD || info->si_code <= 0;
}

/* The helper's own write to the pipe of a snapshot that nobody reads any more:
 * a blocked signal is not ignored. The program's own signals to itself do not
 * pass the kernel. */
static int is_own_pipe(const siginfo_t *from)
{
	return from->si_signo == SIGPIPE && from->si_code == SI_USER &&
	       from->si_pid == getpid();
}

/* Before the program runs no other thread can take a signal. */
static void signal_pass(int sig, const siginfo_t *from)
{
	struct abi_siginfo info;

	_Static_assert(sizeof(info) == sizeof(*from), "siginfo_t");
	if (is_own_pipe(from))
		return;
	if (!__atomic_load_n(&bee.image.entered_ns, __ATOMIC_SEQ_CST)) {
		if (ends_by_default(sig))
			lin_proc_exit((u32)sig);
		return;
	}
	memcpy(&info, from, sizeof(info));
	if (names_process(from) && info.user.pid)
		info.user.pid = (u32)lin_family_guest((s32)info.user.pid);
	abi_signal_send(bee.proc, NULL, 0, &info);
}

/*
 * Signals of faults that a process sent. Their handler cannot pass them on,
 * since its thread may hold a lock of abi, so the helper does. As on Linux one
 * of a kind is pending at a time. A child of a fork may get one before it runs
 * any code of ours, so each belongs to a process: others find nothing.
 */
enum { SENT_WRITTEN = 1, SENT_WHOLE };
static struct {
	u64 state; /* process number << 2 | phase; atomic */
	siginfo_t info;
} sent[SIGSEGV + 1]; /* the largest of them */
static s32 keeper;   /* number of the thread of lin_sent_keep; atomic */

static int take_sent(int sig, siginfo_t *info)
{
	u64 whole = (u64)getpid() << 2 | SENT_WHOLE;

	if (__atomic_load_n(&sent[sig].state, __ATOMIC_SEQ_CST) != whole)
		return 0;
	*info = sent[sig].info;
	return __atomic_compare_exchange_n(&sent[sig].state, &whole, 0, 0,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static void keep_sent(int sig, s32 to)
{
	siginfo_t info;

	if (take_sent(sig, &info))
		syscall(SYS_rt_tgsigqueueinfo, getpid(), to, sig, &info);
}

void lin_sent_keep(int on)
{
	s32 self = on ? gettid() : 0;
	int sig;

	__atomic_store_n(&keeper, self, __ATOMIC_SEQ_CST);
	for (sig = 1; on && sig <= SIGSEGV; sig++)
		keep_sent(sig, self);
}

void lin_signal_sent(int sig, const siginfo_t *info)
{
	u64 mine = (u64)getpid() << 2, old;
	s32 to;

	if (!__atomic_load_n(&bee.image.entered_ns, __ATOMIC_SEQ_CST) &&
	    !(__atomic_load_n(&held, __ATOMIC_SEQ_CST) & HELD))
		lin_proc_exit((u32)sig);
	old = __atomic_load_n(&sent[sig].state, __ATOMIC_SEQ_CST);
	if (old == (mine | SENT_WRITTEN) || old == (mine | SENT_WHOLE) ||
	    !__atomic_compare_exchange_n(&sent[sig].state, &old,
					 mine | SENT_WRITTEN, 0,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return;
	sent[sig].info = *info;
	__atomic_store_n(&sent[sig].state, mine | SENT_WHOLE, __ATOMIC_SEQ_CST);
	to = __atomic_load_n(&keeper, __ATOMIC_SEQ_CST);
	if (to) {
		keep_sent(sig, to);
		return;
	}
	to = __atomic_load_n(&helper, __ATOMIC_SEQ_CST);
	if (to) /* or it looks when it starts */
		syscall(SYS_tgkill, getpid(), to, LIN_KICK);
}

static void pass_sent(void)
{
	siginfo_t info;
	int sig;

	for (sig = 1; sig <= SIGSEGV; sig++)
		if (take_sent(sig, &info))
			signal_pass(sig, &info);
}

/*
 * All other signals that are sent to the process; no other thread accepts them.
 * Two signals are the libc's.
 */
static void helper_signals(sigset_t *set)
{
	static const int others[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
				     SIGTRAP, SIGKILL, SIGSTOP};
	u32 i;

	sigfillset(set);
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		sigdelset(set, others[i]);
}

/* The program runs before its helper does. 0: there is no program yet. */
static s32 await_helper(void)
{
	s32 to;

	while (!(to = __atomic_load_n(&helper, __ATOMIC_SEQ_CST)) &&
	       __atomic_load_n(&bee.image.entered_ns, __ATOMIC_SEQ_CST))
		lin_wait((u32 *)&helper, 0, ABI_FOREVER);
	return to;
}

/* When it returns, the helper has passed on all signals that were sent before
 * the call. */
void lin_signals_settle(void)
{
	u32 want = __atomic_add_fetch(&asked, 1, __ATOMIC_SEQ_CST), now;
	s32 to = await_helper();

	if (!to)
		return;
	syscall(SYS_tgkill, getpid(), to, LIN_KICK);
	for (;;) {
		now = __atomic_load_n(&settled, __ATOMIC_SEQ_CST);
		if ((s32)(now - want) >= 0)
			return;
		lin_wait(&settled, now, ABI_FOREVER);
	}
}

/* Before the program runs, the helper will park before it takes any. */
void lin_signals_hold(int on)
{
	u32 now = __atomic_add_fetch(&held, CHANGE + (on ? 1 : -1u),
				     __ATOMIC_SEQ_CST);
	u32 seen;
	s32 to;

	if (!on) {
		lin_wake(&held, INT_MAX);
		return;
	}
	to = await_helper();
	if (!to)
		return;
	syscall(SYS_tgkill, getpid(), to, LIN_KICK);
	while (seen = __atomic_load_n(&parked, __ATOMIC_SEQ_CST),
	       (s32)(seen - now) < 0)
		lin_wait(&parked, seen, ABI_FOREVER);
}

static void pass_all(const sigset_t *set)
{
	static const struct timespec at_once;
	siginfo_t info;
	int sig;

	while ((sig = sigtimedwait(set, &info, &at_once)) > 0)
		if (sig != LIN_KICK)
			signal_pass(sig, &info);
	pass_sent();
}

/*
 * The kernel hands out signals by their numbers, so all are passed on before
 * the helper parks: what stays was sent later than what the program has. A
 * parked helper blocks all signals, because execve ends it, perhaps before the
 * handler runs.
 */
static void wait_held(const sigset_t *set)
{
	sigset_t all, old;
	u32 now;

	if (!(__atomic_load_n(&held, __ATOMIC_SEQ_CST) & HELD))
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while ((now = __atomic_load_n(&held, __ATOMIC_SEQ_CST)) & HELD) {
		if (__atomic_load_n(&parked, __ATOMIC_SEQ_CST) != now) {
			if (__atomic_load_n(&bee.image.entered_ns,
					    __ATOMIC_SEQ_CST))
				pass_all(set);
			__atomic_store_n(&parked, now, __ATOMIC_SEQ_CST);
			lin_wake(&parked, INT_MAX);
		}
		lin_wait(&held, now, ABI_FOREVER);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* A kick is directed at the thread, so the kernel delivers it before earlier
 * signals of the process. */
static void settle_signals(const sigset_t *set)
{
	u32 want = __atomic_load_n(&asked, __ATOMIC_SEQ_CST);

	if (__atomic_load_n(&settled, __ATOMIC_SEQ_CST) == want)
		return;
	pass_all(set);
	__atomic_store_n(&settled, want, __ATOMIC_SEQ_CST);
	lin_wake(&settled, INT_MAX);
}

void lin_helper_settle(void)
{
	sigset_t set;

	helper_signals(&set);
	settle_signals(&set);
}

void lin_helper_pass(void)
{
	sigset_t set;

	helper_signals(&set);
	pass_all(&set);
}

/* Without a helper it is lost, and who calls does so again. */
void lin_helper_call(siginfo_t *info)
{
	s32 to = __atomic_load_n(&helper, __ATOMIC_SEQ_CST);

	if (to)
		syscall(SYS_rt_tgsigqueueinfo, getpid(), to, LIN_KICK, info);
}

/* The child of a fork has no helper yet, and no timers. */
void lin_helper_forget(void)
{
	__atomic_store_n(&settled, asked, __ATOMIC_SEQ_CST);
	held = parked = 0;
	keeper = 0;
	__atomic_store_n(&deadline, ABI_FOREVER, __ATOMIC_SEQ_CST);
	__atomic_store_n(&helper, 0, __ATOMIC_SEQ_CST);
}

/* Runs in a separate thread that is no guest thread. */
void lin_helper_run(void)
{
	struct timespec ts, *left;
	sigset_t set;
	siginfo_t info;
	u64 until, time;
	int sig;

	helper_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	__atomic_store_n(&helper, gettid(), __ATOMIC_SEQ_CST);
	lin_wake((u32 *)&helper, INT_MAX);
	for (;;) {
		wait_held(&set);
		pass_sent();
		settle_signals(&set);
		until = __atomic_load_n(&deadline, __ATOMIC_SEQ_CST);
		time = until == ABI_FOREVER ? 0 : now_ns();
		if (time >= until) {
			timer_fire(time);
			continue;
		}
		left = timespec_of(&ts,
				   until == ABI_FOREVER ? until : until - time);
		sig = sigtimedwait(&set, &info, left);
		if (sig == LIN_KICK && info.si_code == SI_QUEUE)
			lin_snapshot_answer((u64)(__UINTPTR_TYPE__)info.si_ptr);
		else if (sig > 0 && sig != LIN_KICK)
			signal_pass(sig, &info);
	}
}
