// SPDX-License-Identifier: MIT
/*
 * Programs that the proxy starts, from records that the image writes, good and
 * hostile ones. The programs are /bin/sh.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "abi/include/siginfo.h"
#include "abi/test/record.h"
#include "sms/proxy/helper.h"
#include "tests/tap.h"

struct proxy sms_proxy;
static char said[1024];
static u32 sayings;
static int out[2]; /* what programs print */

void sms_proxy_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(said, sizeof(said), format, args);
	va_end(args);
	sayings++;
}

static void must_ok(int good)
{
	if (!good)
		abort();
}

/* As the proxy makes them: they do not block. */
static void must_pipe(int end[2])
{
	must_ok(!pipe2(end, O_NONBLOCK | O_CLOEXEC));
}

static s64 ask_family(struct abi_family_op op)
{
	struct abi_siginfo info = {.signo = 0};

	op.info = op.info ? op.info : &info;
	return sms_family(&op);
}

static s32 begin_child(void)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_FORK, .status = 1};

	return sms_family(&op) ? -1 : op.pid;
}

/* The shell with that script; the caller adds descriptors before. */
static s64 run_record(s32 pid, struct record *r, const char *path)
{
	s32 file = (s32)ask_family(
		(struct abi_family_op){.verb = ABI_FAMILY_EXEC_FILE});
	s64 rc = write(file, r->state, r->len) == (ssize_t)r->len ? 0 : -EIO;

	if (!rc)
		rc = ask_family((struct abi_family_op){.verb = ABI_FAMILY_SPAWN,
						       .pid = pid,
						       .handle = file,
						       .path = path});
	close(file);
	free(r->state);
	return rc;
}

static void add_script(struct record *r, const char *script)
{
	record_string(r, "sh", 1);
	record_string(r, "-c", 1);
	record_string(r, script, 1);
	record_string(r, "A=of the record", 0);
}

static struct record new_script(const char *script)
{
	struct record r = record_new("/");

	record_number(&r, 1, ABI_DESC_STREAM, out[1]);
	add_script(&r, script);
	return r;
}

/* Its status, when it has ended. */
static s32 wait_status(s32 pid)
{
	struct abi_siginfo info;
	struct abi_family_op op = {.verb = ABI_FAMILY_WAIT4, .pid = pid};
	siginfo_t end;

	op.info = &info;
	if (waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT))
		return -1;
	return sms_family(&op) == pid ? op.status : -1;
}

static const char *read_printed(void)
{
	static char text[512];
	ssize_t n = read(out[0], text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = 0;
	return text;
}

/* Runs a script in a new process; its status. */
static s32 run_script(struct record *r)
{
	s32 pid = begin_child();

	return pid > 0 && !run_record(pid, r, "/bin/sh") ? wait_status(pid)
							 : -1;
}

static void test_good(void)
{
	struct record r = new_script("echo $0 $A $PWD; umask; exit 3");
	s32 pid = begin_child();

	r.state->umask = 027;
	strcpy(r.state->cwd, "/usr");
	tap_ok(pid > 0 && begin_child() < 0,
	       "good: one process at a time waits to be a program");
	tap_ok(!run_record(pid, &r, "/bin/sh") && wait_status(pid) == 3 << 8 &&
		       !strcmp(read_printed(), "sh of the record /usr\n0027\n"),
	       "good: arguments, environment, folder, umask, status");
	r = new_script("ulimit -n; ulimit -Hn; kill -TERM $$; "
		       "kill -USR2 $$; echo alive; kill -USR1 $$; echo dead");
	r.state->blocked = 1ull << (SIGUSR2 - 1);
	r.state->limit[ABI_RLIMIT_NOFILE] = (struct abi_rlimit){50, 60};
	r.state->ignored = 1ull << (SIGTERM - 1);
	tap_ok(run_script(&r) == SIGUSR1 &&
		       !strcmp(read_printed(), "50\n60\nalive\n"),
	       "good: limits, and signals that are ignored or blocked");
}

/* Relative to this process, also after an execve that failed. */
static void test_priority(void)
{
	int wanted = getpriority(PRIO_PROCESS, 0) + 3;
	struct record r = new_script("exit 0");
	s32 pid = begin_child();
	char text[16];

	r.state->nice = 3;
	tap_ok(run_record(pid, &r, "/no/such") == -ENOENT,
	       "priority: of a program that is not there");
	r = new_script("nice");
	r.state->nice = 3;
	snprintf(text, sizeof(text), "%d\n", wanted < 19 ? wanted : 19);
	tap_ok(!run_record(pid, &r, "/bin/sh") && !wait_status(pid) &&
		       !strcmp(read_printed(), text),
	       "priority: as the program asked for");
}

/* Nothing of this process, and each number where the program had it. */
static void test_numbers(void)
{
	struct record r = record_new("/");
	int own = sms_own_add(eventfd(0, 0)), high;
	int plain = open("/dev/null", O_RDWR); /* as a leak of a library's */
	int file = memfd_create("file", MFD_CLOEXEC);
	char text[8] = "";

	high = fcntl(file, F_DUPFD, 20);
	record_number(&r, 1, ABI_DESC_STREAM, out[1]);
	record_number(&r, 4, ABI_DESC_FILE, high);
	strcpy(record_number(&r, 6, ABI_DESC_NULL, 0)->path, "/dev/null");
	record_number(&r, 7, ABI_DESC_EPOLL, plain);
	record_number(&r, 9, ABI_DESC_FILE, file);
	add_script(&r, "cd /proc/$$/fd && echo *; echo -n ab >&4; "
		       "echo -n cd >&9; cat <&6");
	/* 0 is the folder that the shell reads */
	tap_ok(!run_script(&r) && !strcmp(read_printed(), "0 1 4 6 9\n") &&
		       pread(file, text, 8, 0) == 4 && !strcmp(text, "abcd"),
	       "numbers: those of the record, and no other");
	tap_ok(sayings == 1 && strstr(said, "descriptor 7 is closed"),
	       "numbers: one that cannot be passed is named");
	close(plain);
	close(high);
	close(file);
	sms_own_close(own);
}

static void test_blocking(void)
{
	struct record r = record_new("/");
	int in[2];
	s32 pid = begin_child();

	must_pipe(in);
	record_number(&r, 0, ABI_DESC_STREAM, in[0]);
	record_number(&r, 1, ABI_DESC_STREAM, out[1]);
	add_script(&r, "cat /proc/self/fdinfo/0 | grep flags; cat; echo end");
	tap_ok(!run_record(pid, &r, "/bin/sh") && write(in[1], "x", 1) == 1 &&
		       (fcntl(in[0], F_GETFL) & O_NONBLOCK),
	       "blocking: this process's end still does not");
	close(in[0]);
	close(in[1]);
	tap_ok(!wait_status(pid) &&
		       !strcmp(read_printed(), "flags:\t0100000\nxend\n"),
	       "blocking: a program waits for its input");
}

static void test_errors(void)
{
	struct record r = new_script("exit 0");
	s32 pid = begin_child();

	tap_ok(run_record(pid, &r, "/no/such") == -ENOENT,
	       "errors: Linux's errno of execve");
	r = new_script("exit 0");
	strcpy(r.state->cwd, "/no/such");
	tap_ok(run_record(pid, &r, "/bin/sh") == -ENOENT,
	       "errors: a folder that is gone");
	r = new_script("exit 0");
	tap_ok(run_record(pid, &r, "/etc/passwd") == -EACCES,
	       "errors: no right to execute");
	r = record_new("/");
	record_number(&r, 1, ABI_DESC_STREAM, out[1]);
	record_number(&r, 5, ABI_DESC_STREAM, out[1]);
	add_script(&r, "exit 0");
	tap_ok(run_record(pid, &r, "/dev/null") == -EACCES,
	       "errors: no program");
	r = new_script("cd /proc/$$/fd && echo *; exit 5");
	tap_ok(!run_record(pid, &r, "/bin/sh") && wait_status(pid) == 5 << 8 &&
		       !strcmp(read_printed(), "0 1\n"),
	       "errors: afterwards the same process executes another one, "
	       "which has nothing of the first one");
	pid = begin_child();
	tap_ok(!ask_family((struct abi_family_op){.verb = ABI_FAMILY_ENDED,
						  .pid = pid,
						  .status = 7 << 8}) &&
		       wait_status(pid) == 7 << 8,
	       "errors: a child that executes nothing ends with its status");
	pid = begin_child();
	ask_family((struct abi_family_op){
		.verb = ABI_FAMILY_ENDED, .pid = pid, .status = SIGABRT});
	tap_ok((wait_status(pid) & 0x7f) == SIGABRT,
	       "errors: or by its signal");
}

/* A record that the image must not write; the process takes a good one then. */
static s64 run_bad(s32 pid, struct record r)
{
	return run_record(pid, &r, "/bin/sh");
}

static void test_hostile(void)
{
	int own = sms_own_add(memfd_create("own", MFD_CLOEXEC)), file;
	struct record r = new_script("exit 0");
	s32 pid = begin_child();

	r.state->head.numbers++;
	tap_ok(run_bad(pid, r) == -EINVAL,
	       "hostile: a number that is not there");
	r = new_script("exit 0");
	record_at(&r, 0)->desc.handle = own;
	tap_ok(run_bad(pid, r) == -EBADF,
	       "hostile: a descriptor of the proxy's");
	r = new_script("exit 0");
	record_at(&r, 0)->desc.handle = 1000;
	tap_ok(run_bad(pid, r) == -EBADF, "hostile: one that is not open");
	tap_ok(ask_family((struct abi_family_op){.verb = ABI_FAMILY_SPAWN,
						 .pid = pid,
						 .handle = own,
						 .path = "/"}) == -EBADF,
	       "hostile: a record that is the proxy's descriptor");
	file = memfd_create("huge", MFD_CLOEXEC);
	must_ok(!ftruncate(file, HELPER_RECORD_MAX + 1));
	tap_ok(ask_family((struct abi_family_op){.verb = ABI_FAMILY_SPAWN,
						 .pid = pid,
						 .handle = file,
						 .path = "/"}) == -E2BIG,
	       "hostile: one that is too large");
	close(file);
	r = new_script("exit 0");
	tap_ok(run_bad(pid + 1, r) == -ESRCH &&
		       run_bad(-1, new_script("")) == -ESRCH,
	       "hostile: another process");
	r = new_script("exit 4");
	tap_ok(!run_bad(pid, r) && wait_status(pid) == 4 << 8,
	       "hostile: none of them changed the process");
	sms_own_close(own);
}

static void test_signals(void)
{
	struct abi_siginfo info = {.signo = SIGTERM, .code = ABI_SI_QUEUE};
	struct record r = new_script("echo a; exec sleep 1000");
	struct abi_family_op op = {.verb = ABI_FAMILY_KILL, .status = 0};
	s32 pid = begin_child(), stranger = fork();

	if (!stranger)
		pause(), _exit(0);
	run_record(pid, &r, "/bin/sh");
	read_printed();
	/* only children that the program started */
	op.pid = getppid();
	tap_ok(sms_family(&op) == -ESRCH, "signals: not to other processes");
	op.pid = stranger;
	op.status = SIGKILL;
	tap_ok(sms_family(&op) == -ESRCH && !op.status &&
		       !waitid(P_PID, (id_t)stranger, &(siginfo_t){.si_pid = 0},
			       WEXITED | WNOHANG | WNOWAIT) &&
		       !kill(stranger, 0),
	       "signals: nor to a child of the proxy's own");
	op.pid = 0;
	op.status = 0;
	tap_ok(!sms_family(&op) && op.status == 1,
	       "signals: the program itself is in its group");
	op.pid = -1;
	op.status = 0;
	tap_ok(!sms_family(&op) && !op.status,
	       "signals: but not in all others");
	tap_ok(!ask_family((struct abi_family_op){
		       .verb = ABI_FAMILY_QUEUE, .pid = pid, .info = &info}) &&
		       wait_status(pid) == SIGTERM,
	       "signals: one with a value ends a child");
	info.signo = 0;
	tap_ok(ask_family((struct abi_family_op){.verb = ABI_FAMILY_QUEUE,
						 .pid = getppid(),
						 .info = &info}) == -ESRCH,
	       "signals: nor one with a value to others");
	op.pid = pid;
	op.status = 0;
	tap_ok(sms_family(&op) == -ESRCH, "signals: and then there is none");
	kill(stranger, SIGKILL);
	waitpid(stranger, NULL, 0);
}

static void test_groups(void)
{
	s32 pid = begin_child(), self = getpid();
	struct record r;

	tap_ok(ask_family((struct abi_family_op){.verb = ABI_FAMILY_PARENT,
						 .pid = pid}) == self &&
		       ask_family((struct abi_family_op){
			       .verb = ABI_FAMILY_PARENT}) == 1,
	       "groups: the program is the parent, and has none");
	tap_ok(ask_family((struct abi_family_op){.verb = ABI_FAMILY_SET_SESSION,
						 .pid = pid}) == pid &&
		       getsid(pid) == pid &&
		       ask_family((struct abi_family_op){
			       .verb = ABI_FAMILY_SESSION, .pid = pid}) == pid,
	       "groups: a session of the child's own");
	r = new_script("exit 2");
	tap_ok(!run_record(pid, &r, "/bin/sh") && wait_status(pid) == 2 << 8,
	       "groups: then it executes");
	tap_ok(ask_family((struct abi_family_op){.verb = ABI_FAMILY_GROUP,
						 .pid = 1}) == -ESRCH,
	       "groups: none of other processes");
}

int main(void)
{
	must_pipe(out);
	test_good();
	test_priority();
	test_numbers();
	test_blocking();
	test_errors();
	test_hostile();
	test_signals();
	test_groups();
	return tap_done();
}
