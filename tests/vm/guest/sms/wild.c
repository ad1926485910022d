// SPDX-License-Identifier: MIT
/*
 * A hostile program: makes each system call that sms serves many times, with
 * arguments that are right by their kind in one place and wild in the next:
 * addresses of the kernel, of the mailbox and of nobody, ends of pages,
 * structures of random words. A call may well end this program; who runs it
 * reads in LOG how far it came and runs it again from the next call on.
 *
 * usage: sms_wild TABLE LOG FROM ROUNDS
 *
 * TABLE is abi/syscalls.tbl. Before call number FROM, FROM + 1, ... of those
 * that are served, LOG gets "begin INDEX NAME", and after the last one "all".
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

typedef unsigned long u64;

#define CALLS 512
#define AREA 65536ul
#define PAGE 4096ul
#define WORDS 64
#define CANNOT 9	  /* the exit status when it cannot go on */
#define KICK_US 20000	  /* what waits is interrupted so often */
#define STUCK_KICKS 500ul /* a call that ignores so many has not ended */

static struct call {
	u64 number;
	char name[32];
	char args[64];
} calls[CALLS];
static u64 count;

static u64 state;
static u64 turn; /* calls made; atomic */
static int process, thread;
static const char *log_path, *name_now;
static char *area;  /* AREA bytes, then a page that is not mapped */
static char *fixed; /* a page that is only readable, then one that is not */
static char long_name[6000];

/* Without errno, since a call may have moved the thread's own data. */
static long call_raw(u64 n, const u64 *a)
{
	register u64 r10 __asm__("r10") = a[3];
	register u64 r8 __asm__("r8") = a[4];
	register u64 r9 __asm__("r9") = a[5];
	long rc;

	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "a"(n), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10),
			   "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return rc;
}

#define RAW(n, ...) call_raw(n, (u64[6]){__VA_ARGS__})

static u64 random_word(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dul;
}

static u64 random_below(u64 sides)
{
	return (random_word() >> 11) % sides;
}

static u64 pick_value(const u64 *from, u64 n)
{
	return from[random_below(n)];
}

#define PICK(...)                                                              \
	pick_value((u64[]){__VA_ARGS__},                                       \
		   sizeof((u64[]){__VA_ARGS__}) / sizeof(u64))

/* The addresses are those of docs/design/sms.md. */
static u64 wild_value(void)
{
	return PICK(0, 1, 7, ~0ul, 1ul << 31, 0x7fffffff, 0xffffffff, 1ul << 32,
		    1ul << 47, (1ul << 47) - 1, (1ul << 47) - PAGE,
		    0x7ffff6fff000, 0x7ffff7000000, 0x400000, 0x200000000000,
		    0xffff800000000000, 0xffffffff80000000, 0xffffffffc0000000,
		    0xffffffffd0000000, 0xffffffffe0000000, 0xfffffffffee00000,
		    -PAGE, 1ul << 63, ~0ul >> 1, 0x1000000000000000,
		    random_word());
}

static u64 some_address(void)
{
	u64 end = (u64)area + AREA;

	return PICK((u64)area, (u64)area + 8 * random_below(WORDS),
		    (u64)area + PAGE, end - 8 * random_below(WORDS), end - 1,
		    end - 8, end, (u64)fixed, (u64)fixed + PAGE - 4,
		    (u64)fixed + PAGE, (u64)&some_address);
}

/* What the call may read there. A mask of signals never holds SIGUSR1. */
static void fill_words(char *at)
{
	u64 i, word;

	for (i = 0; i < WORDS; i++) {
		switch (random_below(4)) {
		case 0:
			word = random_below(16);
			break;
		case 1:
			word = some_address();
			break;
		case 2:
			word = wild_value();
			break;
		default:
			word = random_word();
		}
		((u64 *)at)[i] = word & ~(1ul << (SIGUSR1 - 1));
	}
}

static u64 some_name(void)
{
	static const char *const names[] = {"f",
					    "d",
					    ".",
					    "..",
					    "d/x",
					    "f/",
					    "",
					    "no",
					    "/proc/self/maps",
					    "/proc/self/fd/3",
					    "/dev/fd/4",
					    "/proc/self",
					    long_name};

	return (u64)names[random_below(sizeof(names) / sizeof(*names))];
}

static u64 some_number(void)
{
	return PICK(random_below(4), random_below(16), random_below(64),
		    random_below(1100), 1ul << random_below(32),
		    1ul << random_below(64), PAGE, AREA, 0x5401, 0x5413, 0x541b,
		    0x5421);
}

/* `kind` is a word of the table's last column. */
static u64 some_argument(const char *kind)
{
	if (!random_below(4))
		return wild_value();
	if (!strncmp(kind, "fd", 2))
		return random_below(8) ? random_below(16) : (u64)AT_FDCWD;
	if (!strncmp(kind, "str", 3))
		return random_below(4) ? some_name() : some_address();
	if (!strncmp(kind, "ptr", 3))
		return some_address();
	return random_below(8) ? some_number() : some_address();
}

static void fill_arguments(const struct call *c, u64 *a)
{
	const char *kind = c->args;
	int i;

	for (i = 0; i < 6; i++) {
		a[i] = some_argument(kind);
		while (*kind && *kind != ',')
			kind++;
		kind += *kind == ',';
	}
}

/* Appends to the log, of which no descriptor stays open. */
static void write_log(const char *line, u64 len)
{
	long fd;

	RAW(SYS_close_range, 16, ~0u);
	fd = RAW(SYS_open, (u64)log_path, O_WRONLY | O_APPEND);
	if (fd < 0 || RAW(SYS_write, (u64)fd, (u64)line, len) != (long)len)
		RAW(SYS_exit_group, CANNOT);
	RAW(SYS_close, (u64)fd);
}

static void note_line(const char *what, u64 index, const char *name)
{
	static char line[80];

	write_log(line, (u64)snprintf(line, sizeof(line), "%s %lu %s\n", what,
				      index, name));
}

static void be_kicked(int sig)
{
	(void)sig;
}

/* A call may have blocked the signal or taken its handler. */
static void hear_kicks(void)
{
	static const u64 none;
	static const struct sigaction act = {.sa_handler = be_kicked};

	RAW(SYS_rt_sigprocmask, SIG_SETMASK, (u64)&none, 0, 8);
	sigaction(SIGUSR1, &act, NULL);
}

/* The second thread: interrupts what waits. */
static void *kick_main(void *arg)
{
	u64 seen = 0, now, kicks = 0;

	for (;;) {
		usleep(KICK_US);
		now = __atomic_load_n(&turn, __ATOMIC_SEQ_CST);
		kicks = now == seen ? kicks + 1 : 0;
		seen = now;
		if (kicks > STUCK_KICKS) {
			note_line("stuck", now, name_now);
			RAW(SYS_exit_group, CANNOT);
		}
		if (kicks &&
		    RAW(SYS_tgkill, (u64)process, (u64)thread, SIGUSR1) < 0)
			RAW(SYS_exit_group, CANNOT); /* it has exited */
	}
	return arg;
}

/* A child of vfork has its parent's stack, so it may not go on as the parent
 * does: it executes with wild arguments, then ends. */
static void end_child(void)
{
	static const struct call run = {.args = "str,ptr,ptr"};
	static u64 a[6];

	if (RAW(SYS_getpid) == process)
		return;
	fill_arguments(&run, a);
	call_raw(SYS_execve, a);
	RAW(SYS_exit_group, 0);
}

static void make_calls(u64 index, u64 rounds)
{
	const struct call *c = &calls[index];
	u64 a[6];

	name_now = c->name;
	note_line("begin", index, c->name);
	while (rounds--) {
		hear_kicks();
		fill_words(area);
		fill_words(area + AREA - WORDS * 8);
		fill_arguments(c, a);
		call_raw(c->number, a);
		end_child();
		__atomic_fetch_add(&turn, 1, __ATOMIC_SEQ_CST);
	}
}

static int read_table(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[256], route[16];
	struct call *c;

	while (f && fgets(line, sizeof(line), f) && count < CALLS) {
		c = &calls[count];
		if (sscanf(line, "%lu %*s %31s %15s %63s", &c->number, c->name,
			   route, c->args) == 4 &&
		    (!strcmp(route, "core") || !strcmp(route, "host")))
			count++;
	}
	return f ? fclose(f) : -1;
}

/* Descriptors 3 to 15, of each kind. */
static void open_all(void)
{
	int fds[2];

	mkdir("d", 0700);
	open("f", O_RDWR | O_CREAT, 0600);
	open(".", O_RDONLY | O_DIRECTORY);
	open("/proc/self/maps", O_RDONLY);
	if (pipe(fds) || socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		exit(CANNOT);
	socket(AF_INET, SOCK_STREAM, 0);
	socket(AF_INET, SOCK_DGRAM, 0);
	epoll_create1(0);
	eventfd(0, 0);
	timerfd_create(CLOCK_MONOTONIC, 0);
	open("/dev/zero", O_RDWR);
}

static char *map_bytes(u64 len, int prot)
{
	char *at = mmap(NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		exit(CANNOT);
	return at;
}

int main(int argc, char **argv)
{
	pthread_t helper;
	u64 i;

	if (argc != 5 || read_table(argv[1]))
		return 2;
	log_path = argv[2];
	i = strtoul(argv[3], NULL, 10);
	state = i * 2654435761ul + 88172645463325252ul;
	memset(long_name, 'n', sizeof(long_name) - 1);
	area = map_bytes(AREA + PAGE, PROT_READ | PROT_WRITE);
	munmap(area + AREA, PAGE);
	fixed = map_bytes(2 * PAGE, PROT_READ);
	mprotect(fixed + PAGE, PAGE, PROT_NONE);
	open_all();
	process = getpid();
	thread = (int)syscall(SYS_gettid);
	if (pthread_create(&helper, NULL, kick_main, NULL))
		return CANNOT;
	for (; i < count; i++)
		make_calls(i, strtoul(argv[4], NULL, 10));
	note_line("all", count, "");
	RAW(SYS_exit_group, 0);
}
