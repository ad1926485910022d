/* SPDX-License-Identifier: MIT */
/*
 * The processes of a snapshot with more than one. They are forked before any of
 * them has memory or threads of a guest, parents before children, and then each
 * is restored as the only process of a run would be, from a snapshot of its
 * own. Pipes are made before the forks. Nobody goes on before all are restored.
 *
 * The snapshot is hostile: bee_snap_parse has checked the records here, and
 * checks each process's snapshot. Owns the table of processes, and three pipes
 * while it waits.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bee/core/snapshot.h"
#include "host.h"

#define PID_LEAST 2u
#define PID_MOST 0x3fffffffu
#define WATCH_MS 20

struct process {
	struct bee_snap_member record;
	struct bee_snapshot snapshot; /* of all but the first one */
	u8 *bytes;
	u64 length;
};

static struct process run[BEE_SNAP_MEMBERS];
static u32 count, self;
static s32 *pids; /* by number; all processes see the same ones */
/* Of each of two meetings; a fast process must not take what lets another one
 * leave the first. */
static int ready[2], release[2][2];

struct reason {
	char *text;
	u64 size;
};

static int give_reason(const struct reason *why, const char *text)
{
	snprintf(why->text, why->size, "%s", text);
	return -1;
}

/* Reading ------------------------------------------------------------------ */

static int leader_wrong(u32 leader)
{
	return leader != BEE_SNAP_NONE &&
	       (leader >= count || run[leader].record.ended);
}

/* No process ends by a signal that stops it. */
static int status_wrong(s32 status)
{
	s32 sig = WTERMSIG(status);

	return !WIFEXITED(status) &&
	       (!WIFSIGNALED(status) || sig == SIGSTOP || sig == SIGTSTP ||
		sig == SIGTTIN || sig == SIGTTOU);
}

static int record_wrong(u32 i)
{
	const struct bee_snap_member *m = &run[i].record;
	u32 j;

	for (j = 0; j < i; j++)
		if (run[j].record.pid == m->pid)
			return 1;
	return m->pid < PID_LEAST || m->pid > PID_MOST ||
	       leader_wrong(m->group) || leader_wrong(m->session) ||
	       (m->parent != BEE_SNAP_NONE && run[m->parent].record.ended) ||
	       (m->ended &&
		(m->parent == BEE_SNAP_NONE || status_wrong(m->status)));
}

static int read_records(const struct bee_snapshot *s, const struct reason *why)
{
	const struct bee_snap_member *m;
	u64 at = 0, len;
	u32 i;

	while ((m = bee_snap_next(s, &at, BEE_SNAP_MEMBER, &len)))
		run[count++].record = *m;
	for (i = 0; i < count; i++)
		if (record_wrong(i))
			return give_reason(why, "its processes are not valid");
	if (count && run[0].record.pid != s->process->pid)
		return give_reason(why, "its processes are not valid");
	return 0;
}

static u64 size_process(const struct bee_snapshot *s, u32 number)
{
	const struct bee_snap_part *part;
	u64 at = 0, len, size = 0;

	while ((part = bee_snap_next(s, &at, BEE_SNAP_PART, &len)))
		if (part->number == number)
			size += len - sizeof(*part);
	return size;
}

static int read_process(const struct bee_snapshot *s, u32 number,
			const struct reason *why)
{
	struct process *p = &run[number];
	const struct bee_snap_part *part;
	const char *wrong;
	u64 at = 0, len, n = 0;

	p->length = size_process(s, number);
	p->bytes = p->length ? bee_os_alloc(p->length) : NULL;
	if (!p->bytes)
		return give_reason(why, p->length ? "there is too little memory"
						  : "a process is missing");
	while ((part = bee_snap_next(s, &at, BEE_SNAP_PART, &len))) {
		if (part->number != number)
			continue;
		memcpy(p->bytes + n, part + 1, len - sizeof(*part));
		n += len - sizeof(*part);
	}
	wrong = bee_snap_parse(&p->snapshot, p->bytes, p->length);
	p->snapshot.number = number;
	at = 0;
	if (wrong)
		return give_reason(why, wrong);
	if (p->snapshot.process->pid != p->record.pid ||
	    bee_snap_next(&p->snapshot, &at, BEE_SNAP_MEMBER, &len))
		return give_reason(why, "its processes are not valid");
	return 0;
}

static int open_shared(const struct bee_snapshot *s, const struct reason *why)
{
	const struct bee_snap_shared *shared;
	const struct bee_snapshot *of;
	u64 at = 0, len;

	while ((shared = bee_snap_next(s, &at, BEE_SNAP_SHARED, &len))) {
		of = shared->number ? &run[shared->number].snapshot : s;
		if (!of->bytes)
			return give_reason(why,
					   "its shared files are not valid");
		if (bee_restore_shared(&lin_host, of, shared, why->text,
				       why->size))
			return -1;
	}
	return 0;
}

/* No new process or thread gets a number that a restored one has. */
static void keep_numbers(const struct bee_snapshot *s)
{
	const struct abi_snap_thread *t;
	u64 at = 0, len;

	while ((t = bee_snap_next(s, &at, BEE_SNAP_THREAD, &len)))
		if (t->tid && t->tid <= PID_MOST)
			lin_family_numbered((s32)t->tid);
}

static int read_all(const struct bee_snapshot *s, const struct reason *why)
{
	u32 i;

	keep_numbers(s);
	if (bee_restore_pipes(&lin_host, s, why->text, why->size))
		return -1;
	for (i = 0; i < count; i++) {
		lin_family_numbered((s32)run[i].record.pid);
		if (!i || run[i].record.ended)
			continue;
		if (read_process(s, i, why) ||
		    bee_restore_pipes(&lin_host, &run[i].snapshot, why->text,
				      why->size))
			return -1;
		keep_numbers(&run[i].snapshot);
	}
	return open_shared(s, why);
}

/* Forking ------------------------------------------------------------------ */

static void drain_signal(void)
{
	static const struct timespec at_once;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	while (sigtimedwait(&set, NULL, &at_once) > 0)
		;
}

/* Groups that others lead are joined when those exist. */
static void lead_group(u32 number)
{
	const struct bee_snap_member *m = &run[number].record;

	if (m->session == number)
		setsid();
	else if (m->group == number)
		setpgid(0, 0);
	__atomic_store_n(&pids[number], getpid(), __ATOMIC_SEQ_CST);
}

static __attribute__((noreturn)) void end_as_before(u32 number)
{
	s32 status = run[number].record.status;
	struct sigaction sa = {.sa_handler = SIG_DFL};
	sigset_t none;

	lead_group(number);
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status));
	sigaction(WTERMSIG(status), &sa, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	raise(WTERMSIG(status));
	_exit(BEE_EXIT_REFUSED);
}

/* The process has got a signal of its own when the snapshot was made. A call of
 * the command bee --snapshot may interrupt the wait. */
static int await_ended(pid_t pid, u32 options)
{
	siginfo_t info;
	int rc;

	do
		rc = waitid(P_PID, (id_t)pid, &info, (int)(WEXITED | options));
	while (rc && errno == EINTR);
	drain_signal();
	return rc;
}

/* 1: in the new process; 0, or -1. */
static int fork_process(u32 number)
{
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (!pid) {
		lin_proc_child();
		if (run[number].record.ended)
			end_as_before(number);
		self = number;
		lead_group(number);
		return 1;
	}
	/* also if it ends before it can tell it itself */
	__atomic_store_n(&pids[number], pid, __ATOMIC_SEQ_CST);
	return run[number].record.ended ? await_ended(pid, WNOWAIT) : 0;
}

/* Its parent ends, so that it has none in this run. */
static int fork_orphan(u32 number)
{
	pid_t pid = fork();
	int rc;

	if (pid < 0)
		return -1;
	if (pid)
		return await_ended(pid, 0);
	rc = fork_process(number);
	if (rc <= 0)
		_exit(rc ? BEE_EXIT_REFUSED : 0);
	return rc;
}

/* All children of this process and, in the first one, orphans. A new process
 * forks its own. 0, or -1. */
static int fork_children(void)
{
	u32 i;
	int rc;

	for (i = 1; i < count; i++) {
		if (run[i].record.parent == self)
			rc = fork_process(i);
		else if (run[i].record.parent == BEE_SNAP_NONE && !self)
			rc = fork_orphan(i);
		else
			continue;
		if (rc < 0)
			return -1;
	}
	return 0;
}

/* Of other processes nothing is kept but the table. */
static void take_own(struct bee_snapshot *s, u8 **bytes, u64 *length)
{
	u32 i;

	for (i = 1; i < count; i++)
		if (i != self && run[i].bytes) {
			bee_os_free(run[i].bytes, run[i].length);
			run[i].bytes = NULL;
		}
	if (!self)
		return;
	bee_os_free(*bytes, *length);
	*bytes = run[self].bytes;
	*length = run[self].length;
	*s = run[self].snapshot;
}

static int make_shared(void)
{
	pids = mmap(NULL, sizeof(*pids) * BEE_SNAP_MEMBERS,
		    PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return pids == MAP_FAILED || pipe2(ready, O_CLOEXEC) ||
	       pipe2(release[0], O_CLOEXEC) || pipe2(release[1], O_CLOEXEC);
}

int lin_regroup(struct bee_snapshot *s, u8 **bytes, u64 *length, char *text,
		u64 size)
{
	const struct reason why = {text, size};

	if (read_records(s, &why))
		return -1;
	if (!count)
		return 0;
	if (read_all(s, &why))
		return -1;
	if (make_shared())
		return give_reason(&why, "there is too little memory");
	lead_group(0);
	if (fork_children())
		return give_reason(&why, "its processes cannot be forked");
	close(ready[!self]);
	close(release[0][!!self]);
	close(release[1][!!self]);
	take_own(s, bytes, length);
	return 0;
}

/* Waiting ------------------------------------------------------------------ */

/* Of the first process: by number; the first is that of `ready`. */
static struct pollfd watched[BEE_SNAP_MEMBERS];

/* A process that ends before all are released could not be restored. One may
 * not be forked yet; then its parent is watched. */
static int watch_processes(void)
{
	u32 i;

	for (i = 1; i < count; i++) {
		if (run[i].record.ended || watched[i].fd >= 0 ||
		    !__atomic_load_n(&pids[i], __ATOMIC_SEQ_CST))
			continue;
		watched[i].fd = (int)syscall(SYS_pidfd_open, pids[i], 0);
		if (watched[i].fd < 0)
			return -1;
	}
	return poll(watched, count, WATCH_MS) < 0 && errno != EINTR ? -1 : 0;
}

static int await_others(u32 meeting)
{
	char byte[BEE_SNAP_MEMBERS] = {0};
	u32 i, living = 0, got = 0;
	ssize_t n;

	for (i = 1; i < count; i++)
		living += !run[i].record.ended;
	while (got < living) {
		if (watch_processes())
			return -1;
		for (i = 1; i < count; i++)
			if (watched[i].revents)
				return -1;
		n = watched[0].revents ? read(ready[0], byte, living) : 0;
		got += n > 0 ? (u32)n : 0;
	}
	return write(release[meeting][1], byte, living) == (ssize_t)living ? 0
									   : -1;
}

/* Each process comes here; it returns when all have. */
static int meet_others(u32 meeting)
{
	char byte = 0;
	ssize_t n;

	if (!self)
		return await_others(meeting);
	do
		n = write(ready[1], &byte, 1);
	while (n < 0 && errno == EINTR);
	while (n == 1) {
		n = read(release[meeting][0], &byte, 1);
		if (n >= 0 || errno != EINTR)
			return n == 1 ? 0 : -1;
		n = 1;
	}
	return -1;
}

static void join_group(void)
{
	const struct bee_snap_member *m = &run[self].record;

	if (m->group != BEE_SNAP_NONE && m->group != self)
		setpgid(0, pids[m->group]);
}

static int keep_processes(void)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (lin_family_restore((s32)run[i].record.pid, pids[i]))
			return -1;
	return 0;
}

static void close_meetings(void)
{
	u32 i;

	close(ready[!!self]);
	close(release[0][!self]);
	close(release[1][!self]);
	for (i = 1; i < count && !self; i++)
		if (watched[i].fd >= 0)
			close(watched[i].fd);
}

int lin_regroup_await(void)
{
	u32 i;
	int rc;

	if (!count)
		return 0;
	for (i = 0; i < count; i++)
		watched[i] = (struct pollfd){.fd = i ? -1 : ready[0],
					     .events = POLLIN};
	rc = meet_others(0);
	if (!rc) {
		join_group();
		rc = keep_processes() || meet_others(1);
	}
	close_meetings();
	munmap(pids, sizeof(*pids) * BEE_SNAP_MEMBERS);
	if (rc && self)
		_exit(BEE_EXIT_REFUSED); /* the first process says it */
	return rc;
}
