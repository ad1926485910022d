/* SPDX-License-Identifier: MIT */
/*
 * Processes of a run on Linux, as abi asks for them: numbers, ends, signals,
 * groups. The children are real; the terminal is not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bee/test/family_stubs.h"
#include "tests/tap.h"

#define GUEST 0x400000 /* and the kernel's number */

static int child_status;

static s64 call_family(enum abi_family_verb verb, s32 pid, s32 status)
{
	struct abi_family_op op = {.verb = verb, .pid = pid, .status = status};

	return lin_family(&op, 0);
}

/* A child as the guest numbers it; it ends with `code`, or waits for a signal
 * if that is negative. */
static s32 start_child(int code, int as_vfork, s32 *handle)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_FORK,
				   .status = as_vfork,
				   .handle = -1,
				   .stack = 100,
				   .stack_len = 10};
	s64 rc;

	fflush(stdout);
	rc = lin_family(&op, 0);
	if (rc) {
		*handle = op.handle;
		return (s32)rc;
	}
	if (op.pid != GUEST + getpid() || forked_child != 1 || locks ||
	    op.handle != -1 || begun != 110u + (as_vfork != 0))
		_exit(99);
	while (code < 0)
		pause();
	_exit(code);
}

static s64 wait_child(s32 pid, u32 options, s32 *status)
{
	struct abi_family_op op = {
		.verb = ABI_FAMILY_WAIT4, .pid = pid, .options = options};
	s64 rc = lin_family(&op, 0);

	*status = op.status;
	return rc;
}

static void test_fork(void)
{
	struct abi_family_op op = {
		.verb = ABI_FAMILY_FORKED, .stack = 100, .stack_len = 10};
	s32 status, handle, pid = start_child(3, 0, &handle);

	tap_ok(pid > GUEST && handle == -1 &&
		       wait_child(pid, 0, &status) == pid &&
		       WEXITSTATUS(status) == 3 && waits == 1 && settles == 1,
	       "a child has a number of its own, and its end is waited for");
	pid = start_child(4, 1, &handle);
	op.handle = handle;
	tap_ok(handle >= 0 && !lin_family(&op, 0) && waited == 111,
	       "a child of vfork is followed to its end");
	tap_ok(wait_child(-1, 0, &status) == pid && WEXITSTATUS(status) == 4,
	       "any child can be waited for");
	tap_ok(!call_family(ABI_FAMILY_BEGIN, 0, 0) && !messages,
	       "a child begins");
}

/* The lowest descriptor that is free. */
static int next_free(void)
{
	int fd = dup(1);

	close(fd);
	return fd;
}

static void limit_descriptors(u32 limit)
{
	struct rlimit r;

	getrlimit(RLIMIT_NOFILE, &r);
	r.rlim_cur = limit;
	setrlimit(RLIMIT_NOFILE, &r);
}

static void test_fork_fails(void)
{
	struct abi_family_op op = {
		.verb = ABI_FAMILY_FORK, .status = 1, .handle = -1};
	int next = next_free();

	limit_descriptors((u32)next + 1);
	tap_ok(lin_family(&op, 0) == -EAGAIN && !locks,
	       "without descriptors there is no child of vfork");
	limit_descriptors(1024);
	fork_error = -ENOMEM;
	tap_ok(lin_family(&op, 0) == -ENOMEM && !locks && op.handle == -1 &&
		       next_free() == next,
	       "a child that cannot be made leaves no descriptor open");
	op.status = 0;
	tap_ok(lin_family(&op, 0) == -ENOMEM && next_free() == next,
	       "nor does one without sockets");
	fork_error = 0;
}

static void test_wait4(void)
{
	s32 status, handle, pid = start_child(-1, 0, &handle);

	waits = 0;
	tap_ok(wait_child(pid, WNOHANG, &status) == 0 && !waits,
	       "a child that runs is not waited for without time");
	tap_ok(wait_child(0, WNOHANG, &status) == 0 &&
		       wait_child(-(s32)(GUEST + getpgrp()), WNOHANG,
				  &status) == 0,
	       "nor are those of its group");
	tap_ok(wait_child(getpid(), 0, &status) == -ECHILD &&
		       wait_child(GUEST, 0, &status) == -ECHILD &&
		       wait_child(2 * GUEST, 0, &status) == -ECHILD &&
		       wait_child(-5, 0, &status) == -ECHILD &&
		       wait_child(INT_MIN, 0, &status) == -ESRCH,
	       "numbers that no process of a guest has");
	tap_ok(!call_family(ABI_FAMILY_KILL, pid, SIGKILL) &&
		       wait_child(-(s32)(GUEST + getpgrp()), 0, &status) ==
			       pid &&
		       WTERMSIG(status) == SIGKILL && awaited + GUEST == pid,
	       "a child is killed, and found by its group");
	tap_ok(wait_child(-1, WNOHANG, &status) == -ECHILD, "none is left");
}

static s64 wait_info(s32 type, s32 pid, u32 options, siginfo_t *info)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_WAITID,
				   .pid = pid,
				   .status = type,
				   .options = options,
				   .info = (void *)info};

	return lin_family(&op, 0);
}

static void test_waitid(void)
{
	siginfo_t info = {.si_pid = 1};
	struct abi_family_op op = {.verb = ABI_FAMILY_WAITID,
				   .status = P_PID,
				   .options = WEXITED | WNOHANG,
				   .info = (void *)&info};
	s32 handle, pid = start_child(-1, 0, &handle);

	tap_ok(wait_info(P_ALL, 0, WEXITED | WNOHANG, &info) == 0 &&
		       info.si_pid == 1,
	       "nothing is said of a child that runs");
	tap_ok(wait_info(P_PID, 0, WEXITED, &info) == -EINVAL &&
		       wait_info(P_PID, 5, WEXITED, &info) == -ECHILD &&
		       wait_info(P_ALL, 5, WEXITED | WNOHANG, &info) == 0 &&
		       wait_info(P_PGID, 0, WEXITED | WNOHANG, &info) == 0,
	       "numbers are refused where they count");
	awaited = 0;
	call_family(ABI_FAMILY_KILL, pid, SIGSTOP);
	tap_ok(wait_info(P_PID, pid, WSTOPPED, &info) == 1 &&
		       info.si_code == CLD_STOPPED && !awaited,
	       "one that stops still has its locks");
	call_family(ABI_FAMILY_KILL, pid, SIGCONT);
	tap_ok(wait_info(P_PID, pid, WCONTINUED, &info) == 1 &&
		       info.si_code == CLD_CONTINUED && !awaited,
	       "so has one that goes on");
	settles = 0;
	call_family(ABI_FAMILY_KILL, pid, SIGTERM);
	tap_ok(wait_info(P_PID, pid, WEXITED, &info) == 1 && settles == 1 &&
		       info.si_pid == pid && info.si_status == SIGTERM &&
		       awaited + GUEST == pid,
	       "a child's end has its number");
	tap_ok(wait_info(P_PID, pid, WEXITED, &info) == -ECHILD,
	       "and is told once");
	pid = start_child(3, 0, &handle);
	tap_ok(wait_info(P_PID, pid, WEXITED, &info) == 1 &&
		       info.si_status == 3 && awaited + GUEST == pid,
	       "so is the end of one that exits");
	op.pid = pid = start_child(3, 0, &handle);
	tap_ok(wait_info(P_PID, pid, WEXITED | WNOWAIT, &info) == 1 &&
		       lin_family(&op, 0) == 1 && op.usage[4],
	       "which tells what it used, without a wait too");
}

static void test_kill(void)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_KILL, .pid = 0};
	s32 status, handle, pid = start_child(-1, 0, &handle);
	int sig, good = 0;

	for (sig = 1; sig < 65; sig++)
		good += call_family(ABI_FAMILY_KILL, 2 * GUEST, sig) ==
			(sig == 32 || sig == 33 || sig == LIN_KICK ? -EINVAL
								   : -ESRCH);
	tap_ok(good == 64 && messages == 1,
	       "three signals are refused, which is said once");
	tap_ok(call_family(ABI_FAMILY_KILL, GUEST + 1, 0) == -ESRCH &&
		       call_family(ABI_FAMILY_KILL, -(GUEST + 1), 0) ==
			       -ESRCH &&
		       call_family(ABI_FAMILY_KILL, -5, 0) == -ESRCH &&
		       call_family(ABI_FAMILY_KILL, INT_MIN, 0) == -ESRCH,
	       "a process of another family gets none");
	tap_ok(!call_family(ABI_FAMILY_KILL, pid, 0) &&
		       !call_family(ABI_FAMILY_KILL, -1, 0),
	       "one of the family would");
	limit_descriptors((u32)next_free());
	tap_ok(call_family(ABI_FAMILY_KILL, pid, 0) == -EMFILE,
	       "but not without a descriptor");
	limit_descriptors(1024);
	op.pid = pid;
	op.status = SIGCONT;
	tap_ok(!lin_family(&op, 0) && !op.status,
	       "and the caller gets no signal of another's");
	op.pid = -1;
	op.status = SIGCONT;
	tap_ok(!lin_family(&op, 0) && !op.status, "nor of all others");
	op.pid = 0;
	tap_ok(!lin_family(&op, 0) && op.status == 1,
	       "of its own group the caller is one");
	op.pid = -(s32)(GUEST + getpgrp());
	op.status = 0;
	tap_ok(!lin_family(&op, 0) && op.status == 1, "by its number too");
	tap_ok(!call_family(ABI_FAMILY_SET_GROUP, pid, 0) &&
		       call_family(ABI_FAMILY_GROUP, pid, 0) == pid,
	       "a child may have a group");
	op.pid = -pid;
	op.status = SIGTERM;
	tap_ok(!lin_family(&op, 0) && op.status == 0 &&
		       wait_child(pid, 0, &status) == pid &&
		       WTERMSIG(status) == SIGTERM,
	       "which gets signals without the caller");
	op.status = 0;
	tap_ok(lin_family(&op, 0) == -ESRCH, "and is gone then");
}

/* Ends with 7 if the guest's number `want` sent it SIGUSR1, which the main
 * thread does not take. */
static s32 want;

static void *take_signal(void *arg)
{
	siginfo_t info;

	(void)arg;
	sigwaitinfo(&(sigset_t){{1ul << (SIGUSR1 - 1)}}, &info);
	_exit(info.si_pid == want && info.si_code == SI_QUEUE ? 7 : 8);
}

static s32 start_taker(s32 sender)
{
	sigset_t set;
	pthread_t t;
	s32 pid;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	pid = fork();
	if (pid) {
		sigprocmask(SIG_UNBLOCK, &set, NULL);
		return lin_family_guest(pid);
	}
	want = sender;
	if (pthread_create(&t, NULL, take_signal, NULL))
		_exit(9);
	for (;;)
		pause();
}

static void test_queue(void)
{
	siginfo_t info = {.si_code = SI_QUEUE};
	struct abi_family_op op = {.verb = ABI_FAMILY_QUEUE,
				   .info = (void *)&info};
	s32 status, pid = start_taker(getpid());

	info.si_pid = GUEST + getpid();
	op.pid = pid;
	info.si_signo = LIN_KICK;
	tap_ok(lin_family(&op, 0) == -EINVAL, "bee's own signal is refused");
	info.si_signo = SIGUSR1;
	op.pid = getpid();
	tap_ok(lin_family(&op, 0) == -ESRCH, "so is a number of the kernel's");
	op.pid = pid;
	tap_ok(!lin_family(&op, 0) && wait_child(pid, 0, &status) == pid &&
		       WIFEXITED(status) && WEXITSTATUS(status) == 7,
	       "a signal with data comes to any thread, from its sender");
	op.pid = pid = start_taker(5);
	info.si_pid = 5;
	tap_ok(!lin_family(&op, 0) && wait_child(pid, 0, &status) == pid &&
		       WIFEXITED(status) && WEXITSTATUS(status) == 7,
	       "a sender may say any number that no guest has");
}

static void test_groups(void)
{
	tap_ok(call_family(ABI_FAMILY_GROUP, 0, 0) == GUEST + getpgrp() &&
		       call_family(ABI_FAMILY_SESSION, 0, 0) ==
			       lin_family_guest(getsid(0)) &&
		       call_family(ABI_FAMILY_GROUP, GUEST + getpid(), 0) ==
			       GUEST + getpgrp(),
	       "group and session");
	tap_ok(call_family(ABI_FAMILY_GROUP, GUEST + 1, 0) == -ESRCH &&
		       call_family(ABI_FAMILY_SESSION, 5, 0) == -ESRCH,
	       "of the family alone");
	tap_ok(call_family(ABI_FAMILY_SET_GROUP, 5, 0) == -ESRCH &&
		       call_family(ABI_FAMILY_SET_GROUP, 0, 5) == -EPERM &&
		       call_family(ABI_FAMILY_SET_GROUP, GUEST + 1, 0) ==
			       -ESRCH,
	       "numbers that no process of a guest has");
	tap_ok(call_family(ABI_FAMILY_PARENT, 0, 0) == 1,
	       "a parent outside the family is process 1");
}

/* In a child: no test needs its group or session. */
static int lead_session(void)
{
	s32 own = GUEST + getpid();

	return call_family(ABI_FAMILY_PARENT, 0, 0) == GUEST + getppid() &&
	       !call_family(ABI_FAMILY_SET_GROUP, 0, 0) &&
	       call_family(ABI_FAMILY_GROUP, 0, 0) == own &&
	       call_family(ABI_FAMILY_SET_SESSION, 0, 0) == -EPERM &&
	       !call_family(ABI_FAMILY_SET_GROUP, own,
			    GUEST + getpgid(getppid())) &&
	       call_family(ABI_FAMILY_SET_SESSION, 0, 0) == own &&
	       call_family(ABI_FAMILY_SESSION, 0, 0) == own;
}

static void test_sessions(void)
{
	s32 status, pid = fork();

	if (!pid)
		_exit(lead_session() ? 6 : 1);
	tap_ok(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 6,
	       "a child leads a group, or a session when it leads none");
}

/* Another run has a memory of its own at the same descriptor. */
static void test_stranger(void)
{
	int pair[2], fd, status;
	s32 pid;
	char byte;

	if (pipe(pair))
		return;
	pid = fork();
	if (!pid) {
		fd = memfd_create("family", 0);
		dup2(fd, BEE_FAMILY_FD);
		if (write(pair[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	tap_ok(read(pair[0], &byte, 1) == 1 && !lin_family_has(pid) &&
		       !lin_family_has(0) && !lin_family_has(-1) &&
		       call_family(ABI_FAMILY_KILL, GUEST + pid, SIGKILL) ==
			       -ESRCH &&
		       call_family(ABI_FAMILY_TEXT, GUEST + pid,
				   ABI_FAMILY_COMM) == -ESRCH,
	       "a child that belongs to another run is a stranger");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	pid = fork();
	if (!pid) {
		close(BEE_FAMILY_FD);
		_exit(lin_family_has(getppid()) ? 1 : 7);
	}
	tap_ok(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 7,
	       "without a run there is no family");
	close(pair[0]);
	close(pair[1]);
}

static void test_terminal(void)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_TTY_GROUP, .handle = 1};

	tap_ok(lin_family(&op, 0) == GUEST + 9, "a terminal has a group");
	terminal_group = 0;
	tap_ok(lin_family(&op, 0) == GUEST, "perhaps of another pid namespace");
	op.handle = 2;
	tap_ok(lin_family(&op, 0) == -ENOTTY, "or is none");
	op.verb = ABI_FAMILY_SET_TTY;
	op.handle = 1;
	op.pid = GUEST + 12;
	tap_ok(!lin_family(&op, 0) && terminal_group == 12, "it gets another");
	op.handle = 2;
	tap_ok(lin_family(&op, 0) == -EIO, "or fails");
	terminal_group = 3;
	op.pid = -1;
	tap_ok(lin_family(&op, 0) == -EINVAL, "a negative number is invalid");
	op.pid = 5;
	tap_ok(lin_family(&op, 0) == -ESRCH && terminal_group == 3,
	       "and a number of the kernel's unknown");
	op.pid = 0;
	tap_ok(lin_family(&op, 0) == -ESRCH && terminal_group == 3, "as is 0");
	op.pid = 2 * GUEST;
	tap_ok(lin_family(&op, 0) == -ESRCH && terminal_group == 3,
	       "and what is above all numbers");
	op.pid = 2 * GUEST + 1;
	tap_ok(lin_family(&op, 0) == -ESRCH && terminal_group == 3,
	       "however far");
}

static s32 peer_of(s32 handle, int name)
{
	struct ucred peer;
	struct abi_sock_op op = {.verb = ABI_SOCK_GETOPT,
				 .level = SOL_SOCKET,
				 .name = name,
				 .buf = &peer,
				 .len = sizeof(peer)};
	s64 rc = lin_sock(handle, &op);

	return rc ? (s32)rc : peer.pid;
}

static void test_peer(void)
{
	tap_ok(peer_of(1, SO_PEERCRED) == GUEST + getpid() &&
		       peer_of(0, SO_PEERCRED) == 0 &&
		       peer_of(-1, SO_PEERCRED) == -ENOTSOCK &&
		       peer_of(1, SO_TYPE) == getpid(),
	       "a peer has the guest's number, and a stranger none");
}

static int is_open(int fd, int sockets)
{
	int type = 0;
	socklen_t len = sizeof(type);
	int none = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len);

	return (fcntl(fd, F_GETFD) & FD_CLOEXEC) &&
	       (fcntl(fd, F_GETFL) & O_NONBLOCK) && (none == 0) == sockets;
}

static void test_rest(void)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_USAGE};
	struct sigaction sa;
	s32 pair[2];
	int death = 0;

	tap_ok(!lin_pipe(pair, 0) && is_open(pair[0], 0) && is_open(pair[1], 0),
	       "a pipe never blocks and is not inherited");
	tap_ok(!lin_pipe(pair, 1) && is_open(pair[0], 1) && is_open(pair[1], 1),
	       "nor does a pair of sockets");
	settles = 0;
	tap_ok(!call_family(ABI_FAMILY_SETTLE, 0, 0) && settles == 1,
	       "signals settle");
	tap_ok(!call_family(ABI_FAMILY_HOLD, 0, 1) &&
		       !call_family(ABI_FAMILY_HOLD, 0, 0) && holds == 5,
	       "signals are held, and no more");
	tap_ok(!call_family(ABI_FAMILY_DEATH, 0, SIGUSR1) &&
		       !prctl(PR_GET_PDEATHSIG, &death) && death == SIGUSR1 &&
		       call_family(ABI_FAMILY_DEATH, 0, 99) == -EINVAL,
	       "a signal at the parent's death");
	tap_ok(!lin_family(&op, 0) && op.usage[4],
	       "children that ended used memory");
	tap_ok(!call_family(ABI_FAMILY_REAP, 0, 1) &&
		       !sigaction(SIGCHLD, NULL, &sa) &&
		       (sa.sa_flags & SA_NOCLDWAIT) &&
		       !call_family(ABI_FAMILY_REAP, 0, 0) &&
		       !sigaction(SIGCHLD, NULL, &sa) &&
		       !(sa.sa_flags & (SA_NOCLDWAIT | SA_NOCLDSTOP)),
	       "children are not kept, or kept");
	op.handle = 5;
	op.verb = ABI_FAMILY_EXEC;
	tap_ok(call_family(ABI_FAMILY_EXEC_FILE, 0, 0) == 77 &&
		       lin_family(&op, 0) == -5,
	       "execve is done elsewhere");
	tap_ok(call_family(99, 0, 0) == -ENOSYS, "what is unknown says so");
}

static s64 read_counter(s32 fd)
{
	u64 n = 0;

	return read(fd, &n, sizeof(n)) == sizeof(n) ? (s64)n : -errno;
}

static void test_counter(void)
{
	int next = next_free(), saved;
	s32 fd = lin_counter(0, 0);

	tap_ok(fd == next && is_open(fd, 0) && read_counter(fd) == -EAGAIN,
	       "a counter begins at 0, never blocks and is not inherited");
	close(fd);
	fd = lin_counter(5, 0);
	tap_ok(read_counter(fd) == 5 && read_counter(fd) == -EAGAIN,
	       "or at another number, which is read at once");
	close(fd);
	fd = lin_counter(2, 1);
	tap_ok(read_counter(fd) == 1 && read_counter(fd) == 1 &&
		       read_counter(fd) == -EAGAIN,
	       "a semaphore is counted down");
	close(fd);
	tap_ok(lin_counter(~0ull, 0) == -EIO && next_free() == next,
	       "one that cannot have its number is closed");
	limit_descriptors((u32)next);
	tap_ok(lin_counter(5, 0) == -EMFILE, "or there is no descriptor");
	limit_descriptors(1024);
	saved = dup(0);
	close(0);
	fd = lin_counter(5, 0);
	tap_ok(!fd && read_counter(fd) == 5, "0 is a descriptor");
	close(0);
	tap_ok(!call_family(ABI_FAMILY_KILL, GUEST + getpid(), 0) &&
		       next_free() == 0,
	       "and may be one that only a call needs");
	dup2(saved, 0);
	close(saved);
}

static s32 next_of(s32 pid)
{
	return (s32)call_family(ABI_FAMILY_NEXT, pid, 0);
}

static s64 text_of(s32 pid, char *text, u64 len)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_TEXT,
				   .pid = pid,
				   .status = ABI_FAMILY_COMM,
				   .text = text,
				   .text_len = len};

	return lin_family(&op, 0);
}

static void test_lists(void)
{
	struct abi_family_op name = {.verb = ABI_FAMILY_NAME,
				     .path = "/a/beehive"};
	s32 handle, status, own = GUEST + getpid(), found = 0, last = 0, pid;
	s32 child = start_child(-1, 0, &handle);
	char text[32] = "";

	for (pid = next_of(0); pid > last; pid = next_of(last = pid))
		found += pid == own || pid == child ? 1 : 100;
	tap_ok(found == 2 && pid == 0, "the processes are listed in order");
	tap_ok(!lin_family(&name, 0) && text_of(own, text, 32) == 8 &&
		       !memcmp(text, "beehive\n", 8),
	       "a process has a name");
	tap_ok(text_of(GUEST + 1, text, 32) == -ESRCH &&
		       text_of(5, text, 32) == -ESRCH,
	       "which strangers have not");
	call_family(ABI_FAMILY_KILL, child, SIGKILL);
	wait_child(child, 0, &status);
}

/* With a signal that stops, blocked; the mask stays as it is. Signals from a
 * terminal stop only groups that a process outside controls. */
static int stop_by(int sig)
{
	sigset_t set, before, after;

	setpgid(0, 0);
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &before);
	raise(SIGUSR1); /* and would end it */
	sigprocmask(SIG_BLOCK, NULL, &before);
	if (call_family(ABI_FAMILY_STOP, 0, sig))
		return 1;
	sigprocmask(SIG_BLOCK, NULL, &after);
	return memcmp(&before, &after, 8) ? 2 : 5;
}

static void test_stop(void)
{
	static const int sigs[] = {SIGSTOP, SIGTSTP, SIGTTIN};
	s32 status;
	int pid, i;

	for (i = 0; i < 3; i++) {
		fflush(stdout);
		pid = fork();
		if (!pid)
			_exit(stop_by(sigs[i]));
		tap_ok(waitpid(pid, &status, WUNTRACED) == pid &&
			       WIFSTOPPED(status) &&
			       WSTOPSIG(status) == sigs[i] &&
			       !kill(pid, SIGCONT) &&
			       waitpid(pid, &status, 0) == pid &&
			       WEXITSTATUS(status) == 5,
		       "a process stops by signal %d, and goes on", sigs[i]);
	}
}

/* Keeps its number, whatever the kernel's is. */
static void test_restored(void)
{
	s32 guest = 1, pid = 1, own = GUEST + 77;

	tap_ok(!lin_family_restored(0, &guest, &pid) && guest == 1 && pid == 1,
	       "a run begins without a saved process");
	lin_family_restore(own, getpid());
	tap_ok(lin_family_restored(0, &guest, &pid) == 1 && guest == own &&
		       pid == getpid() && !lin_family_restored(1, &guest, &pid),
	       "a restored process knows both its numbers");
	tap_ok(lin_family_guest(getpid()) == own &&
		       lin_family_guest(1) == 2 * GUEST + 1 &&
		       lin_family_number(5) == 2 * GUEST + 5 &&
		       lin_family_base() == 2 * GUEST,
	       "it keeps the guest's, and others have theirs");
	tap_ok(!call_family(ABI_FAMILY_KILL, own, 0) &&
		       call_family(ABI_FAMILY_GROUP, own, 0) ==
			       lin_family_guest(getpgrp()) &&
		       call_family(ABI_FAMILY_KILL, GUEST + 1, 0) == -ESRCH,
	       "by which it is found");
	lin_family_restore(2 * GUEST + 77, getpid());
	tap_ok(lin_family_number(5) == 3 * GUEST + 5,
	       "new threads have other numbers than the restored one");
	lin_family_restore(0, 0);
	lin_family_numbered(0x3fffffff);
}

/* Of children in a row, those with an odd number outlive the others. */
static void test_odd_numbers(void)
{
	s32 child[8], handle, status;
	int i, good = 0;

	for (i = 0; i < 8; i++)
		child[i] = start_child(-1, 0, &handle);
	for (i = 0; i < 8; i++)
		if (child[i] % 2 == 0) {
			call_family(ABI_FAMILY_KILL, child[i], SIGKILL);
			wait_child(child[i], 0, &status);
		}
	for (i = 0; i < 8; i++)
		good += lin_family_lives((u32)child[i]) == child[i] % 2;
	tap_ok(good == 8, "each thread's number is asked for itself");
	for (i = 0; i < 8; i++)
		if (child[i] % 2) {
			call_family(ABI_FAMILY_KILL, child[i], SIGKILL);
			wait_child(child[i], 0, &status);
		}
}

/* Threads of a restored process keep numbers of an earlier kernel. */
static void test_numbers(void)
{
	siginfo_t info;
	pid_t pid;

	tap_ok(lin_family_number(5) == GUEST + 5,
	       "a thread's number is the kernel's and a constant");
	lin_family_numbered(GUEST - 1);
	tap_ok(lin_family_number(5) == GUEST + 5, "a lower one is no other's");
	lin_family_numbered(GUEST);
	tap_ok(lin_family_number(5) == 2 * GUEST + 5,
	       "a new thread does not get a restored one's");
	pid = fork();
	if (!pid)
		_exit(0);
	tap_ok(lin_family_lives(2 * GUEST + (u32)getpid()),
	       "a thread lives that the kernel has");
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	tap_ok(!lin_family_lives(2 * GUEST + (u32)pid),
	       "one that has ended does not, though it is not waited for");
	waitpid(pid, NULL, 0);
	tap_ok(!lin_family_lives(2 * GUEST + (u32)pid) &&
		       !lin_family_lives(GUEST + (u32)getpid()),
	       "nor afterwards, nor one of another sequence");
	busy = 1;
	tap_ok(lin_family_lives(2 * GUEST + (u32)pid),
	       "but while robust futexes are not released it does");
	busy = 0;
	lin_family_restore(GUEST + 1, getpid());
	tap_ok(lin_family_lives(GUEST + (u32)pid) &&
		       !lin_family_lives(2 * GUEST + (u32)pid),
	       "of an earlier kernel's threads nothing is known");
	lin_family_restore(0, 0);
	lin_family_numbered(0x3fffffff);
	tap_ok(lin_family_number(5) == GUEST + 5,
	       "no number reaches the bits of a lock's word");
}

int main(void)
{
	int fd, end[2];
	char byte;

	close_range(3, ~0u, 0);
	fd = memfd_create("family", 0);
	dup2(fd, BEE_FAMILY_FD);
	close(fd);
	alarm(60); /* a child that is never found hangs the test */
	test_fork();
	test_fork_fails();
	test_wait4();
	test_waitid();
	test_kill();
	test_queue();
	test_groups();
	test_sessions();
	test_stranger();
	test_terminal();
	test_peer();
	test_stop();
	test_counter();
	test_lists();
	test_rest();
	test_restored();
	test_odd_numbers();
	test_numbers();
	helper_error = -EAGAIN;
	if (pipe(end))
		return 1;
	message_end = end[1];
	fflush(stdout);
	fd = fork();
	if (!fd)
		_exit(call_family(ABI_FAMILY_BEGIN, 0, 0) ? 1 : 2);
	waitpid(fd, &child_status, 0);
	close(end[1]);
	tap_ok(WEXITSTATUS(child_status) == BEE_EXIT_REFUSED &&
		       read(end[0], &byte, 1) == 1,
	       "a child without a thread for signals says so and ends");
	return tap_done();
}
