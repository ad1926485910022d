/* SPDX-License-Identifier: MIT */
/*
 * The watcher of a process with robust futexes: what it has of that process,
 * that it outlives it, and who waits for it. The walk of the lists is a fake,
 * which tells in shared memory what it finds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bee/host/linux/host.h"
#include "tests/tap.h"

struct bee bee;

static struct seen {
	s32 session, blocked, open;
	u32 faults, go, done; /* atomic */
} * seen;

static u8 *beyond; /* a page of a file that ends before it */
static int guest_pipe[2];
extern u8 load_at[], load_end[];

void lin_thread_hold(void)
{
}

void lin_thread_unhold(void)
{
}

s64 lin_clock(u32 clock)
{
	return clock;
}

s64 lin_wait(u32 *word, u32 expect, u64 deadline_ns)
{
	(void)word, (void)expect, (void)deadline_ns;
	usleep(1000);
	return 0;
}

void lin_wake(u32 *word, u32 count)
{
	(void)word, (void)count;
}

int lin_proc_runs(s32 tid)
{
	return !kill(tid, 0);
}

u64 abi_copy_resume(u64 pc)
{
	return pc == (u64)load_at ? (u64)load_end : 0;
}

static __attribute__((noinline)) u32 load_byte(const u8 *from)
{
	u32 faulted = 1;

	__asm__ volatile("jmp 1f\n"
			 "1: .globl load_at\n load_at: movzbl (%1), %0\n"
			 ".globl load_end\n load_end:\n"
			 : "+r"(faulted)
			 : "r"(from)
			 : "memory");
	return faulted;
}

/* Runs in the watcher. */
void abi_robust_dead(struct abi_proc *p, void (*wake)(u64 gaddr))
{
	sigset_t mask;

	(void)p, (void)wake;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	seen->blocked = sigismember(&mask, SIGTERM) &&
			sigismember(&mask, SIGHUP) &&
			!sigismember(&mask, SIGSEGV);
	seen->session = getsid(0);
	seen->open = fcntl(guest_pipe[1], F_GETFD) >= 0;
	seen->faults = load_byte((const u8 *)8) + load_byte(beyond);
	while (!__atomic_load_n(&seen->go, __ATOMIC_SEQ_CST))
		usleep(1000);
	__atomic_store_n(&seen->done, 1, __ATOMIC_SEQ_CST);
}

static void memory_make(void)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	seen = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	beyond = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	dup2(memfd_create("family", 0), BEE_FAMILY_FD);
}

/* Its child lives on, until `end` has no writer any more. */
static void leave_child(const int end[2])
{
	char byte;

	if (fork())
		return;
	lin_robust_forget();
	close(guest_pipe[1]);
	close(end[1]);
	while (read(end[0], &byte, 1) < 0)
		;
	_exit(0);
}

static pid_t start_watched(const int end[2])
{
	pid_t pid;

	memset(seen, 0, sizeof(*seen));
	pid = fork();
	if (pid)
		return pid;
	if (lin_robust_watch())
		_exit(1);
	leave_child(end);
	raise(SIGKILL);
	_exit(2);
}

static void test_watcher(void)
{
	int end[2], status = 0;
	pid_t pid;
	char byte;

	TAP(!pipe(end) && !pipe(guest_pipe));
	pid = start_watched(end);
	close(guest_pipe[1]);
	waitpid(pid, &status, 0);
	tap_ok(WIFSIGNALED(status), "a process is watched, and killed");
	tap_ok(read(guest_pipe[0], &byte, 1) == 0,
	       "its descriptors are closed, though the watcher lives");
	tap_ok(lin_robust_busy(), "its futexes are not released yet");
	__atomic_store_n(&seen->go, 1, __ATOMIC_SEQ_CST);
	lin_robust_await(pid);
	tap_ok(__atomic_load_n(&seen->done, __ATOMIC_SEQ_CST) == 1,
	       "who waits for it waits until they are, and a child that it "
	       "forked does not delay that");
	tap_ok(!lin_robust_busy(), "then nothing is left to do");
	tap_ok(seen->session != getsid(0) && seen->session > 0,
	       "the watcher has a session of its own");
	tap_ok(seen->blocked == 1, "it takes no signals but faults");
	tap_ok(!seen->open, "it has no descriptor of the guest");
	tap_ok(seen->faults == 2, "accesses to the guest's memory may fail");
	close(end[0]);
	close(end[1]);
	close(guest_pipe[0]);
}

/* Other processes with a watcher are between. */
static void test_busy(void)
{
	struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
	const s32 living[] = {getppid(), 1, getpid()};
	int told[2], i;
	char byte = 0;
	pid_t pid;

	TAP(!pipe(told));
	pid = fork();
	for (i = 0; !pid && i < 3; i++) {
		lock.l_start = living[i];
		fcntl(BEE_FAMILY_FD, F_SETLK, &lock);
	}
	if (!pid) {
		if (write(told[1], &byte, 1) == 1)
			pause();
		_exit(1);
	}
	TAP(read(told[0], &byte, 1) == 1);
	tap_ok(!lin_robust_busy(), "those of living processes do not count");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void test_refused(void)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		int next = fcntl(0, F_DUPFD, BEE_FAMILY_FD + 1);

		close(next);
		close(BEE_FAMILY_FD);
		if (lin_robust_watch() != -EAGAIN ||
		    fcntl(0, F_DUPFD, BEE_FAMILY_FD + 1) != next)
			_exit(1);
		_exit(waitpid(-1, NULL, __WALL) == -1 && errno == ECHILD ? 0
									 : 2);
	}
	waitpid(pid, &status, 0);
	tap_ok(!status, "a watcher that fails is said, and leaves nothing");
}

int main(void)
{
	alarm(60); /* a watcher that keeps or misses something hangs the test */
	memory_make();
	test_watcher();
	test_busy();
	test_refused();
	return tap_done();
}
