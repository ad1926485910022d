// SPDX-License-Identifier: MIT
/*
 * A worker for the agent's tests: speaks session.h by hand and does, by
 * function number, what good and bad workers do. `out` guards the stream's
 * sending side, which the pinging thread shares.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <skep/session.h>

#include "base/sha256.h"

#define NR_BEE 0xBEE

enum function {
	ECHO,
	ABORT,
	SILENT,
	COMPUTE, /* for ever, but alive */
	SPEAK,	 /* lines on both output streams, then as ECHO */
	FORK,	 /* leaves processes that nobody waits for, then as COMPUTE */
	EXIT,
	STATE, /* what Initialize left, then the arguments */
	COUNT, /* of calls in this process, and its number */
	LIE,   /* a proof that is none */
	FAIL,  /* an ERROR frame */
	INITIALIZE,
	POISON, /* writes to all files of the directory that it is given */
	TAMPER, /* writes to what Initialize got, by each way there is */
	DEAF,
	CONSUME, /* "memory BYTES" and so on, then as COMPUTE; or "limit", which
		    says the limit of processes that the program began with */
	ATTACK, /* what its arguments name, one thing a line; says errno of each
		 */
	LATE,	/* output that stdio holds until exit, then as ECHO */
	FUNCTIONS,
};

static int stream;
static pthread_mutex_t out = PTHREAD_MUTEX_INITIALIZER;
static volatile int busy, liar;
static u64 received, acked;
static u8 *state;
static struct rlimit first_limit; /* of processes, when main() began */
static char init_path[4096];
static u64 state_len;
static u64 calls;

static void exit_worker(const char *why)
{
	fprintf(stderr, "worker: %s\n", why);
	exit(9);
}

static void read_all(void *p, u64 len)
{
	ssize_t n;

	while (len) {
		n = read(stream, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			exit(0);
		p = (u8 *)p + n;
		len -= (u64)n;
	}
}

static void write_all(const void *p, u64 len)
{
	ssize_t n;

	while (len) {
		n = write(stream, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			exit(0);
		p = (const u8 *)p + n;
		len -= (u64)n;
	}
}

static void send_frame(u16 type, u16 flags, u64 call, const void *p, u32 len)
{
	struct skep_frame f = {len, type, flags, call};

	pthread_mutex_lock(&out);
	write_all(&f, sizeof(f));
	write_all(p, len);
	pthread_mutex_unlock(&out);
}

static void send_data(u64 call, const u8 *p, u64 len)
{
	u64 part;

	do {
		part = len < SKEP_FRAME_MAX ? len : SKEP_FRAME_MAX;
		len -= part;
		send_frame(SKEP_DATA, len ? 0 : SKEP_LAST, call, p, (u32)part);
		p += part;
	} while (len);
}

static void send_ack(u64 least)
{
	if (received - acked < least)
		return;
	acked = received;
	send_frame(SKEP_ACK, 0, 0, &received, sizeof(received));
}

/* HELLO and ACK do not count. */
static void *next_frame(struct skep_frame *f)
{
	u8 *p;

	read_all(f, sizeof(*f));
	if (f->length > SKEP_FRAME_MAX)
		exit_worker("a frame that is too long");
	p = malloc(f->length + 1);
	read_all(p, f->length);
	if (f->type != SKEP_HELLO && f->type != SKEP_ACK)
		received += sizeof(*f) + f->length;
	send_ack(SKEP_ACK_EVERY);
	return p;
}

static u8 *receive_data(u64 call, u64 len)
{
	struct skep_frame f;
	u8 *all = malloc(len + 1), *p;
	u64 got = 0;

	do {
		p = next_frame(&f);
		if (f.type == SKEP_DATA && f.call == call) {
			if (f.length > len - got)
				exit_worker("more arguments than promised");
			memcpy(all + got, p, f.length);
			got += f.length;
		}
		free(p);
	} while (f.type != SKEP_DATA || !(f.flags & SKEP_LAST));
	if (got != len)
		exit_worker("fewer arguments than promised");
	return all;
}

static struct skep_proof make_proof(void)
{
	struct skep_proof p = {0, 0};

	if (syscall(NR_BEE, 0) != NR_BEE)
		return p;
	p.nonce = (u64)syscall(NR_BEE, 1);
	p.calls = (u64)syscall(NR_BEE, 2);
	if (liar)
		p.nonce++;
	return p;
}

static void send_result(u64 call, const void *p, u64 len)
{
	struct skep_result r = {.length = len, .exec_ns = 1};

	r.proof = make_proof();
	send_frame(SKEP_RESULT, 0, call, &r, sizeof(r));
	send_data(call, p, len);
}

static void *send_pings(void *none)
{
	for (;;) {
		sleep(1);
		if (busy)
			send_frame(SKEP_PING, 0, 0, none, 0);
	}
	return NULL;
}

static void wait_forever(void)
{
	for (;;)
		pause();
}

static void fork_away(void)
{
	if (!fork()) {
		setsid();
		if (!fork())
			wait_forever();
		_exit(0);
	}
	if (!fork())
		wait_forever();
	wait_forever();
}

static void print_lines(void)
{
	int i;

	printf("a line on standard output\n");
	fflush(stdout);
	fprintf(stderr, "a line on standard error\n");
	for (i = 0; i < 20000; i++)
		fputc('x', stderr);
	fputc('\n', stderr);
}

static void print_flood(const u8 *args, u64 len)
{
	char text[32];
	int i, n = 0;

	snprintf(text, sizeof(text), "%.*s", (int)len, (const char *)args);
	if (sscanf(text, "flood %d", &n) != 1)
		return;
	for (i = 1; i <= n; i++)
		printf("line %d of the flood\n", i);
	fflush(stdout);
}

static void send_refusal(u64 call, u32 code, const char *text)
{
	struct {
		struct skep_error e;
		char text[16];
	} f = {{code, (u32)strlen(text)}, ""};

	memcpy(f.text, text, f.e.text);
	send_frame(SKEP_ERROR, 0, call, &f, (u32)sizeof(f.e) + f.e.text);
}

static void with_state(u64 call, const u8 *args, u64 len)
{
	u8 *all = malloc(state_len + len + 1);

	memcpy(all, state, state_len);
	memcpy(all + state_len, args, len);
	send_result(call, all, state_len + len);
	free(all);
}

static void report_count(u64 call)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%llu %d", ++calls, getpid());

	send_result(call, text, (u64)n);
}

static int write_to(const char *path)
{
	int f, done;

	chmod(path, 0700);
	f = open(path, O_RDWR);
	done = pwrite(f, "poison", 6, 0) == 6;
	close(f);
	return done;
}

/* As a worker can that means no good: the cache has the same owner. */
static void poison_files(u64 call, const u8 *args, u64 len)
{
	char dir[4096], path[8192], text[32];
	struct dirent *e;
	int n = 0;
	DIR *d;

	snprintf(dir, sizeof(dir), "%.*s", (int)len, (const char *)args);
	d = opendir(dir);
	if (!d)
		n = write_to(dir);
	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		n += write_to(path);
	}
	send_result(call, text, (u64)snprintf(text, sizeof(text), "%d", n));
}

static void tamper_file(u64 call)
{
	int f = open(init_path, O_RDWR), own = f < 0 ? -1 : f;
	char text[64];
	int ways = 0;

	ways += pwrite(own, "x", 1, 0) == 1;
	ways += pwrite(4, "x", 1, 0) == 1;
	ways += ftruncate(own, 1) == 0;
	ways += mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0) !=
		MAP_FAILED;
	lseek(4, 3, SEEK_SET);
	send_result(call, text,
		    (u64)snprintf(text, sizeof(text), "%d of %s", ways,
				  own < 0 ? "none" : "four"));
}

static void consume_memory(long long n, int processes)
{
	char *p = malloc((size_t)n);

	memset(p, 1, (size_t)n);
	while (--processes > 0 && fork())
		;
}

static void consume_disk(long long n, int hidden)
{
	static char part[1 << 16];
	int fd;

	mkdir("folder", 0700);
	fd = open("folder/file", O_CREAT | O_WRONLY, 0600);
	if (hidden)
		unlink("folder/file");
	memset(part, 1, sizeof(part));
	for (; n > 0; n -= (long long)sizeof(part))
		if (write(fd, part, sizeof(part)) < 0)
			exit_worker("the disk takes no more");
}

static void fork_child(void)
{
	clock_t end = CLOCKS_PER_SEC / 20;

	if (fork()) {
		wait(NULL);
		return;
	}
	while (clock() < end)
		;
	_exit(0);
}

/* One at a time: the pipe ends with it. */
static void fork_orphan(void)
{
	int ends[2];
	char none;

	if (pipe(ends))
		exit_worker("no pipe");
	if (!fork()) {
		if (!fork()) {
			while (clock() < CLOCKS_PER_SEC / 20)
				;
		}
		_exit(0);
	}
	close(ends[1]);
	while (read(ends[0], &none, 1) > 0)
		;
	close(ends[0]);
	wait(NULL);
}

static void *sleep_forever(void *none)
{
	for (;;)
		pause();
	return none;
}

static void consume_threads(long long n)
{
	pthread_t thread;

	while (n-- > 0)
		if (pthread_create(&thread, NULL, sleep_forever, NULL))
			exit_worker("no more threads");
}

static void consume_resource(const u8 *args, u64 len)
{
	char text[128], what[32];
	long long n = 0;

	snprintf(text, sizeof(text), "%.*s", (int)len, (const char *)args);
	if (sscanf(text, "%31s %lld", what, &n) != 2)
		exit_worker("what is to be consumed?");
	if (!strcmp(what, "memory"))
		consume_memory(n, 1);
	if (!strcmp(what,
		    "shared")) /* by eight processes, none of which writes */
		consume_memory(n, 8);
	if (!strcmp(what, "disk"))
		consume_disk(n, 0);
	if (!strcmp(what, "hidden"))
		consume_disk(n, 1);
	if (!strcmp(what, "threads"))
		consume_threads(n);
	while (!strcmp(what, "processes") && n-- > 0 && fork())
		;
	while (!strcmp(what, "cpu"))
		n++;
	while (!strcmp(what, "heirs")) /* short ones, one after another */
		fork_child();
	while (!strcmp(what, "orphans")) /* the same, whose parent ends first */
		fork_orphan();
}

/* "tick MILLISECONDS" of the processor, then as ECHO. */
static void spin_cpu(const u8 *args, u64 len)
{
	char text[128];
	int ms = 0;
	clock_t end;

	snprintf(text, sizeof(text), "%.*s", (int)len, (const char *)args);
	if (sscanf(text, "tick %d", &ms) != 1)
		return;
	end = clock() + ms * (CLOCKS_PER_SEC / 1000);
	while (clock() < end)
		;
}

static int attack_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? errno : 0;
}

/* @name is an abstract one. */
static int attack_connect(const char *name)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), err;
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
				    strlen(name));

	if (fd < 0)
		return errno;
	strncpy(to.sun_path, name, sizeof(to.sun_path) - 1);
	if (*name == '@')
		to.sun_path[0] = 0;
	else
		len = sizeof(to);
	err = connect(fd, (struct sockaddr *)&to, len) ? errno : 0;
	close(fd);
	return err;
}

static int attack_proc(int pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	return attack_open(path, O_RDONLY);
}

static int result_of(long r)
{
	return r < 0 ? errno : 0;
}

static int try_attack(const char *what, const char *on)
{
	int pid = atoi(on);

	if (!strcmp(what, "read"))
		return attack_open(on, O_RDONLY);
	if (!strcmp(what, "write"))
		return attack_open(on, O_WRONLY);
	if (!strcmp(what, "create"))
		return attack_open(on, O_WRONLY | O_CREAT);
	if (!strcmp(what, "chmod"))
		return result_of(chmod(on, 0600));
	if (!strcmp(what, "connect"))
		return attack_connect(on);
	if (!strcmp(what, "signal"))
		return result_of(kill(pid, 0));
	if (!strcmp(what, "proc"))
		return attack_proc(pid);
	if (!strcmp(what, "ptrace"))
		return result_of(ptrace(PTRACE_SEIZE, pid, 0, 0));
	if (!strcmp(what, "kcmp"))
		return result_of(syscall(SYS_kcmp, getpid(), pid, 0, 0, 0));
	if (!strcmp(what, "limit"))
		return result_of(syscall(SYS_prlimit64, pid, 7, NULL, NULL));
	return -1;
}

static void try_attacks(u64 call, const u8 *args, u64 len)
{
	char *script = strndup((const char *)args, len), *all = NULL, *line;
	size_t size;
	FILE *f = open_memstream(&all, &size);
	char what[64], on[512];

	for (line = strtok(script, "\n"); line; line = strtok(NULL, "\n"))
		if (sscanf(line, "%63s %511s", what, on) == 2)
			fprintf(f, "%s %d\n", line, try_attack(what, on));
	fclose(f);
	send_result(call, all, size);
	free(all);
	free(script);
}

static void say_limit(u64 call)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%llu",
			 (unsigned long long)first_limit.rlim_cur);

	send_result(call, (const u8 *)text, (u64)n);
}

/* Takes what a limit forbids; with "tick" and "limit" it takes nothing. */
static void run_consume(u64 call, const u8 *args, u64 len)
{
	if (len > 4 && !memcmp(args, "tick", 4)) {
		spin_cpu(args, len);
		send_result(call, args, len);
	} else if (len == 5 && !memcmp(args, "limit", 5)) {
		say_limit(call);
	} else {
		consume_resource(args, len);
		wait_forever();
	}
}

static void run_speak(u64 call, const u8 *args, u64 len)
{
	if (len)
		print_flood(args, len);
	else
		print_lines();
	send_result(call, args, len);
}

static void run_function(u64 call, u32 function, u8 *args, u64 len)
{
	switch (function) {
	case ABORT:
		abort();
	case SILENT:
	case COMPUTE:
		wait_forever();
		break;
	case FORK:
		fork_away();
		break;
	case EXIT:
		exit(3);
	case STATE:
		with_state(call, args, len);
		break;
	case POISON:
		poison_files(call, args, len);
		break;
	case TAMPER:
		tamper_file(call);
		break;
	case COUNT:
		report_count(call);
		break;
	case FAIL:
		send_refusal(call, SKEP_E_ARGUMENTS, "no good");
		break;
	case CONSUME:
		run_consume(call, args, len);
		break;
	case ATTACK:
		try_attacks(call, args, len);
		break;
	case LATE:
		printf("written at exit");
		send_result(call, args, len);
		break;
	case SPEAK:
		run_speak(call, args, len);
		break;
	case LIE:
		liar = 1;
		send_result(call, args, len);
		break;
	default:
		send_result(call, args, len);
	}
}

static void run_call(u64 call, const struct skep_call *c)
{
	u8 *args;

	if (c->function == DEAF) {
		busy = 1; /* it shows that it lives, and reads nothing */
		wait_forever();
	}
	args = receive_data(call, c->length);
	busy = c->function != SILENT;
	run_function(call, c->function, args, c->length);
	busy = 0;
	free(args);
	send_ack(1);
}

static void send_ready(void)
{
	struct skep_ready r = {1, FUNCTIONS, make_proof()};

	send_frame(SKEP_READY, 0, 0, &r, sizeof(r));
}

static int digest_changed(const u8 digest[32])
{
	static const u8 none[32];
	struct skep_sha256 s;
	u8 sum[32];

	skep_sha256_init(&s);
	skep_sha256_update(&s, state, state_len);
	skep_sha256_final(&s, sum);
	return memcmp(digest, none, 32) && memcmp(digest, sum, 32);
}

static void initialize_state(const u8 *p, u32 len)
{
	struct skep_init i;
	char *path = init_path;
	FILE *f;

	if (len < sizeof(i))
		exit_worker("a short INIT");
	memcpy(&i, p, sizeof(i));
	if (i.path > len - sizeof(i) || i.path >= sizeof(init_path))
		exit_worker("a bad path");
	memcpy(path, p + sizeof(i), i.path);
	path[i.path] = 0;
	f = fopen(path, "r");
	if (!f)
		exit_worker("the init file cannot be opened");
	state = malloc(i.length + 1);
	state_len = i.length;
	if (fread(state, 1, i.length, f) != i.length)
		exit_worker("the init file is short");
	fclose(f);
	if (i.length == 6 && !memcmp(state, "silent", 6))
		wait_forever();
	if (digest_changed(i.digest))
		send_refusal(0, SKEP_E_DIGEST, "changed");
	else
		send_ready();
}

static void exchange_hello(void)
{
	struct skep_hello h = {
		SKEP_SESSION_MAGIC, SKEP_SESSION_REVISION, {0}, 0};
	struct skep_frame f;
	void *p;

	if (getenv("WORKER_REVISION"))
		h.revision = (u32)atoi(getenv("WORKER_REVISION"));
	send_frame(SKEP_HELLO, 0, 0, &h, sizeof(h));
	p = next_frame(&f);
	if (f.type != SKEP_HELLO || f.length != sizeof(h) ||
	    memcmp(p, &h, 8) != 0)
		exit_worker("no HELLO that suits");
	free(p);
}

int main(void)
{
	const char *number = getenv("SKEP_STREAM");
	struct skep_frame f;
	pthread_t t;
	u8 *p;

	getrlimit(RLIMIT_NPROC, &first_limit);
	if (!number)
		exit_worker("SKEP_STREAM is not set: start this through skep");
	stream = atoi(number);
	exchange_hello();
	pthread_create(&t, NULL, send_pings, NULL);
	send_ready();
	for (;;) {
		p = next_frame(&f);
		if (f.type == SKEP_BYE)
			exit(0);
		if (f.type == SKEP_INIT)
			initialize_state(p, f.length);
		if (f.type == SKEP_CALL && f.length == sizeof(struct skep_call))
			run_call(f.call, (struct skep_call *)(void *)p);
		free(p);
	}
}
