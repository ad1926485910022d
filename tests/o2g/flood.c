// SPDX-License-Identifier: MIT
/*
 * More than a program should do, through libo2g: receives by the 100,000, and a
 * sender without a receiver. Each side is a process of its own.
 */
#include <o2g/lib/o2g.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECRET                                                                 \
	"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define WAIT 120000 /* ms; a hang fails, slowness does not */

static int tests, failed;

static void report_check(int good, const char *name)
{
	failed |= !good;
	printf("%sok %d - %s\n", good ? "" : "not ", ++tests, name);
	fflush(stdout);
}

static void expect_success(int result, const char *what)
{
	if (result >= 0)
		return;
	printf("Bail out! %s: %s\n", what, o2g_error());
	fflush(stdout);
	_exit(1);
}

static struct o2g *open_one(uint64_t unexpected)
{
	struct o2g_options options = {.size = sizeof(options),
				      .interface = "lo",
				      .secret = SECRET,
				      .credit = 1 << 20,
				      .unexpected = unexpected,
				      .operations = 1 << 18};
	struct o2g *o2g;

	expect_success(o2g_open(&o2g, &options), "open");
	return o2g;
}

static void write_bytes(int out, const void *bytes, size_t length)
{
	if (write(out, bytes, length) != (ssize_t)length)
		expect_success(-1, "a pipe broke");
}

static void read_all(int in, void *bytes, size_t length)
{
	if (read(in, bytes, length) != (ssize_t)length)
		expect_success(-1, "the other process is gone");
}

/* Names go both ways; the number of the other endpoint. */
static uint32_t exchange_names(struct o2g *o2g, int in, int out)
{
	uint8_t name[O2G_NAME_SIZE];
	uint32_t peer;

	expect_success(o2g_name(o2g, name), "name");
	write_bytes(out, name, sizeof(name));
	read_all(in, name, sizeof(name));
	expect_success(o2g_peer(o2g, name, &peer), "peer");
	return peer;
}

/* One event; its number is the order of its operation. */
static struct o2g_event await_event(struct o2g *o2g)
{
	struct o2g_event e = {0};
	int n;

	do
		n = o2g_wait(o2g, &e, 1, WAIT);
	while (n == -EINTR);
	expect_success(n - 1, "no event came");
	return e;
}

static long peak_kib(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss;
}

static double cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

#define MANY 100000u

/* The sender of `count` numbers, each with itself as tag. */
static void send_numbers(int in, int out, uint32_t count)
{
	struct o2g *o2g = open_one(64 << 20);
	struct o2g_match to = {.peer = exchange_names(o2g, in, out),
			       .context = 1};
	uint32_t *number = calloc(count, sizeof(*number));
	uint32_t done = 0;
	char go;

	read_all(in, &go, 1);
	for (uint32_t i = 0; i < count; i++) {
		number[i] = i;
		to.tag = i;
		while (o2g_send(o2g, &to, &number[i], sizeof(number[i]), 0, 0,
				0) == -EAGAIN) {
			await_event(o2g);
			done++;
		}
	}
	for (; done < count; done++)
		if (await_event(o2g).status)
			_exit(2);
	expect_success(o2g_close(o2g, WAIT), "close");
	_exit(0);
}

/* Receives from any peer are posted first; `any` tag, or each its own in the
 * reverse order, which is the worst for a list. */
static int receive_numbers(int in, int out, uint32_t count, int any)
{
	struct o2g *o2g = open_one(64 << 20);
	struct o2g_match from = {.peer = O2G_ANY, .context = 1};
	uint32_t *number = calloc(count, sizeof(*number));
	int bad = 0;

	exchange_names(o2g, in, out);
	from.ignore = any ? UINT64_MAX : 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t place = any ? i : count - 1 - i;

		from.tag = place;
		expect_success(o2g_recv(o2g, &from, &number[place],
					sizeof(number[place]), 0, 0, 0),
			       "receive");
	}
	write_bytes(out, "g", 1);
	for (uint32_t i = 0; i < count; i++)
		bad |= await_event(o2g).status;
	for (uint32_t i = 0; i < count; i++)
		bad |= number[i] != i;
	expect_success(o2g_close(o2g, WAIT), "close");
	free(number);
	return bad;
}

/* Runs a sender in a child, the receiver here; the child's status. */
static pid_t fork_sender(void (*sender)(int in, int out), int *in, int *out)
{
	int there[2], back[2];
	pid_t child;

	if (pipe(there) || pipe(back))
		expect_success(-1, "pipe");
	fflush(stdout);
	child = fork();
	if (child == 0) {
		close(there[1]);
		close(back[0]);
		sender(there[0], back[1]);
		_exit(0);
	}
	close(there[0]);
	close(back[1]);
	*out = there[1];
	*in = back[0];
	return child;
}

static int child_succeeded(pid_t child)
{
	int status = -1;

	return waitpid(child, &status, 0) == child && status == 0;
}

static void send_many(int in, int out)
{
	send_numbers(in, out, MANY);
}

static void test_many_receives(int any, const char *name)
{
	double before = cpu_ms();
	int in, out, bad;
	pid_t child = fork_sender(send_many, &in, &out);

	bad = receive_numbers(in, out, MANY, any);
	report_check(child_succeeded(child) && !bad, name);
	printf("# %.0f ms of processor time\n", cpu_ms() - before);
	close(in);
	close(out);
}

#define BODY 65536
#define BODIES 1024 /* 64 MiB, of which the receiver holds 8 */
#define HELD (8ull << 20)

static void send_bodies(int in, int out)
{
	struct o2g *o2g = open_one(HELD);
	struct o2g_match to = {.peer = exchange_names(o2g, in, out),
			       .context = 1};
	char *body = calloc(BODIES, BODY);
	struct o2g_event e;
	uint32_t done = 0;

	for (uint32_t i = 0; i < BODIES; i++) {
		memcpy(body + (size_t)i * BODY, &i, sizeof(i));
		to.tag = i;
		expect_success(o2g_send(o2g, &to, body + (size_t)i * BODY, BODY,
					0, 0, 0),
			       "send");
	}
	/* Until nothing has moved for a second. */
	while (o2g_wait(o2g, &e, 1, 1000) == 1)
		done++;
	write_bytes(out, &done, sizeof(done));
	for (; done < BODIES; done++)
		if (await_event(o2g).status)
			_exit(2);
	expect_success(o2g_close(o2g, WAIT), "close");
	_exit(0);
}

static int receive_bodies(struct o2g *o2g)
{
	struct o2g_match from = {.peer = O2G_ANY, .context = 1};
	char *body = malloc(BODY);
	int bad = 0;

	for (uint32_t i = 0; i < BODIES; i++) {
		uint32_t number = ~0u;
		struct o2g_event e;

		from.tag = i;
		expect_success(o2g_recv(o2g, &from, body, BODY, 0, 0, 0),
			       "receive");
		e = await_event(o2g);
		memcpy(&number, body, sizeof(number));
		bad |= e.status || e.length != BODY || number != i;
	}
	free(body);
	return bad;
}

static void test_unread_flood(void)
{
	int in, out, bad;
	pid_t child = fork_sender(send_bodies, &in, &out);
	struct o2g *o2g = open_one(HELD);
	long before;
	uint32_t done;

	exchange_names(o2g, in, out);
	before = peak_kib();
	read_all(in, &done, sizeof(done));
	printf("# %u of %u messages were taken unread; memory grew by %ld "
	       "KiB\n",
	       done, BODIES, peak_kib() - before);
	report_check(done < BODIES && (uint64_t)done * BODY <= HELD + (4 << 20),
		     "a sender without a receiver is slowed down");
	report_check((uint64_t)(peak_kib() - before) * 1024 <= HELD + (8 << 20),
		     "the receiver buffers no more than its limit");
	bad = receive_bodies(o2g);
	expect_success(o2g_close(o2g, WAIT), "close");
	report_check(child_succeeded(child) && !bad,
		     "all messages arrive once receives are posted");
}

int main(void)
{
	alarm(280); /* the last resort against a hang */
	test_unread_flood();
	test_many_receives(
		1, "100000 receives from any peer with any tag meet a flood");
	test_many_receives(0,
			   "100000 receives in the reverse order meet a flood");
	printf("# %ld KiB at most\n", peak_kib());
	report_check(peak_kib() < 256 << 10,
		     "the receives take less than 256 MiB");
	printf("1..%d\n", tests);
	return failed;
}
