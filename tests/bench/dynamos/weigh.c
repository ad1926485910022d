// SPDX-License-Identifier: MIT
/*
 * What a call of a function costs that is counted in one way or another, in
 * instructions: marks around batches of calls, one interval for each batch, so
 * that batches without an interrupt can be told from the others.
 *
 *   weigh set WAY MODULE     weigh.ko in one of its ways; see ways[]
 *   weigh clear WAY
 *   weigh run WAY OPERATION  15 batches of 20, marked 0 to 14
 *   weigh nothing            what exec starts
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <skep/mark.h>

#include "tests/vm/guest/dynamos_rival.h"
#include "tests/vm/guest/dynamos_use.h"

#define BATCH 20
#define PAGE 4096

static const char *const symbols[] = {
	"__x64_sys_brk",  "__x64_sys_kill",  "ksys_read",    "ksys_write",
	"do_sys_openat2", "handle_mm_fault", "kernel_clone", "__x64_sys_execve",
};

static char page[PAGE];
static char *fresh;
static int zero, null;

static void fail(const char *what)
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
		fail("read");
}

static void op_read4k(void)
{
	if (read(zero, page, PAGE) != PAGE)
		fail("read");
}

static void op_write1(void)
{
	if (write(null, page, 1) != 1)
		fail("write");
}

static void op_write4k(void)
{
	if (write(null, page, PAGE) != PAGE)
		fail("write");
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
		execl("/proc/self/exe", "weigh", "nothing", NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} operations[] = {
	{"brk", op_brk},       {"kill", op_kill},     {"read1", op_read1},
	{"read4k", op_read4k}, {"write1", op_write1}, {"write4k", op_write4k},
	{"open", op_open},     {"fault", op_fault},   {"fork", op_fork},
	{"exec", op_exec},
};

/* Alone on its processor, as far as that goes. */
static void prepare(void)
{
	struct sched_param high = {.sched_priority = 50};
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (sched_setaffinity(0, sizeof(one), &one) ||
	    sched_setscheduler(0, SCHED_FIFO, &high))
		fail("the processor");
	zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	fresh = mmap(NULL, 1024 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (zero < 0 || null < 0 || fresh == MAP_FAILED)
		fail("memory and files");
	madvise(fresh, 1024 * PAGE, MADV_NOHUGEPAGE);
}

#define MARKED(n)                                                              \
	do {                                                                   \
		SKEP_MARK_BEGIN(n);                                            \
		for (i = 0; i < BATCH; i++)                                    \
			run();                                                 \
		SKEP_MARK_END(n);                                              \
	} while (0)

static void measure(void (*run)(void))
{
	int i;

	for (i = 0; i < BATCH; i++)
		run();
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

static void run(const char *way, const char *operation)
{
	struct dynamos_policy policy;
	size_t i;

	prepare();
	use_begin("");
	use_turn("dynamos_weigh", "");
	if (strstr(way, "terms")) {
		use_only(&policy, getpid());
		policy.rule[0].terms |=
			DYNAMOS_UID | DYNAMOS_GID | DYNAMOS_COMM;
		strcpy(policy.rule[0].comm, "weigh");
		if (use_policy(&policy))
			fail("policy");
	}
	if (!strcmp(way, "bpf")) {
		rival_begin();
		for (i = 0; i < sizeof(symbols) / sizeof(*symbols); i++)
			if ((errno = -rival_bpf(symbols[i], 0)) ||
			    (errno = -rival_bpf(symbols[i], 1)))
				fail(symbols[i]);
	}
	for (i = 0; i < sizeof(operations) / sizeof(*operations); i++)
		if (!strcmp(operations[i].name, operation)) {
			measure(operations[i].run);
			return;
		}
	errno = EINVAL;
	fail(operation);
}

static void share(const char *way)
{
	int fd = open("/sys/module/dynamos/parameters/share",
		      O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, strstr(way, "ipmodify") ? "Y" : "N", 1) != 1)
		fail("share");
	close(fd);
}

/* None and bpf need no module. */
static const struct {
	const char *way, *how;
} ways[] = {
	{"direct", "update class=1"},	{"direct-terms", "update class=1"},
	{"ipmodify", "update class=1"}, {"ipmodify-terms", "update class=1"},
	{"together", "update class=4"}, {"livepatch", "livepatch"},
	{"kprobe", "kprobe"},		{"kretprobe", "kretprobe"},
};

static const char *how_of(const char *way)
{
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (!strcmp(ways[i].way, way))
			return ways[i].how;
	return NULL;
}

static void set(const char *way, const char *module)
{
	struct dynamos_apply apply;
	const char *how = how_of(way);

	if (!how)
		return;
	use_begin(module);
	use_turn("dynamos_weigh", module);
	share(way);
	errno = -use_load(how);
	if (errno)
		fail(how);
	if (strncmp(how, "update", 6))
		return;
	memset(&apply, 0, sizeof(apply));
	apply.policy.otherwise = 1;
	errno = -use_apply(&apply);
	if (errno || use_until(DYNAMOS_TRIAL))
		fail("apply");
}

static void clear(const char *way)
{
	const char *how = how_of(way);
	struct timespec t = {.tv_nsec = 50 * 1000 * 1000};
	int i;

	if (!how)
		return;
	use_begin("");
	use_turn("dynamos_weigh", "");
	if (!strncmp(how, "update", 6) &&
	    (use_revert() || use_until(DYNAMOS_LOADED)))
		fail("revert");
	if (!strcmp(how, "livepatch")) {
		int fd = open("/sys/kernel/livepatch/dynamos_weigh/enabled",
			      O_WRONLY | O_CLOEXEC);

		if (fd < 0 || write(fd, "0", 1) != 1)
			fail("livepatch");
		close(fd);
	}
	for (i = 0; i < 1200; i++) {
		errno = -use_unload();
		if (!errno)
			return;
		nanosleep(&t, NULL);
	}
	fail("unload");
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "nothing"))
		_exit(0);
	if (argc == 4 && !strcmp(argv[1], "set"))
		set(argv[2], argv[3]);
	else if (argc == 3 && !strcmp(argv[1], "clear"))
		clear(argv[2]);
	else if (argc == 4 && !strcmp(argv[1], "run"))
		run(argv[2], argv[3]);
	else
		return 2;
	return 0;
}
