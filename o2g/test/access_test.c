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

/* ---- atomic access ---- */

static int start_atomic(struct o2g *from, uint32_t to, unsigned operation,
			unsigned type, uint64_t place, const void *operand,
			const void *compare, void *result, size_t count)
{
	const struct o2g_change change = {.operation = operation,
					  .type = type,
					  .count = count,
					  .operand = operand,
					  .compare = compare,
					  .result = result};
	const struct o2g_remote at = {to, KEY, place};

	return o2g_atomic(from, &at, &change, 0, result);
}

/* One change of a number of 64 bits; the earlier number. */
static uint64_t change_number(unsigned operation, uint64_t place,
			      uint64_t operand, uint64_t compare)
{
	uint64_t before = 0xdddddddd;
	struct o2g_event event;

	if (start_atomic(a, to_b, operation, O2G_UINT64, place, &operand,
			 &compare, &before, 1))
		bed_die("atomic");
	event = bed_event(a);
	if (event.what != O2G_CHANGED || event.status ||
	    event.cookie != &before)
		bed_die("an atomic access");
	return before;
}

static int change_works(void)
{
	uint64_t number = 40;
	int ok;

	memcpy(window + 8, &number, 8);
	ok = change_number(O2G_SUM, 8, 2, 0) == 40 &&
	     change_number(O2G_FETCH, 8, 0, 0) == 42 &&
	     change_number(O2G_SWAP_EQ, 8, 7, 41) == 42 &&
	     change_number(O2G_SWAP_EQ, 8, 7, 42) == 42 &&
	     change_number(O2G_STORE, 8, ~0ull, 0) == 7;
	memcpy(&number, window + 8, 8);
	return ok && number == ~0ull && bed_look(window + 16) == 0xee;
}

static void change_reals(void)
{
	double *there = (double *)window, before[512], operand[512];

	for (int i = 0; i < 512; i++) {
		there[i] = i;
		operand[i] = 0.5;
	}
	TAP(start_atomic(a, to_b, O2G_PRODUCT, O2G_DOUBLE, 0, operand, NULL,
			 before, 512) == 0);
	operand[5] = 99; /* they may be reused */
	TAP(bed_event(a).status == 0);
	tap_ok(there[511] == 255.5 && there[5] == 2.5 && before[511] == 511 &&
		       before[5] == 5,
	       "4 KB of real numbers are changed and fetched");
}

static void refuse_changes(void)
{
	static const uint8_t many[O2G_CHANGE_MAX + 1];
	uint64_t number = 1, before;
	const struct o2g_change none = {
		.operation = O2G_SUM, .type = O2G_UINT64, .count = 1};
	const struct o2g_remote at = {to_b, KEY, 0};

	TAP(start_atomic(a, to_b, O2G_SUM, O2G_UINT64, 0, &number, NULL, NULL,
			 0) == -EINVAL);
	TAP(start_atomic(a, to_b, O2G_SUM, O2G_UINT64, 0, &number, NULL, NULL,
			 513) == -EINVAL);
	TAP(start_atomic(a, to_b, O2G_SUM, O2G_INT8, 0, many, NULL, NULL,
			 O2G_CHANGE_MAX + 1) == -EINVAL);
	TAP(start_atomic(a, to_b, O2G_OR, O2G_DOUBLE, 0, &number, NULL, NULL,
			 1) == -EINVAL);
	TAP(start_atomic(a, to_b, O2G_SWAP_EQ, O2G_UINT64, 0, &number, NULL,
			 &before, 1) == -EINVAL);
	TAP(start_atomic(a, to_b, O2G_FETCH, O2G_UINT64, 0, NULL, NULL, NULL,
			 1) == -EINVAL);
	TAP(start_atomic(a, to_b, O2G_SUM + 256, O2G_UINT64, 0, &number, NULL,
			 NULL, 1) == -EINVAL);
	TAP(start_atomic(a, to_b, O2G_SUM, O2G_UINT64 + 256, 0, &number, NULL,
			 NULL, 1) == -EINVAL);
	TAP(o2g_atomic(a, &at, &none, 0, NULL) == -EINVAL);
	tap_ok(o2g_element_size(O2G_SUM, O2G_FLOAT) == 4 &&
		       o2g_element_size(O2G_SWAP_BITS, O2G_INT8) == 1 &&
		       !o2g_element_size(O2G_XOR, O2G_FLOAT) &&
		       !o2g_element_size(0, O2G_INT8) &&
		       !o2g_element_size(O2G_SUM + 256, O2G_INT8) &&
		       !o2g_element_size(O2G_SWAP_BITS + 1, O2G_INT8) &&
		       !o2g_element_size(O2G_SUM, O2G_DOUBLE + 1),
	       "what does not exist has no size");
	TAP(start_atomic(a, to_b, O2G_SUM, O2G_UINT32, 2, &number, NULL, NULL,
			 1) == 0);
	tap_ok(bed_event(a).status == -EINVAL,
	       "elements that are not aligned are refused");
}

static void *add_ones(void *stop)
{
	uint64_t *number = (uint64_t *)window, n = 0;

	for (; !__atomic_load_n((int *)stop, __ATOMIC_RELAXED); n++)
		__atomic_add_fetch(number, 1, __ATOMIC_RELAXED);
	return (void *)(uintptr_t)n;
}

/* The program's own additions and those of two peers are all there. */
static void test_sums(void)
{
	enum { MANY = 2000 };
	uint64_t one = 1, sum = 0;
	struct o2g *c = bed_open();
	uint32_t c_to_b = bed_peer(c, b);
	int stop = 0, ok = 0;
	pthread_t thread;
	void *own;

	memset(window, 0, 8);
	if (pthread_create(&thread, NULL, add_ones, &stop))
		bed_die("thread");
	for (int i = 0; i < MANY; i++) {
		if (start_atomic(i % 2 ? a : c, i % 2 ? to_b : c_to_b, O2G_SUM,
				 O2G_UINT64, 0, &one, NULL, NULL, 1))
			bed_die("atomic");
		if (i % 16 < 14)
			continue;
		for (int n = 0; n < 8; n++)
			ok += !bed_event(i % 2 ? a : c).status;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, &own);
	memcpy(&sum, window, 8);
	tap_ok(ok == MANY && sum == MANY + (uint64_t)(uintptr_t)own,
	       "additions of two peers and of the program lose none");
	TAP(o2g_close(c, 5000) == 0);
}

static void test_atomic(void)
{
	uint64_t number = 3, before = 0;
	struct o2g_memory own = make_memory(KEY, O2G_MAY_READ | O2G_MAY_WRITE);
	uint32_t self;
	uint8_t name[O2G_NAME_SIZE];

	open_pair(O2G_MAY_READ | O2G_MAY_WRITE);
	tap_ok(change_works(), "numbers are changed while the target makes no "
			       "call");
	change_reals();
	refuse_changes();
	test_sums();
	own.start = mine;
	memset(mine, 0, 8);
	TAP(o2g_register_memory(a, &own) == 0 && o2g_name(a, name) == 0 &&
	    o2g_peer(a, name, &self) == 0);
	TAP(start_atomic(a, self, O2G_SUM, O2G_UINT64, 0, &number, NULL,
			 &before, 1) == 0 &&
	    bed_event(a).status == 0);
	TAP(start_atomic(a, self, O2G_SUM, O2G_UINT64, 0, &number, NULL,
			 &before, 1) == 0 &&
	    bed_event(a).status == 0);
	tap_ok(mine[0] == 6 && before == 3, "memory of its own is changed");
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
	struct uffdio_zeropage zero = {.range = {(uintptr_t)page, length}};
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
	TAP(ioctl(fault.fd, UFFDIO_ZEROPAGE, &zero) == 0);
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
		memset(window, 0xee, 24);
		tap_ok(change_works(),
		       "numbers of a stopped owner are changed atomically");
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
	test_atomic();
	test_ends();
	run_child();
	test_reclaimed();
	test_withheld();
	test_stopped();
	free(window);
	free(mine);
	return tap_done();
}
