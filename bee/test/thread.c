/* SPDX-License-Identifier: MIT */
/*
 * A guest thread's beginning and end on Linux: what the thread has in between,
 * and that nothing of it is left. Guest code is not run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bee/core/freeze.h"
#include "bee/host/linux/host.h"
#include "tests/tap.h"

#define INDEX 7
#define NUMBERED 1000000
#define ARCH_GET_GS 0x1004

struct bee bee;
const char *__asan_default_options(void);
static u32 gone = LIN_NO_INDEX, kicked_when_gone, freed;
static u64 freed_len;
static struct lin_thread *last, *first;
static int no_memory, messages, vdso_inits, helpers_forgotten, live_forgotten,
	robust_forgotten, images_forked, freezes_forgotten, first_freed;
static int kept[2] = {-1, -1};

/* The thread's own alternate stack is set here. */
const char *__asan_default_options(void)
{
	return "use_sigaltstack=0";
}

void *bee_os_alloc(u64 len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return no_memory || p == MAP_FAILED ? NULL : p;
}

/* The memory stays, to be looked at. */
void bee_os_free(void *p, u64 len)
{
	freed += p == last;
	first_freed += p && p == first;
	freed_len = len;
}

void bee_os_message(const char *line)
{
	messages += *line != 0;
}

void bee_slots_fill(struct bee_thread *t)
{
	struct lin_thread *own = t->os;
	u64 *slot = (u64 *)(own->teb + BEE_SLOT(SKEP_SLOT_THREAD));

	*slot = (u64)(__UINTPTR_TYPE__)t;
}

/* From here on abi may give the index to another thread. */
void abi_thread_gone(struct abi_proc *p, u32 index)
{
	gone = p == bee.proc ? index : LIN_NO_INDEX;
	last->bee.kicked = 0;
	lin_thread_kick(index);
	kicked_when_gone = last->bee.kicked;
}

void bee_thread_init(struct bee_thread *t, u32 index, void *stack, u64 len,
		     u8 *vec)
{
	(void)t, (void)index, (void)stack, (void)len, (void)vec;
}

void bee_thread_enter(struct bee_thread *t)
{
	(void)t;
	_exit(9);
}

void bee_fs_enter(struct bee_thread *t)
{
	(void)t;
}

void bee_freeze_forget(void)
{
	freezes_forgotten++;
}

void bee_images_forked(void)
{
	images_forked++;
}

s64 lin_clock(u32 clock)
{
	return clock;
}

void lin_vdso_init(void)
{
	vdso_inits++;
}

void lin_signals_hold(int on)
{
	(void)on; /* of execve only */
}

void lin_helper_forget(void)
{
	helpers_forgotten++;
}

void lin_live_forget(void)
{
	live_forgotten++;
}

void lin_robust_forget(void)
{
	robust_forgotten++;
}

s64 lin_wait(u32 *word, u32 expect, u64 deadline_ns)
{
	(void)deadline_ns;
	while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == expect)
		sched_yield();
	return 0;
}

void lin_wake(u32 *word, u32 count)
{
	(void)word, (void)count;
}

s32 lin_family_number(s32 tid)
{
	return tid + NUMBERED;
}

void lin_helper_run(void)
{
	_exit(9);
}

static u64 read_gs(void)
{
	u64 gs = 0;

	syscall(SYS_arch_prctl, ARCH_GET_GS, &gs);
	return gs;
}

static int is_blocked(int sig)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	return sigismember(&now, sig);
}

static int faults_open(void)
{
	return !is_blocked(LIN_KICK) && !is_blocked(SIGSEGV) &&
	       !is_blocked(SIGBUS) && !is_blocked(SIGFPE) &&
	       !is_blocked(SIGILL) && !is_blocked(SIGTRAP);
}

static s64 own_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* Of the processor time that the thread itself had. */
static void check_clock(void)
{
	s64 before = own_clock(), at = lin_thread_clock(INDEX);

	tap_ok(at >= before && at <= own_clock(), "its clock can be read");
	tap_ok(lin_thread_clock(INDEX + 1) == -ESRCH &&
		       lin_thread_clock(1024) == -ESRCH,
	       "a thread that is not there has none");
}

/* In the child of a fork: the caller is its one thread, and shares nothing. */
static int is_alone(const struct lin_thread *t, int parents_wake)
{
	u64 count;

	return lin_self() == t && !t->bee.index && !t->waiting &&
	       t->tid == gettid() && lin_thread_clock(0) >= 0 &&
	       lin_thread_clock(INDEX) == -ESRCH &&
	       read(t->wake, &count, 8) < 0 && errno == EAGAIN &&
	       first_freed == 1 && !freed && helpers_forgotten == 1 &&
	       live_forgotten == 1 && robust_forgotten == 1 &&
	       images_forked == 1 && freezes_forgotten == 1 &&
	       fcntl(kept[0], F_GETFD) < 0 && fcntl(kept[1], F_GETFD) < 0 &&
	       (t->wake == parents_wake || fcntl(parents_wake, F_GETFD) < 0);
}

/* The exit status of a child that lin_thread_fork made. */
static int fork_status(const struct lin_thread *t)
{
	int status = 0, wake = t->wake;
	s32 pid = lin_thread_fork();

	if (!pid)
		_exit(is_alone(t, wake) ? 0 : 1);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status)
		       ? WEXITSTATUS(status)
		       : -1;
}

static void check_fork(struct lin_thread *t)
{
	struct rlimit limit, none;
	u64 count = 1;
	int input;

	t->waiting = 1;
	tap_ok(write(t->wake, &count, 8) == 8 && !fork_status(t),
	       "the caller is the child's one thread");
	input = dup(0);
	close(0);
	tap_ok(!fork_status(t), "also if its descriptor is number 0");
	tap_ok(dup2(input, 0) == 0 && !close(input) && !helpers_forgotten &&
		       !live_forgotten && !robust_forgotten,
	       "the parent's threads stay");
	getrlimit(RLIMIT_NOFILE, &limit);
	none = (struct rlimit){0, limit.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	tap_ok(fork_status(t) == BEE_EXIT_REFUSED,
	       "without a descriptor the child is refused");
	setrlimit(RLIMIT_NOFILE, &limit);
	tap_ok(read(t->wake, &count, 8) == 8 && t->waiting == 1,
	       "and the parent's wait is its own");
	t->waiting = 0;
}

#define LIST 64 /* longer than the list of descriptors of its own */

/* Fills the list, and empties it; how many there is room for. -1: one that it
 * did not take is open. */
static int fill_list(void)
{
	int fd[LIST], n = 0, i, closed;

	lin_thread_hold();
	do
		fd[n] = dup(0);
	while (lin_private_keep(fd[n]) == fd[n] && ++n < LIST - 1);
	lin_thread_unhold();
	closed = fcntl(fd[n], F_GETFD) < 0;
	for (i = 0; i < n; i++)
		lin_private_close(fd[i]);
	return closed ? n : -1;
}

static void check_private(void)
{
	int room = fill_list();

	tap_ok(room > 2 && fill_list() == room,
	       "a list that is full closes what it is given");
	lin_thread_hold();
	kept[0] = lin_private_keep(dup(0));
	kept[1] = lin_private_keep(dup(0));
	tap_ok(lin_private_keep(-1) == -1, "no descriptor is none of its own");
	lin_thread_unhold();
	lin_private_close(-1);
	tap_ok(fcntl(kept[0], F_GETFD) >= 0 && fcntl(kept[1], F_GETFD) >= 0,
	       "those in it are open, and not in a child of fork:");
}

/* Another file has the number afterwards, and the child keeps that. */
static void check_private_closed(const struct lin_thread *t)
{
	int fd = kept[0], status;
	pid_t pid;

	lin_private_close(kept[0]);
	lin_private_close(kept[1]);
	tap_ok(fcntl(fd, F_GETFD) < 0, "until they are closed");
	tap_ok(dup2(0, fd) == fd, "a descriptor with the same number");
	pid = lin_thread_fork();
	if (!pid)
		_exit(lin_self() != t || fcntl(fd, F_GETFD) < 0);
	tap_ok(waitpid(pid, &status, 0) == pid && !status,
	       "is the child's, too");
	close(fd);
}

static void check_between(struct lin_thread *t)
{
	stack_t alt;
	u64 count = 0;

	tap_ok(read_gs() == (u64)(__UINTPTR_TYPE__)t && lin_self() == t &&
		       t->bee.index == INDEX && t->tid == gettid(),
	       "a thread knows itself");
	tap_ok(!sigaltstack(NULL, &alt) && alt.ss_sp == t->alt &&
		       alt.ss_size == LIN_ALT_STACK && !alt.ss_flags,
	       "signals have a stack of their own");
	tap_ok(faults_open() && is_blocked(SIGTERM) && is_blocked(SIGCHLD),
	       "it takes kicks and faults, and no other signal");
	lin_thread_kick(INDEX);
	tap_ok(t->bee.kicked == 1 && read(t->wake, &count, 8) < 0 &&
		       errno == EAGAIN,
	       "a kick is seen");
	t->waiting = 1;
	lin_thread_kick(INDEX);
	tap_ok(read(t->wake, &count, 8) == 8 && count == 1 && !messages,
	       "and ends a wait");
	t->bee.kicked = 0;
	lin_thread_kick(INDEX + 1);
	lin_thread_kick(1024);
	tap_ok(!t->bee.kicked, "a kick of another thread is not");
	tap_ok(!lin_thread_affinity(INDEX, "\1\0\0\0\0\0\0", 8) &&
		       lin_thread_affinity(INDEX, "\0\0\0\0\0\0\0", 8) ==
			       -EINVAL &&
		       lin_thread_affinity(INDEX + 1, "\1", 1) == -ESRCH &&
		       lin_thread_affinity(1024, "\1", 1) == -ESRCH,
	       "its CPUs can be set");
	check_clock();
}

static void check_after(const struct lin_thread *t, int wake)
{
	stack_t alt;

	tap_ok(gone == INDEX && !kicked_when_gone,
	       "its index is free when abi hears of it");
	tap_ok(!read_gs(), "GS is as before");
	tap_ok(!sigaltstack(NULL, &alt) && alt.ss_flags == SS_DISABLE,
	       "its alternate stack is no longer used");
	tap_ok(is_blocked(LIN_KICK) && is_blocked(SIGSEGV),
	       "it takes no signal");
	tap_ok(fcntl(wake, F_GETFD) < 0, "its descriptor is closed");
	tap_ok(freed == 1 && freed_len == sizeof(*t), "its memory is freed");
	tap_ok(t->bee.guest_fs == t->bee.host_fs && t->bee.host_fs,
	       "the libc gets its FS back");
}

static void ignore_kick(int sig)
{
	(void)sig;
}

static void *run_thread(void *arg)
{
	struct lin_thread *t = lin_thread_new(INDEX);
	sigset_t all;
	int wake;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	last = t;
	wake = t->wake;
	lin_thread_enable(t);
	t->bee.guest_fs = LIN_GUARD;
	check_between(t);
	check_private();
	check_fork(t);
	check_private_closed(t);
	lin_thread_leave(t);
	check_after(t, wake);
	return arg;
}

/* Neither leaves a descriptor behind. */
static void test_refused(void)
{
	int low = dup(0);

	close(low);
	no_memory = 1;
	tap_ok(!lin_thread_new(1) && lin_thread_start(1) == -EAGAIN,
	       "without memory there is no thread");
	no_memory = 0;
	tap_ok(lin_thread_start(1024) == -EAGAIN, "nor a thread 1024");
	tap_ok(dup(0) == low, "and no descriptor stays open");
	close(low);
}

static int is_task(s64 tid)
{
	char name[48];

	snprintf(name, sizeof(name), "/proc/self/task/%d", (int)tid);
	return !access(name, F_OK);
}

/* In a process of its own, which the thread ends with 9 when it starts. */
static void number_thread(int start)
{
	s64 number = lin_thread_number(3);
	int i;

	if (!is_task(number - NUMBERED) || number - NUMBERED == gettid())
		_exit(1);
	for (i = 0; i < 1000; i++)
		sched_yield();
	if (!start)
		_exit(2);
	if (lin_thread_start(3))
		_exit(3);
	for (;;)
		pause();
}

static int number_status(int start)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid)
		number_thread(start);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status)
		       ? WEXITSTATUS(status)
		       : -1;
}

static void test_number(void)
{
	tap_ok(number_status(0) == 2,
	       "a thread has the kernel's number, and waits");
	tap_ok(number_status(1) == 9, "until it is started");
}

static int first_ran; /* an eventfd */
static int first_inits;
static size_t first_stack;

static s64 run_first(void)
{
	pthread_attr_t attr;
	void *at;

	first = lin_self();
	first_inits = vdso_inits;
	if (!pthread_getattr_np(pthread_self(), &attr)) {
		pthread_attr_getstack(&attr, &at, &first_stack);
		pthread_attr_destroy(&attr);
	}
	eventfd_write(first_ran, 1);
	return 1;
}

/* The thread that loads a program; it finds none here. */
static void test_first(void)
{
	eventfd_t count;

	first_ran = eventfd(0, EFD_CLOEXEC);
	tap_ok(!lin_thread_first(run_first) && !eventfd_read(first_ran, &count),
	       "the first thread runs");
	tap_ok(first && !first->bee.index, "its index is 0");
	tap_ok(first_inits == 1, "the vDSO was found before it");
	tap_ok(first_stack == LIN_HOST_STACK + 0x10000,
	       "its stack has room for what the host does");
	close(first_ran);
}

int main(void)
{
	pthread_t id;

	signal(LIN_KICK, ignore_kick);
	test_refused();
	test_number();
	test_first();
	if (pthread_create(&id, NULL, run_thread, NULL))
		return 1;
	pthread_join(id, NULL);
	return tap_done();
}
