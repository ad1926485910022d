/* SPDX-License-Identifier: MIT */
/*
 * The socket of --control, on which whoever started bee asks for snapshots.
 * usage: control BUILD
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bee/core/snapshot.h"
#include "bee/host/linux/host.h"
#include "tests/tap.h"

static char loader[PATH_MAX], guest[PATH_MAX];
static pid_t pid; /* of bee */
static int sock;
static struct skep_snapshot_answer answer;
static u32 live; /* of the next ask */
static u32 fits; /* the last one that goes on has said so */

static void start_bee(char **argv)
{
	int pair[2];
	char number[16];

	unlink("ready");
	unlink("go");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		exit(1);
	pid = fork();
	if (!pid) {
		fcntl(pair[1], F_SETFD, 0);
		snprintf(number, sizeof(number), "%d", pair[1]);
		argv[0] = loader;
		argv[1] = (char *)"--control";
		argv[2] = number;
		dup2(open("got", O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
		execv(loader, argv);
		_exit(99);
	}
	close(pair[1]);
	sock = pair[0];
}

/* The next byte of bee's; -1: there is none. */
static int next_byte(void)
{
	struct pollfd wait = {.fd = sock, .events = POLLIN};
	char byte;

	return poll(&wait, 1, 20000) > 0 && recv(sock, &byte, 1, 0) == 1 ? byte
									 : -1;
}

/* bee says so when the program is about to run. */
static int has_begun(void)
{
	int byte = next_byte();

	fits = byte == SKEP_SNAPSHOT_FITS;
	if (fits)
		byte = next_byte();
	return !byte;
}

static void start_guest(const char *what)
{
	char *argv[6] = {[3] = guest, [4] = (char *)(uintptr_t)what};

	start_bee(argv);
	tap_ok(has_begun(), "a program begins");
}

static void await_file(const char *name)
{
	int i;

	for (i = 0; i < 1000 && access(name, F_OK); i++)
		poll(NULL, 0, 10);
}

/* Closes fd, to which bee is to write. */
static void send_ask(u32 end, int fd)
{
	struct skep_snapshot_ask ask = {.end = end, .live = live};
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_level = SOL_SOCKET,
			      .cmsg_type = SCM_RIGHTS,
			      .cmsg_len = CMSG_LEN(sizeof(int))}};
	struct iovec part = {&ask, sizeof(ask)};
	struct msghdr msg = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	sendmsg(sock, &msg, MSG_NOSIGNAL);
	close(fd);
}

static int await_answer(void)
{
	struct pollfd wait = {.fd = sock, .events = POLLIN};

	memset(&answer, 0, sizeof(answer));
	if (poll(&wait, 1, 20000) > 0)
		recv(sock, &answer, sizeof(answer), 0);
	return answer.saved == 1;
}

/* 1: it was saved in the file "snap". */
static int ask_snapshot(u32 end)
{
	send_ask(end,
		 open("snap", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
	return await_answer();
}

static void say_byte(char byte)
{
	send(sock, &byte, 1, MSG_NOSIGNAL);
}

static int exit_code(void)
{
	int status = -1;

	waitpid(pid, &status, 0);
	close(sock);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int is_unharmed(void)
{
	char text[64] = "";
	int fd = open("got", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	return n > 0 && !strcmp(text, "unharmed\n");
}

static int finish_guest(void)
{
	close(creat("go", 0600));
	return exit_code() == 0 && is_unharmed();
}

static int restore_guest(void)
{
	char *argv[6] = {[3] = (char *)"--restore", [4] = (char *)"snap"};

	start_bee(argv);
	return has_begun() && finish_guest();
}

/* Writes "snap" to a pipe from which bee restores; `held` bytes come only
 * when the program has not begun in spite of the others. */
static int restore_pipe(off_t held)
{
	static char part[65536];
	struct pollfd wait = {.events = POLLIN};
	int from = open("snap", O_RDONLY), to;
	off_t left = lseek(from, 0, SEEK_END) - held;
	ssize_t n = 1;

	start_bee((char *[]){0, 0, 0, (char *)"--restore", (char *)"pipe", 0});
	to = open("pipe", O_WRONLY);
	for (lseek(from, 0, SEEK_SET); n > 0 && left; left -= n) {
		n = (ssize_t)sizeof(part);
		n = read(from, part, (size_t)(left < n ? left : n));
		n = write(to, part, (size_t)n);
	}
	wait.fd = sock;
	if (held && poll(&wait, 1, 200))
		left = 1;
	n = read(from, part, (size_t)held);
	left += n - write(to, part, (size_t)n);
	close(from);
	close(to);
	return !left;
}

static void test_pipe(void)
{
	start_guest("memory");
	await_file("ready");
	tap_ok(ask_snapshot(SKEP_SNAPSHOT_HOLD), "a program is saved");
	say_byte(1);
	tap_ok(exit_code() == 125, "it ends");
	mkfifo("pipe", 0600);
	tap_ok(restore_pipe(BEE_SNAP_DIGEST) && has_begun() && finish_guest(),
	       "it goes on from a pipe, but not without its end");
	truncate("snap", (off_t)answer.bytes - 1);
	tap_ok(restore_pipe(0) && !has_begun() &&
		       exit_code() == BEE_EXIT_REFUSED,
	       "a pipe that ends early is refused");
}

static void test_goes_on(void)
{
	start_guest("memory");
	/* not ready yet: it is called again until it answers */
	tap_ok(ask_snapshot(0), "a program that starts is saved");
	await_file("ready");
	tap_ok(ask_snapshot(0) && answer.bytes > 0, "and again");
	tap_ok(finish_guest(), "it is unharmed");
}

static void test_hold(void)
{
	struct pollfd none = {.fd = -1};
	int status;

	start_guest("memory");
	await_file("ready");
	tap_ok(ask_snapshot(SKEP_SNAPSHOT_HOLD), "a program is saved and held");
	close(creat("go", 0600));
	poll(&none, 1, 300);
	tap_ok(waitpid(pid, &status, WNOHANG) == 0 && !is_unharmed(),
	       "it does not go on by itself");
	say_byte(0);
	tap_ok(finish_guest(), "it goes on when it is told so, unharmed");
	start_guest("memory");
	await_file("ready");
	tap_ok(ask_snapshot(SKEP_SNAPSHOT_HOLD), "a program is saved and held");
	say_byte(1);
	tap_ok(exit_code() == 125, "it ends when it is told so");
	tap_ok(restore_guest(), "and goes on from the file, unharmed");
}

static void test_alone(void)
{
	start_guest("memory");
	await_file("ready");
	ask_snapshot(SKEP_SNAPSHOT_HOLD);
	close(creat("go", 0600));
	close(sock);
	tap_ok(exit_code() == 125 && !is_unharmed(),
	       "a program that is held ends with who asked");
	start_guest("memory");
	await_file("ready");
	close(sock);
	tap_ok(finish_guest(), "a program that is not held goes on");
}

/* The first section of the file "snap". */
static u32 first_section(void)
{
	int fd = open("snap", O_RDONLY);
	struct bee_snap_section head = {0};

	pread(fd, &head, sizeof(head), sizeof(struct bee_snap_head));
	close(fd);
	return head.type;
}

/* The number in a file of /proc; 0: there is none. */
static int read_number(const char *format, int number)
{
	char name[64];
	int value = 0;
	FILE *f;

	snprintf(name, sizeof(name), format, number, number);
	f = fopen(name, "re");
	if (!f || fscanf(f, "%d", &value) != 1)
		value = 0;
	if (f)
		fclose(f);
	return value;
}

/* The process that runs the program; bee waits for it. */
static int guest_pid(void)
{
	return read_number("/proc/%d/task/%d/children", pid);
}

/* Of the addresses that it has in use. */
static int guest_pages(void)
{
	return read_number("/proc/%d/statm", guest_pid());
}

/* Most of its pages are written while it runs and changes them. */
static void test_live(void)
{
	int pages = 0;
	u32 i;

	live = 1;
	start_guest("busy");
	await_file("ready");
	for (i = 0; i < 4; i++) {
		tap_ok(ask_snapshot(SKEP_SNAPSHOT_GO) &&
			       first_section() == BEE_SNAP_FILE,
		       "a program is saved while it runs: %s", answer.why);
		if (!i)
			pages = guest_pages();
	}
	/* The helper frees it after its answer. */
	for (i = 0; i < 1000 && guest_pages() - pages >= 256; i++)
		usleep(10000);
	tap_ok(pages && guest_pages() - pages < 256,
	       "and keeps no memory for that");
	for (i = 0; i < 4; i++) {
		tap_ok(ask_snapshot(SKEP_SNAPSHOT_HOLD), "and held");
		say_byte(1);
		tap_ok(exit_code() == 125, "it ends");
		if (i % 2)
			restore_pipe(0);
		else
			start_bee((char *[]){0, 0, 0, (char *)"--restore",
					     (char *)"snap", 0});
		tap_ok(has_begun() && fits == i % 2,
		       "and goes on from the file or a pipe");
	}
	tap_ok(finish_guest(), "each page is of the last moment");
	start_guest("memory");
	await_file("ready");
	say_byte(SKEP_SNAPSHOT_HURRY);
	tap_ok(ask_snapshot(SKEP_SNAPSHOT_HOLD), "one that is told to hurry");
	say_byte(SKEP_SNAPSHOT_HURRY);
	say_byte(1);
	tap_ok(exit_code() == 125 && restore_guest(), "is whole");
	live = 0;
}

/* Nothing else asks for digests of its libraries. */
static void test_libraries(void)
{
	char name[PATH_MAX];

	live = 1;
	memcpy(name, guest, sizeof(name));
	strcat(guest, "-dynamic");
	start_guest("memory");
	await_file("ready");
	tap_ok(ask_snapshot(SKEP_SNAPSHOT_HOLD), "a dynamic program");
	say_byte(1);
	tap_ok(exit_code() == 125 && restore_pipe(0) && has_begun() && fits &&
		       finish_guest(),
	       "its libraries are the same");
	memcpy(guest, name, sizeof(name));
	live = 0;
}

/* Who gets the snapshot must say that it fits, or there is none. */
static void test_await(void)
{
	static char part[65536];
	struct pollfd wait = {.fd = -1, .events = POLLIN};
	int ends[2];

	live = SKEP_SNAPSHOT_AWAIT;
	start_guest("memory");
	await_file("ready");
	wait.fd = sock;
	send_ask(SKEP_SNAPSHOT_GO,
		 open("snap", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
	tap_ok(!poll(&wait, 1, 500), "a program runs until its target fits");
	say_byte(SKEP_SNAPSHOT_FITS);
	tap_ok(await_answer(), "then it is saved");
	if (pipe2(ends, O_CLOEXEC))
		exit(1);
	send_ask(SKEP_SNAPSHOT_HOLD, ends[1]);
	wait.fd = ends[0]; /* until bee has nothing more to write */
	while (poll(&wait, 1, 300) > 0 && read(ends[0], part, sizeof(part)) > 0)
		;
	close(ends[0]);
	tap_ok(!await_answer() && *answer.why && !answer.rest_ns,
	       "one whose target goes away does not stop: %s", answer.why);
	send_ask(SKEP_SNAPSHOT_HOLD,
		 open("snap", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
	say_byte(SKEP_SNAPSHOT_HURRY);
	tap_ok(await_answer(), "one that is told to hurry does not wait");
	say_byte(0);
	say_byte(SKEP_SNAPSHOT_FITS); /* late */
	tap_ok(finish_guest(), "it is unharmed");
	live = 0;
}

/* While it stands still, only the pages are read that it wrote since the last
 * round, if the kernel tells them. */
static void test_few_pages(void)
{
	live = 1;
	start_guest("memory");
	await_file("ready");
	tap_ok(ask_snapshot(SKEP_SNAPSHOT_GO) && answer.early > 4u << 20 &&
		       answer.bytes - answer.early < 1u << 20,
	       "most of a program is sent early");
	tap_ok(answer.pages && (!answer.watches || answer.pages < 256),
	       "pages that stay the same are not read again: %llu",
	       answer.pages);
	tap_ok(answer.rest_ns && answer.used_ns &&
		       answer.rest_ns < answer.pause_ns,
	       "the pause is accounted for");
	live = 0;
	tap_ok(ask_snapshot(SKEP_SNAPSHOT_GO) && !answer.early &&
		       answer.pages > 1024,
	       "without that all are");
	tap_ok(finish_guest(), "it is unharmed");
}

/* A shell that does `what` when there is a file "now". */
static void start_shell(const char *what)
{
	static char command[PATH_MAX + 256];
	char *argv[8] = {[3] = (char *)"/bin/busybox",
			 [4] = (char *)"sh",
			 [5] = (char *)"-c",
			 [6] = command};

	snprintf(command, sizeof(command),
		 "until [ -e now ]; do :; done; %s exec %s memory", what,
		 guest);
	unlink("now");
	start_bee(argv);
	tap_ok(has_begun(), "a shell begins");
}

/* The end of a pipe that is full soon, so that the rounds do not end. */
static int ask_pipe(void)
{
	int fd[2];

	if (pipe2(fd, O_CLOEXEC))
		return -1;
	fcntl(fd[1], F_SETPIPE_SZ, 4096);
	send_ask(SKEP_SNAPSHOT_HOLD, fd[1]);
	return fd[0];
}

/* 1: nobody can write to it any more. */
static int has_end(int fd)
{
	static char buf[65536];
	struct pollfd wait = {.fd = fd, .events = POLLIN};

	while (poll(&wait, 1, 20000) > 0)
		if (read(fd, buf, sizeof(buf)) <= 0)
			return 1;
	return 0;
}

static void finish_shell(void)
{
	await_file("ready");
	tap_ok(ask_snapshot(SKEP_SNAPSHOT_HOLD), "the new one is saved");
	say_byte(1);
	tap_ok(exit_code() == 125 && restore_guest(), "it is unharmed");
}

/* A program that starts another one, or a child, after it was saved while it
 * ran, or meanwhile. */
static void test_live_exec(void)
{
	struct pollfd wait = {.events = POLLIN};
	int fd;

	live = 1;
	start_shell("");
	tap_ok(ask_snapshot(SKEP_SNAPSHOT_GO), "it is saved while it runs");
	close(creat("now", 0600));
	finish_shell();
	start_shell("");
	wait.fd = fd = ask_pipe();
	tap_ok(poll(&wait, 1, 20000) == 1, "rounds begin");
	close(creat("now", 0600));
	tap_ok(!await_answer() && strstr(answer.why, "started another program"),
	       "execve meanwhile is named: %s", answer.why);
	tap_ok(has_end(fd), "the pipe ends");
	close(fd);
	finish_shell();
	start_shell("{ : >child; until [ -e go ]; do :; done; } & wait;");
	wait.fd = fd = ask_pipe();
	tap_ok(poll(&wait, 1, 20000) == 1, "rounds begin");
	close(creat("now", 0600));
	await_file("child");
	tap_ok(has_end(fd), "a child does not keep the pipe");
	close(fd);
	tap_ok(await_answer(), "a child that began meanwhile is saved, too");
	say_byte(0);
	tap_ok(finish_guest(), "it goes on");
	live = 0;
}

/* Who reads the snapshot gives up while it is written. */
static void test_unread(void)
{
	int fd;

	start_guest("memory");
	await_file("ready");
	fd = ask_pipe();
	close(fd);
	tap_ok(!await_answer() && *answer.why,
	       "a pipe that nobody reads is named: %s", answer.why);
	tap_ok(finish_guest(), "the program gets no signal of it");
}

/* Anybody of the same user can send the signal. */
static void test_stray(void)
{
	siginfo_t info = {.si_code = SI_QUEUE};
	int child, i;

	start_guest("memory");
	await_file("ready");
	child = guest_pid();
	for (i = 0; i < 20 && child; i++)
		syscall(SYS_rt_tgsigqueueinfo, child, child, LIN_KICK, &info);
	tap_ok(child && ask_snapshot(0),
	       "calls without a question change nothing");
	tap_ok(finish_guest(), "the program is unharmed");
}

static void test_exec(void)
{
	static char command[PATH_MAX + 64];
	char *argv[8] = {[3] = (char *)"/bin/busybox",
			 [4] = (char *)"sh",
			 [5] = (char *)"-c",
			 [6] = command};

	snprintf(command, sizeof(command), "/bin/busybox true; exec %s memory",
		 guest);
	start_bee(argv);
	tap_ok(has_begun(), "a shell begins");
	await_file("ready");
	tap_ok(ask_snapshot(SKEP_SNAPSHOT_HOLD),
	       "after fork and execve the socket is the program's");
	say_byte(1);
	tap_ok(exit_code() == 125 && restore_guest(), "it is unharmed");
}

static void test_refusals(void)
{
	char *argv[6] = {[3] = guest, [4] = (char *)"socket"};

	start_bee(argv);
	tap_ok(has_begun(), "a program begins");
	await_file("ready");
	tap_ok(!ask_snapshot(SKEP_SNAPSHOT_HOLD) &&
		       strstr(answer.why, "descriptor 3 is a socket"),
	       "what cannot be saved is named: %s", answer.why);
	tap_ok(finish_guest(), "and goes on unharmed");
	argv[3] = (char *)"--control";
	argv[4] = (char *)"77";
	argv[5] = guest;
	start_bee((char *[]){0, 0, 0, argv[3], argv[4], argv[5], 0});
	tap_ok(!has_begun() && exit_code() == BEE_EXIT_REFUSED,
	       "a socket that is not there");
}

int main(int argc, char **argv)
{
	char folder[] = "/tmp/bee-control-XXXXXX";
	char build[PATH_MAX - 64];

	if (argc != 2 || !realpath(argv[1], build) || !mkdtemp(folder) ||
	    chdir(folder))
		return 1;
	signal(SIGPIPE, SIG_IGN);
	snprintf(loader, sizeof(loader), "%s/bin/bee", build);
	snprintf(guest, sizeof(guest), "%s/test/bee/held-glibc", build);
	test_goes_on();
	test_hold();
	test_alone();
	test_unread();
	test_stray();
	test_pipe();
	test_live();
	test_await();
	test_libraries();
	test_few_pages();
	test_live_exec();
	test_exec();
	test_refusals();
	unlink("ready");
	unlink("go");
	unlink("got");
	unlink("snap");
	unlink("pipe");
	unlink("m");
	unlink("now");
	unlink("child");
	if (chdir("/") || rmdir(folder))
		tap_ok(0, "%s cannot be removed", folder);
	return tap_done();
}
