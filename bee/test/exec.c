/* SPDX-License-Identifier: MIT */
/*
 * execve on Linux: the command line of the next bee, which descriptors it
 * inherits, and which of them it keeps. execve itself is replaced.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/include/exec.h"
#include "bee/host/linux/host.h"
#include "tests/tap.h"

int __wrap_execve(const char *path, char *const argv[], char *const envp[]);
int __wrap_memfd_create(const char *name, unsigned int flags);
int __real_memfd_create(const char *name, unsigned int flags);

/* A state: the head, numbers and handles, and then the strings. */
struct state {
	struct abi_exec_head head;
	s32 number[4], handle[4]; /* one more than the head says */
};

struct bee bee;
int lin_message_fd = 2, lin_control = -1;
static struct bee_options options;
static u32 resumed_as, reports, cancels, keeps, given_up, unblocked;
static s64 path_error;
static int no_memfd;
static char started[2000]; /* what execve got: path, words, "|", environment */

void lin_vfork_report(void)
{
	reports++;
}

void lin_sent_keep(int on)
{
	if (on)
		keeps++;
	else
		given_up++;
}

void lin_live_cancel(void)
{
	cancels++;
}

void lin_proc_resumed(u32 forked)
{
	resumed_as = forked;
}

const char *lin_restored_text(void)
{
	return NULL;
}

s32 abi_exec_number(const void *state, u32 i)
{
	return ((const struct state *)state)->number[i];
}

s32 abi_exec_handle(const void *state, u32 i)
{
	return ((const struct state *)state)->handle[i];
}

s64 abi_lin_path_host(const char *path, char *buf, u64 len, u32 follow)
{
	if (path_error)
		return path_error;
	snprintf(buf, len, "%s%s", follow == 1 ? "/host" : "?", path);
	return 0;
}

int __wrap_memfd_create(const char *name, unsigned int flags)
{
	errno = ENFILE;
	return no_memfd ? -1 : __real_memfd_create(name, flags);
}

/* Whether signals of faults, and kicks, are blocked. */
static int are_blocked(void)
{
	static const int which[] = {SIGSEGV, SIGBUS,  SIGFPE,
				    SIGILL,  SIGTRAP, LIN_KICK};
	sigset_t set;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	for (u32 i = 0; i < 6; i++)
		if (!sigismember(&set, which[i]))
			return 0;
	return 1;
}

int __wrap_execve(const char *path, char *const argv[], char *const envp[])
{
	unblocked += !are_blocked() || keeps == given_up;
	strcpy(started, path);
	for (; *argv; argv++)
		strcat(strcat(started, " "), *argv);
	strcat(started, " |");
	for (; *envp; envp++)
		strcat(strcat(started, " "), *envp);
	errno = E2BIG;
	return -1;
}

/* A file with a state whose strings are `strings`, `len` bytes of them. */
static int make_state(const struct abi_exec_head *head, const char *strings,
		      u64 len)
{
	struct state s = {*head, {0, 7, 2, 2}, {10, 12, 11, 13}};
	int fd = __real_memfd_create("state", MFD_CLOEXEC);

	s.head.size = sizeof(s);
	s.head.numbers = 3;
	if (fd < 0 || write(fd, &s, sizeof(s)) != sizeof(s) ||
	    write(fd, strings, len) != (s64)len)
		exit(2);
	return fd;
}

static int is_kept(int fd)
{
	return !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static s64 exec_state(u32 argc, u32 envc, const char *strings, u64 len)
{
	struct abi_exec_head head = {.argc = argc, .envc = envc};
	struct abi_family_op op = {.path = "/bin/x"};
	s64 rc;

	op.handle = make_state(&head, strings, len);
	*started = 0;
	rc = lin_exec(&op);
	if (*started && !is_kept(op.handle))
		strcpy(started, "the state is not inherited");
	close(op.handle);
	return rc;
}

#define START(argc, envc, strings)                                             \
	exec_state(argc, envc, strings, sizeof(strings))

static int words_are(s64 rc, const char *words)
{
	if (rc != -E2BIG || strcmp(started, words) != 0)
		return printf("# %lld: %s\n", rc, started), 0;
	return 1;
}

static void test_words(void)
{
	int low = dup(0); /* the number that the state will get */
	char want[300];

	close(low);
	options = (struct bee_options){.nonce = 0xabc};
	snprintf(want, sizeof(want),
		 "/proc/self/exe bee --child --resume %d --nonce abc --name a "
		 "/host/bin/x b c | X=1 Y=2",
		 low);
	tap_ok(words_are(START(3, 2, "a\0b\0c\0X=1\0Y=2"), want),
	       "arguments and environment are passed on");
	tap_ok(reports == 1, "a parent of vfork is told before");
	tap_ok(cancels == 1, "what is saved meanwhile is given up before");
	snprintf(want, sizeof(want),
		 "/proc/self/exe bee --child --resume %d --nonce abc "
		 "/host/bin/x | X=1",
		 low);
	tap_ok(words_are(START(1, 1, "\0X=1"), want),
	       "an empty name is no name");
	tap_ok(words_are(START(0, 1, "X=1"), want), "nor are no arguments");
	snprintf(want, sizeof(want),
		 "/proc/self/exe bee --child --resume %d --nonce abc "
		 "/host/bin/x |",
		 low);
	tap_ok(words_are(exec_state(0, 0, "", 0), want), "both may be empty");
	options = (struct bee_options){.trace = 1,
				       .memory = 77,
				       .cache = "C",
				       .root = "R",
				       .report = "P"};
	snprintf(want, sizeof(want),
		 "/proc/self/exe bee --child --trace --resume %d --nonce 0 "
		 "--memory 77 --cache C --root R --report P --name a "
		 "/host/bin/x |",
		 low);
	tap_ok(words_are(START(1, 0, "a"), want), "and bee's own options are");
}

static void test_inherited(void)
{
	int fd;

	for (fd = 10; fd < 14; fd++)
		dup3(0, fd, O_CLOEXEC);
	START(1, 0, "a");
	tap_ok(is_kept(10) && is_kept(11) && is_kept(12) && !is_kept(13),
	       "only what the program keeps is inherited");
}

static void test_refused(void)
{
	struct abi_family_op op = {.path = "/bin/x", .handle = -1};
	struct abi_exec_head head = {.size = sizeof(head)};

	*started = 0;
	tap_ok(START(3, 0, "a\0b") == -EINVAL &&
		       exec_state(1, 0, "", 0) == -EINVAL,
	       "a state without all its strings is refused");
	tap_ok(lin_exec(&op) == -EINVAL, "so is no state");
	op.handle = __real_memfd_create("short", MFD_CLOEXEC);
	if (write(op.handle, &head, sizeof(head) - 1) < 0)
		exit(2);
	tap_ok(lin_exec(&op) == -EINVAL, "a short one");
	head.size++;
	if (pwrite(op.handle, &head, sizeof(head), 0) < 0)
		exit(2);
	tap_ok(lin_exec(&op) == -EINVAL, "one that is longer than its file");
	head.size--;
	if (pwrite(op.handle, &head, sizeof(head), 0) < 0)
		exit(2);
	tap_ok(!*started && lin_exec(&op) == -E2BIG && *started,
	       "a head alone is a state");
	tap_ok(keeps && keeps == given_up && !unblocked && !are_blocked(),
	       "signals of faults are kept, until an execve fails");
	close(op.handle);
	path_error = -ELOOP;
	tap_ok(START(1, 0, "a") == -ELOOP, "a path may lead nowhere");
	path_error = 0;
}

static void test_file(void)
{
	int low = dup(0), fd, high;

	close(low);
	fd = (int)lin_exec_file();
	tap_ok(fd > BEE_FAMILY_FD && !is_kept(fd),
	       "the file of a state leaves bee's own numbers free");
	tap_ok(dup(0) == low, "and no other is used");
	close(low);
	high = (int)lin_exec_file();
	tap_ok(high > fd && fcntl(fd, F_GETFD) >= 0, "so does the next");
	close(fd);
	close(high);
	no_memfd = 1;
	tap_ok(lin_exec_file() == -ENFILE, "there may be none");
	no_memfd = 0;
}

/* In a process of its own, which loses its streams: what is wrong, or 0. */
static int resume_state(u32 child)
{
	struct abi_exec_head head = {.child = child};
	int fd, state, open = 0;

	for (fd = 3; fd < 30; fd++)
		dup2(0, fd);
	state = make_state(&head, "a\0b", 4);
	resumed_as = 7;
	if (lin_exec_resume(state, 20) || resumed_as != child || !bee.resume ||
	    ((const struct abi_exec_head *)bee.resume)->numbers != 3 ||
	    lin_message_fd != 11 || bee.resume_len != sizeof(struct state) + 4)
		return 1;
	for (fd = 0; fd < 60; fd++)
		open += fcntl(fd, F_GETFD) >= 0;
	for (fd = 10; fd < 13; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			return 2;
	if (fcntl(BEE_FAMILY_FD, F_GETFD) < 0)
		return 3;
	if ((fcntl(BEE_WORD_FD, F_GETFD) >= 0) == child)
		return 4;
	if (fcntl(20, F_GETFD) < 0) /* what wakes bee's own thread */
		return 6;
	return open == (child ? 5 : 6) ? 0 : 5;
}

static int resume_apart(u32 child)
{
	int pid = fork(), status = -1;

	if (!pid)
		_exit(resume_state(child));
	waitpid(pid, &status, 0);
	if (status)
		printf("# status %#x\n", status);
	return status;
}

static void test_resume(void)
{
	tap_ok(lin_exec_resume(-1, 20) == -EINVAL,
	       "no process without a state");
	tap_ok(!resume_apart(0),
	       "the new bee keeps what the program, the family and the "
	       "parent of the run need");
	tap_ok(!resume_apart(1),
	       "a forked one reports to no parent of the run");
}

int main(void)
{
	bee.options = &options;
	test_words();
	test_inherited();
	test_refused();
	test_file();
	test_resume();
	return tap_done();
}
