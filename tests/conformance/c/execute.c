/* SPDX-License-Identifier: MIT */
/*
 * execve, execveat and posix_spawn: what a new program inherits, scripts, and
 * what cannot run. The program starts itself with a first argument that says
 * what to look at.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

#define SELF "/proc/self/exe"

extern char **environ;

static int exit_code(pid_t pid)
{
	int status = -1;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 1000 + WTERMSIG(status);
}

/* The exit code of this program in a child, with these arguments. */
static int run_self(char *const *argv, char *const *envp)
{
	pid_t pid = fork();

	if (!pid) {
		execve(SELF, argv, envp);
		_exit(200);
	}
	return exit_code(pid);
}

#define RUN(...) run_self((char *[]){"self", __VA_ARGS__, NULL}, environ)

/* What the new program finds; its exit code counts what is wrong. */
static int check_program(int argc, char **argv)
{
	struct sigaction sa;
	struct rlimit limit;
	sigset_t mask, pending;
	char cwd[4096], *end;
	int bad = 0, kept, closed;

	if (!strcmp(argv[1], "code"))
		return atoi(argv[2]);
	if (!strcmp(argv[1], "arguments"))
		return argc == 5 && !strcmp(argv[0], "self") &&
		       !strcmp(argv[2], "") && !strcmp(argv[3], "a b\n") &&
		       strlen(argv[4]) == 100000;
	if (!strcmp(argv[1], "environment"))
		return environ[0] && !strcmp(environ[0], "ONE=1") &&
		       environ[1] && !strcmp(environ[1], "ONE=2") &&
		       !environ[2];
	if (!strcmp(argv[1], "script"))
		return argc == 4 && !strcmp(argv[2], "./script") &&
		       !strcmp(argv[3], "more");
	if (strcmp(argv[1], "inherited"))
		return 99;
	kept = atoi(argv[2]);
	closed = atoi(argv[3]);
	bad += lseek(kept, 0, SEEK_CUR) != 3;
	bad += write(kept, "def", 3) != 3;
	bad += fcntl(closed, F_GETFD) != -1;
	sigaction(SIGUSR1, NULL, &sa);
	bad += sa.sa_handler != SIG_IGN;
	sigaction(SIGUSR2, NULL, &sa);
	bad += sa.sa_handler != SIG_DFL;
	sigprocmask(SIG_BLOCK, NULL, &mask);
	bad += !sigismember(&mask, SIGTERM) || sigismember(&mask, SIGHUP);
	sigpending(&pending);
	bad += !sigismember(&pending, SIGTERM);
	end = getcwd(cwd, sizeof(cwd)) ? strrchr(cwd, '/') : NULL;
	bad += !end || strcmp(end, "/below");
	bad += umask(0) != 027;
	getrlimit(RLIMIT_FSIZE, &limit);
	bad += limit.rlim_cur != 12345678;
	bad += getppid() != atoi(argv[4]) || getpid() != atoi(argv[5]);
	bad += alarm(0) < 900;
	return bad;
}

static void on_signal(int signo)
{
	(void)signo;
}

/* In the child: changes all that exec keeps, and what it resets. */
static void change_all(void)
{
	struct rlimit limit = {12345678, RLIM_INFINITY};
	sigset_t mask;

	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, on_signal);
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigprocmask(SIG_SETMASK, &mask, NULL);
	raise(SIGTERM);
	umask(027);
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = 12345678;
	setrlimit(RLIMIT_FSIZE, &limit);
	alarm(1000);
	if (mkdir("below", 0700) || chdir("below"))
		_exit(201);
}

static void check_inherited(void)
{
	int kept = open("kept", O_RDWR | O_CREAT | O_TRUNC, 0600);
	int closed = dup(kept);
	char number[4][16], buf[8] = "";
	pid_t parent = getpid(), pid;

	CHECK(kept >= 0 && fcntl(closed, F_SETFD, FD_CLOEXEC) == 0);
	CHECK(write(kept, "abc", 3) == 3);
	pid = fork();
	if (!pid) {
		char *argv[] = {"self",	   "inherited", number[0], number[1],
				number[2], number[3],	NULL};

		change_all();
		sprintf(number[0], "%d", kept);
		sprintf(number[1], "%d", closed);
		sprintf(number[2], "%d", parent);
		sprintf(number[3], "%d", getpid());
		execve(SELF, argv, environ);
		_exit(200);
	}
	CHECK(exit_code(pid) == 0);
	CHECK(lseek(kept, 0, SEEK_CUR) == 6);
	CHECK(pread(kept, buf, 6, 0) == 6 && !strcmp(buf, "abcdef"));
	close(kept);
	close(closed);
	rmdir("below");
	unlink("kept");
}

static void check_words(void)
{
	char *long_word = malloc(100001);
	char *two[] = {"ONE=1", "ONE=2", NULL};

	memset(long_word, 'x', 100000);
	long_word[100000] = 0;
	CHECK(RUN("code", "17") == 17);
	CHECK(RUN("arguments", "", "a b\n", long_word) == 1);
	CHECK(run_self((char *[]){"self", "environment", NULL}, two) == 1);
	free(long_word);
}

static int write_file(const char *name, const char *text, int mode)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, mode);
	int good = write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	fchmod(fd, (mode_t)mode);
	close(fd);
	return good;
}

static void check_scripts(void)
{
	char *argv[] = {"./script", "more", NULL}, *none[] = {NULL};
	char self[4096], text[4200];
	ssize_t n = readlink(SELF, self, sizeof(self) - 1);
	pid_t pid;

	self[n > 0 ? n : 0] = 0;
	snprintf(text, sizeof(text), "#! %s script\nnot a program\n", self);
	CHECK(write_file("script", text, 0700));
	pid = fork();
	if (!pid) {
		execve("./script", argv, none);
		_exit(200);
	}
	n = exit_code(pid); /* Linux reads 255 bytes of the line */
	CHECK(n == 1 || strlen(self) > 240);
	CHECK(FAILS(execve("./nothing", argv, none), ENOENT));
	CHECK(FAILS(execve("script/x", argv, none), ENOTDIR));
	CHECK(FAILS(execve(".", argv, none), EACCES));
	CHECK(write_file("plain", "no program\n", 0700));
	CHECK(FAILS(execve("plain", argv, none), ENOEXEC));
	CHECK(FAILS(syscall(SYS_execve, SELF, 8l, none), EFAULT));
	CHECK(FAILS(syscall(SYS_execve, 8l, argv, none), EFAULT));
	CHECK(write_file("plain", "#!\n", 0700));
	CHECK(FAILS(execve("plain", argv, none), ENOEXEC));
	CHECK(write_file("plain", "#!/no/such/interpreter\n", 0700));
	CHECK(FAILS(execve("plain", argv, none), ENOENT));
	unlink("plain");
	unlink("script");
}

/* A child of vfork changes its parent's stack, and no memory of another thread.
 */
static void check_spawn_errors(void)
{
	char *argv[] = {"none", NULL};
	volatile int failed = 0;
	volatile char bytes[3000] = {0};
	pid_t pid = -1;

	CHECK(posix_spawn(&pid, "./none", NULL, NULL, argv, environ) == ENOENT);
	CHECK(posix_spawnp(&pid, "no-such-program", NULL, NULL, argv,
			   environ) == ENOENT);
	CHECK(posix_spawn(&pid, "/", NULL, NULL, argv, environ) == EACCES);
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	pid = vfork();
	if (!pid) {
		execve("./none", argv, environ);
		failed = errno;
		bytes[0] = bytes[1500] = bytes[2999] = 1;
		_exit(5);
	}
	CHECK(exit_code(pid) == 5);
	CHECK(failed == ENOENT);
	CHECK(bytes[0] == 1 && bytes[1500] == 1 && bytes[2999] == 1);
	pid = fork();
	if (!pid) {
		failed = 1;
		_exit(6);
	}
	CHECK(exit_code(pid) == 6 && failed == ENOENT);
}

struct neighbours {
	volatile char of_child, of_thread, seen;
	int to_thread[2], to_child[2];
};

static void *change_while_waiting(void *arg)
{
	struct neighbours *n = arg;
	char byte;

	n->seen = read(n->to_thread[0], &byte, 1) == 1;
	n->of_thread = 7;
	n->seen &= write(n->to_child[1], "", 1) == 1;
	return NULL;
}

/* Only the thread that called vfork waits; what others write is kept. */
static void check_vfork_with_thread(void)
{
	struct neighbours n = {0};
	pthread_t thread;
	char byte;
	pid_t pid;

	CHECK(pipe(n.to_thread) == 0 && pipe(n.to_child) == 0);
	CHECK(pthread_create(&thread, NULL, change_while_waiting, &n) == 0);
	pid = vfork();
	if (!pid) {
		if (write(n.to_thread[1], "", 1) == 1 &&
		    read(n.to_child[0], &byte, 1) == 1)
			n.of_child = 5;
		_exit(0);
	}
	if (pid < 0)
		close(n.to_thread[1]); /* nobody else ends the thread's read */
	CHECK(exit_code(pid) == 0);
	pthread_join(thread, NULL);
	CHECK(n.seen && n.of_thread == 7 && n.of_child == 5);
}

static void check_spawn(void)
{
	char *argv[] = {"self", "code", "23", NULL};
	posix_spawn_file_actions_t actions;
	char got[8] = "";
	int fds[2], dir, code;
	pid_t pid = -1;

	CHECK(posix_spawn(&pid, SELF, NULL, NULL, argv, environ) == 0);
	CHECK(exit_code(pid) == 23);
	pid = vfork();
	if (!pid) {
		execve(SELF, argv, environ);
		_exit(200);
	}
	CHECK(exit_code(pid) == 23);
	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], 7);
	code = posix_spawn(&pid, SELF, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	CHECK(code == 0 && exit_code(pid) == 23);
	CHECK(read(fds[0], got, sizeof(got)) == 0); /* nobody has it */
	close(fds[0]);
	dir = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid = fork();
	if (!pid) {
		syscall(SYS_execveat, AT_FDCWD, SELF, argv, environ, 0);
		_exit(200);
	}
	CHECK(exit_code(pid) == 23);
	CHECK(FAILS(syscall(SYS_execveat, -5, "self", argv, environ, 0),
		    EBADF));
	CHECK(FAILS(syscall(SYS_execveat, AT_FDCWD, "", argv, environ, 0),
		    ENOENT));
	CHECK(FAILS(syscall(SYS_execveat, AT_FDCWD, SELF, argv, environ, ~0),
		    EINVAL));
	close(dir);
}

static void *wait_here(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void *exec_here(void *arg)
{
	char *argv[] = {"self", "code", "31", NULL};

	execve(SELF, argv, environ);
	return arg;
}

/* All other threads end; the process keeps its number. */
static void check_threads(void)
{
	pthread_t a, b;
	pid_t pid = fork();

	if (!pid) {
		pthread_create(&a, NULL, wait_here, NULL);
		pthread_create(&b, NULL, exec_here, NULL);
		pthread_join(b, NULL);
		_exit(200);
	}
	CHECK(exit_code(pid) == 31);
}

static void check_modes(void)
{
	char *argv[] = {"plain", NULL}, *none[] = {NULL};

	CHECK(write_file("plain", "no program\n", 0600));
	CHECK(FAILS(execve("plain", argv, none), EACCES));
	CHECK(chmod("plain", 0700) == 0);
	CHECK(FAILS(execve("plain", argv, none), ENOEXEC));
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "modes")) {
		check_modes();
		return say_done();
	}
	if (argc > 1)
		return check_program(argc, argv);
	check_words();
	check_inherited();
	check_scripts();
	check_spawn();
	check_spawn_errors();
	check_vfork_with_thread();
	check_threads();
	return say_done();
}
