// SPDX-License-Identifier: MIT
/*
 * Starts programs of Linux, in the way that it is told. Each line is the same
 * on Linux itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void show_status(const char *what, int status)
{
	if (WIFSIGNALED(status))
		printf("%s: signal %d\n", what, WTERMSIG(status));
	else
		printf("%s: status %d\n", what, WEXITSTATUS(status));
	fflush(stdout);
}

static pid_t start_shell(const char *script,
			 posix_spawn_file_actions_t *actions,
			 posix_spawnattr_t *attributes)
{
	char *argv[] = {"sh", "-c", (char *)script, NULL};
	pid_t pid;
	int err = posix_spawn(&pid, "/bin/sh", actions, attributes, argv,
			      environ);

	if (err) {
		printf("posix_spawn: %s\n", strerror(err));
		exit(1);
	}
	return pid;
}

/* A result and the errno that came with it. */
static void show_error(const char *what, long result)
{
	printf("%s: %ld %s\n", what, result, strerror(errno));
	fflush(stdout);
	errno = 0;
}

static int wait_status(pid_t pid)
{
	int status = -1;

	if (waitpid(pid, &status, 0) != pid)
		perror("waitpid");
	return status;
}

static void run_streams(void)
{
	char line[100];
	FILE *f;

	show_status("system", system("echo system $0; exit 3"));
	f = popen("tr a-z A-Z", "w");
	fputs("written by popen\n", f);
	show_status("pclose", pclose(f));
	f = popen("echo read by popen; exit 4", "r");
	if (fgets(line, sizeof(line), f))
		fputs(line, stdout);
	show_status("pclose", pclose(f));
	f = popen("sleep .2; cat; echo end of file", "w");
	fputs("a late reader\n", f);
	show_status("pclose", pclose(f));
	show_status("no such program", system("/no/such/program 2>/dev/null"));
}

/* What the program has, its helper has. */
static void run_inherited(void)
{
	struct rlimit files = {77, 99};
	int fd = open("/run/helper", O_RDWR | O_CREAT | O_TRUNC, 0666);
	int null = open("/dev/null", O_RDWR);
	sigset_t set;
	char text[64];
	pid_t pid;
	ssize_t n;

	setenv("OF_THE_PROGRAM", "kept", 1);
	unsetenv("PWD");
	if (chdir("/usr/bin") || fd != 3 || null != 4)
		puts("no files");
	umask(027);
	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, (void (*)(int))run_streams);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_SETMASK, &set, NULL);
	fcntl(fd, F_SETFD, 0);
	if (write(fd, "one ", 4) != 4)
		puts("no write");
	show_status("inherited",
		    wait_status(start_shell(
			    "pwd -P; echo $OF_THE_PROGRAM; umask; ulimit -n; "
			    "ulimit -Hn; echo -n two >&3; cat <&4; "
			    "ls /proc/self/fd | tr '\\n' ' '; echo; "
			    "[ $PPID = $THE_PROGRAM ] && echo its child",
			    NULL, NULL)));
	/* TERM is blocked, USR1 is ignored; others may be ignored too */
	show_status("masks", posix_spawn(&pid, "/bin/grep", NULL, NULL,
					 (char *[]){"grep", "-Ec",
						    "^SigBlk:.0+4000$|"
						    "^SigIgn:.*[2367abef]..$",
						    "/proc/self/status", NULL},
					 environ));
	show_status("grep", wait_status(pid));
	n = write(fd, " three", 6);
	n = pread(fd, text, sizeof(text), 0);
	printf("file: %.*s\n", (int)n, text);
}

static void on_child(int sig)
{
	(void)sig;
}

/* Waits of each kind, and signals. */
static void run_waits(void)
{
	siginfo_t info;
	struct rusage usage;
	int status;
	pid_t pid, other;

	signal(SIGCHLD, on_child);
	pid = start_shell("kill -STOP $$; exit 9", NULL, NULL);
	waitpid(pid, &status, WUNTRACED);
	printf("stopped %d %d\n", WIFSTOPPED(status), WSTOPSIG(status));
	printf("still there %d\n", waitpid(pid, &status, WNOHANG));
	kill(pid, SIGCONT);
	info.si_pid = 0;
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	printf("waitid %d %d %d\n", info.si_pid == pid, info.si_code,
	       info.si_status);
	printf("wait4 %d\n", wait4(-1, &status, 0, &usage) == pid);
	show_status("continued", status);
	pid = start_shell("exec sleep 1000", NULL, NULL);
	other = start_shell("trap 'exit 8' TERM; echo ready >/run/ready; "
			    "while :; do sleep .1; done",
			    NULL, NULL);
	kill(pid, SIGKILL);
	show_status("killed", wait_status(pid));
	while (access("/run/ready", F_OK))
		usleep(10000);
	kill(other, SIGTERM);
	show_status("trapped", wait_status(other));
	show_error("no child", waitpid(-1, NULL, 0));
}

/* What posix_spawn can change for its child alone. */
static void run_changes(void)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	char *argv[] = {"none", NULL};
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 7, "/etc/passwd", O_RDONLY,
					 0);
	posix_spawn_file_actions_adddup2(&actions, 1, 9);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setpgroup(&attributes, 0);
	fflush(stdout);
	show_status("changed",
		    wait_status(start_shell("head -n 1 <&7 | cut -c1-4 >&9; "
					    "set -- $(cat /proc/self/stat); "
					    "[ $5 = $$ ] && echo its group",
					    &actions, &attributes)));
	printf("here %d %d\n", fcntl(7, F_GETFD), fcntl(9, F_GETFD));
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
	show_status("session",
		    wait_status(start_shell("set -- $(cat /proc/self/stat); "
					    "[ $6 = $$ ] && echo its session",
					    NULL, &attributes)));
	printf("not found %d\n", posix_spawnp(&pid, "no-such-name", NULL, NULL,
					      argv, environ) == ENOENT);
	printf("found %d\n",
	       posix_spawnp(&pid, "true", NULL, NULL, argv, environ));
	show_status("true", wait_status(pid));
	printf("denied %d\n", posix_spawn(&pid, "/etc/passwd", NULL, NULL, argv,
					  environ) == EACCES);
}

static void *sleep_in_shell(void *status)
{
	*(int *)status = system("sleep .3; exit 6");
	return NULL;
}

/* Threads that wait for children leave their cores to others. */
static void run_threads(void)
{
	pthread_t t[5];
	int status[5], i;

	for (i = 0; i < 5; i++)
		pthread_create(&t[i], NULL, sleep_in_shell, &status[i]);
	for (i = 0; i < 5; i++) {
		pthread_join(t[i], NULL);
		show_status("thread", status[i]);
	}
}

static void run_forks(void)
{
	char *argv[] = {"true", NULL};

	show_error("fork", fork());
	show_error("execve", execve("/bin/true", argv, environ));
	show_error("process 1", kill(1, 0));
	show_status("system", system("exit 2"));
}

static volatile int alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

/* A signal ends a wait; children that nobody waits for leave. */
static void run_signals(void)
{
	struct sigaction sa = {.sa_handler = on_alarm};
	int status = 0;
	pid_t pid;

	sigaction(SIGALRM, &sa, NULL);
	pid = start_shell("exec sleep 1000", NULL, NULL);
	alarm(1);
	show_error("wait", waitpid(pid, &status, 0));
	printf("alarms %d\n", alarms);
	kill(pid, SIGINT);
	show_status("interrupted", wait_status(pid));
	signal(SIGCHLD, SIG_IGN);
	start_shell("exit 1", NULL, NULL);
	show_error("ignored", waitpid(-1, &status, 0));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} part[] = {{"streams", run_streams}, {"inherited", run_inherited},
		    {"waits", run_waits},     {"changes", run_changes},
		    {"threads", run_threads}, {"forks", run_forks},
		    {"signals", run_signals}};
	char pid[20];
	unsigned i;

	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("THE_PROGRAM", pid, 1);
	for (i = 0; i < sizeof(part) / sizeof(part[0]); i++)
		if (argc > 1 && !strcmp(argv[1], part[i].name))
			part[i].run();
	return 0;
}
