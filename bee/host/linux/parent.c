/* SPDX-License-Identifier: MIT */
/*
 * The parent: starts the child with the requested limits, forwards signals, and
 * reports in one sentence how the child ended. It runs no guest code.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hex.h"
#include "bee/core/snapshot.h"
#include "host.h"

#define CALL_US 5000

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
	int given = (int)(o->stream ? o->stream : o->control), stream = -1;

	word = fcntl(word, F_DUPFD_CLOEXEC,
		     given ? BEE_FAMILY_FD + 1 : lin_inherited_end());
	if (word < 0) {
		bee_os_message("too many open descriptors to start a program; "
			       "raise ulimit -n");
		return -1;
	}
	if (!given && lin_inherited_move())
		return -1;
	if (given)
		stream = fcntl(given, F_DUPFD_CLOEXEC, BEE_FAMILY_FD + 1);
	if (o->control && stream < 0) {
		bee_os_message("--control is not an inherited socket");
		return -1;
	}
	if (dup2(word, BEE_WORD_FD) < 0 || place_family())
		return -1;
	if (stream >= 0)
		return dup2(stream, BEE_STREAM_FD);
	close(BEE_STREAM_FD);
	return 0;
}

/* The child may be called by this signal as soon as it exists; it stays blocked
 * until there is a handler. */
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

/* The child reads what was asked; it may not be ready, so it is called again.
 */
static void call_child(void)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	syscall(SYS_rt_tgsigqueueinfo, child, child, LIN_KICK, &info);
	usleep(CALL_US);
}

/* Until the child has ended. */
static void watch_control(int control)
{
	struct pollfd fds[2] = {{.fd = control, .events = POLLIN},
				{.events = POLLIN}};

	fds[1].fd = (int)syscall(SYS_pidfd_open, child, 0);
	if (fds[1].fd < 0) {
		bee_os_message("no snapshot can be asked for: Linux 5.3 is "
			       "needed");
		return;
	}
	while (!fds[1].revents) {
		if (poll(fds, 2, -1) < 0)
			continue;
		if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			fds[0].fd = -1;
		else if (fds[0].revents)
			call_child();
	}
	close(fds[1].fd);
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
	block_kick();
	child = fork();
	if (child == 0)
		exec_child(argv, o, word[1]);
	close(word[1]);
	if (o->stream)
		close((int)o->stream);
	else if (!o->control)
		lin_inherited_close();
	if (child < 0) {
		bee_os_message("cannot start a process for the program");
		return BEE_EXIT_REFUSED;
	}
	if (o->control)
		watch_control((int)o->control);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	spoke = read(word[0], &said, sizeof(said)) == sizeof(said);
	close(word[0]);
	return report_death(o, status, spoke);
}

static int parse_cpu(const char *text, struct bee_snap_cpu *cpu)
{
	u8 *byte = (u8 *)cpu;
	s32 high, low;
	u32 i;

	if (strlen(text) != 2 * sizeof(*cpu))
		return -1;
	for (i = 0; i < sizeof(*cpu); i++) {
		high = base_hex_digit(text[2 * i]);
		low = base_hex_digit(text[2 * i + 1]);
		if (high < 0 || low < 0)
			return -1;
		byte[i] = (u8)(high << 4 | low);
	}
	return 0;
}

/* "-": prints what programs may see of this CPU; else names what it lacks of
 * one that was printed so. */
int lin_cpu_answer(const char *text)
{
	struct bee_options none = {0};
	struct bee_snap_cpu cpu;
	const u8 *byte = (const u8 *)&cpu;
	const char *lacks;
	u32 i;

	bee.options = &none;
	bee_cpu_init();
	if (!strcmp(text, "-")) {
		bee_snap_cpu_read(&cpu);
		for (i = 0; i < sizeof(cpu); i++)
			printf("%02x", byte[i]);
		putchar('\n');
		return 0;
	}
	if (parse_cpu(text, &cpu)) {
		bee_os_message("--cpu: this is not the CPU of a bee of this "
			       "version");
		return BEE_EXIT_USAGE;
	}
	lacks = bee_snap_cpu_lacks(&cpu);
	if (lacks)
		puts(lacks);
	return lacks ? BEE_EXIT_REFUSED : 0;
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
	printf("bee %s on Linux\n", SKEP_VERSION);
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
