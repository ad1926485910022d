// SPDX-License-Identifier: MIT
/*
 * host->family: what processes ask and tell one another. Owns which thread is
 * the child of a vfork, and the times of children that were waited for; the
 * calls of one process may race only as Linux's do.
 */
#include "spawn.h"
#include "abi/include/siginfo.h"

#define WNOHANG 1u
#define WUNTRACED 2u
#define WEXITED 4u
#define WCONTINUED 8u
#define WNOWAIT 0x1000000u
#define P_PID 1
#define P_PGID 2
#define SIGCONT 18
#define BIT(signo) (1ull << ((signo)-1))
#define STOPS                                                                  \
	(BIT(19) | BIT(20) | BIT(21) | BIT(22)) /* STOP TSTP TTIN TTOU         \
						 */
#define FIRST_REAL_TIME 32
#define LOOK_MS 1000 /* not needed, but no child may be missed */
#define NS_PER_US 1000

static s32 born; /* the pid that the thread in a vfork has; 0: none */
static u32 born_thread;

static s32 self_pid(u32 thread)
{
	return born && born_thread == thread ? born : bee_family_own->pid;
}

/* A record of a child that has executed nothing yet, or NULL. */
static struct win_member *member_new(void)
{
	struct win_member *m = NULL;
	u32 i;

	for (i = 0; i < WIN_MEMBERS; i++) {
		m = &bee_family_table->member[i];
		if (bee_member_change(m, WIN_MEMBER_FREE, WIN_MEMBER_BORN))
			break;
	}
	if (i == WIN_MEMBERS)
		return NULL;
	m->parent = bee_family_own->pid;
	m->group = bee_family_own->group;
	m->session = bee_family_own->session;
	m->process = m->status = m->said = m->told = m->reap = m->death = 0;
	m->robust = m->killed = 0;
	m->pending = 0;
	m->stopped = m->change = m->change_told = 0;
	memset(bee_member_mail(m), 0, sizeof(struct win_mail));
	m->user_ns = m->system_ns = 0;
	m->pid = __atomic_add_fetch(&bee_family_table->last_pid, 1,
				    __ATOMIC_SEQ_CST);
	return m;
}

static s64 copy_self(struct abi_family_op *op)
{
	struct win_member *m = member_new();
	s64 rc;

	if (!m)
		return -LINUX_EAGAIN;
	rc = bee_fork_copy();
	if (rc)
		bee_member_change(m, WIN_MEMBER_BORN, WIN_MEMBER_FREE);
	op->pid = m->pid;
	return rc ? rc : m->pid;
}

/* The child takes its record itself: bee_family_live. If it has done so and
 * ended since, it was started. */
static s64 start_copy(const struct abi_family_op *op)
{
	s64 rc = bee_fork_start(op->pid);
	struct win_member *m = bee_member_find(op->pid);

	if (rc && m && !bee_member_change(m, WIN_MEMBER_BORN, WIN_MEMBER_FREE))
		return 0;
	return rc;
}

static s64 give_birth(struct abi_family_op *op, u32 thread)
{
	struct win_member *m;

	if (!op->status)
		return copy_self(op);
	m = member_new();
	if (!m)
		return -LINUX_EAGAIN;
	op->pid = born = m->pid;
	born_thread = thread;
	return 0;
}

s64 bee_family_set_process(s32 pid, DWORD process)
{
	struct win_member *m = bee_member_find(pid);

	if (!m)
		return -LINUX_ESRCH;
	m->process = process;
	bee_member_change(m, WIN_MEMBER_BORN, WIN_MEMBER_LIVE);
	if (pid == born)
		born = 0;
	return 0;
}

void bee_family_child_ended(s32 pid, u32 status)
{
	struct win_member *m = bee_member_find(pid);

	if (pid == born)
		born = 0;
	if (m)
		bee_member_end(m, status);
}

static int is_wanted(const struct win_member *m, s32 pid)
{
	if (pid > 0)
		return m->pid == pid;
	return pid == -1 || m->group == (pid ? -pid : bee_family_own->group);
}

static void usage_fill(struct abi_family_op *op, const struct win_member *m)
{
	u64 user = (u64)m->user_ns / NS_PER_US;
	u64 system = (u64)m->system_ns / NS_PER_US;

	memset(op->usage, 0, sizeof(op->usage));
	op->usage[0] = user / 1000000;
	op->usage[1] = user % 1000000;
	op->usage[2] = system / 1000000;
	op->usage[3] = system % 1000000;
}

static s64 waited_user, waited_system; /* of children that were waited for */

/* 1: it has ended, and its record is free unless it is kept. */
static int take_end(struct abi_family_op *op, struct win_member *m, u32 options)
{
	if (!(options & WEXITED) || bee_member_state(m) != WIN_MEMBER_ZOMBIE)
		return 0;
	bee_family_tell(); /* before wait returns, as on Linux */
	op->status = (s32)m->status;
	usage_fill(op, m);
	if (options & WNOWAIT)
		return 1;
	if (!bee_member_change(m, WIN_MEMBER_ZOMBIE, WIN_MEMBER_FREE))
		return 0;
	waited_user += m->user_ns;
	waited_system += m->system_ns;
	return 1;
}

/* 1: it has stopped, or continued. */
static int take_change(struct abi_family_op *op, struct win_member *m,
		       u32 options)
{
	u32 status = __atomic_load_n(&m->change, __ATOMIC_SEQ_CST);
	u32 which = status == WIN_STATUS_CONTINUED ? WCONTINUED : WUNTRACED;

	if (!status || !(options & which) ||
	    bee_member_state(m) != WIN_MEMBER_LIVE)
		return 0;
	bee_family_tell();
	op->status = (s32)status;
	memset(op->usage, 0, sizeof(op->usage));
	return options & WNOWAIT ||
	       __atomic_compare_exchange_n(&m->change, &status, 0, 0,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* 0: there is nothing to report; -ECHILD: there is no such child. */
static s64 wait_look(struct abi_family_op *op, s32 pid, u32 options)
{
	struct win_member *m;
	s64 n = -LINUX_ECHILD;
	s32 child;
	u32 i;

	for (i = 0; i < WIN_MEMBERS; i++) {
		m = &bee_family_table->member[i];
		if (!bee_member_state(m) || m->parent != bee_family_own->pid ||
		    !is_wanted(m, pid))
			continue;
		n = 0;
		child = m->pid;
		if (take_end(op, m, options) || take_change(op, m, options))
			return child;
	}
	return n;
}

/* bee_family_tell rings the doorbell of a thread that is asleep. */
static s64 wait_child(struct abi_family_op *op, s32 pid, u32 options)
{
	struct win_thread *t = bee_thread_self();
	u32 seen;
	s64 n;

	__atomic_store_n(&t->asleep, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		seen = __atomic_load_n(&t->doorbell, __ATOMIC_SEQ_CST);
		n = wait_look(op, pid, options);
		if (n || options & WNOHANG)
			break;
		n = -LINUX_EINTR;
		if (__atomic_exchange_n(&t->kick, 0, __ATOMIC_SEQ_CST))
			break;
		WaitOnAddress(&t->doorbell, &seen, sizeof(seen), LOOK_MS);
	}
	__atomic_store_n(&t->asleep, 0, __ATOMIC_SEQ_CST);
	return n;
}

static s64 wait_info(struct abi_family_op *op)
{
	s32 pid = op->status == P_PID ? op->pid
		  : op->status == P_PGID
			  ? -(op->pid ? op->pid : bee_family_own->group)
			  : -1;
	s64 n;

	if (op->status == P_PID && op->pid <= 0)
		return -LINUX_EINVAL;
	n = wait_child(op, pid, op->options);
	if (n <= 0)
		return n;
	bee_member_info(op->info, (s32)n, (u32)op->status);
	return 1;
}

static s64 member_kill(struct win_member *m)
{
	HANDLE h =
		OpenProcess(PROCESS_TERMINATE | SYNCHRONIZE, FALSE, m->process);

	if (!h)
		return -LINUX_EPERM;
	m->status = WIN_SIGKILL;
	__atomic_store_n(&m->said, 1, __ATOMIC_SEQ_CST);
	bee_robust_kill(m, h);
	TerminateProcess(h, BEE_EXIT_SIGNAL + WIN_SIGKILL);
	CloseHandle(h);
	return 0;
}

/* A stop signal and SIGCONT cancel each other while they are pending. */
static void drop_opposite(struct win_member *m, u32 signo)
{
	u64 drop = signo == SIGCONT ? STOPS : 0;

	if (BIT(signo) & STOPS)
		drop = BIT(SIGCONT);
	__atomic_fetch_and(&m->pending, ~drop, __ATOMIC_SEQ_CST);
}

static s64 signal_one(struct win_member *m, const struct abi_siginfo *info)
{
	u32 signo = (u32)info->signo;
	s64 rc;

	if (signo == WIN_SIGKILL && bee_member_state(m) == WIN_MEMBER_LIVE)
		return member_kill(m);
	if (!signo || bee_member_state(m) == WIN_MEMBER_ZOMBIE)
		return 0;
	if (signo >= FIRST_REAL_TIME || info->code) {
		rc = bee_member_queue(m, info);
		/* kill(2) does not fail: as on Linux, several may become one */
		if (rc != -LINUX_EAGAIN || info->code)
			return rc;
	}
	drop_opposite(m, signo);
	__atomic_store_n(&bee_member_mail(m)->sender[signo - 1],
			 (s32)info->user.pid, __ATOMIC_SEQ_CST);
	bee_member_signal(m, signo);
	return 0;
}

static s64 signal_members(struct abi_family_op *op)
{
	struct abi_siginfo info = {.signo = op->status};

	struct win_member *m;
	s64 rc = -LINUX_ESRCH;
	u32 i;

	info.user.pid = (u32)bee_family_own->pid;
	op->status = 0;
	for (i = 0; i < WIN_MEMBERS; i++) {
		m = &bee_family_table->member[i];
		if (!bee_member_state(m) || !is_wanted(m, op->pid) ||
		    (m == bee_family_own && op->pid == -1))
			continue;
		rc = 0;
		if (m == bee_family_own)
			op->status = 1;
		else
			rc = signal_one(m, &info);
	}
	return rc;
}

static s64 set_group(const struct abi_family_op *op, u32 thread)
{
	s32 self = self_pid(thread), pid = op->pid ? op->pid : self;
	struct win_member *m = bee_member_find(pid);
	s32 group = op->status ? op->status : pid;

	if (!m || (pid != self && m->parent != self))
		return -LINUX_ESRCH;
	if (m->session == m->pid)
		return -LINUX_EPERM;
	m->group = group;
	return 0;
}

static s64 set_session(u32 thread)
{
	struct win_member *m = bee_member_find(self_pid(thread));

	if (!m || m->group == m->pid)
		return -LINUX_EPERM;
	m->group = m->session = m->pid;
	return m->pid;
}

static s64 refuse_call(const char *line, s64 error)
{
	static u32 said;

	if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
		bee_os_message(line);
	return error;
}

static s64 group_call(struct abi_family_op *op, u32 thread)
{
	struct win_member *m =
		bee_member_find(op->pid ? op->pid : self_pid(thread));

	if (!m)
		return -LINUX_ESRCH;
	switch (op->verb) {
	case ABI_FAMILY_PARENT:
		return m->parent;
	case ABI_FAMILY_GROUP:
		return m->group;
	case ABI_FAMILY_SESSION:
		return m->session;
	case ABI_FAMILY_SET_GROUP:
		return set_group(op, thread);
	case ABI_FAMILY_SET_SESSION:
		return set_session(thread);
	case ABI_FAMILY_DEATH:
		m->death = (u32)op->status;
		return 0;
	case ABI_FAMILY_REAP:
		m->reap = (u32)op->status;
		return 0;
	case ABI_FAMILY_NEXT:
		return op->pid < bee_family_own->pid ? bee_family_own->pid : 0;
	case ABI_FAMILY_TTY_GROUP:
	case ABI_FAMILY_SET_TTY:
		return -LINUX_ENOTTY;
	case ABI_FAMILY_STOP:
		return bee_stop((u32)op->status);
	case ABI_FAMILY_QUEUE:
		return signal_one(m, op->info);
	default:
		return -LINUX_ENOSYS;
	}
}

s64 bee_family(struct abi_family_op *op, u32 thread)
{
	struct win_member sum = {.user_ns = waited_user,
				 .system_ns = waited_system};

	if (!bee_family_own)
		return refuse_call("processes are not started with "
				   "--no-debugger",
				   -LINUX_ENOSYS);
	switch (op->verb) {
	case ABI_FAMILY_FORK:
		return give_birth(op, thread);
	case ABI_FAMILY_FORKED:
		return start_copy(op);
	case ABI_FAMILY_ENDED:
		bee_family_child_ended(op->pid, (u32)op->status);
		return 0;
	case ABI_FAMILY_WAIT4:
		return wait_child(op, op->pid, op->options | WEXITED);
	case ABI_FAMILY_WAITID:
		return wait_info(op);
	case ABI_FAMILY_KILL:
		return signal_members(op);
	case ABI_FAMILY_HOLD:
		bee_family_hold(op->status);
		return 0;
	case ABI_FAMILY_SETTLE: /* each sender's signals arrive in order */
		return 0;
	case ABI_FAMILY_EXEC_FILE:
		return bee_exec_file();
	case ABI_FAMILY_EXEC:
		return bee_exec(op, 0);
	case ABI_FAMILY_SPAWN:
		return bee_exec(op, op->pid);
	case ABI_FAMILY_USAGE:
		usage_fill(op, &sum);
		return 0;
	case ABI_FAMILY_BEGIN:
	case ABI_FAMILY_NAME:
		return 0;
	case ABI_FAMILY_NEXT:
		return op->pid < bee_family_own->pid ? bee_family_own->pid : 0;
	default:
		return group_call(op, thread);
	}
}
