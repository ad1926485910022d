// SPDX-License-Identifier: MIT
/*
 * Who receives while the receiver stands still: a receive is posted, every
 * thread of its process is stopped, another process sends, and a third one
 * looks into the stopped one's memory, for the completion in its ring and the
 * bytes in its buffer or its slab.
 *
 *   o2g_stop ENGINE present|absent
 *
 * `present`: all of it must be there before the receiver goes on. `absent`:
 * none of it may, since that engine's thread is stopped too; then the message
 * must come once it goes on.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include <o2g/lib/endpoint.h>
#include <o2g/test/bed.h>
#include "o2g_timeout.h"
#include "tests/tap.h"

#define MESSAGE_SIZE_MAX (32u << 20)
#define TIMEOUT_S scaled_timeout(60) /* seconds for what must come */
#define STANDSTILL 1u		     /* seconds in which nothing may come */

static const size_t sizes[] = {1, 64, 8192, 65536, 2 << 20, MESSAGE_SIZE_MAX};
#define SIZES (sizeof(sizes) / sizeof(*sizes))

/* What the receiver tells of a receive that it posted. */
struct posted {
	uint64_t area, buffer;
	uint32_t cq_tail;
};

static const char *engine;
static bool present;

/* ---- between the three: whole structs through pipes ---- */

struct line {
	int in, out;
};

static struct line open_line(void)
{
	int fd[2];

	if (pipe(fd))
		bed_die("pipe");
	return (struct line){fd[0], fd[1]};
}

static void write_line(struct line to, const void *what, size_t length)
{
	if (write(to.out, what, length) != (ssize_t)length)
		_exit(1);
}

static void read_line(struct line from, void *what, size_t length)
{
	if (read(from.in, what, length) != (ssize_t)length)
		_exit(1);
}

static struct line name_of, posts, verdicts, orders, sent, ends;

/* ---- receiver and sender ---- */

static struct o2g *open_endpoint(void)
{
	struct o2g_options options = bed_options();
	struct o2g *o2g;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	options.engine = engine;
	if (o2g_open(&o2g, &options))
		bed_die("o2g_open");
	if (strcmp(o2g_engine_name(o2g), engine))
		bed_die("another engine");
	return o2g;
}

static uint32_t tail_of(struct o2g *o2g)
{
	return __atomic_load_n(&o2g->area->cq.tail, __ATOMIC_ACQUIRE);
}

/* Who was stopped may find its wait interrupted. */
static struct o2g_event next_event(struct o2g *o2g)
{
	struct o2g_event event = {0};
	int n;

	do
		n = o2g_wait(o2g, &event, 1, BED_WAIT);
	while (n == -EINTR);
	if (n != 1)
		bed_die("no event came");
	return event;
}

static void receive_one(struct o2g *o2g, uint8_t *buffer, unsigned i)
{
	struct posted posted = {.area = (uintptr_t)o2g->area,
				.buffer = (uintptr_t)buffer,
				.cq_tail = tail_of(o2g)};
	struct o2g_event event;
	int good;

	memset(buffer, 0xee, sizes[i]);
	bed_recv(o2g, O2G_ANY, i, buffer, sizes[i]);
	write_line(posts, &posted, sizeof(posted));
	event = next_event(o2g);
	good = event.status == 0 && event.length == sizes[i] &&
	       bed_check(buffer, sizes[i], i);
	write_line(verdicts, &good, sizeof(good));
}

static int run_receiver(void)
{
	struct o2g *o2g = open_endpoint();
	uint8_t name[O2G_NAME_SIZE], *buffer = malloc(MESSAGE_SIZE_MAX), hello;

	if (!buffer || o2g_name(o2g, name))
		bed_die("receiver");
	write_line(name_of, name, sizeof(name));
	bed_recv(o2g, O2G_ANY, SIZES, &hello, 1); /* they are connected */
	bed_event(o2g);
	for (unsigned i = 0; i < SIZES; i++)
		receive_one(o2g, buffer, i);
	read_line(ends, name, 1);
	return o2g_close(o2g, BED_WAIT) != 0;
}

static int run_sender(void)
{
	struct o2g *o2g = open_endpoint();
	uint8_t name[O2G_NAME_SIZE], *buffer = malloc(MESSAGE_SIZE_MAX);
	uint32_t peer = 0;
	char order;

	read_line(name_of, name, sizeof(name));
	if (!buffer || o2g_peer(o2g, name, &peer))
		bed_die("sender");
	bed_send(o2g, peer, SIZES, buffer, 1);
	bed_event(o2g);
	for (unsigned i = 0; i < SIZES; i++) {
		bed_fill(buffer, sizes[i], i);
		read_line(orders, &order, 1);
		bed_send(o2g, peer, i, buffer, sizes[i]);
		if (bed_event(o2g).status)
			bed_die("a send failed");
		write_line(sent, &order, 1);
	}
	read_line(ends, &order, 1);
	return o2g_close(o2g, BED_WAIT) != 0;
}

/* ---- the third process ---- */

static pid_t stopped_pid;
static int memory; /* of the stopped process */

static void look_at(uint64_t address, void *to, size_t length)
{
	if (pread(memory, to, length, (off_t)address) != (ssize_t)length)
		bed_die("the receiver's memory can't be read");
}

/* How many threads there are, or -1 when one of them is not stopped. */
static int stopped_threads(void)
{
	char path[300], text[512];
	struct dirent *entry;
	int n = 0, fd;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", stopped_pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		ssize_t length;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.20s/stat",
			 stopped_pid, entry->d_name);
		fd = open(path, O_RDONLY);
		length = read(fd, text, sizeof(text) - 1);
		close(fd);
		text[length > 0 ? length : 0] = 0;
		if (!strstr(text, ") T "))
			n = -1000;
		n++;
	}
	if (dir)
		closedir(dir);
	return n > 0 ? n : -1;
}

/* The completion that came since, if there is one. */
static bool find_completion(const struct posted *posted, struct o2g_cqe *cqe)
{
	struct o2g_area area;

	look_at(posted->area, &area, sizeof(area));
	if (area.magic != O2G_RING_MAGIC)
		bed_die("that is no area");
	if (area.cq.tail == posted->cq_tail)
		return false;
	look_at(posted->area + area.cqe +
			(posted->cq_tail & (area.cq_entries - 1)) *
				sizeof(*cqe),
		cqe, sizeof(*cqe));
	return true;
}

/* The bytes lie where the completion says. */
static bool bytes_arrived(const struct posted *posted,
			  const struct o2g_cqe *cqe, unsigned i)
{
	uint8_t *copy = malloc(sizes[i]);
	bool slab = cqe->flags & O2G_CQE_SLAB, good;

	if (!copy)
		bed_die("malloc");
	look_at(slab ? posted->area + cqe->where : posted->buffer, copy,
		sizes[i]);
	good = bed_check(copy, sizes[i], i);
	free(copy);
	printf("# %zu bytes lie in the %s\n", sizes[i],
	       slab ? "slab" : "buffer");
	return good && cqe->op == O2G_OP_RECV && cqe->status == 0 &&
	       cqe->length == sizes[i] && cqe->tag == i;
}

static double clock_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool await_completion(const struct posted *posted, struct o2g_cqe *cqe)
{
	double end = clock_seconds() + (present ? TIMEOUT_S : STANDSTILL);
	bool there;

	while (!(there = find_completion(posted, cqe)) && clock_seconds() < end)
		usleep(2000);
	return there;
}

/* Nothing came, neither a completion nor a byte. */
static bool receive_untouched(const struct posted *posted, unsigned i)
{
	uint8_t first, last;

	look_at(posted->buffer, &first, 1);
	look_at(posted->buffer + sizes[i] - 1, &last, 1);
	return first == 0xee && last == 0xee;
}

/* An endpoint that ends before its time ends the test, and so the other. */
static bool ending;

static void child_ended(int signal)
{
	(void)signal;
	if (!ending)
		_exit(1);
}

static void stop_receiver(void)
{
	int status;

	kill(stopped_pid, SIGSTOP);
	if (waitpid(stopped_pid, &status, WUNTRACED) != stopped_pid ||
	    !WIFSTOPPED(status))
		bed_die("the receiver does not stop");
}

static void test_one(unsigned i)
{
	struct posted posted;
	struct o2g_cqe cqe;
	bool there, right = false;
	int before, good;
	char order = 'x';

	read_line(posts, &posted, sizeof(posted));
	stop_receiver();
	before = stopped_threads();
	write_line(orders, &order, 1);
	/* What is within credit is whole in the receiver's socket by then. */
	if (!present && sizes[i] < MESSAGE_SIZE_MAX)
		read_line(sent, &order, 1);
	there = await_completion(&posted, &cqe);
	if (there)
		right = bytes_arrived(&posted, &cqe, i);
	tap_ok(before > 0 && stopped_threads() == before,
	       "%s: %zu bytes: all threads were stopped throughout", engine,
	       sizes[i]);
	if (present)
		tap_ok(there && right,
		       "%s: %zu bytes: bytes and completion are there before "
		       "SIGCONT",
		       engine, sizes[i]);
	else
		tap_ok(!there && receive_untouched(&posted, i),
		       "%s: %zu bytes: neither is there before SIGCONT", engine,
		       sizes[i]);
	kill(stopped_pid, SIGCONT);
	read_line(verdicts, &good, sizeof(good));
	tap_ok(good, "%s: %zu bytes: the receiver has the message after it",
	       engine, sizes[i]);
	if (present || sizes[i] == MESSAGE_SIZE_MAX)
		read_line(sent, &order, 1);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = child_ended,
				   .sa_flags = SA_NOCLDSTOP | SA_RESTART};
	char path[64];
	int status, bad = 0;
	pid_t other;

	if (argc != 3)
		return 2;
	engine = argv[1];
	present = !strcmp(argv[2], "present");
	alarm(scaled_timeout(600));
	sigaction(SIGCHLD, &action, 0);
	name_of = open_line(), posts = open_line(), verdicts = open_line();
	orders = open_line(), sent = open_line(), ends = open_line();
	stopped_pid = fork();
	if (stopped_pid == 0)
		return run_receiver();
	other = fork();
	if (other == 0)
		return run_sender();
	snprintf(path, sizeof(path), "/proc/%d/mem", stopped_pid);
	memory = open(path, O_RDONLY);
	if (memory < 0)
		bed_die(path);
	for (unsigned i = 0; i < SIZES; i++)
		test_one(i);
	ending = true;
	write_line(ends, "xx", 2);
	for (int n = 0; n < 2; n++)
		bad |= wait(&status) < 0 || status;
	tap_ok(!bad, "%s: both endpoints closed", engine);
	return tap_done();
}
