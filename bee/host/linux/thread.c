/* SPDX-License-Identifier: MIT */
/*
 * Guest threads as pthreads. A pthread's stack is also its host stack: the
 * start function records its own frame, guest registers are stored below it,
 * and thread_exit jumps back to the recorded frame, so that the libc ends the
 * thread.
 *
 * `lock` guards `private`, and `threads`, so a thread's mapping is not freed
 * while another thread kicks it. `made` is abi's, which creates a thread before
 * it starts it: the guest's number of a thread is the kernel's, so no other
 * process has it. A thread blocks all signals until its GS is set.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bee/core/freeze.h"
#include "host.h"

#define PRIVATE_MAX 8 /* one ask has 5 */
#define ARCH_SET_GS 0x1001
#define ARCH_GET_FS 0x1003
#define HWCAP2_FSGSBASE 2
#define THREADS_MAX 1024
/* clock_getcpuclockid(3): per thread, scheduler's time. */
#define TID_CLOCK(tid) ((clockid_t)(~(u32)(tid) << 3 | 6))
#define CLOCK_TID(clock) (~((clock) >> 3))

u32 bee_fs_mode = BEE_FS_CALL;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct lin_thread *threads[THREADS_MAX];
static u64 before[THREADS_MAX];		     /* CPU time of restored threads */
static struct lin_thread *helper;	     /* the thread without an index */
static struct lin_thread *made[THREADS_MAX]; /* not started yet */
static int private[PRIVATE_MAX];	     /* the number + 1; 0: free */

struct lin_thread *lin_self(void)
{
	struct bee_thread *t;

	__asm__("mov %%gs:%c1, %0" : "=r"(t) : "i"(BEE_SLOT(SKEP_SLOT_THREAD)));
	return t->os;
}

struct lin_thread *lin_thread_new(u32 index)
{
	struct lin_thread *t = bee_os_alloc(sizeof(*t));

	if (!t)
		return NULL;
	t->bee.os = t;
	t->bee.index = index;
	t->bee.vec = t->vec;
	t->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (t->wake >= 0)
		return t;
	bee_os_free(t, sizeof(*t));
	return NULL;
}

/* Sets GS, slots and the alternate stack; afterwards signals may arrive. */
void lin_thread_enable(struct lin_thread *t)
{
	stack_t alt = {.ss_sp = t->alt, .ss_size = sizeof(t->alt)};
	sigset_t none;

	if (getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE)
		bee_fs_mode = BEE_FS_INSN;
	t->tid = gettid();
	syscall(SYS_arch_prctl, ARCH_GET_FS, &t->bee.host_fs);
	t->bee.guest_fs = t->bee.host_fs;
	syscall(SYS_arch_prctl, ARCH_SET_GS, t);
	bee_slots_fill(&t->bee);
	sigaltstack(&alt, NULL);
	if (t->bee.index < THREADS_MAX) {
		pthread_mutex_lock(&lock);
		threads[t->bee.index] = t;
		pthread_mutex_unlock(&lock);
	} else {
		helper = t;
	}
	sigemptyset(&none);
	sigaddset(&none, LIN_KICK);
	sigaddset(&none, SIGSEGV);
	sigaddset(&none, SIGBUS);
	sigaddset(&none, SIGFPE);
	sigaddset(&none, SIGILL);
	sigaddset(&none, SIGTRAP);
	pthread_sigmask(SIG_UNBLOCK, &none, NULL);
}

/* The inverse. When abi is informed, it may reuse the index. */
void lin_thread_leave(struct lin_thread *t)
{
	stack_t off = {.ss_flags = SS_DISABLE};
	sigset_t all;

	t->bee.guest_fs = t->bee.host_fs;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	pthread_mutex_lock(&lock);
	threads[t->bee.index] = NULL;
	before[t->bee.index] = 0;
	pthread_mutex_unlock(&lock);
	abi_thread_gone(bee.proc, t->bee.index);
	syscall(SYS_arch_prctl, ARCH_SET_GS, 0);
	sigaltstack(&off, NULL);
	close(t->wake);
	bee_os_free(t, sizeof(*t));
}

static void begin_program(void)
{
	bee.image.entered_ns = (u64)lin_clock(ABI_CLOCK_MONOTONIC);
	if (bee.resume || bee.snapshot) /* main.c */
		lin_signals_hold(0);
}

/* Sets FS to the guard; afterwards only the gate switches to the libc's. */
static __attribute__((noreturn)) void enter_guest(struct lin_thread *t)
{
	u8 *here = __builtin_frame_address(0);
	u64 room = LIN_HOST_STACK - 0x4000;

	bee_thread_init(&t->bee, t->bee.index, here - 0x1000 - room, room,
			t->vec);
	if (t->bee.index == 0 && !bee.image.entered_ns)
		begin_program();
	t->bee.guest_fs = LIN_GUARD;
	bee_fs_enter(&t->bee);
	bee_thread_enter(&t->bee);
}

static void *run_guest(void *arg)
{
	struct lin_thread *t = arg;

	while (!__atomic_load_n(&t->begun, __ATOMIC_SEQ_CST))
		lin_wait(&t->begun, 0, ABI_FOREVER);
	lin_thread_enable(t);
	if (!__builtin_setjmp(t->leave))
		enter_guest(t);
	lin_thread_leave(lin_self());
	return NULL;
}

/* Thread 0 also loads the program, and ends the process if that fails. */
static void *run_first(void *arg)
{
	s64 (*run)(void) = arg;
	struct lin_thread *t = lin_thread_new(0);

	if (!t)
		_exit(BEE_EXIT_REFUSED);
	lin_thread_enable(t);
	if (run())
		return NULL;
	if (!__builtin_setjmp(t->leave))
		enter_guest(t);
	lin_thread_leave(lin_self());
	return NULL;
}

/* number: if not NULL, the kernel's of the thread. */
static s64 start_pthread(void *(*run)(void *), void *arg, u64 stack,
			 s32 *number)
{
	pthread_attr_t attr;
	clockid_t clock;
	pthread_t id;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, stack);
	err = pthread_create(&id, &attr, run, arg);
	pthread_attr_destroy(&attr);
	if (err)
		return -EAGAIN;
	/* the thread cannot have ended, because it waits for lin_thread_start
	 */
	if (number && !pthread_getcpuclockid(id, &clock))
		*number = CLOCK_TID(clock);
	return 0;
}

s64 lin_thread_first(s64 (*run)(void))
{
	lin_vdso_init();
	return start_pthread(run_first, (void *)run, LIN_HOST_STACK + 0x10000,
			     NULL);
}

/* The new thread inherits the mask: all signals are blocked until it is
 * ready. */
static s64 start_blocked(void *(*run)(void *), void *arg, u64 stack,
			 s32 *number)
{
	sigset_t all, old;
	s64 err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = start_pthread(run, arg, stack, number);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return err;
}

s64 lin_thread_number(u32 thread)
{
	struct lin_thread *t =
		thread < THREADS_MAX ? lin_thread_new(thread) : NULL;
	s32 number = 0;

	if (!t)
		return -EAGAIN;
	if (start_blocked(run_guest, t, LIN_HOST_STACK + 0x10000, &number)) {
		close(t->wake);
		bee_os_free(t, sizeof(*t));
		return -EAGAIN;
	}
	made[thread] = t;
	return lin_family_number(number);
}

/* A restored thread has its number already. */
s64 lin_thread_start(u32 thread)
{
	struct lin_thread *t;

	if (thread >= THREADS_MAX ||
	    (!made[thread] && lin_thread_number(thread) < 0))
		return -EAGAIN;
	t = made[thread];
	made[thread] = NULL;
	__atomic_store_n(&t->begun, 1, __ATOMIC_SEQ_CST);
	lin_wake(&t->begun, 1);
	return 0;
}

/* Called in the child of a fork: frees a thread of the parent. */
static void drop_thread(struct lin_thread *t, const struct lin_thread *self)
{
	if (!t || t == self)
		return;
	close(t->wake);
	bee_os_free(t, sizeof(*t));
}

static void keep_caller(struct lin_thread *self)
{
	u32 i;

	for (i = 0; i < THREADS_MAX; i++) {
		drop_thread(threads[i], self);
		drop_thread(made[i], self);
		threads[i] = made[i] = NULL;
	}
	drop_thread(helper, self);
	helper = NULL;
	close(self->wake); /* it is the same eventfd as the parent's */
	self->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (self->wake < 0) {
		bee_os_message("fork: no descriptor for the child's thread");
		_exit(BEE_EXIT_REFUSED);
	}
	self->bee.index = 0;
	self->waiting = 0;
	self->tid = gettid();
	threads[0] = self;
}

/* No thread is added to or removed from the table during the fork. */
int lin_private_keep(int fd)
{
	u32 i;

	for (i = 0; fd >= 0 && i < PRIVATE_MAX; i++)
		if (!private[i]) {
			private[i] = fd + 1;
			return fd;
		}
	if (fd >= 0)
		close(fd);
	return -1;
}

void lin_private_close(int fd)
{
	u32 i;

	if (fd < 0)
		return;
	pthread_mutex_lock(&lock);
	for (i = 0; i < PRIVATE_MAX; i++)
		if (private[i] == fd + 1)
	private[i] = 0;
	close(fd);
	pthread_mutex_unlock(&lock);
}

static void drop_private(void)
{
	u32 i;

	for (i = 0; i < PRIVATE_MAX; i++) {
		if (private[i])
			close(private[i] - 1);
		private[i] = 0;
	}
}

s32 lin_thread_fork(void)
{
	struct lin_thread *self = lin_self();
	s32 pid;

	pthread_mutex_lock(&lock);
	pid = fork();
	if (pid == 0) {
		lin_helper_forget();
		lin_live_forget();
		drop_private();
		bee_freeze_forget();
		lin_robust_forget();
		bee_images_forked();
		keep_caller(self);
	} else if (pid < 0) {
		pid = -errno;
	}
	pthread_mutex_unlock(&lock);
	return pid;
}

void lin_thread_hold(void)
{
	pthread_mutex_lock(&lock);
}

void lin_thread_unhold(void)
{
	pthread_mutex_unlock(&lock);
}

static void *run_helper(void *arg)
{
	lin_thread_enable(arg);
	lin_helper_run();
}

s64 lin_helper_start(void)
{
	struct lin_thread *t = lin_thread_new(LIN_NO_INDEX);

	return t ? start_blocked(run_helper, t, LIN_HELPER_STACK, NULL)
		 : -EAGAIN;
}

s64 lin_thread_own(void *(*run)(void *), void *arg)
{
	return start_blocked(run, arg, LIN_HELPER_STACK, NULL);
}

void lin_thread_exit(u32 thread)
{
	(void)thread;
	__builtin_longjmp(lin_self()->leave, 1);
}

/*
 * Here `kicked` is written before `waiting` is read, and io_wait writes
 * `waiting` before it reads `kicked`: one of the two sees the other. The signal
 * interrupts guest code.
 */
void lin_thread_kick(u32 thread)
{
	struct lin_thread *t;
	u64 one = 1;

	if (thread >= THREADS_MAX)
		return;
	pthread_mutex_lock(&lock);
	t = threads[thread];
	if (t) {
		__atomic_store_n(&t->bee.kicked, 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&t->waiting, __ATOMIC_SEQ_CST) &&
		    write(t->wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
			bee_os_message("defect: a waiting thread cannot be "
				       "woken");
		syscall(SYS_tgkill, getpid(), t->tid, LIN_KICK);
	}
	pthread_mutex_unlock(&lock);
}

s64 lin_thread_yield(void)
{
	sched_yield();
	return 0;
}

s64 lin_thread_clock(u32 thread)
{
	struct timespec ts;
	s64 ns = -ESRCH;

	pthread_mutex_lock(&lock);
	if (thread < THREADS_MAX && threads[thread] &&
	    !clock_gettime(TID_CLOCK(threads[thread]->tid), &ts))
		ns = ts.tv_sec * 1000000000ll + ts.tv_nsec +
		     (s64)before[thread];
	pthread_mutex_unlock(&lock);
	return ns;
}

void lin_thread_before(u32 thread, u64 ns)
{
	if (thread < THREADS_MAX)
		before[thread] = ns;
}

s64 lin_thread_affinity(u32 thread, const void *mask, u64 bytes)
{
	s64 result = -ESRCH;

	pthread_mutex_lock(&lock);
	if (thread < THREADS_MAX && threads[thread])
		result = syscall(SYS_sched_setaffinity, threads[thread]->tid,
				 bytes, mask) < 0
				 ? -errno
				 : 0;
	pthread_mutex_unlock(&lock);
	return result;
}
