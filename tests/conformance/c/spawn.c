/* SPDX-License-Identifier: MIT */
/* Programs that start programs without fork: vfork, posix_spawn, execve, and
 * what the new program has: arguments, descriptors, positions, signals. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

extern char **environ;
static const char *self;
static volatile sig_atomic_t ended;

static void on_end(int signo, siginfo_t *info, void *context)
{
	ended = info->si_code == CLD_EXITED ? info->si_status : -signo;
	(void)context;
}

/* A connection and a listener of the parent's. */
static int serve_sockets(int talk, int listener)
{
	char byte = 0;
	int next;

	if (read(talk, &byte, 1) != 1 || byte != 'x' ||
	    write(talk, "y", 1) != 1)
		return 1;
	next = accept(listener, NULL, NULL);
	return next < 0 || write(next, "z", 1) != 1;
}

static pid_t spawn_self(char **argv, char **env,
			const posix_spawn_file_actions_t *actions);
static int exit_code(pid_t pid);

#define SPAWN(...) spawn_self((char *[]){"", __VA_ARGS__, NULL}, environ, NULL)

static const char *const locked[2] = {"locked1", "locked2"};

/* Which of the two files another process has locked, as bits. */
static int find_locks(void)
{
	struct flock l;
	int i, found = 0;

	for (i = 0; i < 2; i++) {
		l = (struct flock){.l_type = F_WRLCK};
		if (fcntl(open(locked[i], O_RDWR), F_GETLK, &l))
			return -1;
		found |= (l.l_type != F_UNLCK) << i;
	}
	return found;
}

/* Record locks stay over execve, but for a file of which it closes a number.
 * Closing one later drops them. */
static int keep_locks(void)
{
	struct flock l = {.l_type = F_WRLCK};
	int fd = open(locked[0], O_RDWR | O_CREAT, 0600);
	int closed = open(locked[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd != 3 || fcntl(fd, F_SETLK, &l) || fcntl(closed, F_SETLK, &l) ||
	    exit_code(SPAWN("find")) != 3)
		return 1;
	return execl(self, self, "locked", NULL);
}

static int drop_locks(void)
{
	int code = exit_code(SPAWN("find"));

	if (code != 1)
		return 10 + code;
	close(dup(3));
	return exit_code(SPAWN("find")) != 0;
}

/* In a new program; returns its exit code. */
static int run_role(int argc, char **argv)
{
	char buf[64];
	sigset_t set;
	int n;

	if (!strcmp(argv[1], "code"))
		return atoi(argv[2]);
	if (!strcmp(argv[1], "arguments"))
		return argc != 4 || *argv[2] || strcmp(argv[3], "a \"b\n") ||
		       strcmp(getenv("ONLY"), "one") || getenv("PATH");
	if (!strcmp(argv[1], "numbers"))
		return write(4, "x", 1) != 1 || fcntl(5, F_GETFD) >= 0 ||
		       lseek(4, 0, SEEK_CUR) != 4;
	if (!strcmp(argv[1], "state")) {
		sigprocmask(SIG_BLOCK, NULL, &set);
		return !sigismember(&set, SIGUSR1) || umask(0) != 027 ||
		       signal(SIGUSR2, SIG_DFL) != SIG_IGN ||
		       !getcwd(buf, sizeof(buf)) || strcmp(buf, "/");
	}
	if (!strcmp(argv[1], "serve"))
		return serve_sockets(atoi(argv[2]), atoi(argv[3]));
	if (!strcmp(argv[1], "wait"))
		return pause();
	if (!strcmp(argv[1], "lock"))
		return keep_locks();
	if (!strcmp(argv[1], "locked"))
		return drop_locks();
	if (!strcmp(argv[1], "find"))
		return find_locks();
	if (!strcmp(argv[1], "again"))
		return execl(self, self, "code", "23", NULL);
	while ((n = (int)read(0, buf, sizeof(buf))) > 0)
		if (write(1, buf, (size_t)n) != n)
			return 1;
	return n != 0;
}

static pid_t spawn_self(char **argv, char **env,
			const posix_spawn_file_actions_t *actions)
{
	pid_t pid;

	argv[0] = (char *)self;
	errno = posix_spawn(&pid, self, actions, NULL, argv, env);
	return errno ? -1 : pid;
}

static int exit_code(pid_t pid)
{
	int status = -1;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void start_programs(void)
{
	char *env[] = {"ONLY=one", NULL};
	char *none[] = {"none", NULL};
	pid_t pid;

	CHECK(exit_code(spawn_self(
		      (char *[]){"", "arguments", "", "a \"b\n", NULL}, env,
		      NULL)) == 0);
	CHECK(exit_code(SPAWN("again")) == 23);
	CHECK(posix_spawn(&pid, "/nowhere", NULL, NULL, none, env) == ENOENT);
	CHECK(exit_code(SPAWN("lock")) == 0);
	CHECK(unlink(locked[0]) == 0 && unlink(locked[1]) == 0);
	CHECK(FAILS(wait(NULL), ECHILD));
	CHECK(FAILS(execl("/nowhere", "x", NULL), ENOENT));
}

/* Bytes that were in the pipe before, and later ones, both ways. */
static void use_pipes(void)
{
	int in[2], out[2];
	char buf[16];
	pid_t pid;

	CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe(out) == 0);
	CHECK(write(in[1], "be", 2) == 2);
	pid = vfork();
	if (!pid) {
		dup2(in[0], 0);
		dup2(out[1], 1);
		close(out[0]);
		close(out[1]);
		execl(self, self, "copy", NULL);
		_exit(127);
	}
	CHECK(pid > 0 && close(in[0]) == 0 && close(out[1]) == 0);
	CHECK(write(in[1], "fore", 4) == 4 && close(in[1]) == 0);
	CHECK(exit_code(pid) == 0);
	CHECK(read(out[0], buf, 6) + read(out[0], buf, 6) >= 0);
	CHECK(read(out[0], buf, 6) == 0 && close(out[0]) == 0);
}

static int client_of(struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (struct sockaddr *)to, sizeof(*to)) ? -1 : fd;
}

static void pass_sockets(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0), talk, one, two;
	char text[2][12], byte = 0;
	pid_t pid;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(bind(listener, (struct sockaddr *)&at, len) == 0 &&
	      listen(listener, 4) == 0 &&
	      getsockname(listener, (struct sockaddr *)&at, &len) == 0);
	one = client_of(&at);
	talk = accept(listener, NULL, NULL);
	snprintf(text[0], sizeof(text[0]), "%d", talk);
	snprintf(text[1], sizeof(text[1]), "%d", listener);
	pid = SPAWN("serve", text[0], text[1]);
	CHECK(pid > 0 && close(talk) == 0 && close(listener) == 0);
	CHECK(write(one, "x", 1) == 1 && read(one, &byte, 1) == 1 &&
	      byte == 'y');
	two = client_of(&at);
	CHECK(two >= 0 && read(two, &byte, 1) == 1 && byte == 'z');
	CHECK(exit_code(pid) == 0);
	CHECK(read(one, &byte, 1) == 0);
	close(one);
	close(two);
}

static void pass_numbers(void)
{
	int fd = open("shared", O_CREAT | O_RDWR, 0600), code;
	pid_t pid;

	CHECK(fd == 3 && write(fd, "abc", 3) == 3);
	CHECK(dup2(fd, 4) == 4 && fcntl(fd, F_DUPFD_CLOEXEC, 5) == 5);
	pid = SPAWN("numbers");
	code = exit_code(pid);
	CHECK(code == 0);
	CHECK(lseek(fd, 0, SEEK_CUR) == 4);
	CHECK(close(3) == 0 && close(4) == 0 && close(5) == 0);
	CHECK(unlink("shared") == 0);
}

/* What the child of vfork changes is not the parent's, but for memory. */
static void keep_state(void)
{
	mode_t mask = umask(022);
	char before[4096], after[4096];
	volatile int seen = 0;
	struct sigaction action;
	sigset_t set;
	pid_t pid;

	CHECK(getcwd(before, sizeof(before)) != NULL);
	pid = vfork();
	if (!pid) {
		seen = 1;
		sigemptyset(&set);
		sigaddset(&set, SIGUSR1);
		sigprocmask(SIG_BLOCK, &set, NULL);
		signal(SIGUSR2, SIG_IGN);
		umask(027);
		close(2);
		execl(self, self, chdir("/") ? "code" : "state", "9", NULL);
		_exit(127);
	}
	CHECK(exit_code(pid) == 0 && seen == 1);
	CHECK(umask(mask) == 022 && fcntl(2, F_GETFD) == 0);
	CHECK(getcwd(after, sizeof(after)) && !strcmp(before, after));
	CHECK(sigprocmask(SIG_BLOCK, NULL, &set) == 0 &&
	      !sigismember(&set, SIGUSR1));
	CHECK(sigaction(SIGUSR2, NULL, &action) == 0 &&
	      action.sa_handler == SIG_DFL);
	pid = vfork();
	if (!pid)
		_exit(getpid() == getppid() ? 1 : 42);
	CHECK(exit_code(pid) == 42);
}

static void send_signals(void)
{
	struct sigaction action = {.sa_sigaction = on_end,
				   .sa_flags = SA_SIGINFO | SA_RESTART};
	pid_t pid = SPAWN("wait");

	CHECK(pid > 0 && getpgid(pid) == getpgrp());
	CHECK(waitpid(pid, NULL, WNOHANG) == 0 && kill(pid, 0) == 0);
	CHECK(kill(pid, SIGTERM) == 0 && exit_code(pid) == -SIGTERM);
	CHECK(FAILS(kill(pid, 0), ESRCH));
	CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
	CHECK(exit_code(SPAWN("code", "77")) == 77 && ended == 77);
	signal(SIGCHLD, SIG_DFL);
	pid = SPAWN("wait");
	CHECK(kill(pid, SIGKILL) == 0 && exit_code(pid) == -SIGKILL);
}

int main(int argc, char **argv)
{
	static char path[4096];

	if (argc > 1) {
		self = argv[0];
		return run_role(argc, argv);
	}
	self = realpath(argv[0], path);
	start_programs();
	use_pipes();
	pass_numbers();
	pass_sockets();
	keep_state();
	send_signals();
	return say_done();
}
