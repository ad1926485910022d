// SPDX-License-Identifier: MIT
/*
 * What an endpoint does while its program does little: who moves the bytes,
 * who sleeps, what is said on standard error, and what is left behind.
 */
#define _GNU_SOURCE
#include "bed.h"

#include <o2g/lib/endpoint.h>
#include <tests/tap.h>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* ---- what the library asks of the system ---- */

static __thread int received; /* bytes, by this thread */
static int opener = -1;	      /* atomic: the opener's epoll of an endpoint */
static int hasty;	      /* atomic: waits there of no time, in vain */

ssize_t recv(int fd, void *buffer, size_t length, int flags)
{
	ssize_t n = recvfrom(fd, buffer, length, flags, 0, 0);

	received += n > 0;
	return n;
}

int epoll_wait(int epoll, struct epoll_event *event, int most, int ms)
{
	int n = (int)syscall(SYS_epoll_pwait, epoll, event, most, ms, 0, 8);

	if (n == 0 && ms == 0 &&
	    epoll == __atomic_load_n(&opener, __ATOMIC_RELAXED))
		__atomic_add_fetch(&hasty, 1, __ATOMIC_RELAXED);
	return n;
}

static __thread int allocations; /* that are granted before one is not */
static __thread int refused;

void *__interceptor_calloc(size_t count, size_t size);

void *calloc(size_t count, size_t size)
{
	if (allocations > 0 && --allocations == 0) {
		refused = 1;
		errno = ENOMEM;
		return 0;
	}
	return __interceptor_calloc(count, size);
}

/* ---- the tests ---- */

/* One message each time, until the thread that polls has read one. */
static void test_polling(void)
{
	struct o2g *a = bed_open(), *b = bed_open();
	uint32_t to = bed_peer(a, b);
	struct o2g_event event;
	char in[4];
	int good = 0, sent = 0;

	received = 0;
	while (sent < 10000 && !received) {
		bed_recv(b, O2G_ANY, 1, in, 4);
		bed_send(a, to, 1, "abc", 4);
		while (o2g_poll(b, &event, 1) == 0)
			;
		good += event.status == 0 && bed_event(a).status == 0;
		sent++;
	}
	tap_ok(received && good == sent,
	       "a poll reads arrived messages without another thread (%d sent)",
	       sent);
	TAP(o2g_close(a, BED_WAIT) == 0 && o2g_close(b, BED_WAIT) == 0);
}

static void in_vain(void)
{
	struct o2g *o2g = bed_open();
	struct pollfd file = {.fd = o2g_descriptor(o2g), .events = POLLIN};
	struct o2g_event event;

	TAP(o2g_wait(o2g, &event, 1, 1) == 0);
	tap_ok(o2g->waiters == 0, "a wait that is over is no longer counted");
	tap_ok(poll(&file, 1, 0) == 0,
	       "a wait without an event leaves the descriptor unchanged");
	TAP(o2g_close(o2g, 0) == 0);
}

/* One byte is the least that a copied send carries. */
static int send_copied(struct o2g *o2g)
{
	uint32_t self = bed_peer(o2g, o2g);
	struct o2g_match to = bed_match(self, 1);
	char in = 0, out = 'a';

	bed_recv(o2g, self, 1, &in, 1);
	return o2g_send(o2g, &to, &out, 1, 0, O2G_COPY | O2G_QUIET, 0) == 0 &&
	       bed_event(o2g).status == 0 && in == 'a';
}

static void test_copied(void)
{
	struct o2g *o2g = bed_open();

	tap_ok(send_copied(o2g), "a copied send carries one byte");
	TAP(o2g_close(o2g, 0) == 0);
}

static int count_lines(FILE *errors, const char *words)
{
	char line[600];
	int n = 0;

	rewind(errors);
	while (fgets(line, sizeof(line), errors))
		n += !!strstr(line, words);
	return n;
}

/* Opens and closes an endpoint at a level: how often it says a word. */
static int log_count(const char *level, const char *words)
{
	FILE *errors = tmpfile();
	int was = dup(STDERR_FILENO), n;

	dup2(fileno(errors), STDERR_FILENO);
	setenv("SKEP_O2G_LOG", level, 1);
	o2g_close(bed_open(), 0);
	dup2(was, STDERR_FILENO);
	close(was);
	setenv("SKEP_O2G_LOG", "0", 1);
	n = count_lines(errors, words);
	fclose(errors);
	return n;
}

static void test_levels(void)
{
	tap_ok(log_count("2", "closed: sent 0") == 1,
	       "SKEP_O2G_LOG=2 counts what was sent");
	tap_ok(log_count("1", "o2g") == 0,
	       "SKEP_O2G_LOG=1 does not count what was sent");
}

/* Each allocation of opening an endpoint fails once. */
static void test_memory(void)
{
	struct o2g_options o = bed_options();
	int tried = 0, wrong = 0;

	do {
		struct o2g *o2g = 0;
		int r;

		refused = 0;
		allocations = ++tried;
		r = o2g_open(&o2g, &o);
		allocations = 0;
		/* without its page it works as well */
		wrong += r != (o2g ? 0 : -ENOMEM) || (!o2g && !refused);
		if (o2g)
			wrong += !send_copied(o2g) || o2g_close(o2g, 0) != 0;
	} while (refused && tried < 1000);
	tap_ok(wrong == 0 && !refused && tried > 5,
	       "without memory an endpoint is refused or works (%d)",
	       tried - 1);
}

/* Takes all descriptors but `left`; gives how many. */
static int take_all(int *taken, int most, int left)
{
	struct rlimit limit;
	int n = 0, next = dup(0);

	close(next);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = (rlim_t)next + 20;
	setrlimit(RLIMIT_NOFILE, &limit);
	while (n < most && (taken[n] = dup(0)) >= 0)
		n++;
	while (left-- > 0 && n > 0)
		close(taken[--n]);
	return n;
}

/* It has one descriptor to dial with, and none to accept with. */
static void test_no_descriptors(void)
{
	struct o2g *a = bed_open(), *b = bed_open();
	struct o2g_event event;
	struct rlimit limit;
	static int taken[1024];
	char in[2] = "";
	int n;

	getrlimit(RLIMIT_NOFILE, &limit);
	bed_recv(b, O2G_ANY, 1, in, 1);
	n = take_all(taken, 1024, 1);
	bed_send(a, bed_peer(a, b), 1, "y", 1);
	__atomic_store_n(&opener, b->opener.epoll, __ATOMIC_RELAXED);
	TAP(o2g_wait(a, &event, 1, 300) == 0);
	__atomic_store_n(&opener, -1, __ATOMIC_RELAXED);
	tap_ok(__atomic_load_n(&hasty, __ATOMIC_RELAXED) < 100,
	       "an endpoint that waits for descriptors sleeps");
	while (n > 0)
		close(taken[--n]);
	setrlimit(RLIMIT_NOFILE, &limit);
	TAP(bed_event(a).status == 0 && bed_event(b).status == 0 &&
	    in[0] == 'y');
	TAP(o2g_close(a, BED_WAIT) == 0 && o2g_close(b, BED_WAIT) == 0);
}

/* With no descriptor left, with one, and so on until there are enough: each
 * refusal names the limit. */
static void too_few(void)
{
	struct o2g_options o = bed_options();
	struct rlimit limit;
	static int taken[1024];
	int n, r, refusals = 0, named = 0;
	struct o2g *o2g;

	getrlimit(RLIMIT_NOFILE, &limit);
	n = take_all(taken, 1024, 0);
	while ((r = o2g_open(&o2g, &o)) && n > 0) {
		refusals++;
		named += r == -EMFILE && strstr(o2g_error(), "`ulimit -n`");
		if (named < refusals)
			printf("# %s\n", o2g_error());
		close(taken[--n]);
	}
	while (n > 0)
		close(taken[--n]);
	setrlimit(RLIMIT_NOFILE, &limit);
	tap_ok(r == 0 && named == refusals && refusals > 3,
	       "an endpoint that lacks descriptors says what to raise (%d)",
	       refusals);
	TAP(r || o2g_close(o2g, 0) == 0);
}

static int count_entries(const char *path)
{
	DIR *dir = opendir(path);
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* A program may have closed its standard input. */
static void without_input(void)
{
	char folder[] = "/tmp/o2g-idle-XXXXXX", path[100];
	int input = fcntl(0, F_DUPFD_CLOEXEC, 3);
	struct o2g *o2g;

	if (!mkdtemp(folder))
		bed_die("mkdtemp");
	snprintf(path, sizeof(path), "%s/skep-o2g", folder);
	setenv("XDG_RUNTIME_DIR", folder, 1);
	o2g = bed_open();
	TAP(count_entries(path) == 3);
	close(0);
	TAP(o2g_close(o2g, 0) == 0);
	dup2(input, 0);
	close(input);
	tap_ok(count_entries(path) == 2,
	       "the page is removed although the folder's descriptor is 0");
	TAP(rmdir(path) == 0 && rmdir(folder) == 0);
	unsetenv("XDG_RUNTIME_DIR");
}

/* ---- the list of endpoints ---- */

static int forgotten; /* atomic */

static void *close_other(void *other)
{
	if (o2g_close(other, 0) == 0)
		__atomic_store_n(&forgotten, 1, __ATOMIC_RELAXED);
	return 0;
}

static struct o2g *other;
static pthread_t closer;
static int early;

/* Gives the thread time to do what it must not. */
static void visit_endpoint(struct o2g *o2g)
{
	if (o2g == other || pthread_create(&closer, 0, close_other, other))
		return;
	for (int i = 0; i < 300 && !early; i++) {
		early = __atomic_load_n(&forgotten, __ATOMIC_RELAXED);
		usleep(1000);
	}
}

static void test_visited(void)
{
	struct o2g *o2g;

	other = bed_open();
	o2g = bed_open(); /* the first of the list */
	o2g_fork_each(visit_endpoint);
	pthread_join(closer, 0);
	tap_ok(!early && forgotten,
	       "no endpoint is freed while the list is walked");
	TAP(o2g_close(o2g, 0) == 0);
}

/* A wake-up for which no thread waits: the descriptor shows it once. */
static void test_calm(void)
{
	struct o2g *o2g = bed_open();
	struct pollfd file = {.fd = o2g_descriptor(o2g), .events = POLLIN};
	struct o2g_event event;

	TAP(o2g_wake(o2g) == 0 && poll(&file, 1, BED_WAIT) == 1);
	TAP(o2g_poll(o2g, &event, 1) == 0);
	tap_ok(poll(&file, 1, 0) == 0,
	       "a poll takes a wake-up that no thread waits for");
	TAP(o2g_close(o2g, 0) == 0);
}

int main(void)
{
	setenv("SKEP_O2G_LOG", "0", 1);
	setenv("SKEP_O2G_ENGINE", "user", 1);
	test_polling();
	test_calm();
	in_vain();
	test_copied();
	test_levels();
	test_memory();
	without_input();
	test_visited();
	test_no_descriptors();
	too_few();
	return tap_done();
}
