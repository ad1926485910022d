/* SPDX-License-Identifier: MIT */
/* Locks of open files, by flock and F_OFD_SETLK, over fork and execve: they
 * belong to the open file, so all processes that have it own them, and they end
 * with the last of these. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

#define FILE_NAME "locked"

extern char **environ;
static const char *self;
static int by_flock; /* otherwise F_OFD_SETLK, of one byte for each step */

static int lock_at(int fd, int byte, int type, int waits)
{
	struct flock f = {.l_type = (short)type, .l_start = byte, .l_len = 1};

	if (!by_flock)
		return fcntl(fd, waits ? F_OFD_SETLKW : F_OFD_SETLK, &f);
	return flock(fd, (type == F_UNLCK   ? LOCK_UN
			  : type == F_RDLCK ? LOCK_SH
					    : LOCK_EX) |
				 (waits ? 0 : LOCK_NB));
}

/* Another open file asks: 1: it is locked, 0: it was not. */
static int is_locked(int byte)
{
	int fd = open(FILE_NAME, O_RDWR), locked;

	locked = lock_at(fd, byte, F_WRLCK, 0);
	close(fd);
	return locked != 0;
}

static int exit_code(pid_t pid)
{
	int status = -1;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* A child that has the open file and lives until it is killed. */
static pid_t fork_holder(int fd, int locks)
{
	int said[2];
	char byte = 1;
	pid_t pid;

	if (pipe(said))
		return -1;
	pid = fork();
	if (!pid) {
		byte = locks && lock_at(fd, 3, F_WRLCK, 0);
		if (write(said[1], &byte, 1) == 1)
			for (;;)
				pause();
		_exit(9);
	}
	if (pid > 0 && (read(said[0], &byte, 1) != 1 || byte))
		pid = -1;
	close(said[0]);
	close(said[1]);
	return pid;
}

/* The parent's lock outlives its number, and ends when the child is killed. */
static void test_death(void)
{
	int fd = open(FILE_NAME, O_RDWR | O_CREAT, 0600), other;
	pid_t pid;

	CHECK(!lock_at(fd, 0, F_WRLCK, 0));
	pid = fork_holder(fd, 0);
	CHECK(pid > 0 && is_locked(0));
	CHECK(!close(fd) && is_locked(0));
	other = open(FILE_NAME, O_RDWR);
	CHECK(!kill(pid, SIGKILL) && !lock_at(other, 0, F_WRLCK, 1));
	CHECK(exit_code(pid) == -SIGKILL);
	CHECK(!close(other) && !is_locked(0));
}

/* A lock that the child made is the parent's too, and stays after its death. */
static void test_child(void)
{
	int fd = open(FILE_NAME, O_RDWR);
	pid_t pid = fork_holder(fd, 1);

	CHECK(pid > 0 && is_locked(3));
	CHECK(!lock_at(fd, 3, F_RDLCK, 0) && !lock_at(fd, 3, F_WRLCK, 0));
	CHECK(!kill(pid, SIGKILL) && exit_code(pid) == -SIGKILL);
	CHECK(is_locked(3));
	pid = fork();
	if (!pid)
		_exit(lock_at(fd, 3, F_UNLCK, 0) != 0);
	CHECK(exit_code(pid) == 0 && !is_locked(3));
	CHECK(!lock_at(fd, 3, F_WRLCK, 0));
	pid = fork();
	if (!pid) {
		close(fd); /* not the last one */
		_exit(is_locked(3) ? 5 : 6);
	}
	CHECK(exit_code(pid) == 5 && is_locked(3));
	CHECK(!close(fd) && !is_locked(3));
}

/* A program has the locks of what it executes, but not those it closed. */
static void test_execute(void)
{
	char *argv[] = {(char *)self, (char *)(by_flock ? "flock" : "ofd"),
			NULL};
	int fd = open(FILE_NAME, O_RDWR), go[2];
	int closed = open(FILE_NAME, O_RDWR | O_CLOEXEC);
	char byte;
	pid_t pid;

	CHECK(!pipe(go));
	CHECK(!lock_at(fd, 1, by_flock ? F_RDLCK : F_WRLCK, 0));
	CHECK(!lock_at(closed, 2, by_flock ? F_RDLCK : F_WRLCK, 0));
	pid = fork();
	if (!pid) { /* goes on when only it has the files */
		close(go[1]);
		if (!read(go[0], &byte, 1))
			execv(self, argv);
		_exit(9);
	}
	CHECK(!close(fd) && !close(closed) && !close(go[0]) && !close(go[1]));
	CHECK(exit_code(pid) == 0);
	CHECK(!is_locked(1) && !is_locked(2));
	fd = open(FILE_NAME, O_RDWR);
	CHECK(!lock_at(fd, 1, F_WRLCK, 0));
	CHECK(!posix_spawn(&pid, self, NULL, NULL, argv, environ));
	CHECK(!close(fd) && exit_code(pid) == 0 && !is_locked(1));
}

static int run_self(const char *role)
{
	char *argv[] = {(char *)self, (char *)role, NULL};
	pid_t pid;

	return posix_spawn(&pid, self, NULL, NULL, argv, environ)
		       ? -1
		       : exit_code(pid);
}

/* Only a child that has never asked for locks has the file. This process does
 * not, nor does it know of locks yet. */
static void test_orphan(void)
{
	char *argv[] = {(char *)self, "await", NULL}, byte;
	int hold[2], said[2];
	pid_t pid;

	CHECK(!pipe2(hold, O_CLOEXEC) && dup2(hold[0], 0) == 0);
	CHECK(run_self("leave") == 0 && run_self("find") == 1);
	CHECK(!pipe2(said, O_CLOEXEC) && dup2(said[1], 0) == 0);
	CHECK(!posix_spawn(&pid, self, NULL, NULL, argv, environ));
	CHECK(read(said[0], &byte, 1) == 1);
	usleep(50000); /* it waits now */
	CHECK(!close(hold[1]) && exit_code(pid) == 0);
	CHECK(!close(hold[0]) && !close(said[0]) && !close(said[1]));
}

static int leave_child(void)
{
	int fd = open(FILE_NAME, O_RDWR | O_CREAT, 0600);
	char byte;

	if (lock_at(fd, 1, F_WRLCK, 0))
		return 1;
	return fork() ? 0 : (int)read(0, &byte, 1);
}

/* The new program, and what it starts in its place. */
static int run_role(const char *kind)
{
	int twice = getenv("TWICE") != NULL;

	if (!strcmp(kind, "leave"))
		return leave_child();
	if (!strcmp(kind, "find"))
		return is_locked(1);
	if (!strcmp(kind, "await"))
		return write(0, "", 1) != 1 ||
		       lock_at(open(FILE_NAME, O_RDWR), 1, F_WRLCK, 1);
	by_flock = !strcmp(kind, "flock");
	if (!is_locked(1))
		return 1;
	if (!by_flock && is_locked(2))
		return 2;
	if (twice)
		return 0;
	setenv("TWICE", "", 1);
	execl(self, self, kind, NULL);
	return 3;
}

int main(int argc, char **argv)
{
	static char path[4096];

	self = argc > 1 ? argv[0] : realpath(argv[0], path);
	if (argc > 1)
		return run_role(argv[1]);
	test_orphan();
	for (by_flock = 0; by_flock < 2; by_flock++) {
		test_death();
		test_child();
		test_execute();
	}
	CHECK(!unlink(FILE_NAME));
	return say_done();
}
