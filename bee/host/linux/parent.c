/* SPDX-License-Identifier: MIT */
/*
 * The parent: starts the child with the requested limits, forwards signals, and
 * reports in one sentence how the child ended. It runs no guest code.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

static volatile pid_t child;

/* A terminal sends its signals to the child too; only others are forwarded. */
static void pass_on(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (child > 0 && info->si_code != SI_KERNEL)
		kill(child, sig);
}

static void catch_signals(void)
{
	static const int passed[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
				     SIGUSR1, SIGUSR2, SIGWINCH};
	struct sigaction sa;
	u32 i;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = pass_on;
	sa.sa_flags = SA_SIGINFO | SA_RESTART;
	for (i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		sigaction(passed[i], &sa, NULL);
}

static void set_limits(const struct bee_options *o)
{
	struct sched_param param = {0};
	struct rlimit none = {0, 0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	setrlimit(RLIMIT_CORE, &none);
	if (o->idle && (sched_setscheduler(0, SCHED_IDLE, &param) ||
			setpriority(PRIO_PROCESS, 0, 19)))
		bee_os_message("--idle: the scheduler refused it; continuing "
			       "without it");
}

/* Each memfd is a new file, so no process outside of the run has it. */
static int place_family(void)
{
	int fd = memfd_create("bee family", 0);

	if (fd < 0)
		return -1;
	if (fd == BEE_FAMILY_FD)
		return 0;
	if (dup2(fd, BEE_FAMILY_FD) < 0)
		return -1;
	return close(fd);
}

/*
 * Both are first duplicated above their final numbers, so that neither
 * overwrites the other. The child reports a stream that is not open.
 */
static int place_streams(const struct bee_options *o, int word)
{
	int stream = -1;

	word = fcntl(word, F_DUPFD_CLOEXEC,
		     o->stream ? BEE_FAMILY_FD + 1 : lin_inherited_end());
	if (word < 0) {
		bee_os_message("too many open descriptors to start a program; "
			       "raise ulimit -n");
		return -1;
	}
	if (!o->stream && lin_inherited_move())
		return -1;
	if (o->stream)
		stream = fcntl((int)o->stream, F_DUPFD_CLOEXEC,
			       BEE_FAMILY_FD + 1);
	if (dup2(word, BEE_WORD_FD) < 0 || place_family())
		return -1;
	if (stream >= 0)
		return dup2(stream, BEE_STREAM_FD);
	close(BEE_STREAM_FD);
	return 0;
}

/* From when it has the family's memfd, the command bee --snapshot may call it
 * by this signal; it stays blocked until there is a handler. */
static void block_kick(void)
{
	sigset_t kick;

	sigemptyset(&kick);
	sigaddset(&kick, LIN_KICK);
	sigprocmask(SIG_BLOCK, &kick, NULL);
}

/* Runs in the child; word is the write end of the pipe. */
static void exec_child(char **argv, const struct bee_options *o, int word)
{
	u32 n = 0, i;
	char **copy;

	while (argv[n])
		n++;
	copy = calloc(n + 2, sizeof(*copy));
	if (!copy)
		_exit(BEE_EXIT_REFUSED);
	copy[0] = argv[0];
	copy[1] = "--child";
	for (i = 1; i < n; i++)
		copy[i + 1] = argv[i];
	set_limits(o);
	block_kick();
	if (place_streams(o, word) < 0)
		_exit(BEE_EXIT_REFUSED);
	execv("/proc/self/exe", copy);
	bee_os_message("cannot start itself: /proc is needed");
	_exit(BEE_EXIT_REFUSED);
}

/* Writes the report for a child that could not write its own. */
static void report_silence(const struct bee_options *o, int status)
{
	FILE *f = o->report ? fopen(o->report, "we") : NULL;

	if (!f)
		return;
	fprintf(f, "nonce %016llx\nstatus %d\nsilent 1\n", o->nonce, status);
	fclose(f);
}

static int report_death(const struct bee_options *o, int status, int spoke)
{
	char line[160];
	int sig;

	if (!spoke)
		report_silence(o, status);
	if (WIFEXITED(status) && spoke)
		return WEXITSTATUS(status);
	if (WIFEXITED(status)) {
		snprintf(line, sizeof(line),
			 "the child exited with code %d without a report",
			 WEXITSTATUS(status));
		bee_os_message(line);
		return BEE_EXIT_REFUSED;
	}
	sig = WTERMSIG(status);
	snprintf(line, sizeof(line), "%s was ended by signal %d (%s)%s",
		 o->program, sig, strsignal(sig),
		 spoke ? "" : " without a report from bee");
	bee_os_message(line);
	return BEE_EXIT_SIGNAL + sig;
}

int lin_parent(char **argv, const struct bee_options *o)
{
	int word[2], status = 0;
	u32 said = 0;
	int spoke;

	if (pipe2(word, O_CLOEXEC)) {
		bee_os_message("no pipe for the child");
		return BEE_EXIT_REFUSED;
	}
	catch_signals();
	child = fork();
	if (child == 0)
		exec_child(argv, o, word[1]);
	close(word[1]);
	if (o->stream)
		close((int)o->stream);
	else
		lin_inherited_close();
	if (child < 0) {
		bee_os_message("cannot start a process for the program");
		return BEE_EXIT_REFUSED;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	spoke = read(word[0], &said, sizeof(said)) == sizeof(said);
	close(word[0]);
	return report_death(o, status, spoke);
}

static void print_probe(const char *what, const char *state)
{
	printf("%-28s %s\n", what, state);
}

int lin_probe(void)
{
	struct abi_host_info info;
	struct bee_options none = {0};
	int fsgsbase = (getauxval(AT_HWCAP2) & 2) != 0, bad = 0;

	bee.options = &none;
	bee_cpu_init();
	printf("bee %s on Linux\n", BEE_VERSION);
	if (lin_info(&info))
		return 1;
	printf("%-28s %u\n%-28s %llu MiB\n", "cpus", info.cpus, "memory",
	       info.mem_total >> 20);
	printf("%-28s 0x%llx, %llu bytes\n", "xsave components",
	       info.xsave_mask, info.xsave_size);
	print_probe("fs base",
		    fsgsbase ? "by instruction" : "by system call (slow)");
	bad = lin_mem_reserve() != 0;
	print_probe("guest address ranges",
		    bad ? "in use: no program can run" : "free");
	print_probe("idle class", "SCHED_IDLE");
	print_probe("memory limit", "counted by bee");
	return bad;
}
