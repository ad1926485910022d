// SPDX-License-Identifier: MIT
/* Remote memory access between endpoints over loopback; the target makes no
 * call for it. */
#include "bed.h"

#include <tests/tap.h>

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define SIZE (12u << 20) /* beyond credit, which it does not need */
#define KEY 0x1234567890ull

static struct o2g *a, *b;
static uint32_t to_b, to_a;
static uint8_t *window, *mine;

static struct o2g_memory make_memory(uint64_t key, unsigned rights)
{
	return (struct o2g_memory){.key = key,
				   .start = window,
				   .length = SIZE,
				   .rights = rights,
				   .cookie = window};
}

static void open_pair(unsigned rights)
{
	struct o2g_memory all = make_memory(KEY, rights);

	a = bed_open();
	b = bed_open();
	to_b = bed_peer(a, b);
	to_a = bed_peer(b, a);
	memset(window, 0xee, SIZE);
	if (o2g_register_memory(b, &all))
		bed_die("register");
}

static void close_pair(void)
{
	TAP(o2g_close(a, 5000) == 0);
	TAP(o2g_close(b, 5000) == 0);
}

static struct o2g_remote remote_at(uint64_t place)
{
	return (struct o2g_remote){.peer = to_b, .key = KEY, .place = place};
}

/* There and back, while nobody calls anything for the target. */
static int round_trip(size_t length, uint64_t place)
{
	struct o2g_remote there = remote_at(place);
	struct o2g_event event;
	int ok;

	bed_fill(mine, length, (unsigned)length);
	if (o2g_write(a, &there, mine, length, 0, 0, mine))
		bed_die("write");
	event = bed_event(a);
	ok = event.what == O2G_PUT && event.status == 0 &&
	     event.cookie == mine &&
	     bed_check(window + place, length, (unsigned)length);
	memset(mine, 0, length);
	if (o2g_read(a, &there, mine, length, 0, window))
		bed_die("read");
	event = bed_event(a);
	return ok && event.what == O2G_GOT && event.status == 0 &&
	       event.length == length && event.cookie == window &&
	       bed_check(mine, length, (unsigned)length);
}

static void test_sizes(void)
{
	static const size_t size[] = {0,      1,      48,      4096,	65537,
				      131073, 999999, 8 << 20, SIZE - 9};

	open_pair(O2G_MAY_READ | O2G_MAY_WRITE);
	for (unsigned i = 0; i < sizeof(size) / sizeof(size[0]); i++)
		tap_ok(round_trip(size[i], i + 1),
		       "%zu bytes are written and read while the target makes "
		       "no call",
		       size[i]);
	close_pair();
}

/* Many at once, in both directions, among messages. */
static void test_crowd(void)
{
	enum { MANY = 200, EACH = 50000 };
	struct o2g_memory own = make_memory(KEY, O2G_MAY_READ | O2G_MAY_WRITE);
	struct o2g_event event;
	int ok = 0;

	open_pair(O2G_MAY_READ | O2G_MAY_WRITE);
	own.start = mine;
	TAP(o2g_register_memory(a, &own) == 0);
	bed_fill(mine, MANY * EACH, 1);
	memset(window, 0, MANY * EACH);
	for (int i = 0; i < MANY; i++) {
		struct o2g_remote there = remote_at((uint64_t)i * EACH);
		struct o2g_remote here = {
			.peer = to_a, .key = KEY, .place = there.place};

		if (i % 2 ? o2g_write(a, &there, mine + i * EACH, EACH, 0, 0, 0)
			  : o2g_read(b, &here, window + i * EACH, EACH, 0, 0))
			bed_die("access");
		if (i % 10 == 0)
			bed_send(a, to_b, 1, &own, 4);
	}
	for (int i = 0; i < MANY / 2 + MANY / 10; i++)
		ok += bed_event(a).status == 0;
	for (int i = 0; i < MANY / 2; i++) {
		event = bed_event(b);
		ok += event.status == 0 && event.what == O2G_GOT;
	}
	tap_ok(ok == MANY + MANY / 10 && bed_check(window, MANY * EACH, 1),
	       "%d accesses in both directions between messages", MANY);
	close_pair();
}

static int access_refused(const struct o2g_remote *where, int reads, int status)
{
	int r = reads ? o2g_read(a, where, mine, 100, 0, 0)
		      : o2g_write(a, where, mine, 100, 0, 0, 0);

	return r == 0 && bed_event(a).status == status;
}

static void test_refusals(void)
{
	struct o2g_memory again = make_memory(KEY, O2G_MAY_READ);
	struct o2g_remote where = remote_at(0);

	open_pair(O2G_MAY_READ);
	TAP(o2g_register_memory(b, &again) == -EEXIST);
	again.rights = 64;
	TAP(o2g_register_memory(b, &again) == -EINVAL);
	tap_ok(access_refused(&where, 0, -EACCES),
	       "a write without permission is refused");
	where.place = SIZE - 99;
	tap_ok(access_refused(&where, 1, -ERANGE),
	       "a read beyond the end is refused");
	where.key++;
	tap_ok(access_refused(&where, 1, -EKEYREJECTED),
	       "an unknown key is refused");
	where.key--;
	where.place = 0;
	TAP(o2g_unregister_memory(b, KEY) == 0);
	TAP(o2g_unregister_memory(b, KEY) == -ENOENT);
	tap_ok(access_refused(&where, 1, -EKEYREJECTED),
	       "a stale key is refused");
	tap_ok(bed_look(window) == 0xee, "refused accesses change no byte");
	where.peer = O2G_ANY;
	TAP(o2g_write(a, &where, mine, 1, 0, 0, 0) == -EINVAL);
	close_pair();
}

static void test_written_event(void)
{
	struct o2g_remote where = remote_at(11);
	struct o2g_event event;

	open_pair(O2G_MAY_WRITE);
	TAP(o2g_write(a, &where, "abc", 3, 0xfedcba9876543210,
		      O2G_WITH_DATA | O2G_COPY, &event) == 0);
	event = bed_event(b);
	tap_ok(event.what == O2G_WAS_WRITTEN && event.cookie == window &&
		       event.data == 0xfedcba9876543210 && event.length == 3 &&
		       event.where == window + 11 && event.peer == to_a &&
		       event.flags == O2G_HAS_DATA &&
		       memcmp(window + 11, "abc", 3) == 0,
	       "immediate data of a write are an event at the target");
	event = bed_event(a);
	TAP(event.what == O2G_PUT && event.cookie == &event);
	TAP(o2g_write(a, &where, "abc", 3, 0, O2G_QUIET, 0) == 0);
	where.key++;
	TAP(o2g_write(a, &where, "abc", 3, 0, O2G_QUIET, mine) == 0);
	event = bed_event(a);
	tap_ok(event.status == -EKEYREJECTED && event.cookie == mine,
	       "a quiet write has an event only if it fails");
	close_pair();
}

/* A peer that dies, and memory that goes while it is read. */
static void test_ends(void)
{
	struct o2g_remote where = remote_at(0);
	int ok = 0;

	open_pair(O2G_MAY_READ);
	for (int i = 0; i < 20; i++)
		TAP(o2g_read(a, &where, mine, SIZE, 0, 0) == 0);
	TAP(o2g_unregister_memory(b, KEY) == 0);
	free(window);
	window = malloc(SIZE);
	for (int i = 0; i < 20; i++) {
		int status = bed_event(a).status;

		ok += status == 0 || status == -EKEYREJECTED;
	}
	tap_ok(ok == 20,
	       "unregistering memory during 20 reads fails only these reads");
	TAP(o2g_close(b, 5000) == 0);
	TAP(o2g_read(a, &where, mine, 1, 0, 0) == 0);
	tap_ok(bed_event(a).status < 0, "an access to a closed endpoint fails");
	TAP(o2g_close(a, 5000) == 0);
}

/* Memory belongs to the program alone once it is unregistered, also while
 * peers write to it. */
static void test_reclaimed(void)
{
	struct o2g_memory all = make_memory(KEY, O2G_MAY_WRITE);
	struct o2g_remote where = remote_at(0);
	int touched = 0, ended = 0;

	open_pair(O2G_MAY_WRITE);
	memset(mine, 0x11, SIZE);
	for (int i = 0; i < 20; i++) {
		for (int n = 0; n < 4; n++)
			TAP(o2g_write(a, &where, mine, SIZE / 4, 0, 0, 0) == 0);
		for (int n = 0; n < i % 4; n++)
			ended += bed_event(a).what == O2G_PUT;
		TAP(o2g_unregister_memory(b, KEY) == 0);
		memset(window, 0x77, SIZE / 4);
		for (int n = i % 4; n < 4; n++)
			ended += bed_event(a).what == O2G_PUT;
		for (unsigned n = 0; n < SIZE / 4; n++)
			touched += window[n] != 0x77;
		TAP(o2g_register_memory(b, &all) == 0);
	}
	tap_ok(ended == 20 * 4, "every write ends: %d", ended);
	tap_ok(touched == 0, "and none reaches memory that is not registered");
	close_pair();
}

/* Memory whose first use waits until this program says so (userfaultfd(2)). */
static int withhold_pages(void *start, size_t length)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.range = {(uintptr_t)start, length},
					.mode = UFFDIO_REGISTER_MODE_MISSING};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0 &&
	    (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range)))
		bed_die("userfaultfd");
	return fd;
}

struct remover {
	int state; /* atomic: the thread's number when it begins, 0 at the end
		    */
	int result;
};

static void *remove_region(void *arg)
{
	struct remover *r = arg;

	__atomic_store_n(&r->state, (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	r->result = o2g_unregister_memory(b, KEY + 2);
	__atomic_store_n(&r->state, 0, __ATOMIC_SEQ_CST);
	return NULL;
}

static int removal_state(struct remover *r)
{
	return __atomic_load_n(&r->state, __ATOMIC_SEQ_CST);
}

static int is_asleep(int tid)
{
	char name[64], text[256] = "", *behind;
	FILE *file;

	snprintf(name, sizeof(name), "/proc/self/task/%d/stat", tid);
	file = fopen(name, "r");
	if (!file)
		return 0;
	if (!fgets(text, sizeof(text), file))
		text[0] = 0;
	fclose(file);
	behind = strrchr(text, ')');
	return behind && (behind[2] == 'S' || behind[2] == 'D');
}

/* 1: it sleeps in the removal, seen a hundred times in turn; 0: it returned. */
static int removal_waits(struct remover *r)
{
	int seen = 0, state;

	while (seen < 100) {
		state = removal_state(r);
		if (!state)
			return 0;
		seen = state > 0 && is_asleep(state) ? seen + 1 : 0;
		poll(NULL, 0, 1);
	}
	return 1;
}

/* A removal returns when nobody is amid a copy to the memory any more: here
 * one is, as it waits for a page. */
static void test_withheld(void)
{
	struct remover r = {.state = -1};
	struct o2g_memory all = make_memory(KEY + 2, O2G_MAY_WRITE);
	const size_t length = 1u << 16;
	uint8_t *page =
		mmap(0, length, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct uffdio_zeropage whole = {.range = {(uintptr_t)page, length}};
	struct pollfd fault = {.fd = withhold_pages(page, length),
			       .events = POLLIN};
	pthread_t thread;

	if (fault.fd < 0) {
		tap_skip("a removal waits for who copies", "no userfaultfd");
		return;
	}
	open_pair(O2G_MAY_WRITE);
	all.start = page;
	all.length = length;
	TAP(o2g_register_memory(b, &all) == 0);
	TAP(o2g_write(a, &(struct o2g_remote){to_b, KEY + 2, 0}, mine, length,
		      0, 0, 0) == 0);
	TAP(poll(&fault, 1, 60000) == 1);
	if (pthread_create(&thread, NULL, remove_region, &r))
		bed_die("thread");
	tap_ok(removal_waits(&r), "a removal waits for who copies");
	TAP(ioctl(fault.fd, UFFDIO_ZEROPAGE, &whole) == 0);
	pthread_join(thread, NULL);
	TAP(r.result == 0 && bed_event(a).what == O2G_PUT);
	close(fault.fd);
	close_pair();
	munmap(page, length);
}

/* A process that owns the window and does nothing, in memory that its parent
 * looks at too. */
static pid_t start_owner(uint8_t *shared, uint8_t name[O2G_NAME_SIZE])
{
	int pipes[2];
	pid_t pid;

	fflush(stdout);
	if (pipe(pipes))
		bed_die("pipe");
	pid = fork();
	if (pid == 0) {
		struct o2g_memory all =
			make_memory(KEY, O2G_MAY_READ | O2G_MAY_WRITE);

		all.start = shared;
		b = bed_open();
		if (o2g_register_memory(b, &all) || o2g_name(b, name) ||
		    write(pipes[1], name, O2G_NAME_SIZE) != O2G_NAME_SIZE)
			_exit(1);
		for (;;)
			pause();
	}
	if (read(pipes[0], name, O2G_NAME_SIZE) != O2G_NAME_SIZE)
		bed_die("the owner of the window");
	close(pipes[0]);
	close(pipes[1]);
	return pid;
}

/* With the kernel engine the target need not even run. */
static void test_stopped(void)
{
	uint8_t name[O2G_NAME_SIZE], *old = window;
	int status;
	pid_t pid;

	window = mmap(0, SIZE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = start_owner(window, name);
	a = bed_open();
	if (strcmp(o2g_engine_name(a), "kernel") || o2g_peer(a, name, &to_b))
		tap_ok(!strcmp(o2g_engine_name(a), "user"), "no kernel engine");
	else {
		tap_ok(round_trip(1, 0), "a window is written and read");
		kill(pid, SIGSTOP);
		waitpid(pid, &status, WUNTRACED);
		tap_ok(round_trip(1, 7) && round_trip(100000, 1) &&
			       round_trip(SIZE, 0),
		       "also while its owner is stopped");
		for (int i = 0; i < 8; i++)
			TAP(o2g_write(a, &(struct o2g_remote){to_b, KEY, 0},
				      mine, SIZE, 0, 0, 0) == 0);
		kill(pid, SIGKILL);
		for (int i = status = 0; i < 8; i++)
			status += bed_event(a).status <= 0;
		tap_ok(status == 8, "a killed owner ends all accesses");
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	(void)o2g_close(a, 5000);
	munmap(window, SIZE);
	window = old;
}

static void run_child(void)
{
	struct o2g_memory more = make_memory(KEY + 1, O2G_MAY_READ);
	struct o2g_remote where = remote_at(0);
	int status = 1;
	pid_t pid;

	open_pair(O2G_MAY_READ | O2G_MAY_WRITE);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(o2g_register_memory(b, &more) != -EBADF ||
		      o2g_unregister_memory(b, KEY) != -EBADF ||
		      o2g_write(a, &where, mine, 1, 0, 0, 0) != -EBADF);
	waitpid(pid, &status, 0);
	tap_ok(status == 0, "a child of fork() cannot use the regions");
	tap_ok(round_trip(1000, 5),
	       "the parent keeps its regions after fork()");
	close_pair();
}

int main(void)
{
	setenv("SKEP_O2G_LOG", "0", 1);
	window = malloc(SIZE);
	mine = malloc(SIZE);
	test_sizes();
	test_crowd();
	test_refusals();
	test_written_event();
	test_ends();
	run_child();
	test_reclaimed();
	test_withheld();
	test_stopped();
	free(window);
	free(mine);
	return tap_done();
}
