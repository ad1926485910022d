/* SPDX-License-Identifier: MIT */
/*
 * The processes of one run as the kernel has them: children by fork, their
 * ends, signals, groups and sessions. The guest's number of a process is the
 * kernel's plus PID_BASE, so that tests see whether a program has reached the
 * real kernel. A process is in the family if it has the same memfd at
 * BEE_FAMILY_FD; no other process gets a signal from here.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/include/siginfo.h"
#include "bee/core/snapshot.h"
#include "host.h"

#define PID_BASE 0x400000 /* above all pids of the kernel */
#define TID_END 0x40000000

static pthread_mutex_t forking = PTHREAD_MUTEX_INITIALIZER;

static s64 errno_result(s64 n)
{
	return n < 0 ? -errno : n;
}

/* Restored processes keep their numbers. */
static struct {
	s32 guest, pid;
} restored[BEE_SNAP_MEMBERS];
static u32 restored_count;

/* Added to the kernel's number of a thread or process; a multiple of PID_BASE,
 * and the same in all processes of the run. */
static s32 number_base = PID_BASE;

void lin_family_numbered(s32 tid)
{
	if (tid >= number_base)
		number_base =
			(tid / PID_BASE + 1) % (TID_END / PID_BASE) * PID_BASE;
	if (!number_base)
		number_base = PID_BASE;
}

s32 lin_family_number(s32 tid)
{
	return (tid & (PID_BASE - 1)) + number_base;
}

s32 lin_family_base(void)
{
	return number_base;
}

/* In a restored run, numbers of an earlier kernel mean threads that exist. */
s64 lin_family_lives(u32 tid)
{
	s32 number = (s32)tid;

	if (number / PID_BASE != number_base / PID_BASE)
		return restored_count != 0;
	return lin_proc_runs(number & (PID_BASE - 1)) || lin_robust_busy();
}

int lin_family_restore(s32 guest, s32 pid)
{
	u32 i;

	if (!guest) {
		restored_count = 0;
		return 0;
	}
	for (i = 0; i < restored_count && restored[i].guest != guest; i++)
		;
	if (i == BEE_SNAP_MEMBERS)
		return -1;
	restored[i].guest = guest;
	restored[i].pid = pid;
	if (i == restored_count)
		restored_count++;
	lin_family_numbered(guest);
	return 0;
}

int lin_family_restored(u32 i, s32 *guest, s32 *pid)
{
	if (i >= restored_count)
		return 0;
	*guest = restored[i].guest;
	*pid = restored[i].pid;
	return 1;
}

s32 lin_family_guest(s32 pid)
{
	u32 i;

	for (i = 0; i < restored_count; i++)
		if (restored[i].pid == pid)
			return restored[i].guest;
	return lin_family_number(pid);
}

/* -1: no process can have this number. */
static pid_t host_pid(s32 guest)
{
	u32 i;

	for (i = 0; i < restored_count; i++)
		if (restored[i].guest == guest)
			return restored[i].pid;
	return guest > number_base && guest - number_base < PID_BASE
		       ? guest - number_base
		       : -1;
}

/* -guest, which is no number for the lowest one. */
static s32 negate_number(s32 guest)
{
	return (s32)(0u - (u32)guest);
}

/* Translates the process number of a socket's peer to the guest's; 0 for a
 * process outside of the family. */
s64 lin_sock(s32 handle, struct abi_sock_op *op)
{
	struct ucred *peer = op->buf;
	s64 n = abi_lin_sock(handle, op);

	if (!n && op->verb == ABI_SOCK_GETOPT && op->level == SOL_SOCKET &&
	    op->name == SO_PEERCRED && op->len == sizeof(*peer))
		peer->pid = lin_family_has(peer->pid)
				    ? lin_family_guest(peer->pid)
				    : 0;
	return n;
}

s64 lin_pipe(s32 handle[2], u32 type)
{
	if (type)
		return errno_result(socketpair(
			AF_UNIX, (int)type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
			handle));
	return errno_result(pipe2(handle, O_CLOEXEC | O_NONBLOCK));
}

s64 lin_counter(u64 value, u32 semaphore)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK |
				    (semaphore ? EFD_SEMAPHORE : 0));

	if (fd < 0 || !value ||
	    write(fd, &value, sizeof(value)) == sizeof(value))
		return errno_result(fd);
	close(fd);
	return -EIO;
}

/* Members of the family --------------------------------------------------- */

/* Also true for a child that has ended, and so has no descriptors. */
static int is_own_child(pid_t pid)
{
	return !waitid(P_PID, (id_t)pid, NULL, WNOHANG | WNOWAIT | WEXITED);
}

int lin_family_has(s32 pid)
{
	struct stat mine, theirs;
	char name[48];

	if (fstat(BEE_FAMILY_FD, &mine))
		return 0;
	snprintf(name, sizeof(name), "/proc/%d/fd/%d", pid, BEE_FAMILY_FD);
	if (!stat(name, &theirs))
		return theirs.st_dev == mine.st_dev &&
		       theirs.st_ino == mine.st_ino;
	return is_own_child(pid);
}

/* 0 means the caller; -1 for a process outside of the family. */
static pid_t family_pid(s32 guest)
{
	pid_t pid = guest ? host_pid(guest) : getpid();

	return pid == getpid() || lin_family_has(pid) ? pid : -1;
}

/* Signals ------------------------------------------------------------------ */

/* The libc's two signals and bee's cannot be sent between processes. */
static int is_taken(s32 sig)
{
	static u32 said;

	if (sig != 32 && sig != 33 && sig != LIN_KICK)
		return 0;
	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		bee_os_message("kill refused (EINVAL): signals 32, 33 and 40 "
			       "reach only the process itself");
	return 1;
}

/* Uses a pidfd, so the process id cannot be reused between the check and the
 * signal. */
static s64 send_signal(pid_t pid, s32 sig, siginfo_t *info)
{
	s64 rc = -ESRCH;
	int fd;

	if (pid == -1)
		return -ESRCH;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd == -1)
		return -errno;
	if (lin_family_has(pid))
		rc = errno_result(
			syscall(SYS_pidfd_send_signal, fd, sig, info, 0));
	close(fd);
	return rc;
}

/* Signals all processes of a group, or if it is 0 of the family, except the
 * caller. */
static s64 signal_many(pid_t group, s32 sig)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	s64 found = -ESRCH;
	pid_t pid;

	if (!dir)
		return -errno;
	while ((e = readdir(dir))) {
		pid = atoi(e->d_name);
		if (pid <= 0 || pid == getpid() ||
		    (group && getpgid(pid) != group))
			continue;
		if (!send_signal(pid, sig, NULL))
			found = 0;
	}
	closedir(dir);
	return found;
}

static s64 kill_processes(struct abi_family_op *op)
{
	s32 sig = op->status;
	pid_t group;
	s64 rc;

	op->status = 0;
	if (is_taken(sig))
		return -EINVAL;
	if (op->pid > 0)
		return send_signal(host_pid(op->pid), sig, NULL);
	if (op->pid == -1)
		return signal_many(0, sig);
	group = op->pid ? host_pid(negate_number(op->pid)) : getpgrp();
	if (group == -1)
		return -ESRCH;
	rc = signal_many(group, sig);
	op->status = group == getpgrp();
	return op->status ? 0 : rc;
}

static s64 queue_signal(const struct abi_family_op *op)
{
	siginfo_t info;

	memcpy(&info, op->info, sizeof(info));
	if (is_taken(info.si_signo))
		return -EINVAL;
	if (host_pid(info.si_pid) != -1)
		info.si_pid = host_pid(info.si_pid);
	return send_signal(host_pid(op->pid), info.si_signo, &info);
}

/* Stops all threads; returns after a signal has continued them. */
static s64 stop_here(s32 sig)
{
	sigset_t set, old;

	if (sig == SIGSTOP)
		return errno_result(kill(getpid(), SIGSTOP));
	pthread_sigmask(SIG_SETMASK, NULL, &old);
	set = old;
	sigdelset(&set, sig);
	syscall(SYS_tgkill, getpid(), gettid(), sig);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return 0;
}

static s64 reap_children(s32 on)
{
	struct sigaction sa = {.sa_handler = SIG_DFL,
			       .sa_flags = on ? SA_NOCLDWAIT : 0};

	return errno_result(sigaction(SIGCHLD, &sa, NULL));
}

/* Children ----------------------------------------------------------------- */

/*
 * `forking` is locked from the creation of the sockets until one end is closed,
 * because no other child may inherit that end.
 */
static s64 fork_process(struct abi_family_op *op)
{
	int end[2] = {-1, -1};
	s32 pid;

	pthread_mutex_lock(&forking);
	if (op->status &&
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, end)) {
		pthread_mutex_unlock(&forking);
		return -EAGAIN;
	}
	pid = lin_thread_fork();
	close(end[pid == 0 ? 0 : 1]); /* -1 without sockets */
	if (pid == 0) {
		lin_vfork_begin(end[1], op->stack, op->stack_len);
		lin_proc_child();
		op->pid = lin_family_guest(getpid());
	}
	pthread_mutex_unlock(&forking);
	if (pid < 0)
		close(end[0]);
	if (pid > 0)
		op->handle = end[0];
	return pid > 0 ? lin_family_guest(pid) : pid;
}

/* Called first in the child, which cannot report a failure. */
static s64 begin_child(void)
{
	if (!lin_helper_start())
		return 0;
	bee_os_message("fork: no thread for the child's signals");
	_exit(BEE_EXIT_REFUSED);
}

/* As for wait4: 0 and -1 are not translated, -n is a group. 0 or an errno. */
static s64 wait_target(s32 guest, s32 *pid)
{
	*pid = guest;
	if (guest == -1 || guest == negate_number(guest))
		return 0; /* 0, and what the kernel refuses */
	*pid = host_pid(guest < 0 ? negate_number(guest) : guest);
	if (*pid == -1)
		return -ECHILD;
	if (guest < 0)
		*pid = -*pid;
	return 0;
}

static s64 call_kernel(u32 options, u64 nr, const u64 arg[6])
{
	if (!(options & WNOHANG))
		return lin_wait_call(nr, arg);
	return errno_result(
		syscall((s64)nr, arg[0], arg[1], arg[2], arg[3], arg[4]));
}

static s64 wait_one(struct abi_family_op *op)
{
	s32 pid;
	s64 rc = wait_target(op->pid, &pid);
	const u64 arg[6] = {(u64)pid, (u64)(__UINTPTR_TYPE__)&op->status,
			    op->options, (u64)(__UINTPTR_TYPE__)op->usage};

	if (rc)
		return rc;
	rc = call_kernel(op->options, SYS_wait4, arg);
	if (rc <= 0)
		return rc;
	if (WIFEXITED(op->status) || WIFSIGNALED(op->status))
		lin_robust_await((s32)rc);
	lin_signals_settle(); /* the guest gets SIGCHLD before wait returns */
	return lin_family_guest((s32)rc);
}

static s64 wait_info(struct abi_family_op *op)
{
	siginfo_t info = {.si_pid = 0};
	pid_t id = op->pid ? host_pid(op->pid) : 0;
	const u64 arg[6] = {(u64)op->status, (u64)id,
			    (u64)(__UINTPTR_TYPE__)&info, op->options,
			    (u64)(__UINTPTR_TYPE__)op->usage};
	s64 rc;

	if (op->status != P_ALL && id == -1)
		return -ECHILD;
	if (op->status == P_PID && !id)
		return -EINVAL;
	rc = call_kernel(op->options, SYS_waitid, arg);
	if (rc < 0 || !info.si_pid)
		return rc;
	if (info.si_code != CLD_STOPPED && info.si_code != CLD_CONTINUED)
		lin_robust_await(info.si_pid);
	lin_signals_settle();
	info.si_pid = lin_family_guest(info.si_pid);
	memcpy(op->info, &info, sizeof(info));
	return 1;
}

/* Groups, sessions, parents ------------------------------------------------ */

static s64 group_of(s32 guest, pid_t (*ask)(pid_t))
{
	pid_t group = ask(family_pid(guest)); /* -ESRCH for -1 */

	return group == -1 ? -errno : lin_family_guest(group);
}

static s64 set_group(const struct abi_family_op *op)
{
	pid_t pid = op->pid ? host_pid(op->pid) : 0;
	pid_t group = op->status ? host_pid(op->status) : 0;

	if (pid == -1)
		return -ESRCH;
	return group == -1 ? -EPERM : errno_result(setpgid(pid, group));
}

static s64 set_session(void)
{
	pid_t id = setsid();

	return id == -1 ? -errno : lin_family_guest(id);
}

static s64 tty_group(s32 handle)
{
	pid_t group = tcgetpgrp(handle);

	return group == -1 ? -errno : lin_family_guest(group);
}

static s64 set_tty_group(const struct abi_family_op *op)
{
	pid_t group = host_pid(op->pid);

	if (group == -1)
		return op->pid < 0 ? -EINVAL : -ESRCH;
	return errno_result(tcsetpgrp(op->handle, group));
}

static s64 control_terminal(const struct abi_family_op *op)
{
	return errno_result(op->text ? ioctl(op->handle, op->options, op->text)
				     : ioctl(op->handle, op->options,
					     (unsigned long)op->pid));
}

static s64 parent_of(void)
{
	pid_t pid = getppid();

	return lin_family_has(pid) ? lin_family_guest(pid) : 1;
}

static s64 group_call(struct abi_family_op *op)
{
	switch (op->verb) {
	case ABI_FAMILY_PARENT:
		return parent_of();
	case ABI_FAMILY_GROUP:
		return group_of(op->pid, getpgid);
	case ABI_FAMILY_SESSION:
		return group_of(op->pid, getsid);
	case ABI_FAMILY_SET_GROUP:
		return set_group(op);
	case ABI_FAMILY_SET_SESSION:
		return set_session();
	case ABI_FAMILY_TTY_GROUP:
		return tty_group(op->handle);
	case ABI_FAMILY_SET_TTY:
		return set_tty_group(op);
	case ABI_FAMILY_TERMINAL:
		return control_terminal(op);
	case ABI_FAMILY_DEATH:
		return errno_result(prctl(PR_SET_PDEATHSIG, op->status));
	case ABI_FAMILY_USAGE:
		return errno_result(getrusage(
			RUSAGE_CHILDREN, (struct rusage *)(void *)op->usage));
	default:
		return -ENOSYS;
	}
}

s64 lin_family(struct abi_family_op *op, u32 thread)
{
	s64 n;

	(void)thread;
	_Static_assert(sizeof(op->usage) == sizeof(struct rusage), "rusage");
	switch (op->verb) {
	case ABI_FAMILY_FORK:
		return fork_process(op);
	case ABI_FAMILY_FORKED:
		lin_vfork_wait(op->handle, op->stack, op->stack_len);
		return 0;
	case ABI_FAMILY_BEGIN:
		return begin_child();
	case ABI_FAMILY_WAIT4:
		return wait_one(op);
	case ABI_FAMILY_WAITID:
		return wait_info(op);
	case ABI_FAMILY_KILL:
		return kill_processes(op);
	case ABI_FAMILY_QUEUE:
		return queue_signal(op);
	case ABI_FAMILY_HOLD:
		lin_signals_hold(op->status);
		return 0;
	case ABI_FAMILY_SETTLE:
		lin_signals_settle();
		return 0;
	case ABI_FAMILY_EXEC_FILE:
		return lin_exec_file();
	case ABI_FAMILY_EXEC:
		return lin_exec(op);
	case ABI_FAMILY_NEXT:
		n = lin_family_next(host_pid(op->pid));
		return n > 0 ? lin_family_guest((s32)n) : n;
	case ABI_FAMILY_TEXT:
		return lin_family_has(host_pid(op->pid))
			       ? lin_family_text(host_pid(op->pid),
						 (u32)op->status, op->text,
						 op->text_len)
			       : -ESRCH;
	case ABI_FAMILY_NAME:
		lin_proc_name(op->path);
		return 0;
	case ABI_FAMILY_STOP:
		return stop_here(op->status);
	case ABI_FAMILY_REAP:
		return reap_children(op->status);
	default:
		return group_call(op);
	}
}
