/* SPDX-License-Identifier: MIT */
/* Threads and what a process knows about itself. */
#include "guest.h"
#include "abi/uapi/linux.h"

#define CLONE_PTHREAD 0x3d0f00ull /* what glibc passes */
#define EXITED(status) ((u32)(status) << 8)
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define SIGCHLD 17

static u32 *word_at(u64 gaddr)
{
	return (u32 *)gaddr;
}

/* The guest's thread body: rbx says what to do. */
enum job { JOB_EXIT, JOB_ROBUST, JOB_HOLD, JOB_LIST };

static u64 seen_tp;
static u32 hold;

static void robust_build(u32 tid)
{
	u64 *head = (u64 *)(page + 0x1000);
	u32 i;

	/* Three locks, of which the second belongs to somebody else. */
	for (i = 0; i < 3; i++) {
		head[8 * (i + 1)] = page + 0x1000 + 64 * (i + 2);
		*word_at(page + 0x1000 + 64 * (i + 1) + 32) =
			tid | (i == 2 ? 0x80000000u : 0);
	}
	*word_at(page + 0x1000 + 64 * 2 + 32) = 4242;
	head[8 * 3] = page + 0x1000;
	head[0] = page + 0x1000 + 64;
	head[1] = 32;
	head[2] = page + 0x1000 + 64 * 4; /* being taken while it dies */
	*word_at(page + 0x1000 + 64 * 4 + 32) = tid;
}

static void run_body(struct abi_proc *proc, u32 index)
{
	struct abi_regs r = *abi_thread_regs(proc, index);

	abi_tick(proc, index, &r);
	__atomic_store_n(&seen_tp, abi_thread_tp(proc, index),
			 __ATOMIC_SEQ_CST);
	if (r.rbx == JOB_ROBUST) {
		robust_build((u32)CALL_AT(index, gettid));
		CALL_AT(index, set_robust_list, page + 0x1000, 24);
	}
	if (r.rbx == JOB_LIST)
		CALL_AT(index, set_robust_list, page + 0x1000, 24);
	if (r.rbx == JOB_HOLD)
		while (__atomic_load_n(&hold, __ATOMIC_SEQ_CST))
			sched_yield();
	CALL_AT(index, exit, 3);
}

static s64 clone_job(u64 flags, enum job job)
{
	struct abi_regs r = guest_regs();

	*word_at(page) = *word_at(page + 4) = 0;
	r.rbx = job;
	return guest_call_at(
		0, &r, ABI_NR_clone,
		(u64[6]){flags, page + 0x8000, page, page + 4, page + 0x6000});
}

/* Joins as pthread_join does; 0 after ten seconds. */
static int join_thread(void)
{
	u64 *ts = (u64 *)(page + 0x40);
	s64 rc = 0;
	u32 tid;

	ts[0] = 10;
	ts[1] = 0;
	while (rc != -LINUX_ETIMEDOUT &&
	       (tid = __atomic_load_n(word_at(page + 4), __ATOMIC_SEQ_CST)))
		rc = CALL(futex, page + 4, FUTEX_WAIT, tid, page + 0x40);
	return !tid;
}

static u32 count_busy(void)
{
	u32 i, n = 0;

	for (i = 0; i < ABI_THREADS_MAX; i++)
		n += __atomic_load_n(&p->threads.thread[i].state,
				     __ATOMIC_SEQ_CST) != ABI_THREAD_FREE;
	return n;
}

static void test_clone(void)
{
	s64 tid = clone_job(CLONE_PTHREAD | 0x1000000, JOB_EXIT);

	tap_ok(tid == 4243, "clone gives the new tid");
	tap_ok(*word_at(page) == 4243, "CLONE_PARENT_SETTID");
	tap_ok(join_thread(),
	       "the end of a thread clears its tid and wakes a waiter");
	TAP(seen_tp == page + 0x6000);
	tap_ok(WAIT_FOR(count_busy() == 1),
	       "a thread's record is free after its end");
	tid = clone_job(CLONE_PTHREAD | 0x1000000, JOB_EXIT);
	tap_ok(tid == 4244 && join_thread(), "a tid is not used again at once");
	TAP(p->threads.live == 1);
	TAP(CALL(tgkill, 4242, 4243, 0) == -LINUX_ESRCH);
}

static s64 number_answer;

static s64 choose_number(u32 thread)
{
	return thread ? number_answer : 0;
}

static void test_number(void)
{
	fake.host.thread_number = choose_number;
	number_answer = 0x3fffffff;
	hold = 1;
	tap_ok(clone_job(CLONE_PTHREAD | 0x1000000, JOB_HOLD) == 0x3fffffff &&
		       *word_at(page) == 0x3fffffff &&
		       *word_at(page + 4) == 0x3fffffff,
	       "the host chooses a thread's number");
	tap_ok(CALL(tgkill, 4242, 0x3fffffff, 0) == 0 &&
		       CALL(tgkill, 4242, 4243, 0) == -LINUX_ESRCH,
	       "and by that it is found");
	hold = 0;
	tap_ok(join_thread() && WAIT_FOR(count_busy() == 1) &&
		       CALL(tgkill, 4242, 0x3fffffff, 0) == -LINUX_ESRCH,
	       "until it ends");
	number_answer = -LINUX_ENOMEM;
	tap_ok(clone_job(CLONE_PTHREAD | 0x1000000, JOB_EXIT) ==
			       -LINUX_EAGAIN &&
		       p->threads.live == 1 && count_busy() == 1,
	       "without a number there is no thread");
	fake.host.thread_number = NULL;
}

static void test_clone_refused(void)
{
	TAP(clone_job(SIGCHLD, JOB_EXIT) == -LINUX_ENOSYS);
	tap_ok(strstr(fake.last_log, "fork and exec") && fake.logs == 1,
	       "fork is refused with a message");
	TAP(clone_job(0x4111, JOB_EXIT) == -LINUX_ENOSYS && fake.logs == 1);
	TAP(CALL(fork) == -LINUX_ENOSYS &&
	    CALL(execve, 0, 0, 0) == -LINUX_ENOSYS);
	TAP(abi_count_refused(p, ABI_NR_fork) == 1 && fake.logs == 1);
	TAP(clone_job(0x10000, JOB_EXIT) == -LINUX_EINVAL);
	TAP(clone_job(CLONE_PTHREAD | 0x20000000, JOB_EXIT) == -LINUX_EINVAL);
	TAP(CALL(clone, CLONE_PTHREAD, 0, page, page, page) == -LINUX_EINVAL);
	TAP(CALL(clone, CLONE_PTHREAD, page + 64, page, page, 0x1000) ==
	    -LINUX_EPERM);
	TAP(p->threads.live == 1);
}

static s64 no_start(u32 thread)
{
	(void)thread;
	return -LINUX_ENOMEM;
}

static void test_limit(void)
{
	s64 (*start)(u32 thread) = fake.host.thread_start;
	u32 n = 0;

	fake.host.thread_start = no_start;
	TAP(WAIT_FOR(count_busy() == 1));
	TAP(clone_job(CLONE_PTHREAD, JOB_EXIT) == -LINUX_EAGAIN &&
	    count_busy() == 1);
	fake.host.thread_start = start;
	while (guest_thread())
		n++;
	tap_ok(n == ABI_THREADS_MAX - 1, "1024 threads exist at once");
	TAP(clone_job(CLONE_PTHREAD, JOB_EXIT) == -LINUX_EAGAIN);
	while (n)
		abi_thread_undo(p, abi_thread_get(p, n--));
	TAP(p->threads.live == 1);
}

static void test_robust(void)
{
	u64 *head = (u64 *)(page + 0x1000);
	s64 tid = clone_job(CLONE_PTHREAD | 0x1000000, JOB_ROBUST);

	TAP(tid > 0 && join_thread());
	tap_ok(*word_at(page + 0x1000 + 64 + 32) == 0x40000000 &&
		       *word_at(page + 0x1000 + 192 + 32) == 0xc0000000,
	       "robust futexes of a dead thread are marked");
	TAP(*word_at(page + 0x1000 + 128 + 32) == 4242);
	tap_ok(*word_at(page + 0x1000 + 256 + 32) == 0x40000000,
	       "the robust futex that a dead thread was locking is marked");
	head[0] = page + 0x1000 + 64;
	head[8] = page + 0x1000 + 64;
	head[2] = 0;
	clone_job(CLONE_PTHREAD | 0x1000000, JOB_LIST);
	tap_ok(join_thread(),
	       "a robust list without an end is walked only so far");
	head[0] = 0x10001000;
	head[1] = ~0ull - 2;
	head[2] = 0xffffffffffff0000;
	clone_job(CLONE_PTHREAD | 0x1000000, JOB_LIST);
	tap_ok(join_thread(),
	       "a robust list that leads outside the map ends there");
	TAP(CALL(set_robust_list, page + 0x1000, 23) == -LINUX_EINVAL);
	TAP(CALL(set_robust_list, page + 0x1000, 24) == 0);
	TAP(CALL(get_robust_list, 0, page + 0x80, page + 0x88) == 0 &&
	    *(u64 *)(page + 0x80) == page + 0x1000);
	p->threads.thread[0].robust_head = 0;
}

static u32 watches, dead_wakes;
static u64 dead_woken;
static s64 watch_result;

static s64 watch_end(void)
{
	watches++;
	return watch_result;
}

static void wake_dead(u64 gaddr)
{
	dead_wakes++;
	dead_woken = gaddr;
}

/* Each thread's list, with a lock held that a dead thread may have had. */
static void test_robust_dead(void)
{
	u64 *head = (u64 *)(page + 0x1000);
	struct abi_lock *lock = &p->space.lock;

	robust_build(4242);
	*word_at(page + 0x1000 + 64 * 2 + 32) = 7;
	p->threads.thread[0].robust_head = page + 0x1000;
	abi_lock(p, lock);
	abi_robust_dead(p, wake_dead);
	abi_unlock(p, lock);
	tap_ok(*word_at(page + 0x1000 + 64 + 32) == 0x40000000 &&
		       *word_at(page + 0x1000 + 64 * 2 + 32) == 7 &&
		       *word_at(page + 0x1000 + 64 * 3 + 32) == 0xc0000000 &&
		       *word_at(page + 0x1000 + 64 * 4 + 32) == 0x40000000 &&
		       dead_wakes == 1 &&
		       dead_woken == page + 0x1000 + 64 * 3 + 32,
	       "after all threads have died their futexes are marked");
	head[1] = 33;
	*word_at(page + 0x1000 + 64 * 4 + 32) = 4242;
	abi_robust_dead(p, wake_dead);
	head[0] = SKEP_MMAP_END;
	head[1] = 32;
	abi_robust_dead(p, wake_dead);
	tap_ok(*word_at(page + 0x1000 + 64 * 4 + 32) == 4242 && dead_wakes == 1,
	       "a list that leads nowhere ends the walk");
	p->threads.thread[0].robust_head = 0;
}

static void share_page(u64 prot, u64 flags)
{
	s64 at = CALL(mmap, 0, 4096, prot, flags | 0x20, ~0ull, 0);

	TAP(at > 0);
	CALL(munmap, at, 4096);
}

/* The host watches a process that has a list and writable shared memory. */
static void test_robust_watch(void)
{
	s64 at;

	p->threads.robust = p->threads.shares = p->threads.watched = 0;
	fake.host.robust = watch_end;
	share_page(1, 1);
	share_page(3, 2);
	CALL(set_robust_list, page + 0x1000, 24);
	tap_ok(!watches, "private memory, and what cannot be written, is none");
	share_page(3, 1);
	CALL(set_robust_list, page + 0x1000, 24);
	tap_ok(watches == 1, "the host watches the process's end, once");
	p->threads.robust = p->threads.shares = p->threads.watched = 0;
	at = CALL(mmap, 0, 4096, 1, 0x21, ~0ull, 0);
	CALL(mprotect, at, 4096, 3);
	CALL(set_robust_list, 0, 24);
	tap_ok(watches == 1, "no list is none");
	watch_result = -LINUX_EAGAIN;
	fake.logs = 0;
	CALL(set_robust_list, page + 0x1000, 24);
	tap_ok(watches == 2 && fake.logs == 1 &&
		       strstr(fake.last_log, "stay locked"),
	       "memory that becomes writable counts; a failure is named");
	CALL(munmap, at, 4096);
	fake.host.robust = NULL;
	p->threads.thread[0].robust_head = 0;
}

/* None can be gained; to have none is no change. */
static void test_capabilities(void)
{
	u32 *word = (u32 *)page;

	memset(word, 0, 64);
	word[0] = 0x20080522;
	TAP(CALL(capset, page, page + 16) == 0);
	word[9] = 1;
	TAP(CALL(capset, page, page + 16) == -LINUX_EPERM);
	word[1] = 1;
	TAP(CALL(capset, page, page + 16) == -LINUX_EPERM);
	word[0] = word[9] = 1;
	TAP(CALL(capset, page, page + 16) == -LINUX_EINVAL &&
	    word[0] == 0x20080522);
	TAP(CALL(capset, 0x1000, page) == -LINUX_EFAULT);
}

/* What this host has no function for: each once by name. */
static void test_lacking(void)
{
	u32 before = abi_count_refused(p, ABI_NR_shmat);

	fake.logs = 0;
	tap_ok(CALL(inotify_init1, 0) == -LINUX_ENOSYS && fake.logs == 1 &&
		       strstr(fake.last_log, "inotify_init1") &&
		       CALL(inotify_init1, 0) == -LINUX_ENOSYS &&
		       fake.logs == 1,
	       "a host without inotify refuses it once by name");
	tap_ok(CALL(shmat, 1, 0, 0) == -LINUX_ENOSYS &&
		       CALL(semop, 1, page, 1) == -LINUX_ENOSYS &&
		       CALL(msgrcv, 1, page, 1, 0, 0) == -LINUX_ENOSYS &&
		       CALL(semctl, 1, 0, 13, page) == -LINUX_ENOSYS &&
		       fake.logs == 5 && strstr(fake.last_log, "semctl"),
	       "a host without System V IPC refuses each call by name");
	TAP(abi_count_refused(p, ABI_NR_shmat) == before + 1);
	TAP(abi_syscall_limit(&fake.host, ABI_NR_inotify_init) &&
	    abi_syscall_limit(&fake.host, ABI_NR_msgctl));
}

static void test_identity(void)
{
	u64 *out = (u64 *)page;

	TAP(CALL(getpid) == 4242 && CALL(gettid) == 4242);
	TAP(CALL(getppid) == 1 && CALL(getpgrp) == 4242);
	TAP(CALL(getuid) == 1000 && CALL(getegid) == 1000);
	TAP(CALL(setuid, 1000) == 0 && CALL(setuid, 0) == -LINUX_EPERM);
	TAP(CALL(setresgid, ~0ull, 1000, ~0ull) == 0);
	TAP(CALL(setresuid, ~0ull, 0, ~0ull) == -LINUX_EPERM);
	fake.logs = 0;
	TAP(CALL(setgroups, 0, 0) == -LINUX_EPERM && fake.logs == 1 &&
	    strstr(fake.last_log, "group or owner refused"));
	TAP(CALL(setfsuid, 7) == 1000 && CALL(setfsgid, 7) == 1000);
	test_capabilities();
	test_lacking();
	TAP(CALL(umask, 077) == 022 && CALL(umask, 022) == 077);
	TAP(CALL(uname, page) == 0 && !strcmp((char *)page, "Linux") &&
	    !strcmp((char *)page + 130, "6.1.0-skep") &&
	    !strcmp((char *)page + 260, "x86_64"));
	TAP(CALL(uname, 0x1000) == -LINUX_EFAULT);
	TAP(CALL(getrlimit, 7, page) == 0 && out[0] == 1024);
	out[0] = 64;
	out[1] = 32;
	TAP(CALL(setrlimit, 7, page) == -LINUX_EINVAL);
	out[1] = 4096;
	TAP(CALL(setrlimit, 7, page) == -LINUX_EPERM);
	TAP(CALL(prlimit64, 0, 16, 0, page) == -LINUX_EINVAL);
	out[0] = out[1] = 1;
	fake.logs = 0;
	TAP(CALL(setrlimit, ABI_RLIMIT_NPROC, page) == 0 && !fake.logs &&
	    CALL(clone, 0x3d0f00, page + 0x4000, 0, 0, 0) == -LINUX_EAGAIN);
	p->info.uid = 0;
	TAP(CALL(clone, 0x10000, page + 0x4000, 0, 0, 0) == -LINUX_EINVAL);
	p->info.uid = 1000;
	TAP(CALL(setrlimit, ABI_RLIMIT_CPU, page) == 0 && fake.logs == 1 &&
	    strstr(fake.last_log, "RLIMIT_CPU is not enforced"));
	TAP(CALL(setrlimit, ABI_RLIMIT_CPU, page) == 0 && fake.logs == 1);
	TAP(CALL(prlimit64, 1, 7, 0, page) == -LINUX_ESRCH);
	TAP(CALL(sysinfo, page) == 0 && out[4] == 8ull << 30);
	TAP(CALL(getrusage, 0, page) == 0 &&
	    CALL(getrusage, 9, page) == -LINUX_EINVAL);
	TAP(CALL(wait4, ~0ull, 0, 0, 0) == -LINUX_ECHILD);
	TAP(CALL(wait4, 1ull << 31, 0, 0, 0) == -LINUX_ESRCH);
	TAP(CALL(setpriority, 0, 0, 5) == 0 && CALL(getpriority, 0, 0) == 15);
	TAP(CALL(setpriority, 0, 0, 0) == -LINUX_EACCES);
	memcpy((void *)page, "a name that is too long", 24);
	TAP(CALL(prctl, 15, page) == 0 && CALL(prctl, 16, page + 64) == 0 &&
	    !strcmp((char *)page + 64, "a name that is "));
	TAP(CALL(prctl, 12345) == -LINUX_EINVAL);
	TAP(CALL(getrandom, page, 16, 0) == 16 && (out[0] || out[1]));
	TAP(CALL(getrandom, page, 16, 8) == -LINUX_EINVAL);
	TAP(CALL(getrandom, 0x1000, 16, 0) == -LINUX_EFAULT);
	out[0] = 0x20080522;
	TAP(CALL(capget, page, page + 64) == 0 && !out[8]);
	TAP(CALL(membarrier, 0, 0) == 0 &&
	    CALL(membarrier, 1, 0) == -LINUX_EINVAL);
}

static void test_machine(void)
{
	u64 *out = (u64 *)page;

	TAP(CALL(arch_prctl, 0x1002, page + 0x6000) == 0);
	TAP(CALL(arch_prctl, 0x1003, page) == 0 && out[0] == page + 0x6000);
	tap_ok(CALL(arch_prctl, 0x1002, 0x7fff00000000) == -LINUX_EPERM &&
		       CALL(arch_prctl, 0x1002, 0x8000000000000000) ==
			       -LINUX_EPERM &&
		       CALL(arch_prctl, 0x1002, page + 0xffe0) == -LINUX_EPERM,
	       "FS must point at guest memory");
	TAP(CALL(arch_prctl, 0x1001, page) == -LINUX_EPERM &&
	    strstr(fake.last_log, "GS"));
	TAP(CALL(arch_prctl, 0x3001, page) == -LINUX_EINVAL);
	TAP(CALL(sched_getaffinity, 0, 128, page) == 8 && out[0] == 3);
	TAP(CALL(sched_getaffinity, 0, 4, page) == -LINUX_EINVAL);
	out[0] = 2;
	TAP(CALL(sched_setaffinity, 0, 8, page) == 0);
	TAP(CALL(sched_getaffinity, 4242, 8, page + 8) == 8 && out[1] == 2);
	TAP(CALL(getcpu, page, page + 4) == 0 && *word_at(page) == 1);
	out[0] = 4;
	TAP(CALL(sched_setaffinity, 0, 8, page) == -LINUX_EINVAL);
	TAP(CALL(sched_setaffinity, 77, 8, page) == -LINUX_ESRCH);
	TAP(CALL(sched_getscheduler, 0) == 0);
	*word_at(page) = 5;
	TAP(CALL(sched_setscheduler, 0, 1, page) == -LINUX_EPERM);
	TAP(CALL(sched_get_priority_max, 1) == 99);
	TAP(CALL(sched_yield) == 0);
}

/* Ends: each in a thread of its own, as thread 0 -------------------------- */

static void *end_main(void *arg)
{
	(void)arg;
	clone_job(CLONE_PTHREAD | 0x1000000, JOB_HOLD);
	CALL(exit, 5);
	return NULL;
}

static void *end_group(void *arg)
{
	(void)arg;
	CALL(exit_group, 0x107);
	return NULL;
}

static void end_process(void *(*main)(void *))
{
	pthread_t id;

	guest_free();
	guest_new();
	hold = 1;
	fake_thread_run = run_body;
	pthread_create(&id, NULL, main, NULL);
	pthread_join(id, NULL);
}

static void test_end(void)
{
	/* A thread that was joined may still be on its way out. */
	TAP(WAIT_FOR(count_busy() == 1));
	end_process(end_main);
	tap_ok(!fake.exited && p->threads.live == 1,
	       "the process outlives its first thread");
	__atomic_store_n(&hold, 0, __ATOMIC_SEQ_CST);
	tap_ok(WAIT_FOR(__atomic_load_n(&fake.exited, __ATOMIC_SEQ_CST)) &&
		       fake.exit_status == EXITED(5),
	       "the exit status is that of the first thread");
	end_process(end_group);
	tap_ok(fake.exited && fake.exit_status == EXITED(7),
	       "exit_group ends the process at once");
}

int main(void)
{
	guest_new();
	fake_thread_run = run_body;
	test_clone();
	test_number();
	test_clone_refused();
	test_limit();
	test_robust();
	test_robust_dead();
	test_robust_watch();
	test_identity();
	test_machine();
	test_end();
	guest_free();
	return tap_done();
}
