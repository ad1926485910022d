// SPDX-License-Identifier: MIT
/*
 * Processes that the program started: waits, signals, groups. `lock` guards the
 * list of them, and from a check whether a process is a child until its use.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/include/siginfo.h"
#include "helper.h"

#define CHILDREN 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static s32 child[CHILDREN];
static u32 children;

static s64 errno_result(s64 n)
{
	return n < 0 ? -errno : n;
}

/* An ended one remains a child, with its number, until it is waited for. */
static int is_child(s32 pid)
{
	siginfo_t info;

	return pid > 0 &&
	       !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
}

/* Removes those that nobody will wait for. */
static void forget_gone(void)
{
	u32 i, kept = 0;

	for (i = 0; i < children; i++)
		if (is_child(child[i]))
			child[kept++] = child[i];
	children = kept;
}

static s64 start_child(struct abi_family_op *op)
{
	s64 pid;

	if (op->status != 1)
		return -ENOSYS;
	pthread_mutex_lock(&lock);
	if (children == CHILDREN)
		forget_gone();
	pid = children < CHILDREN ? sms_helper_birth() : -EAGAIN;
	if (pid > 0)
		child[children++] = (s32)pid;
	pthread_mutex_unlock(&lock);
	op->pid = (s32)pid;
	return pid < 0 ? pid : 0;
}

_Static_assert(sizeof(struct rusage) ==
		       sizeof(((struct abi_family_op *)0)->usage),
	       "usage");

/* Never waits: sms waits for an event first. */
static s64 wait_status(struct abi_family_op *op)
{
	struct rusage usage;
	int status = 0;
	s64 n;

	memset(&usage, 0, sizeof(usage));
	pthread_mutex_lock(&lock);
	n = errno_result(
		wait4(op->pid, &status, (int)(op->options | WNOHANG), &usage));
	if (n > 0)
		forget_gone();
	pthread_mutex_unlock(&lock);
	op->status = status;
	memcpy(op->usage, &usage, sizeof(usage));
	return n;
}

static s64 wait_info(struct abi_family_op *op)
{
	struct rusage usage;
	siginfo_t info;
	s64 n;

	memset(&usage, 0, sizeof(usage));
	memset(&info, 0, sizeof(info));
	pthread_mutex_lock(&lock);
	n = errno_result(syscall(SYS_waitid, op->status, op->pid, &info,
				 op->options | WNOHANG, &usage));
	forget_gone();
	pthread_mutex_unlock(&lock);
	memcpy(op->usage, &usage, sizeof(usage));
	memcpy(op->info, &info, sizeof(*op->info));
	return n ? n : info.si_pid != 0;
}

/* Signals --------------------------------------------------------------- */

static int is_wanted(s32 pid, s32 target)
{
	if (target > 0)
		return pid == target;
	return target == -1 || getpgid(pid) == (target ? -target : getpgrp());
}

/* Only children, and the program itself, which sms signals. */
static s64 send_signal(struct abi_family_op *op)
{
	s32 sig = op->status;
	s64 rc = -ESRCH, n;
	u32 i;

	op->status = op->pid != -1 && is_wanted(getpid(), op->pid);
	if (op->status)
		rc = 0;
	pthread_mutex_lock(&lock);
	forget_gone();
	for (i = 0; i < children; i++) {
		if (!is_wanted(child[i], op->pid))
			continue;
		n = errno_result(kill(child[i], sig));
		rc = rc == 0 ? 0 : n;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

static s64 queue_signal(const struct abi_family_op *op)
{
	s64 rc = -ESRCH;

	pthread_mutex_lock(&lock);
	if (is_child(op->pid))
		rc = errno_result(syscall(SYS_rt_sigqueueinfo, op->pid,
					  op->info->signo, op->info));
	pthread_mutex_unlock(&lock);
	return rc;
}

/* This thread does not return before the process is continued. */
static s64 stop_process(s32 sig)
{
	if (sig != SIGSTOP && sig != SIGTSTP && sig != SIGTTIN &&
	    sig != SIGTTOU)
		return -EINVAL;
	return errno_result(syscall(SYS_tgkill, getpid(), gettid(), sig));
}

/* SIGCHLD is still sent, so a wait ends when the last child has ended. */
static s64 reap_children(s32 on)
{
	struct sigaction sa = {.sa_handler = SIG_DFL,
			       .sa_flags = on ? SA_NOCLDWAIT : 0};

	return errno_result(sigaction(SIGCHLD, &sa, NULL));
}

/* Groups --------------------------------------------------------------- */

/* The caller itself, or a child. 0: no process of the program. */
static s32 member_of(s32 pid)
{
	if (!pid || pid == getpid())
		return getpid();
	return is_child(pid) ? pid : 0;
}

static s64 set_session(s32 pid)
{
	if (pid == getpid())
		return errno_result(setsid());
	return sms_helper_session(pid) ?: pid;
}

static s64 group_call(struct abi_family_op *op)
{
	s32 pid = member_of(op->pid);

	if (!pid)
		return -ESRCH;
	switch (op->verb) {
	case ABI_FAMILY_PARENT:
		return pid == getpid() ? 1 : getpid();
	case ABI_FAMILY_GROUP:
		return errno_result(getpgid(pid));
	case ABI_FAMILY_SESSION:
		return errno_result(getsid(pid));
	case ABI_FAMILY_SET_GROUP:
		return errno_result(setpgid(pid, op->status));
	default:
		return set_session(pid);
	}
}

static s64 terminal_call(struct abi_family_op *op)
{
	if (sms_own_is(op->handle))
		return -EBADF;
	return errno_result(op->verb == ABI_FAMILY_TTY_GROUP
				    ? tcgetpgrp(op->handle)
				    : tcsetpgrp(op->handle, op->pid));
}

static s64 children_usage(struct abi_family_op *op)
{
	struct rusage usage;
	s64 rc = errno_result(getrusage(RUSAGE_CHILDREN, &usage));

	if (!rc)
		memcpy(op->usage, &usage, sizeof(usage));
	return rc;
}

s64 sms_family(struct abi_family_op *op)
{
	switch (op->verb) {
	case ABI_FAMILY_FORK:
		return start_child(op);
	case ABI_FAMILY_EXEC_FILE:
		return errno_result(memfd_create("exec", MFD_CLOEXEC));
	case ABI_FAMILY_SPAWN:
		return sms_helper_run(op->pid, op->handle, op->path);
	case ABI_FAMILY_ENDED:
		return sms_helper_end(op->pid, op->status);
	case ABI_FAMILY_WAIT4:
		return wait_status(op);
	case ABI_FAMILY_WAITID:
		return wait_info(op);
	case ABI_FAMILY_KILL:
		return send_signal(op);
	case ABI_FAMILY_QUEUE:
		return queue_signal(op);
	case ABI_FAMILY_STOP:
		return stop_process(op->status);
	case ABI_FAMILY_REAP:
		return reap_children(op->status);
	case ABI_FAMILY_DEATH:
		return errno_result(prctl(PR_SET_PDEATHSIG, op->status));
	case ABI_FAMILY_USAGE:
		return children_usage(op);
	case ABI_FAMILY_NEXT:
		return op->pid < getpid() ? getpid() : 0;
	case ABI_FAMILY_TTY_GROUP:
	case ABI_FAMILY_SET_TTY:
		return terminal_call(op);
	case ABI_FAMILY_PARENT:
	case ABI_FAMILY_GROUP:
	case ABI_FAMILY_SESSION:
	case ABI_FAMILY_SET_GROUP:
	case ABI_FAMILY_SET_SESSION:
		return group_call(op);
	default:
		return -ENOSYS;
	}
}
