// SPDX-License-Identifier: MIT
/* Owns the table of the run's processes: family.h. */
#include "family.h"
#include "abi/include/siginfo.h"
#include <stdio.h>

#define NO_INDEX (~0u)
#define NO_STATUS (~0u)
#define STACK 0x40000
#define CLD_EXITED 1
#define CLD_KILLED 2
#define SIGCONT 18
#define SIGCHLD 17
#define SIGNALS 64
#define FIRST_PID 1000
#define USER 1000	/* of info.c */
#define ROOM_TURNS 100	/* of the processor, then */
#define ROOM_TRIES 5000 /* of about a millisecond */
#define HELD_MS 20
#define FULL_MS 20 /* until a queue that was full is tried again */

struct win_family *bee_family_table;
struct win_member *bee_family_own;
static HANDLE section, event;
static SRWLOCK taking = SRWLOCK_INIT; /* while signals are taken; of `held` */
static u32 held;	/* threads in execve: signals are the new program's */
static DWORD last_code; /* of the first process, in the parent */

u32 bee_member_state(const struct win_member *m)
{
	return __atomic_load_n(&m->state, __ATOMIC_SEQ_CST);
}

struct win_mail *bee_member_mail(const struct win_member *m)
{
	return &bee_family_table->mail[m - bee_family_table->member];
}

int bee_member_change(struct win_member *m, u32 from, u32 to)
{
	return __atomic_compare_exchange_n(&m->state, &from, to, 0,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

struct win_member *bee_member_find(s32 pid)
{
	u32 i;

	for (i = 0; i < WIN_MEMBERS; i++)
		if (bee_family_table->member[i].pid == pid &&
		    bee_member_state(&bee_family_table->member[i]))
			return &bee_family_table->member[i];
	return NULL;
}

/* The live process with this id of Windows, or NULL. */
static struct win_member *find_live(u32 process)
{
	struct win_member *m = bee_family_table->member;
	const struct win_member *end = m + WIN_MEMBERS;

	for (; m < end; m++)
		if (bee_member_state(m) == WIN_MEMBER_LIVE &&
		    __atomic_load_n(&m->process, __ATOMIC_SEQ_CST) == process)
			return m;
	return NULL;
}

static HANDLE event_open(s32 pid, int create)
{
	WCHAR name[64];

	swprintf(name, 64, L"Local\\bee-%llx-%d", bee_family_table->run, pid);
	return create ? CreateEventW(NULL, FALSE, FALSE, name)
		      : OpenEventW(EVENT_MODIFY_STATE, FALSE, name);
}

/* A process that has no event yet looks for signals when it starts. */
void bee_member_wake(const struct win_member *m)
{
	HANDLE h = event_open(m->pid, 0);

	if (!h)
		return;
	SetEvent(h);
	CloseHandle(h);
}

void bee_member_signal(struct win_member *m, u32 signo)
{
	__atomic_fetch_or(&m->pending, 1ull << (signo - 1), __ATOMIC_SEQ_CST);
	bee_member_wake(m);
}

/* An entry that is the caller's now; NULL: all are in use. */
static struct win_queued *queue_take(struct win_member *m)
{
	struct win_queued *q = bee_member_mail(m)->queue;
	const struct win_queued *end = q + WIN_QUEUED;
	u32 free = 0;

	for (; q < end; q++, free = 0)
		if (__atomic_compare_exchange_n(&q->state, &free, 1, 0,
						__ATOMIC_SEQ_CST,
						__ATOMIC_SEQ_CST))
			return q;
	return NULL;
}

/*
 * The signal thread of the process empties the queue, when it gets a processor.
 * So a full queue says nothing about how many signals wait; `full` does.
 */
static struct win_queued *queue_await(struct win_member *m)
{
	struct win_queued *q = queue_take(m);
	s32 pid = m->pid;
	u32 i;

	if (!q) /* who filled it may have been killed before it woke it */
		bee_member_wake(m);
	for (i = 0; !q && i < ROOM_TURNS + ROOM_TRIES; i++) {
		if (m->pid != pid || bee_member_state(m) == WIN_MEMBER_ZOMBIE ||
		    __atomic_load_n(&bee_member_mail(m)->full,
				    __ATOMIC_SEQ_CST))
			break;
		if (i < ROOM_TURNS)
			SwitchToThread();
		else
			Sleep(1);
		q = queue_take(m);
	}
	return q;
}

s64 bee_member_queue(struct win_member *m, const struct abi_siginfo *info)
{
	struct win_queued *q = queue_await(m);

	if (!q)
		return -LINUX_EAGAIN;
	q->signo = info->signo;
	q->code = info->code;
	q->pid = (s32)info->user.pid;
	q->value = info->user.value;
	q->ticket = __atomic_fetch_add(&bee_family_table->ticket, 1,
				       __ATOMIC_SEQ_CST);
	__atomic_store_n(&q->state, 2, __ATOMIC_SEQ_CST);
	bee_member_wake(m);
	return 0;
}

/* The end of a process ------------------------------------------------------
 */

/* Its children have no parent any more. */
static void children_leave(s32 pid)
{
	struct win_member *m;
	u32 i, death;

	for (i = 0; i < WIN_MEMBERS; i++) {
		m = &bee_family_table->member[i];
		if (!bee_member_state(m) || m->parent != pid)
			continue;
		death = m->death;
		m->parent = 1;
		if (!bee_member_change(m, WIN_MEMBER_ZOMBIE, WIN_MEMBER_FREE) &&
		    !bee_member_change(m, WIN_MEMBER_BORN, WIN_MEMBER_FREE) &&
		    death)
			bee_member_signal(m, death);
	}
}

void bee_member_end(struct win_member *m, u32 status)
{
	struct win_member *parent = bee_member_find(m->parent);

	children_leave(m->pid);
	m->status = status;
	m->told = 0;
	if (!parent || __atomic_load_n(&parent->reap, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&m->state, WIN_MEMBER_FREE, __ATOMIC_SEQ_CST);
		m->told = 1;
	} else {
		__atomic_store_n(&m->state, WIN_MEMBER_ZOMBIE,
				 __ATOMIC_SEQ_CST);
	}
	if (parent)
		bee_member_signal(parent, SIGCHLD);
}

/* The parent --------------------------------------------------------------- */

static int section_map(HANDLE h)
{
	bee_family_table = MapViewOfFile(h, FILE_MAP_WRITE, 0, 0, 0);
	section = h;
	return bee_family_table ? 0 : (int)GetLastError();
}

HANDLE bee_family_new(void)
{
	SECURITY_ATTRIBUTES inherit = {sizeof(inherit), NULL, TRUE};
	HANDLE h = CreateFileMappingW(INVALID_HANDLE_VALUE, &inherit,
				      PAGE_READWRITE, 0,
				      sizeof(*bee_family_table), NULL);

	if (!h || section_map(h) ||
	    bee_random(&bee_family_table->run, sizeof(bee_family_table->run)))
		return NULL;
	bee_family_table->last_pid = FIRST_PID;
	bee_family_own = &bee_family_table->member[0];
	bee_family_own->pid = bee_family_own->group = bee_family_own->session =
		FIRST_PID;
	bee_family_own->parent = 1;
	bee_family_own->state = WIN_MEMBER_LIVE;
	SetEnvironmentVariableW(WIN_ENV_MEMBER, L"1000");
	return h;
}

void bee_family_first(DWORD process)
{
	bee_family_own->process = process;
}

/* Only of processes that the parent debugs. */
static const char *death_name(DWORD code)
{
	const char *name = bee_win_status_name(code);

	return name ? name : "it was killed from outside";
}

static void say_death(const struct win_member *m, DWORD code)
{
	char line[200];

	snprintf(line, sizeof(line),
		 "process %d of the program died unexpectedly: %s (status "
		 "0x%08lx)",
		 m->pid, death_name(code), code);
	bee_os_message(line);
}

int bee_family_ended(DWORD process, HANDLE h, DWORD code)
{
	FILETIME made, ended, system, user;
	struct win_member *m = find_live(process);

	if (!m) /* it has executed another one */
		return 0;
	if (GetProcessTimes(h, &made, &ended, &system, &user)) {
		m->user_ns = bee_clock_cpu(&user);
		m->system_ns = bee_clock_cpu(&system);
	}
	if (m == bee_family_own) {
		last_code = code;
		children_leave(m->pid);
		m->state = WIN_MEMBER_ZOMBIE;
		return 1;
	}
	if (!m->said)
		say_death(m, code);
	bee_member_end(m, m->said ? m->status : WIN_SIGKILL);
	return 0;
}

int bee_family_status(u32 *status)
{
	*status = bee_family_own->said ? bee_family_own->status : last_code;
	return (int)bee_family_own->said;
}

u32 bee_family_count(void)
{
	u32 i, n = 0;

	for (i = 0; i < WIN_MEMBERS; i++)
		n += bee_member_state(&bee_family_table->member[i]) ==
		     WIN_MEMBER_LIVE;
	return n;
}

/* A child -------------------------------------------------------------------
 */

static u64 variable_number(const WCHAR *name, int base)
{
	WCHAR text[32];
	DWORD n = GetEnvironmentVariableW(name, text, 32);

	return n && n < 32 ? _wcstoui64(text, NULL, base) : 0;
}

static s32 *thread_numbers(const struct win_member *m)
{
	return bee_family_table->thread[m - bee_family_table->member];
}

int bee_family_join(void)
{
	HANDLE h = (HANDLE)(ULONG_PTR)variable_number(WIN_ENV_FAMILY, 16);
	int err;

	if (!h)
		return 0;
	err = section_map(h);
	if (err)
		return err;
	bee_family_own =
		bee_member_find((s32)variable_number(WIN_ENV_MEMBER, 10));
	if (!bee_family_own)
		return ERROR_NOT_FOUND;
	memset(thread_numbers(bee_family_own), 0, sizeof(s32[WIN_THREADS]));
	event = event_open(bee_family_own->pid, 1);
	return event ? 0 : (int)GetLastError();
}

int bee_family_live(void)
{
	bee_family_own->process = GetCurrentProcessId();
	return bee_member_change(bee_family_own, WIN_MEMBER_BORN,
				 WIN_MEMBER_LIVE)
		       ? 0
		       : ERROR_NOT_FOUND;
}

u32 bee_family_pid(void)
{
	return bee_family_own ? (u32)bee_family_own->pid : 0;
}

s64 bee_family_number(u32 thread)
{
	s32 n;

	if (!bee_family_own)
		return 0;
	n = __atomic_add_fetch(&bee_family_table->last_pid, 1,
			       __ATOMIC_SEQ_CST);
	__atomic_store_n(&thread_numbers(bee_family_own)[thread % WIN_THREADS],
			 n, __ATOMIC_SEQ_CST);
	return n;
}

void bee_family_thread_gone(u32 thread)
{
	if (bee_family_own)
		__atomic_store_n(
			&thread_numbers(bee_family_own)[thread % WIN_THREADS],
			0, __ATOMIC_SEQ_CST);
}

static int has_thread(const struct win_member *m, s32 number)
{
	const s32 *n = thread_numbers(m);
	u32 i;

	for (i = 0; i < WIN_THREADS; i++)
		if (__atomic_load_n(&n[i], __ATOMIC_SEQ_CST) == number)
			return 1;
	return m->pid == number;
}

s64 bee_family_lives(u32 tid)
{
	const struct win_member *m;
	u32 i, state;

	for (i = 0; bee_family_own && i < WIN_MEMBERS; i++) {
		m = &bee_family_table->member[i];
		state = bee_member_state(m);
		if ((state == WIN_MEMBER_LIVE || state == WIN_MEMBER_BORN) &&
		    has_thread(m, (s32)tid))
			return 1;
	}
	return 0;
}

s32 bee_family_pid_of(u32 process)
{
	const struct win_member *m;

	if (!bee_family_own)
		return process == GetCurrentProcessId() ? (s32)process : 0;
	m = find_live(process);
	return m ? m->pid : 0;
}

/* Also for `kill -9`: the first status counts. */
void bee_family_end(u32 status)
{
	if (!bee_family_own ||
	    bee_member_state(bee_family_own) == WIN_MEMBER_BORN ||
	    __atomic_load_n(&bee_family_own->said, __ATOMIC_SEQ_CST))
		return;
	bee_family_own->status = status;
	__atomic_store_n(&bee_family_own->said, 1, __ATOMIC_SEQ_CST);
}

static void info_of_change(struct abi_siginfo *info, u32 status)
{
	int on = status == WIN_STATUS_CONTINUED;

	info->code = on ? ABI_CLD_CONTINUED : ABI_CLD_STOPPED;
	info->user.value = on ? SIGCONT : status >> 8;
}

void bee_member_info(struct abi_siginfo *info, s32 pid, u32 status)
{
	u32 signal = status & 0x7f;

	memset(info, 0, sizeof(*info));
	info->signo = SIGCHLD;
	info->code = signal ? CLD_KILLED : CLD_EXITED;
	info->user.pid = (u32)pid;
	info->user.uid = USER;
	info->user.value = signal ? signal : status >> 8 & 0xff;
	if (signal == WIN_STATUS_STOPPED)
		info_of_change(info, status);
}

/* The status of which the parent must hear, or NO_STATUS. */
static u32 news_of(struct win_member *m)
{
	u32 change;

	if (m->parent != bee_family_own->pid)
		return NO_STATUS;
	if (bee_member_state(m) == WIN_MEMBER_ZOMBIE)
		return __atomic_exchange_n(&m->told, 1, __ATOMIC_SEQ_CST)
			       ? NO_STATUS
			       : m->status;
	change = __atomic_load_n(&m->change, __ATOMIC_SEQ_CST);
	if (bee_member_state(m) != WIN_MEMBER_LIVE || !change ||
	    __atomic_exchange_n(&m->change_told, 1, __ATOMIC_SEQ_CST))
		return NO_STATUS;
	return change;
}

void bee_family_tell(void)
{
	struct abi_siginfo info;
	struct win_member *m;
	u32 i, status;

	for (i = 0; i < WIN_MEMBERS; i++) {
		m = &bee_family_table->member[i];
		status = news_of(m);
		if (status == NO_STATUS)
			continue;
		bee_member_info(&info, m->pid, status);
		abi_signal_send(bee.proc, NULL, 0, &info);
	}
	bee_thread_ring_all();
}

static void take_signal(u32 signo)
{
	struct abi_siginfo info = {.signo = (s32)signo};

	info.user.pid = (u32)__atomic_exchange_n(
		&bee_member_mail(bee_family_own)->sender[signo - 1], 0,
		__ATOMIC_SEQ_CST);
	info.user.uid = USER;
	if (signo == SIGCHLD) {
		bee_family_tell();
		if (!info.user.pid) /* of no kill(2) */
			return;
	}
	abi_signal_send(bee.proc, NULL, 0, &info);
	if (signo == SIGCONT)
		bee_stop_end();
}

static struct win_queued *queue_first(void)
{
	struct win_queued *first = NULL;
	struct win_queued *q = bee_member_mail(bee_family_own)->queue;
	const struct win_queued *end = q + WIN_QUEUED;

	for (; q < end; q++)
		if (__atomic_load_n(&q->state, __ATOMIC_SEQ_CST) == 2 &&
		    (!first || q->ticket < first->ticket))
			first = q;
	return first;
}

/* 1: abi has no room for the next one, which stays. */
static u32 take_queued(void)
{
	u32 *full = &bee_member_mail(bee_family_own)->full;
	struct abi_siginfo info;
	struct win_queued *q;

	while ((q = queue_first())) {
		memset(&info, 0, sizeof(info));
		info.signo = q->signo;
		info.code = q->code;
		info.user.pid = (u32)q->pid;
		info.user.uid = USER;
		info.user.value = q->value;
		if (abi_signal_send(bee.proc, NULL, 0, &info) == -LINUX_EAGAIN)
			break;
		__atomic_store_n(&q->state, 0, __ATOMIC_SEQ_CST);
	}
	__atomic_store_n(full, q != NULL, __ATOMIC_SEQ_CST);
	return q != NULL;
}

static u32 take_signals(void)
{
	u64 set = __atomic_exchange_n(&bee_family_own->pending, 0,
				      __ATOMIC_SEQ_CST);
	u32 i;

	for (i = 1; i <= SIGNALS; i++)
		if (set >> (i - 1) & 1)
			take_signal(i);
	return take_queued();
}

/* What execve has saved does not change any more, and what arrives later is
 * for the new program, or for this one if there is none. */
void bee_family_hold(int on)
{
	AcquireSRWLockExclusive(&taking);
	held += on ? 1 : -1u;
	ReleaseSRWLockExclusive(&taking);
	if (!on)
		SetEvent(event);
}

static u32 is_held(void)
{
	return __atomic_load_n(&held, __ATOMIC_SEQ_CST);
}

/* The new program waits for the event of the same name: it must not miss what
 * this thread has seen instead of it. */
static void wait_held(void)
{
	SetEvent(event);
	while (is_held()) {
		bee_robust_killed();
		Sleep(HELD_MS);
	}
}

static DWORD WINAPI signal_thread(void *arg)
{
	u32 full = 0;

	bee_thread_adopt(arg);
	for (;;) {
		bee_robust_killed();
		AcquireSRWLockExclusive(&taking);
		if (!is_held())
			full = take_signals();
		ReleaseSRWLockExclusive(&taking);
		if (!is_held())
			WaitForSingleObject(event, full ? FULL_MS : INFINITE);
		if (is_held())
			wait_held();
	}
	return 0;
}

int bee_family_start(void)
{
	struct win_thread *t;
	HANDLE h;

	if (!bee_family_own)
		return 0;
	t = bee_thread_block(NO_INDEX);
	if (!t)
		return ERROR_NOT_ENOUGH_MEMORY;
	h = CreateThread(NULL, STACK, signal_thread, t,
			 STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
	if (!h)
		return (int)GetLastError();
	CloseHandle(h);
	return 0;
}
