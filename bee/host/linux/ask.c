/* SPDX-License-Identifier: MIT */
/*
 * The command `bee --snapshot FILE PID`: opens FILE.part, asks the process that
 * runs the guest to write it, makes it safe on the disk, and gives it its name.
 * Only then, if so asked, the program ends. It runs no guest code.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "host.h"

#define TRIES 50
#define TRY_MS 200

struct asked {
	const struct bee_options *options;
	char part[PATH_MAX];
	int file, sock;
	pid_t pid; /* of the process that runs the guest */
};

static int report_refusal(const char *before, const char *name,
			  const char *after)
{
	char line[PATH_MAX + 400];

	snprintf(line, sizeof(line), "no snapshot: %s%s%s", before, name,
		 after);
	bee_os_message(line);
	return BEE_EXIT_REFUSED;
}

u32 lin_ask_name(struct sockaddr_un *to, u64 token)
{
	memset(to, 0, sizeof(*to));
	to->sun_family = AF_UNIX;
	snprintf(to->sun_path + 1, sizeof(to->sun_path) - 1,
		 "bee snapshot %016llx", token);
	return (u32)(offsetof(struct sockaddr_un, sun_path) + 1 +
		     strlen(to->sun_path + 1));
}

/* Whom to ask -------------------------------------------------------------- */

/* Other processes must not get bee's signal: it would end them. */
static int runs_guest(pid_t pid)
{
	static const char memfd[] = "/memfd:bee family";
	char name[64], target[64] = "";

	snprintf(name, sizeof(name), "/proc/%d/fd/%d", pid, BEE_FAMILY_FD);
	return readlink(name, target, sizeof(target) - 1) > 0 &&
	       !strncmp(target, memfd, sizeof(memfd) - 1);
}

static int is_bee(pid_t pid)
{
	struct stat own, other;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	return !stat("/proc/self/exe", &own) && !stat(name, &other) &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

/* bee's own process starts the one that runs the guest. */
static pid_t find_guest(pid_t pid)
{
	char name[64];
	int child = 0;
	FILE *f;

	if (runs_guest(pid))
		return pid;
	snprintf(name, sizeof(name), "/proc/%d/task/%d/children", pid, pid);
	f = fopen(name, "re");
	if (f && fscanf(f, "%d", &child) != 1)
		child = 0;
	if (f)
		fclose(f);
	return child > 0 && runs_guest(child) ? child : 0;
}

/* The file ----------------------------------------------------------------- */

/* A file that a dead command left is taken over; its lock shows a living one.
 */
static int open_part(struct asked *a)
{
	const char *name = a->options->snapshot;
	struct stat st, now;
	u32 i;

	if ((u64)snprintf(a->part, sizeof(a->part), "%s.part", name) >=
	    sizeof(a->part))
		return report_refusal("the name is too long", "", "");
	a->file = open(a->part,
		       O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
		       0600);
	if (a->file < 0)
		return report_refusal(a->part, ": ", strerror(errno));
	/* after a command has died, the program may be writing still */
	for (i = 0; flock(a->file, LOCK_EX | LOCK_NB); i++) {
		if (i == TRIES)
			return report_refusal("another command writes ",
					      a->part, "");
		usleep(TRY_MS * 1000);
	}
	if (fstat(a->file, &st) || lstat(a->part, &now) ||
	    !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    st.st_nlink != 1 || st.st_dev != now.st_dev ||
	    st.st_ino != now.st_ino || fchmod(a->file, 0600) ||
	    ftruncate(a->file, 0))
		return report_refusal(a->part,
				      " is not a file of this command; remove "
				      "it",
				      "");
	return 0;
}

static int sync_folder(const char *path)
{
	char folder[PATH_MAX];
	char *slash;
	int fd, err;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = '\0';
	fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	err = fsync(fd);
	close(fd);
	return err;
}

static int name_file(struct asked *a)
{
	const char *name = a->options->snapshot;

	if (fsync(a->file))
		return report_refusal(a->part, ": ", strerror(errno));
	if (rename(a->part, name) || sync_folder(name))
		return report_refusal(name, ": ", strerror(errno));
	return 0;
}

/* Asking ------------------------------------------------------------------- */

struct call {
	pid_t pid; /* of a process that runs a guest */
	int listener;
	u64 token;
};

static int listen_here(struct call *c)
{
	struct sockaddr_un name;
	u32 len;

	c->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (c->listener < 0 ||
	    getrandom(&c->token, sizeof(c->token), 0) != sizeof(c->token))
		return -1;
	len = lin_ask_name(&name, c->token);
	return bind(c->listener, (struct sockaddr *)&name, len) ||
	       listen(c->listener, 4);
}

/* Its helper waits for this signal; in a child of fork, a thread passes it on
 * to the helper. */
static int call_process(const struct call *c)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_ptr = (void *)(__UINTPTR_TYPE__)c->token;
	return (int)syscall(SYS_rt_tgsigqueueinfo, c->pid, c->pid, LIN_KICK,
			    &info);
}

/* Another process that connects is not answered. */
static int accept_process(const struct call *c)
{
	struct ucred peer = {0};
	socklen_t len = sizeof(peer);
	int sock = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC);

	if (sock < 0)
		return -1;
	if (!getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) &&
	    peer.pid == c->pid)
		return sock;
	close(sock);
	return -1;
}

static int await_process(const struct call *c, u32 tries)
{
	struct pollfd fd = {.fd = c->listener, .events = POLLIN};
	int sock = LIN_ASK_SILENT;
	u32 i;

	for (i = 0; i < tries && sock < 0; i++) {
		if (!runs_guest(c->pid) || call_process(c))
			return LIN_ASK_ENDED;
		if (poll(&fd, 1, TRY_MS) > 0)
			sock = accept_process(c);
	}
	return sock < 0 ? LIN_ASK_SILENT : sock;
}

int lin_ask_connect(s32 pid, u32 tries)
{
	struct call c = {.pid = pid, .listener = -1};
	int sock = listen_here(&c) ? LIN_ASK_SOCKET : await_process(&c, tries);

	close(c.listener);
	return sock;
}

int lin_ask_send(int sock, const struct skep_snapshot_ask *ask, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {(void *)(__UINTPTR_TYPE__)ask, sizeof(*ask)};
	struct msghdr msg = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};

	memset(&control, 0, sizeof(control));
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(int));
	return sendmsg(sock, &msg, MSG_NOSIGNAL) == sizeof(*ask) ? 0 : -1;
}

static int reach_process(struct asked *a)
{
	a->sock = lin_ask_connect(a->pid, TRIES);
	switch (a->sock) {
	case LIN_ASK_SOCKET:
		return report_refusal("no socket", "", "");
	case LIN_ASK_ENDED:
		return report_refusal(
			"the program has ended, or belongs to another user", "",
			"");
	case LIN_ASK_SILENT:
		return report_refusal("the program does not answer", "", "");
	default:
		return 0;
	}
}

static int take_answer(struct asked *a, struct skep_snapshot_answer *answer)
{
	const struct skep_snapshot_ask ask = {.end = a->options->end};

	if (lin_ask_send(a->sock, &ask, a->file) ||
	    recv(a->sock, answer, sizeof(*answer), 0) != sizeof(*answer))
		return report_refusal("the program has ended meanwhile", "",
				      "");
	answer->why[sizeof(answer->why) - 1] = '\0';
	return answer->saved ? 0 : report_refusal(answer->why, "", "");
}

/* The program has ended when its end of the socket is closed. */
static int end_program(struct asked *a)
{
	char end = 1;

	if (!a->options->end)
		return 0;
	if (send(a->sock, &end, 1, MSG_NOSIGNAL) != 1)
		return report_refusal(
			"the program could not be ended; it may go on", "", "");
	recv(a->sock, &end, 1, 0);
	return 0;
}

static int make_file(struct asked *a)
{
	struct skep_snapshot_answer answer;
	int code = open_part(a);

	if (code)
		return code;
	code = reach_process(a);
	if (!code)
		code = take_answer(a, &answer);
	if (!code)
		code = name_file(a);
	if (code) {
		unlink(a->part);
		return code;
	}
	code = end_program(a);
	if (!code)
		printf("saved %llu bytes in %s; the program stood still for "
		       "%llu ms\n",
		       answer.bytes, a->options->snapshot,
		       answer.pause_ns / 1000000);
	return code || fflush(stdout) ? BEE_EXIT_REFUSED : 0;
}

int lin_ask(const struct bee_options *o)
{
	struct asked a = {.options = o, .file = -1, .sock = -1};
	char number[24];
	u32 i;

	/* it may be starting */
	for (i = 0; i < TRIES && !a.pid && !kill((pid_t)o->pid, 0); i++) {
		a.pid = find_guest((pid_t)o->pid);
		if (!a.pid && !is_bee((pid_t)o->pid))
			break;
		if (!a.pid)
			usleep(TRY_MS * 100);
	}
	if (a.pid)
		return make_file(&a);
	snprintf(number, sizeof(number), "%llu", o->pid);
	return report_refusal("process ", number,
			      " is no running bee of yours");
}
