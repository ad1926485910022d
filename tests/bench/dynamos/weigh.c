// SPDX-License-Identifier: MIT
/*
 * What a call of a function costs that is counted in one way or another, in
 * instructions: marks around batches of operations, one interval for each, so
 * that a batch that something else interrupted can be recognized.
 *
 *   weigh set WAY MODULE     weigh.ko in one of its ways; see ways[]
 *   weigh clear WAY
 *   weigh run WAY OPERATION...  15 batches, marked 0 to 14, shared evenly by
 *                            the operations; for each it says how many a batch
 *                            has, and, where an update counts, how many calls
 *                            of its functions one makes
 *   weigh nothing            what exec starts
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <skep/mark.h>

#include "tests/vm/guest/dynamos_rival.h"
#include "tests/vm/guest/dynamos_use.h"

#define BATCHES 15
#define SHORT 64 /* of these calls one is timed */
#define LONG 2	 /* seldom meets the timer */
#define FUNCTIONS (sizeof(symbols) / sizeof(*symbols))
#define OPERATIONS (sizeof(operations) / sizeof(*operations))
#define PAGE 4096

static const char *const symbols[] = {
	"__x64_sys_brk",  "__x64_sys_kill",  "ksys_read",    "ksys_write",
	"do_sys_openat2", "handle_mm_fault", "kernel_clone", "__x64_sys_execve",
};

#define FRESH ((BATCHES + 1) * SHORT * PAGE)

static char page[PAGE];
static char *fresh;
static char copy[32]; /* of this program */
static int zero, null;

static void exit_failed(const char *what)
{
	fprintf(stderr, "weigh: %s: %s %s\n", what, strerror(errno), use_why);
	exit(1);
}

static void op_brk(void)
{
	syscall(SYS_brk, 0);
}

static void op_kill(void)
{
	syscall(SYS_kill, getpid(), 0);
}

static void op_read1(void)
{
	if (read(zero, page, 1) != 1)
		exit_failed("read");
}

static void op_read4k(void)
{
	if (read(zero, page, PAGE) != PAGE)
		exit_failed("read");
}

static void op_write1(void)
{
	if (write(null, page, 1) != 1)
		exit_failed("write");
}

static void op_write4k(void)
{
	if (write(null, page, PAGE) != PAGE)
		exit_failed("write");
}

static void op_open(void)
{
	close(open("/dev/null", O_RDONLY));
}

static void op_fault(void)
{
	*(volatile char *)fresh = 1;
	fresh += PAGE;
}

static void op_fork(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
}

static void op_exec(void)
{
	pid_t pid = vfork();

	if (!pid) {
		execl(copy, "weigh", "nothing", NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}

static const struct operation {
	const char *name;
	void (*run)(void);
	int batch;
} operations[] = {
	{"brk", op_brk, SHORT},	      {"kill", op_kill, SHORT},
	{"read1", op_read1, SHORT},   {"read4k", op_read4k, SHORT},
	{"write1", op_write1, SHORT}, {"write4k", op_write4k, SHORT},
	{"open", op_open, SHORT},     {"fault", op_fault, SHORT},
	{"fork", op_fork, LONG},      {"exec", op_exec, LONG},
};

/* In memory, because the host's files answer in their own time. */
static void copy_self(void)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = memfd_create("weigh", 0);
	struct stat is;

	if (from < 0 || to < 0 || fstat(from, &is) ||
	    sendfile(to, from, NULL, is.st_size) != is.st_size)
		exit_failed("a copy of the program");
	close(from);
	snprintf(copy, sizeof(copy), "/proc/self/fd/%d", to);
}

/* Alone on its processor, as far as that goes. */
static void prepare_process(void)
{
	struct sched_param high = {.sched_priority = 50};
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one) ||
	    sched_setscheduler(0, SCHED_FIFO, &high))
		exit_failed("the processor");
	copy_self();
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	fresh = mmap(NULL, FRESH, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (zero < 0 || null < 0 || fresh == MAP_FAILED)
		exit_failed("memory and files");
	madvise(fresh, FRESH, MADV_NOHUGEPAGE);
}

static const struct operation *chosen[BATCHES];

#define MARKED(n)                                                              \
	do {                                                                   \
		o = chosen[n];                                                 \
		SKEP_MARK_BEGIN(n);                                            \
		for (i = 0; o && i < o->batch; i++)                            \
			o->run();                                              \
		SKEP_MARK_END(n);                                              \
	} while (0)

static void measure_operations(void)
{
	const struct operation *o;
	int i;

	MARKED(0);
	MARKED(1);
	MARKED(2);
	MARKED(3);
	MARKED(4);
	MARKED(5);
	MARKED(6);
	MARKED(7);
	MARKED(8);
	MARKED(9);
	MARKED(10);
	MARKED(11);
	MARKED(12);
	MARKED(13);
	MARKED(14);
}

/* Of all functions, as the update counted them; 0 where none is loaded. */
static u64 count_calls(void)
{
	struct dynamos_count count;
	u64 sum = 0;
	u32 i;

	for (i = 0; i < FUNCTIONS && use_state(); i++)
		if (!use_count(i, 1, &count))
			sum += count.in;
	return sum;
}

static void warm_operation(const struct operation *o)
{
	u64 before = count_calls();
	int i;

	for (i = 0; i < o->batch; i++)
		o->run();
	printf("%d %.1f\n", o->batch,
	       (double)(count_calls() - before) / o->batch);
}

static void choose_operations(char **names, int count)
{
	int share = BATCHES / count, n, i;
	size_t o;

	for (n = 0; n < count; n++) {
		for (o = 0; o < OPERATIONS; o++)
			if (!strcmp(operations[o].name, names[n]))
				break;
		errno = EINVAL;
		if (o == OPERATIONS)
			exit_failed(names[n]);
		for (i = 0; i < share; i++)
			chosen[n * share + i] = &operations[o];
		warm_operation(&operations[o]);
	}
}

/* A program that says yes. */
static int load_program(void)
{
	const struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = 1},
		{.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT,
			       .insns = (unsigned long)code,
			       .insn_cnt = 2,
			       .license = (unsigned long)"GPL"};
	int fd = syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));

	if (fd < 0)
		exit_failed("bpf");
	return fd;
}

static void set_policy(const char *way)
{
	struct dynamos_policy policy;

	use_only(&policy, getpid());
	if (strstr(way, "terms")) {
		policy.rule[0].terms |=
			DYNAMOS_UID | DYNAMOS_GID | DYNAMOS_COMM;
		strcpy(policy.rule[0].comm, "weigh");
	} else if (strstr(way, "share")) {
		policy.rule[0].terms = DYNAMOS_SHARE;
		policy.rule[0].share = 65536;
	} else if (strstr(way, "program")) {
		policy.rule[0].terms = DYNAMOS_PROGRAM;
		policy.rule[0].program = load_program();
	} else {
		return;
	}
	if (use_policy(&policy))
		exit_failed("policy");
}

/* By a process of its own that lives as long as this one: what it needs for
 * that would make each fork of this one dearer. */
static void attach_bpf(void)
{
	int ready[2];
	size_t i;
	char c;

	if (pipe(ready))
		exit_failed("pipe");
	if (fork()) {
		close(ready[1]);
		if (read(ready[0], &c, 1) != 1)
			exit_failed("bpf");
		close(ready[0]);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rival_begin();
	for (i = 0; i < FUNCTIONS; i++)
		if ((errno = -rival_bpf(symbols[i], 0)) ||
		    (errno = -rival_bpf(symbols[i], 1)))
			exit_failed(symbols[i]);
	if (write(ready[1], "", 1) != 1)
		exit_failed("pipe");
	for (;;)
		pause();
}

/* The probes end with this process. */
static void attach_probes(u32 flags)
{
	struct dynamos_probe probe;
	size_t i;
	int fd = open("/dev/dynamos", O_RDWR | O_CLOEXEC);

	for (i = 0; i < FUNCTIONS; i++) {
		memset(&probe, 0, sizeof(probe));
		probe.revision = DYNAMOS_REVISION;
		probe.flags = flags;
		strcpy(probe.symbol, symbols[i]);
		if (fd < 0 || ioctl(fd, DYNAMOS_IOC_PROBE, &probe))
			exit_failed(symbols[i]);
	}
}

static void run_way(const char *way, char **names, int count)
{
	prepare_process();
	use_begin("");
	use_turn("dynamos_weigh", "");
	set_policy(way);
	if (!strcmp(way, "bpf"))
		attach_bpf();
	if (!strncmp(way, "probe", 5))
		attach_probes(strstr(way, "each") ? DYNAMOS_PROBE_EACH : 0);
	choose_operations(names, count);
	measure_operations();
}

static void set_share(const char *way)
{
	int fd = open("/sys/module/dynamos/parameters/share",
		      O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, strstr(way, "ipmodify") ? "Y" : "N", 1) != 1)
		exit_failed("share");
	close(fd);
}

/* None, bpf and probes need no module. */
static const struct {
	const char *way, *how;
} ways[] = {
	{"direct", "update class=1"},
	{"direct-terms", "update class=1"},
	{"direct-share", "update class=1"},
	{"direct-program", "update class=1"},
	{"task", "update class=2"},
	{"ipmodify", "update class=1"},
	{"ipmodify-terms", "update class=1"},
	{"together", "update class=4"},
	{"livepatch", "livepatch"},
	{"kprobe", "kprobe"},
	{"kretprobe", "kretprobe"},
};

static const char *how_of(const char *way)
{
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (!strcmp(ways[i].way, way))
			return ways[i].how;
	return NULL;
}

static void set_way(const char *way, const char *module)
{
	struct dynamos_apply apply;
	const char *how = how_of(way);

	if (!how)
		return;
	use_begin(module);
	use_turn("dynamos_weigh", module);
	set_share(way);
	errno = -use_load(how);
	if (errno)
		exit_failed(how);
	if (strncmp(how, "update", 6))
		return;
	memset(&apply, 0, sizeof(apply));
	apply.policy.otherwise = 1;
	errno = -use_apply(&apply);
	if (errno || use_until(DYNAMOS_TRIAL))
		exit_failed("apply");
}

static const struct timespec soon = {.tv_nsec = 50 * 1000 * 1000};

/* Whether a function is hooked, but the one that dynamos.ko always probes. */
static int any_hooked(const char *text)
{
	while (!strncmp(text, "vprintk_store ", 14))
		text = strchr(text, '\n') + 1;
	return *text != '\0';
}

/* Hooks leave after their module: the next way must not find any. */
static void await_unhooked(void)
{
	static const char at[] = "/sys/kernel/tracing/enabled_functions";
	char text[PAGE];
	ssize_t got;
	int fd, i, n = 1;

	rival_begin(); /* it mounts tracefs */
	for (i = 0; n && i < 1200; i++) {
		fd = open(at, O_RDONLY);
		if (fd < 0)
			exit_failed(at);
		got = read(fd, text, sizeof(text) - 1);
		close(fd);
		if (got < 0)
			exit_failed(at);
		text[got] = '\0';
		n = any_hooked(text);
		if (n)
			nanosleep(&soon, NULL);
	}
	errno = ETIMEDOUT;
	if (n)
		exit_failed("functions that stay hooked");
}

static void clear_way(const char *way)
{
	const char *how = how_of(way);
	int i;

	if (!strncmp(way, "probe", 5))
		await_unhooked();
	if (!how)
		return;
	use_begin("");
	use_turn("dynamos_weigh", "");
	if (!strncmp(how, "update", 6) &&
	    (use_revert() || use_until(DYNAMOS_LOADED)))
		exit_failed("revert");
	if (!strcmp(how, "livepatch")) {
		int fd = open("/sys/kernel/livepatch/dynamos_weigh/enabled",
			      O_WRONLY | O_CLOEXEC);

		if (fd < 0 || write(fd, "0", 1) != 1)
			exit_failed("livepatch");
		close(fd);
	}
	for (i = 0; i < 1200; i++) {
		errno = -use_unload();
		if (!errno)
			break;
		nanosleep(&soon, NULL);
	}
	if (errno)
		exit_failed("unload");
	await_unhooked();
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "nothing"))
		_exit(0);
	if (argc == 4 && !strcmp(argv[1], "set"))
		set_way(argv[2], argv[3]);
	else if (argc == 3 && !strcmp(argv[1], "clear"))
		clear_way(argv[2]);
	else if (argc > 3 && argc - 3 <= BATCHES && !strcmp(argv[1], "run"))
		run_way(argv[2], argv + 3, argc - 3);
	else
		return 2;
	return 0;
}
