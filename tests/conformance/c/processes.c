/* SPDX-License-Identifier: MIT */
/*
 * Programs of several processes: what parent and child share, how each hears
 * of the other's end, signals between them, groups and sessions.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "say.h"

/* A pid of -1 would mean every process to kill(2). */
static pid_t fork_or_end(void)
{
	pid_t pid = fork();

	if (pid < 0 && !CHECK(pid >= 0))
		exit(say_done());
	return pid;
}

/* A child that ends with the value of `code`. */
#define CHILD(code)                                                            \
	({                                                                     \
		pid_t made_ = fork_or_end();                                   \
		if (!made_)                                                    \
			_exit(code);                                           \
		made_;                                                         \
	})

static int exit_code(pid_t pid)
{
	int status = -1;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 1000 + WTERMSIG(status);
}

__attribute__((noreturn)) static int pause_forever(void)
{
	for (;;)
		pause();
}

static void check_ends(void)
{
	pid_t parent = getpid(), a, b;
	siginfo_t info;
	struct rusage usage;
	int status, value = 1;

	CHECK(exit_code(CHILD(getppid() == parent && getpid() != parent)) == 1);
	CHECK(exit_code(CHILD(syscall(SYS_gettid) == getpid())) == 1);
	a = fork_or_end();
	if (!a) {
		value = 2;
		_exit(value == 2 ? 40 : 41);
	}
	CHECK(exit_code(a) == 40 && value == 1);
	a = CHILD(7);
	memset(&info, 0, sizeof(info));
	CHECK(waitid(P_PID, a, &info, WEXITED | WNOWAIT) == 0);
	CHECK(info.si_pid == a && info.si_status == 7 &&
	      info.si_code == CLD_EXITED && info.si_signo == SIGCHLD);
	CHECK(kill(a, 0) == 0); /* a zombie */
	CHECK(wait4(a, &status, 0, &usage) == a && WEXITSTATUS(status) == 7);
	CHECK(FAILS(kill(a, 0), ESRCH));
	CHECK(FAILS(waitpid(a, &status, 0), ECHILD));
	CHECK(FAILS(waitpid(-1, &status, WNOHANG), ECHILD));
	CHECK(FAILS(waitid(P_ALL, 0, &info, WEXITED), ECHILD));
	a = CHILD(pause_forever());
	CHECK(waitpid(a, &status, WNOHANG) == 0);
	b = CHILD(3);
	CHECK(waitpid(-1, &status, 0) == b && WEXITSTATUS(status) == 3);
	CHECK(kill(a, SIGTERM) == 0 && exit_code(a) == 1000 + SIGTERM);
	a = CHILD((abort(), 0));
	CHECK(exit_code(a) == 1000 + SIGABRT);
	CHECK(FAILS(wait(NULL), ECHILD));
}

/* Where a fork takes long, few rounds must do. */
static int is_enough(int rounds, int most, time_t begun)
{
	return rounds == most || (rounds > 3 && time(NULL) - begun > 3);
}

static void check_stop(void)
{
	pid_t a = CHILD(pause_forever());
	siginfo_t info;
	int status;

	CHECK(kill(a, SIGSTOP) == 0);
	CHECK(waitpid(a, &status, WUNTRACED) == a && WIFSTOPPED(status) &&
	      WSTOPSIG(status) == SIGSTOP);
	CHECK(kill(a, SIGCONT) == 0);
	CHECK(waitid(P_PID, a, &info, WCONTINUED) == 0 &&
	      info.si_code == CLD_CONTINUED);
	CHECK(kill(a, SIGKILL) == 0 && exit_code(a) == 1000 + SIGKILL);
	a = fork_or_end();
	if (!a) { /* of an orphaned group nobody would take it back */
		setpgid(0, 0);
		raise(SIGTSTP);
		_exit(5);
	}
	CHECK(waitpid(a, &status, WUNTRACED) == a && WIFSTOPPED(status) &&
	      WSTOPSIG(status) == SIGTSTP);
	CHECK(kill(a, SIGCONT) == 0 && exit_code(a) == 5);
}

static volatile sig_atomic_t caught;
static siginfo_t last;

static void on_signal(int signo, siginfo_t *info, void *context)
{
	(void)context;
	last = *info;
	caught = signo;
}

static void catch (int signo, int flags)
{
	struct sigaction sa = {.sa_sigaction = on_signal,
			       .sa_flags = SA_SIGINFO | flags};

	caught = 0;
	sigaction(signo, &sa, NULL);
}

static void await_caught(void)
{
	while (!caught)
		sched_yield();
}

static void check_sigchld(void)
{
	sigset_t set, old;
	siginfo_t info;
	pid_t a;

	catch (SIGCHLD, SA_RESTART);
	a = CHILD(9);
	await_caught();
	CHECK(last.si_pid == a && last.si_status == 9 &&
	      last.si_code == CLD_EXITED && last.si_uid == getuid());
	CHECK(exit_code(a) == 9);
	caught = 0;
	CHECK(exit_code(CHILD(4)) == 4); /* not EINTR */
	await_caught();
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, &old);
	a = CHILD(6);
	CHECK(sigwaitinfo(&set, &info) == SIGCHLD && info.si_pid == a);
	CHECK(exit_code(a) == 6);
	sigprocmask(SIG_SETMASK, &old, NULL);
	signal(SIGCHLD, SIG_IGN);
	a = CHILD(8);
	CHECK(FAILS(waitpid(a, NULL, 0), ECHILD)); /* reaps itself */
	signal(SIGCHLD, SIG_DFL);
}

static void check_signals(void)
{
	union sigval value = {.sival_int = 4711};
	sigset_t set, old;
	pid_t parent = getpid(), a;
	siginfo_t info;

	catch (SIGUSR1, 0);
	a = CHILD(kill(parent, SIGUSR1));
	await_caught();
	CHECK(last.si_pid == a && last.si_code == SI_USER);
	CHECK(exit_code(a) == 0);
	catch (SIGSEGV, 0); /* nothing faults */
	a = CHILD(kill(parent, SIGSEGV));
	await_caught();
	CHECK(caught == SIGSEGV && last.si_pid == a);
	CHECK(exit_code(a) == 0 && signal(SIGSEGV, SIG_DFL) != SIG_ERR);
	a = CHILD(pause_forever());
	CHECK(kill(a, SIGILL) == 0 && exit_code(a) == 1000 + SIGILL);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 3);
	sigprocmask(SIG_BLOCK, &set, &old);
	a = CHILD(sigqueue(parent, SIGRTMIN + 3, value));
	CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 3);
	CHECK(info.si_pid == a && info.si_value.sival_int == 4711 &&
	      info.si_code == SI_QUEUE);
	CHECK(exit_code(a) == 0);
	CHECK(raise(SIGRTMIN + 3) == 0); /* pending: the child has it not */
	a = CHILD(sigpending(&set) || sigismember(&set, SIGRTMIN + 3));
	CHECK(exit_code(a) == 0);
	CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 3);
	sigprocmask(SIG_SETMASK, &old, NULL);
	a = fork_or_end();
	if (!a) { /* handlers and the mask come along */
		caught = 0;
		raise(SIGUSR1);
		_exit(caught == SIGUSR1);
	}
	CHECK(exit_code(a) == 1);
	signal(SIGUSR1, SIG_DFL);
	alarm(1000);
	CHECK(exit_code(CHILD((int)alarm(0))) == 0); /* not inherited */
	CHECK(alarm(0) > 900);
}

/* Not those that stop and continue, which take back one another, nor those of
 * the C libraries and bee. */
static int is_plain(int signo)
{
	switch (signo) {
	case SIGKILL:
	case SIGSTOP:
	case SIGCONT:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU:
		return 0;
	}
	return (signo < 32 || signo > 34) && signo != 40;
}

/* A blocked signal does not end a call that waits. */
static void check_blocked_call(pid_t parent)
{
	siginfo_t info;
	sigset_t set;
	char byte = 1;
	int ends[2];
	pid_t a;

	CHECK(pipe(ends) == 0);
	a = fork_or_end();
	if (!a) {
		usleep(50000); /* it probably waits by now */
		_exit(kill(parent, SIGSEGV) || usleep(50000) ||
		      write(ends[1], &byte, 1) != 1);
	}
	CHECK(read(ends[0], &byte, 1) == 1);
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	CHECK(sigwaitinfo(&set, &info) == SIGSEGV && info.si_pid == a);
	CHECK(exit_code(a) == 0);
	close(ends[0]);
	close(ends[1]);
}

static void check_each_signal(void)
{
	const struct timespec limit = {60, 0};
	pid_t parent = getpid(), a;
	int signo, failed = 0;
	sigset_t set, old;
	siginfo_t info;

	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, &old);
	a = fork_or_end();
	if (!a) {
		for (signo = 1; signo <= 64; signo++)
			failed += is_plain(signo) && kill(parent, signo);
		_exit(failed);
	}
	for (signo = 1; signo <= 64; signo++) {
		sigemptyset(&set);
		sigaddset(&set, signo);
		failed += is_plain(signo) &&
			  (sigtimedwait(&set, &info, &limit) != signo ||
			   info.si_pid != a);
	}
	CHECK(failed == 0);
	CHECK(exit_code(a) == 0);
	check_blocked_call(parent);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

static void check_groups(void)
{
	int ready[2], status;
	pid_t a, b;
	char byte;

	CHECK(getpgid(0) == getpgrp() && getsid(0) == getsid(getpid()));
	CHECK(pipe(ready) == 0);
	a = fork_or_end();
	if (!a) {
		byte = setpgid(0, 0) == 0 && getpgrp() == getpid();
		if (write(ready[1], &byte, 1) == 1)
			pause_forever();
	}
	CHECK(read(ready[0], &byte, 1) == 1 && byte == 1);
	CHECK(getpgid(a) == a);
	b = CHILD(pause_forever());
	CHECK(setpgid(b, a) == 0 && getpgid(b) == a);
	CHECK(waitpid(-a, &status, WNOHANG) == 0);
	CHECK(kill(-a, SIGUSR2) == 0);
	CHECK(exit_code(a) == 1000 + SIGUSR2);
	CHECK(waitpid(-a, &status, 0) == b && WTERMSIG(status) == SIGUSR2);
	CHECK(FAILS(kill(-a, 0), ESRCH));
	a = fork_or_end();
	if (!a)
		_exit(setsid() == getpid() && getsid(0) == getpid() &&
		      getpgrp() == getpid() && FAILS(setsid(), EPERM));
	CHECK(exit_code(a) == 1);
	CHECK(FAILS(setpgid(1, 0), ESRCH) && FAILS(setpgid(0, -1), EINVAL));
	close(ready[0]);
	close(ready[1]);
}

static void check_pipes(void)
{
	char text[8192], got[8192];
	struct iovec v[2] = {{"two ", 4}, {"parts", 5}};
	struct pollfd p;
	int fds[2], n, sum = 0;
	pid_t a;

	CHECK(pipe(fds) == 0 && write(fds[1], "before", 6) == 6);
	a = fork_or_end();
	if (!a) {
		close(fds[0]);
		memset(text, 'x', sizeof(text));
		for (n = 0; n < 40; n++)
			if (write(fds[1], text, sizeof(text)) != sizeof(text))
				_exit(1);
		_exit(writev(fds[1], v, 2) == 9 ? 0 : 2);
	}
	close(fds[1]);
	CHECK(read(fds[0], got, 6) == 6 && !memcmp(got, "before", 6));
	while ((n = read(fds[0], got, sizeof(got))) > 0)
		sum += n;
	CHECK(n == 0 && sum == 40 * 8192 + 9);
	CHECK(exit_code(a) == 0);
	p = (struct pollfd){.fd = fds[0], .events = POLLIN};
	CHECK(poll(&p, 1, 0) == 1 && p.revents & POLLHUP);
	close(fds[0]);
	CHECK(pipe(fds) == 0);
	a = fork_or_end();
	if (!a) { /* nobody reads: SIGPIPE ends it */
		close(fds[0]);
		memset(text, 0, sizeof(text));
		for (;;)
			if (write(fds[1], text, sizeof(text)) < 0)
				_exit(1);
	}
	close(fds[0]);
	close(fds[1]);
	CHECK(exit_code(a) == 1000 + SIGPIPE);
}

static void check_shared(int *word)
{
	int fd = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600), own = 0;
	char buf[8] = "";
	struct stat st;
	pid_t a;

	CHECK(word != MAP_FAILED && fd >= 0);
	CHECK(write(fd, "ab", 2) == 2);
	a = fork_or_end();
	if (!a) {
		word[0] = 11;
		word[1024] = 12;
		own = 1;
		_exit(write(fd, "cd", 2) == 2 ? own : 0);
	}
	CHECK(exit_code(a) == 1 && own == 0);
	CHECK(word[0] == 11 && word[1024] == 12);
	CHECK(write(fd, "ef", 2) == 2 && lseek(fd, 0, SEEK_CUR) == 6);
	CHECK(pread(fd, buf, 6, 0) == 6 && !memcmp(buf, "abcdef", 6));
	a = CHILD(lseek(fd, 1, SEEK_SET) != 1);
	CHECK(exit_code(a) == 0 && lseek(fd, 0, SEEK_CUR) == 1);
	CHECK(fstat(fd, &st) == 0 && st.st_size == 6);
	a = CHILD(close(fd));
	CHECK(exit_code(a) == 0 && write(fd, "x", 1) == 1);
	close(fd);
	unlink("shared");
}

static void *spin_thread(void *arg)
{
	volatile int *stop = arg;
	char text[64];
	void *p;
	int fd;

	while (!*stop) {
		p = malloc(2000);
		free(p);
		(void)getppid();
		close(dup(1));
		fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, text, sizeof(text)) > 0)
			close(fd);
	}
	return NULL;
}

/* Other threads are in calls and hold what they hold; the child has none. */
static void check_threads(void)
{
	pthread_t thread[4];
	volatile int stop = 0;
	time_t begun = time(NULL);
	int i, rounds = 0, good = 0;

	for (i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, spin_thread, (void *)&stop);
	for (; !is_enough(rounds, 50, begun); rounds++)
		good += exit_code(CHILD(rounds)) == rounds;
	stop = 1;
	for (i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	CHECK(good == rounds);
}

static void *fork_here(void *arg)
{
	pthread_t other;
	pid_t a = fork_or_end();
	volatile int stop = 1;

	if (!a) { /* the only thread now, and it starts another one */
		if (syscall(SYS_gettid) != getpid() ||
		    pthread_create(&other, NULL, spin_thread, (void *)&stop) ||
		    pthread_join(other, NULL))
			_exit(1);
		_exit(0);
	}
	*(int *)arg = exit_code(a);
	return NULL;
}

static void check_fork_in_thread(void)
{
	pthread_t thread;
	int code = -1;

	pthread_create(&thread, NULL, fork_here, &code);
	pthread_join(thread, NULL);
	CHECK(code == 0);
}

static void check_family(void)
{
	int fds[2], code;
	pid_t a, b;
	char byte;

	a = vfork();
	if (!a)
		_exit(21);
	CHECK(exit_code(a) == 21);
	CHECK(pipe(fds) == 0);
	a = fork_or_end();
	if (!a) { /* its child gets SIGKILL when it ends */
		b = fork_or_end();
		if (!b) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (write(fds[1], "", 1) == 1)
				pause_forever();
		}
		code = read(fds[0], &byte, 1) == 1;
		_exit(code);
	}
	close(fds[1]);
	CHECK(exit_code(a) == 1);
	CHECK(read(fds[0], &byte, 1) == 0); /* both are gone */
	close(fds[0]);
	CHECK(FAILS(syscall(SYS_clone, CLONE_FS | CLONE_THREAD, 0, 0, 0, 0),
		    EINVAL));
}

static volatile int heard;

static void on_end(int signo)
{
	(void)signo;
	heard++;
}

/* The signal of a child's end is there before its wait returns. */
static void check_order(void)
{
	struct sigaction act = {.sa_handler = on_end};
	siginfo_t info;
	time_t begun = time(NULL);
	int i, late = 0;

	CHECK(sigaction(SIGCHLD, &act, NULL) == 0);
	for (i = 0; !is_enough(i, 60, begun); i++) {
		pid_t pid = CHILD(0);

		if (i % 2)
			while (waitid(P_PID, (id_t)pid, &info, WEXITED) < 0)
				;
		else
			while (waitpid(pid, NULL, 0) < 0)
				;
		late += heard != i + 1;
	}
	CHECK(late == 0 && signal(SIGCHLD, SIG_DFL) == on_end);
}

int main(void)
{
	int *word = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	check_ends();
	check_order();
	check_stop();
	check_sigchld();
	check_signals();
	check_each_signal();
	check_groups();
	check_pipes();
	check_shared(word);
	check_threads();
	check_fork_in_thread();
	check_family();
	return say_done();
}
