/* SPDX-License-Identifier: MIT */
/*
 * Saves the processes of a run together. The helper of the first process asks
 * the others, as the command bee --snapshot would: each comes to rest, is saved
 * into a pipe when all are at rest, and then goes on or ends.
 *
 * Processes are found in /proc, again and again until there is none that does
 * not rest: one that rests starts no other. One that ends, or executes a
 * program, before it has answered is forgotten and looked for again. Owns the
 * list and its sockets, from lin_members_rest to lin_members_end.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bee/core/snapshot.h"
#include "host.h"

#define TRIES 25u	/* of a call, 5 seconds */
#define ANSWER_MS 10000 /* a process may take 6 seconds */
#define FIELDS 53	/* of /proc/PID/stat: proc_pid_stat(5) */
#define FILES BEE_SNAP_SHARES
#define LATER_TRIES 200u /* of 5 ms */
#define LATER_US 5000
#define ALL_NS 10000000000u /* until all have answered */

struct process {
	s32 pid, parent, group, session;
	s32 status;
	u32 ended;
	int sock, data; /* -1: it was not asked */
	u32 number;	/* BEE_SNAP_NONE: not yet */
};

static struct process run[BEE_SNAP_MEMBERS];
static u32 count;

struct reason {
	char *text;
	u64 size;
};

static int give_reason(const struct reason *why, s32 pid, const char *what)
{
	snprintf(why->text, why->size, "process %d of its run: %s",
		 lin_family_guest(pid), what);
	return -1;
}

/* The list ----------------------------------------------------------------- */

/* Fields from the third on, which is a letter. 0, or -1: it has ended. */
static int read_stat(s32 pid, s64 field[FIELDS])
{
	char text[2048], *at;
	int i;

	if (lin_proc_read(pid, "stat", text, sizeof(text) - 1) < 0)
		return -1;
	at = strrchr(text, ')');
	if (!at || !at[1] || !at[2])
		return -1;
	field[3] = at[2];
	at += 3;
	for (i = 4; i < FIELDS; i++)
		field[i] = strtoll(at, &at, 10);
	return 0;
}

static struct process *find_process(s32 pid)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (run[i].pid == pid)
			return &run[i];
	return NULL;
}

static int add_process(s32 pid, const s64 field[FIELDS],
		       const struct reason *why)
{
	struct process *p = find_process(pid);

	if (!p && count == BEE_SNAP_MEMBERS)
		return give_reason(why, pid, "there are more than 64");
	if (!p) {
		p = &run[count++];
		*p = (struct process){.pid = pid, .sock = -1, .data = -1};
	}
	p->parent = (s32)field[4];
	p->group = (s32)field[5];
	p->session = (s32)field[6];
	p->ended = field[3] == 'Z';
	p->status = (s32)field[52];
	p->number = BEE_SNAP_NONE;
	return 0;
}

/* A process of bee's own (robust.c) gives no SIGCHLD. */
static int is_member(s32 pid, const s64 field[FIELDS])
{
	return pid == getpid() || (field[38] == SIGCHLD && field[3] != 'Z' &&
				   field[3] != 'X' && lin_family_has(pid));
}

/* What may be over in a moment: an owner's pause, an end. */
struct later {
	s32 pid;
	const char *what;
};

/* One that ends closes its files before it is a zombie, and its first thread
 * may be one before the others. */
static int is_ending(const s64 field[FIELDS])
{
	return field[3] != 'Z' || field[20] > 1;
}

/* Those that have ended, or are about to, have no file of the family, but a
 * parent in the list; so they are looked for when the list is whole. */
static int look_at(s32 pid, u32 ended, const struct reason *why,
		   struct later *later)
{
	s64 field[FIELDS];

	if (read_stat(pid, field))
		return 0;
	if (!ended && is_member(pid, field)) {
		if (field[3] == 'T' || field[3] == 't')
			*later = (struct later){pid, "it is stopped"};
		return add_process(pid, field, why);
	}
	if (!ended)
		return 0;
	if (field[38] != SIGCHLD || !find_process((s32)field[4]) ||
	    is_member(pid, field))
		return 0;
	if (!is_ending(field))
		return add_process(pid, field, why);
	*later = (struct later){pid,
				"its first thread has ended, or it is ending"};
	return 0;
}

static int scan_proc(u32 ended, const struct reason *why, struct later *later)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	int rc = 0, pid;

	if (!dir)
		return give_reason(why, getpid(), "/proc cannot be read");
	while (!rc && (e = readdir(dir))) {
		pid = atoi(e->d_name);
		if (pid > 0)
			rc = look_at(pid, ended, why, later);
	}
	closedir(dir);
	return rc;
}

static int list_once(const struct reason *why, struct later *later)
{
	u32 i;

	*later = (struct later){0, NULL};
	for (i = 0; i < count;) {
		if (run[i].sock >= 0 || run[i].pid == getpid())
			i++;
		else
			run[i] = run[--count];
	}
	return scan_proc(0, why, later) || scan_proc(1, why, later) ? -1 : 0;
}

static int list_processes(const struct reason *why)
{
	struct later later;
	u32 tries;

	for (tries = 0; tries < LATER_TRIES; tries++) {
		if (list_once(why, &later))
			return -1;
		if (!later.pid)
			return 0;
		usleep(LATER_US);
	}
	return give_reason(why, later.pid, later.what);
}

/* Resting ------------------------------------------------------------------ */

/* 0; -1: there is none yet; 1: there will be none. */
static int take_answer(int sock, struct skep_snapshot_answer *a)
{
	struct pollfd fd = {.fd = sock, .events = POLLIN};

	if (poll(&fd, 1, ANSWER_MS) <= 0)
		return -1;
	if (recv(sock, a, sizeof(*a), MSG_DONTWAIT) != sizeof(*a))
		return 1;
	a->why[sizeof(a->why) - 1] = '\0';
	return 0;
}

static void forget_process(struct process *p)
{
	close(p->sock);
	close(p->data);
	p->sock = p->data = -1;
}

/* 0; 1: it ends or executes a program, and is to be looked for again; -1. */
static int ask_process(struct process *p, u32 how, const struct reason *why)
{
	struct skep_snapshot_ask ask = {.end = how,
					.live = SKEP_SNAPSHOT_MEMBER};
	struct skep_snapshot_answer answer;
	int data[2], sock = lin_ask_connect(p->pid, TRIES), rc;

	if (sock == LIN_ASK_ENDED)
		return 1;
	if (sock < 0)
		return give_reason(why, p->pid, "it does not answer");
	p->sock = sock;
	if (pipe2(data, O_CLOEXEC))
		return give_reason(why, p->pid, "no pipe is left for it");
	p->data = data[0];
	rc = lin_ask_send(p->sock, &ask, data[1]);
	close(data[1]);
	rc = rc ? 1 : take_answer(p->sock, &answer);
	if (rc < 0)
		return give_reason(why, p->pid, "it does not answer");
	if (rc) {
		forget_process(p);
		return 1;
	}
	return *answer.why ? give_reason(why, p->pid, answer.why) : 0;
}

/* 1: there was one; 2: one of them is to be looked for again. */
static int ask_new(u32 how, const struct reason *why)
{
	int found = 0, rc;
	u32 i;

	for (i = 0; i < count; i++) {
		if (run[i].ended || run[i].sock >= 0 || run[i].pid == getpid())
			continue;
		rc = ask_process(&run[i], how, why);
		if (rc < 0)
			return rc;
		if (rc || !found)
			found = 1 + rc;
	}
	return found;
}

/* Asks until there is no new one. 0, or -1. */
static int ask_all(u32 how, const struct reason *why)
{
	s64 until = lin_clock(ABI_CLOCK_MONOTONIC) + ALL_NS;
	int rc;

	do {
		if (list_processes(why))
			return -1;
		rc = ask_new(how, why);
		if (rc > 1 && lin_clock(ABI_CLOCK_MONOTONIC) > until)
			return give_reason(why, getpid(),
					   "its child processes start, end or "
					   "execute programs all the time");
		if (rc > 1)
			usleep(LATER_US);
	} while (rc > 0);
	return rc;
}

/* Order -------------------------------------------------------------------- */

static u32 number_of(s32 pid)
{
	const struct process *p = find_process(pid);

	return p && !p->ended ? p->number : BEE_SNAP_NONE;
}

/* Sorts the list by number. Parents come first; one that has lost its parent
 * comes when there is no other. */
static void number_processes(void)
{
	u32 next = 0, i, orphan, chosen;
	struct process p;

	while (next < count) {
		chosen = orphan = count;
		for (i = next; i < count && chosen == count; i++) {
			if (run[i].pid == getpid() ||
			    number_of(run[i].parent) != BEE_SNAP_NONE)
				chosen = i;
			else if (!find_process(run[i].parent))
				orphan = i;
		}
		chosen = chosen < count ? chosen : orphan;
		if (chosen == count)
			return; /* no process is its own forefather */
		p = run[chosen];
		run[chosen] = run[next];
		p.number = next;
		run[next++] = p;
	}
}

/* Numbers of groups and sessions are those of their leaders, which must be
 * there, or outside for the first process as well. */
static int check_leaders(const struct reason *why)
{
	u32 i;

	for (i = 0; i < count; i++) {
		if (run[i].ended)
			continue;
		if (run[i].group != getpgrp() &&
		    number_of(run[i].group) == BEE_SNAP_NONE)
			return give_reason(
				why, run[i].pid,
				"the leader of its process group has ended");
		if (run[i].session != getsid(0) &&
		    number_of(run[i].session) == BEE_SNAP_NONE)
			return give_reason(
				why, run[i].pid,
				"the leader of its session has ended");
	}
	return 0;
}

/* Shared files ------------------------------------------------------------- */

struct file {
	s32 pid;
	int fd;
	dev_t dev;
	ino_t ino;
	u32 nameless;
	u32 group; /* 1 + the index of the first one of it; 0: it is alone */
};

static struct file *files;
static u32 file_count;

/* KCMP_FILE is 0: kcmp(2). 0: the same description. */
static s64 compare_files(const struct file *a, s32 pid, int fd)
{
	return syscall(SYS_kcmp, a->pid, pid, 0, a->fd, fd);
}

static void list_files(s32 pid)
{
	struct dirent *e;
	struct stat st;
	char name[300];
	DIR *dir;

	snprintf(name, sizeof(name), "/proc/%d/fd", pid);
	dir = opendir(name);
	while (dir && file_count < FILES && (e = readdir(dir))) {
		if (e->d_name[0] == '.' || atoi(e->d_name) == BEE_FAMILY_FD)
			continue;
		snprintf(name, sizeof(name), "/proc/%d/fd/%s", pid, e->d_name);
		if (!stat(name, &st) && S_ISREG(st.st_mode))
			files[file_count++] =
				(struct file){.pid = pid,
					      .fd = atoi(e->d_name),
					      .dev = st.st_dev,
					      .ino = st.st_ino,
					      .nameless = !st.st_nlink};
	}
	if (dir)
		closedir(dir);
}

/* A standard stream that can be written to is the host's (abi's kind_of), so it
 * stays shared. */
static int is_stream(const struct file *a)
{
	int fd;

	for (fd = 0; fd <= 2; fd++)
		if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY &&
		    !compare_files(a, getpid(), fd))
			return 1;
	return 0;
}

/* 1: they are one description. */
static s64 compare_pair(const struct file *a, const struct file *b,
			const struct reason *why)
{
	s64 rc;

	if (a->pid == b->pid || a->ino != b->ino || a->dev != b->dev)
		return 0;
	rc = compare_files(a, b->pid, b->fd);
	if (rc < 0)
		return give_reason(why, a->pid,
				   "the kernel does not tell whether it shares "
				   "a file (kcmp)");
	if (rc || is_stream(a))
		return 0;
	return a->nameless ? give_reason(why, a->pid,
					 "it shares a file without a name with "
					 "another process")
			   : 1;
}

static int find_groups(const struct reason *why)
{
	u32 i, j;
	s64 rc;

	for (i = 0; i < file_count; i++)
		for (j = 0; j < i && !files[i].group; j++) {
			rc = compare_pair(&files[i], &files[j], why);
			if (rc < 0)
				return -1;
			if (rc && !files[j].group)
				files[j].group = j + 1;
			if (rc)
				files[i].group = files[j].group;
		}
	return 0;
}

/* Of two descriptions the positions would differ: what processes write would
 * overwrite one another. */
static int find_shared(const struct reason *why)
{
	u32 i;

	file_count = 0;
	if (!files)
		files = bee_os_alloc(FILES * sizeof(*files));
	if (!files)
		return give_reason(why, getpid(), "there is too little memory");
	for (i = 0; i < count; i++)
		if (!run[i].ended)
			list_files(run[i].pid);
	return file_count == FILES
		       ? give_reason(why, getpid(), "too many files are open")
		       : find_groups(why);
}

static void put_shared(struct bee_save *s)
{
	struct bee_snap_shared shared;
	u32 i;

	for (i = 0; i < file_count; i++) {
		if (!files[i].group)
			continue;
		shared = (struct bee_snap_shared){
			.number = number_of(files[i].pid),
			.handle = (u32)files[i].fd,
			.group = files[i].group};
		bee_save_two(s, BEE_SNAP_SHARED, &shared, sizeof(shared), NULL,
			     0);
	}
}

/* For snapshot.c ----------------------------------------------------------- */

int lin_members_look(char *text, u64 size)
{
	const struct reason why = {text, size};
	int rc;

	count = 0;
	rc = list_processes(&why);
	count = 0;
	return rc;
}

int lin_members_rest(u32 how, char *text, u64 size)
{
	const struct reason why = {text, size};
	int rc;

	count = 0;
	rc = ask_all(how, &why);
	if (rc)
		return rc;
	lin_helper_pass();
	number_processes();
	if (check_leaders(&why))
		return -1;
	return count > 1 ? find_shared(&why) : 0;
}

static void put_member(struct bee_save *s, const struct process *p)
{
	struct bee_snap_member m = {.number = p->number,
				    .parent = number_of(p->parent),
				    .group = number_of(p->group),
				    .session = number_of(p->session),
				    .pid = (u32)lin_family_guest(p->pid),
				    .ended = p->ended,
				    .status = p->status};

	if (!p->number)
		m.parent = BEE_SNAP_NONE;
	bee_save_two(s, BEE_SNAP_MEMBER, &m, sizeof(m), NULL, 0);
}

/* Fills the buffer, unless the end comes first. */
static u64 read_part(int fd, u8 *to)
{
	u64 n = 0;
	ssize_t got = 1;

	while (got > 0 && n < BEE_SNAP_PART_MAX) {
		got = read(fd, to + n, BEE_SNAP_PART_MAX - n);
		n += got > 0 ? (u64)got : 0;
	}
	return n;
}

static void put_process(struct bee_save *s, const struct process *p)
{
	struct bee_snap_part part = {.number = p->number};
	struct skep_snapshot_answer answer;
	char byte = SKEP_SNAPSHOT_SAVE;
	u64 n = send(p->sock, &byte, 1, MSG_NOSIGNAL) == 1;

	while (n && !s->failed) {
		n = read_part(p->data, s->buf);
		if (n)
			bee_save_two(s, BEE_SNAP_PART, &part, sizeof(part),
				     s->buf, n);
	}
	if (s->failed)
		return;
	if (take_answer(p->sock, &answer))
		bee_save_fail(s, "a process of its run ended", "", "");
	else if (!answer.saved)
		bee_save_fail(s, "a process of its run: ", answer.why, "");
}

void lin_members_save(struct bee_save *s)
{
	u32 i;

	if (count < 2)
		return;
	for (i = 0; i < count; i++)
		put_member(s, &run[i]);
	put_shared(s);
	for (i = 1; i < count && !s->failed; i++)
		if (!run[i].ended)
			put_process(s, &run[i]);
}

/* Who is being saved to a pipe that nobody reads must get an error. */
void lin_members_end(u32 end)
{
	char byte = end ? 1 : 0;
	struct pollfd fd = {.events = POLLIN};
	u32 i;

	for (i = 0; i < count; i++) {
		if (run[i].data >= 0)
			close(run[i].data);
		if (run[i].sock >= 0)
			send(run[i].sock, &byte, 1, MSG_NOSIGNAL);
	}
	for (i = 0; i < count; i++) {
		if (run[i].sock < 0)
			continue;
		fd.fd = run[i].sock;
		if (end)
			poll(&fd, 1, ANSWER_MS);
		close(run[i].sock);
	}
	count = 0;
	if (files)
		bee_os_free(files, FILES * sizeof(*files));
	files = NULL;
}
