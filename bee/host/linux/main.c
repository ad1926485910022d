/* SPDX-License-Identifier: MIT */
/*
 * bee on Linux: the child that runs the guest. The command line is first
 * handled by the parent (parent.c), which starts this program again with
 * --child, and with descriptor 3 as the pipe for its exit report.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"

extern char **environ;
static struct bee_options options;
int lin_message_fd = 2;
/* is not the child that the parent of the run waits for */
static int is_forked;

const struct abi_host lin_host = {
	.mem_commit = lin_mem_commit,
	.mem_protect = lin_mem_protect,
	.mem_release = lin_mem_release,
	.mem_file = lin_mem_file,
	.mem_discard = lin_mem_discard,
	.text_seal = bee_text_seal,
	.text_file = bee_text_file,
	.text_pc = bee_text_pc,
	.thread_start = lin_thread_start,
	.thread_number = lin_thread_number,
	.thread_lives = lin_family_lives,
	.thread_exit = lin_thread_exit,
	.thread_kick = lin_thread_kick,
	.thread_yield = lin_thread_yield,
	.thread_affinity = lin_thread_affinity,
	.wait = lin_wait,
	.wake = lin_wake,
	.futex = lin_futex,
	.robust = lin_robust_watch,
	.timer_arm = lin_timer_arm,
	.thread_clock = lin_thread_clock,
	.clock = lin_clock,
	.random = lin_random,
	.info = lin_info,
	.rusage = lin_rusage,
	.file_open = lin_file_open,
	.file_close = lin_file_close,
	.file_read = abi_lin_file_read,
	.file_write = abi_lin_file_write,
	.file = abi_lin_file,
	.splice = abi_lin_splice,
	.file_lock = lin_file_lock,
	.path = abi_lin_path,
	.pipe = lin_pipe,
	.counter = lin_counter,
	.family = lin_family,
	.watch = lin_watch,
	.ipc = lin_ipc,
	.sock_open = abi_lin_sock_open,
	.sock = lin_sock,
	.io_wait = lin_io_wait,
	.proc_exit = lin_proc_exit,
	.log = lin_log,
};

/* One write, so that lines of several threads do not mix. */
void bee_os_message(const char *line)
{
	char text[640];
	int n = snprintf(text, sizeof(text), "bee: %s\n", line);
	u64 len = n < (int)sizeof(text) ? (u64)n : sizeof(text) - 1;

	if (lin_message_fd >= 0 && write(lin_message_fd, text, len) < 0)
		return;
}

/* The next file may get the same number, and bee must not write messages to
 * that file. */
s64 lin_file_close(s32 handle)
{
	if (handle == lin_message_fd)
		lin_message_fd = -1;
	return abi_lin_file_close(handle);
}

void lin_log(const char *line)
{
	bee_os_message(line);
}

static void write_report(u32 status)
{
	char text[4096];
	u64 len = bee_report(text, sizeof(text), status);
	int fd;

	if (!options.report || is_forked)
		return;
	fd = open(options.report, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
		  0644);
	if (fd < 0 || write(fd, text, len) != (s64)len)
		bee_os_message("the report could not be written; give --report "
			       "a file that can be created");
	if (fd >= 0)
		close(fd);
}

static __attribute__((noreturn)) void exit_now(u32 code)
{
	for (;;)
		syscall(SYS_exit_group, code);
}

/*
 * Reports by descriptor 3 that this exit was intended. If a signal has ended
 * the guest, it is then raised here, so that the parent sees it.
 */
void lin_proc_exit(u32 status)
{
	struct sigaction sa = {.sa_handler = SIG_DFL};
	u32 signo = status & 0x7f;
	sigset_t set;

	lin_vfork_report();
	write_report(status);
	if (!is_forked && write(BEE_WORD_FD, &status, sizeof(status)) < 0)
		exit_now(BEE_EXIT_REFUSED);
	if (!signo)
		exit_now(status >> 8 & 0xff);
	sigaction((int)signo, &sa, NULL);
	sigemptyset(&set);
	sigaddset(&set, (int)signo);
	syscall(SYS_tgkill, getpid(), gettid(), signo);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	exit_now(BEE_EXIT_SIGNAL + signo);
}

void lin_proc_child(void)
{
	is_forked = 1;
	lin_cpu_before = lin_user_before = lin_system_before = 0;
	close(BEE_WORD_FD);
	if (lin_control >= 0)
		close(lin_control);
	lin_control = -1;
}

u32 lin_proc_is_child(void)
{
	return (u32)is_forked;
}

void lin_proc_resumed(u32 forked)
{
	is_forked = forked != 0;
}

/* The last setting of a variable is used, as in env(1). */
static const char *const *make_environment(void)
{
	u32 have = 0, n = 0, i, j, len;
	const char **out;

	while (!options.clean_env && environ[have])
		have++;
	out = calloc(have + options.envs + 1, sizeof(*out));
	if (!out)
		return NULL;
	for (i = 0; i < have + options.envs; i++) {
		const char *e = i < have ? environ[i] : options.env[i - have];

		len = (u32)strcspn(e, "=") + 1;
		for (j = 0; j < n && strncmp(out[j], e, len); j++)
			;
		out[j] = e;
		n += j == n;
	}
	return out;
}

static s64 run_guest(void)
{
	const char *const *envp =
		bee.resume ? (const char *const *)environ : make_environment();
	int code =
		envp ? bee_load(&options, &lin_host, envp) : BEE_EXIT_REFUSED;

	if (code || options.load_only)
		lin_proc_exit((u32)code << 8);
	if (bee.snapshot && lin_restore_start())
		lin_proc_exit(BEE_EXIT_REFUSED << 8);
	if (options.stream) /* the stream's peer needs the report's end */
		write_report(0);
	if (lin_control >= 0 && !bee.resume)
		send(lin_control, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	return 0;
}

static int child_main(void)
{
	struct lin_thread *self = lin_thread_new(LIN_NO_INDEX);
	sigset_t all;
	int err;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(LIN_KICK, SIG_IGN); /* discards a kick from before an execve */
	if (options.resume || options.restore)
		lin_signals_hold(1); /* the program may block them */
	if (!self || lin_signal_init()) {
		bee_os_message("threads or signals cannot be set up");
		return BEE_EXIT_REFUSED;
	}
	lin_thread_enable(self);
	bee.options = &options;
	abi_lin_root = options.root;
	if (options.control)
		lin_control = BEE_STREAM_FD;
	if ((options.restored && lin_restored_take(options.restored)) ||
	    (options.restore && lin_restore_open(&options)))
		lin_proc_exit(BEE_EXIT_REFUSED << 8);
	lin_proc_name(options.program);
	lin_umask = umask(0); /* abi applies the guest's */
	if (options.resume)
		lin_robust_executed();
	if (options.resume &&
	    lin_exec_resume((s32)options.resume, self->wake)) {
		bee_os_message("execve: what the process had is damaged");
		return BEE_EXIT_REFUSED;
	}
	bee.image.started_ns = (u64)lin_clock(ABI_CLOCK_MONOTONIC);
	err = lin_mem_reserve();
	if (err) {
		bee_os_message("the address range of guests is not free; is "
			       "vm.overcommit_memory 2, or ulimit -v set?");
		lin_proc_exit(BEE_EXIT_REFUSED << 8);
	}
	if (lin_thread_first(run_guest)) {
		bee_os_message("threads or signals cannot be set up");
		lin_proc_exit(BEE_EXIT_REFUSED << 8);
	}
	lin_helper_run();
}

/* Handles options that need no program. A full disk is detected when standard
 * output is flushed. */
static int answer_option(void)
{
	int code = 0;

	if (options.help)
		fputs(bee_usage, stdout);
	else if (options.version)
		printf("bee %s (Linux)\n", SKEP_VERSION);
	else if (options.list)
		fputs(bee_list(&lin_host), stdout);
	else if (options.cpu)
		code = lin_cpu_answer(options.cpu);
	else
		code = lin_probe();
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	bee_os_message("standard output can't be written");
	return 1;
}

int main(int argc, char **argv)
{
	char why[160];
	int code = bee_options_parse(&options, argc, argv, why);

	if (code) {
		bee_os_message(why);
		return code;
	}
	if (options.help || options.version || options.list || options.probe ||
	    options.cpu)
		return answer_option();
	if (options.snapshot)
		return lin_ask(&options);
	return options.child ? child_main() : lin_parent(argv, &options);
}
