/* SPDX-License-Identifier: MIT */
/*
 * Every interleaving of the ring protocols on a machine with store buffers.
 *
 * ring.c itself runs here, with loads, stores and barriers of its shared words
 * replaced by those of a model of total store order: a store waits in its
 * thread's buffer, which empties in order at any later time; a load sees its
 * own buffer, then memory; the full barrier waits for the buffer. Program and
 * engine are two coroutines, and a search visits each state that can be
 * reached. Then it does so without one barrier at a time: that must fail, or
 * the search proves nothing.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <tests/tap.h>

#include <skep/types.h>

static u64 model_load(const void *at, u32 size);
static void model_store(void *at, u64 value, u32 size);
static void model_barrier(void);

#define O2G_OWN_ORDER
#define o2g_load(p) ((__typeof__(*(p)))model_load((p), sizeof(*(p))))
#define o2g_load_acquire(p) o2g_load(p)
#define o2g_store(p, v) model_store((p), (v), sizeof(*(p)))
#define o2g_store_release(p, v) o2g_store(p, v)
#define o2g_full_barrier() model_barrier()

#include <o2g/core/ring.c>

#define BUFFER 16
#define DEPTH 400
#define SEEN (1u << 22)

enum { PROGRAM, ENGINE, THREADS };

struct store {
	void *at;
	u32 value;
};

struct thread {
	ucontext_t context;
	u8 stack[65536];
	struct store buffer[BUFFER];
	u32 stores;
	u64 history; /* of what it did and saw: its local state */
	int over, in_barrier;
};

struct protocol {
	const char *name;
	void (*start)(void);
	void (*run[THREADS])(void);
	int (*wrong)(void); /* at the end */
};

static struct thread thread[THREADS];
static ucontext_t scheduler;
static int running;
static int no_barrier[THREADS]; /* the guard: leave it out */
static const struct protocol *protocol;
static struct o2g_area *area;
static struct o2g_ring ring;
static u64 *seen;
static u32 states, runs;

static void learn_value(u64 what)
{
	struct thread *t = &thread[running];

	t->history = (t->history ^ what) * 0x9e3779b97f4a7c15ull;
	t->history ^= t->history >> 29;
}

static void pause_thread(void)
{
	const int me = running;

	learn_value(3);
	swapcontext(&thread[me].context, &scheduler);
	running = me;
}

/* Words of the shared indices alone; an entry's words are data. */
static int is_shared(const void *at, u32 size)
{
	return size == 4 && (const u8 *)at < (const u8 *)area + sizeof(*area);
}

static u64 model_load(const void *at, u32 size)
{
	struct thread *t;
	u32 value;

	if (!is_shared(at, size)) {
		u64 word = 0;

		memcpy(&word, at, size);
		return word;
	}
	pause_thread();
	t = &thread[running];
	memcpy(&value, at, 4);
	for (u32 i = 0; i < t->stores; i++)
		if (t->buffer[i].at == at)
			value = t->buffer[i].value;
	learn_value(value + 1);
	return value;
}

static void model_store(void *at, u64 value, u32 size)
{
	struct thread *t;

	if (!is_shared(at, size))
		abort();
	pause_thread();
	t = &thread[running];
	if (t->stores == BUFFER)
		abort();
	t->buffer[t->stores++] = (struct store){at, (u32)value};
	learn_value(value + 1000);
}

static void model_barrier(void)
{
	if (no_barrier[running])
		return;
	thread[running].in_barrier = 1;
	pause_thread();
	learn_value(7);
}

static void flush_store(struct thread *t)
{
	memcpy(t->buffer[0].at, &t->buffer[0].value, 4);
	memmove(t->buffer, t->buffer + 1, --t->stores * sizeof(*t->buffer));
}

static void thread_main(void)
{
	protocol->run[running]();
	thread[running].over = 1;
	pause_thread();
}

/* What can happen next: a thread's next access, or the oldest store of its
 * buffer reaching memory. */
static u32 list_choices(u32 choice[2 * THREADS])
{
	u32 n = 0;

	for (u32 i = 0; i < THREADS; i++) {
		const struct thread *t = &thread[i];

		if (!t->over && !(t->in_barrier && t->stores))
			choice[n++] = i;
		if (t->stores)
			choice[n++] = THREADS + i;
	}
	return n;
}

static void take_choice(u32 choice)
{
	if (choice >= THREADS) {
		flush_store(&thread[choice - THREADS]);
		return;
	}
	running = (int)choice;
	thread[choice].in_barrier = 0;
	swapcontext(&scheduler, &thread[choice].context);
}

static u64 state_hash(void)
{
	u64 hash = 1;
	const u32 words[] = {area->sq.head, area->sq.tail, area->sq.flags,
			     area->cq.head, area->cq.tail, area->cq.flags};

	for (u32 i = 0; i < 6; i++)
		hash = (hash ^ words[i]) * 0x100000001b3ull;
	for (u32 i = 0; i < THREADS; i++) {
		hash = (hash ^ thread[i].history ^ (u64)thread[i].over << 50) *
		       0x9e3779b97f4a7c15ull;
		hash = (hash ^ thread[i].stores) * 0x100000001b3ull;
		hash ^= hash >> 31;
	}
	return hash | 1;
}

/* True when this state was not met before. */
static int is_new(void)
{
	const u64 hash = state_hash();
	u64 i = hash % SEEN;

	while (seen[i] && seen[i] != hash)
		i = (i + 1) % SEEN;
	if (seen[i])
		return 0;
	seen[i] = hash;
	if (++states > SEEN / 2)
		abort();
	return 1;
}

static void begin_run(void)
{
	u64 size;

	if (o2g_area_size(16, 16, 0, 0, &size))
		abort();
	memset(area, 0, size);
	memset(&ring, 0, sizeof(ring));
	if (o2g_area_format(area, 16, 16, 0, 0) || o2g_ring_open(&ring, area))
		abort();
	protocol->start();
	for (u32 i = 0; i < THREADS; i++) {
		struct thread *t = &thread[i];

		t->stores = 0;
		t->history = i + 1;
		t->over = 0;
		t->in_barrier = 0;
		getcontext(&t->context);
		t->context.uc_stack.ss_sp = t->stack;
		t->context.uc_stack.ss_size = sizeof(t->stack);
		t->context.uc_link = &scheduler;
		makecontext(&t->context, thread_main, 0);
	}
}

/* One run along `path`, then on by first choices while states are new. Gives
 * the path for the next run, or its length 0; true when the end was wrong. */
static int run_path(u32 *path, u32 *length)
{
	u32 choice[2 * THREADS], of[DEPTH], n = 0, count;
	int wrong;

	begin_run();
	runs++;
	while ((count = list_choices(choice))) {
		if (n >= DEPTH)
			abort();
		if (n >= *length) {
			if (!is_new())
				break;
			path[n] = 0;
		}
		of[n] = count;
		take_choice(choice[path[n++]]);
	}
	wrong = !count && protocol->wrong();
	while (n && path[n - 1] + 1 == of[n - 1])
		n--;
	if (n)
		path[n - 1]++;
	*length = n;
	return wrong;
}

static int search_protocol(const struct protocol *which)
{
	u32 path[DEPTH], length = 0;
	int wrong = 0;

	protocol = which;
	states = 0;
	runs = 0;
	memset(seen, 0, SEEN * sizeof(*seen));
	do
		wrong |= run_path(path, &length);
	while (length && !wrong);
	return wrong;
}

/* Submitting against holding. The program posts two receives, two messages
 * arrive: none may be held beside a receive that nobody will read. */
static u32 held, receives, kicked;

static void hold_start(void)
{
	held = 0;
	receives = 0;
	kicked = 0;
}

static void hold_program(void)
{
	const struct o2g_sqe sqe = {.op = O2G_OP_RECV};

	for (u32 i = 1; i <= 2; i++) {
		o2g_ring_submit(area, &sqe);
		if (o2g_ring_kicks(area))
			kicked = i;
	}
}

static void hold_read(void)
{
	for (int n = o2g_ring_waiting(&ring); n > 0; n--) {
		o2g_ring_next(&ring);
		if (held)
			held--;
		else
			receives++;
	}
}

static void hold_ask(void)
{
	u32 flags = held ? O2G_NEED_KICK : 0;

	while (o2g_ring_ask(&ring, flags)) {
		hold_read();
		flags |= held ? O2G_NEED_KICK : 0;
	}
}

static void hold_engine(void)
{
	for (u32 i = 0; i < 2; i++) {
		hold_read();
		if (receives)
			receives--;
		else
			held++;
		hold_ask();
	}
}

static int hold_wrong(void)
{
	return held && ring.sq_head < 2 && kicked < 2 && kicked <= ring.sq_head;
}

/* Completing against sleeping. */
static u32 asleep, woken;

static void sleep_start(void)
{
	asleep = 0;
	woken = 0;
}

static void sleep_program(void)
{
	struct o2g_cqe cqe;

	for (u32 got = 0; got < 2;) {
		if (o2g_ring_take(area, &cqe)) {
			got++;
			continue;
		}
		if (o2g_ring_sleeps(area)) {
			asleep = got + 1;
			return; /* it sleeps; is it woken? */
		}
		o2g_ring_awake(area);
	}
	asleep = 0;
}

static void sleep_engine(void)
{
	const struct o2g_cqe cqe = {.status = 0};

	for (u32 i = 1; i <= 2; i++) {
		o2g_ring_put(&ring, &cqe);
		if (o2g_ring_wakes(&ring))
			woken = i;
	}
}

static int sleep_wrong(void)
{
	return asleep && woken < asleep;
}

/* Making room against finding none. */
static u32 waiting, roomy;

static void room_start(void)
{
	area->cq.tail = 16;
	ring.cq_tail = 16;
	waiting = 0;
	roomy = 0;
}

static void room_program(void)
{
	struct o2g_cqe cqe;

	o2g_ring_take(area, &cqe);
	roomy = o2g_ring_roomy(area);
}

static void room_engine(void)
{
	const struct o2g_cqe cqe = {.status = 0};

	waiting = !o2g_ring_put(&ring, &cqe);
	while (o2g_ring_ask(&ring, waiting ? O2G_NEED_ROOM : 0) && waiting)
		waiting = !o2g_ring_put(&ring, &cqe);
}

static int room_wrong(void)
{
	return waiting && !roomy;
}

static const struct protocol protocols[] = {
	{"submit and hold",
	 hold_start,
	 {hold_program, hold_engine},
	 hold_wrong},
	{"complete and sleep",
	 sleep_start,
	 {sleep_program, sleep_engine},
	 sleep_wrong},
	{"make room and wait",
	 room_start,
	 {room_program, room_engine},
	 room_wrong},
};

int main(void)
{
	area = aligned_alloc(4096, 65536);
	seen = calloc(SEEN, sizeof(*seen));
	for (u32 i = 0; i < 3; i++) {
		const char *name = protocols[i].name;

		tap_ok(!search_protocol(&protocols[i]),
		       "%s: no entry is left unprocessed", name);
		printf("# %u states, %u runs\n", states, runs);
		tap_ok(states > 50,
		       "%s: the search reaches more than 50 states", name);
		no_barrier[PROGRAM] = 1;
		tap_ok(search_protocol(&protocols[i]),
		       "%s: fails without the program's barrier", name);
		no_barrier[PROGRAM] = 0;
		no_barrier[ENGINE] = 1;
		tap_ok(search_protocol(&protocols[i]),
		       "%s: fails without the engine's barrier", name);
		no_barrier[ENGINE] = 0;
	}
	return tap_done();
}
