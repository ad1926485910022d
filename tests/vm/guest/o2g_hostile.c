// SPDX-License-Identifier: MIT
/*
 * Programs that mean harm to the kernel engine, as an ordinary user.
 *
 *   o2g_hostile rings     the shared memory is rewritten while it is used
 *   o2g_hostile area      it is unmapped, protected, moved and lent meanwhile
 *   o2g_hostile calls     the device is called with whatever there is
 *   o2g_hostile buffers   buffers are unmapped and mapped anew
 */
#include "o2g_good.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/wait.h>

/* ---- rings ---- */

/* Where wrong messages may land without harm to this program: behind it nothing
 * is mapped, so one that is too long ends there. */
#define PLAYGROUND (4ul << 20)
#define NO_MANS_LAND (1ul << 40)
static uint8_t *playground;

static void make_playground(void)
{
	playground = mmap(0, PLAYGROUND + NO_MANS_LAND, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (playground == MAP_FAILED ||
	    mprotect(playground, PLAYGROUND, PROT_READ | PROT_WRITE))
		abort();
}

/* A number that an engine may stumble over. */
static uint64_t odd_number(void)
{
	switch (random_bits() % 8) {
	case 0:
		return random_bits() % 16;
	case 1:
		return ~0ull - random_bits() % 16;
	case 2:
		return 1ull << random_bits() % 64;
	case 3:
		return (1ull << random_bits() % 64) - 1;
	case 4:
		return (uintptr_t)playground + random_bits() % (PLAYGROUND / 2);
	case 5:
		return 0xffff888000000000ull + random_bits() % (1 << 30);
	case 6:
		return random_bits() % 70000;
	}
	return random_bits();
}

/* What a program may submit, and what it may not. */
static struct o2g_sqe any_entry(void)
{
	struct o2g_sqe sqe = {.op = random_bits() % 8,
			      .peer = random_bits() % 5,
			      .tag = random_bits() % 4,
			      .addr = (uintptr_t)playground,
			      .length = random_bits() % sizeof(good_in),
			      .cookie = random_bits(),
			      .context = 1};

	if (random_bits() % 4 == 0)
		sqe.flags = (uint8_t)random_bits();
	if (random_bits() % 8 == 0)
		sqe.peer = O2G_ANY_PEER;
	if (random_bits() % 8 == 0)
		sqe.addr = odd_number();
	if (random_bits() % 8 == 0)
		sqe.length = odd_number();
	if (random_bits() % 8 == 0)
		sqe.data = odd_number();
	if (random_bits() % 8 == 0)
		sqe.ignore = odd_number();
	if (random_bits() % 16 == 0)
		sqe.zero = (uint16_t)random_bits();
	return sqe;
}

static struct raw victim;
static int writer_over;

/* What a second thread rewrites in a round: nothing, everything but the four
 * indices, or everything. After a nonsensical index there is no service. */
enum { NOTHING, ENTRIES, EVERYTHING, REWRITES };
static int rewrites;

static bool an_index(uint64_t word)
{
	static const uint64_t at[] = {offsetof(struct o2g_area, sq.head),
				      offsetof(struct o2g_area, sq.tail),
				      offsetof(struct o2g_area, cq.head),
				      offsetof(struct o2g_area, cq.tail)};

	for (int i = 0; i < 4; i++)
		if (word == at[i] / 4)
			return true;
	return false;
}

static void *rewrite_area(void *end)
{
	volatile uint32_t *area = (volatile uint32_t *)victim.area;
	uint64_t own = (uintptr_t)&own, words = *(uint64_t *)end / 4;

	while (!__atomic_load_n(&writer_over, __ATOMIC_RELAXED)) {
		uint64_t word;

		own = own * 6364136223846793005ull + 1442695040888963407ull;
		word = (own >> 33) % words;
		if (rewrites == EVERYTHING || !an_index(word))
			area[word] = (uint32_t)(own >> 20);
	}
	return 0;
}

/* Submits whatever there is; how many of 400 kicks were answered. */
static int misuse_rings(struct raw *other, struct o2g_sqe *sqe)
{
	struct o2g_cqe cqe;
	uint32_t tail = 0;
	int served = 0;

	for (int i = 0; i < 400; i++) {
		for (uint32_t e = 0; e < 256; e++)
			if (random_bits() % 4 == 0)
				sqe[e] = any_entry();
		tail += 1 + (uint32_t)(random_bits() % 8);
		__atomic_store_n(&victim.area->sq.tail, tail, __ATOMIC_RELEASE);
		served += raw_ioctl(victim.fd, O2G_IOC_KICK, 0) == 0;
		victim.area->cq.head = victim.area->cq.tail;
		/* Messages meet whatever was posted. */
		raw_submit(other, raw_entry(O2G_OP_SEND, 1, random_bits() % 4,
					    good_out, random_bits() % 20000));
		while (o2g_ring_take(other->area, &cqe))
			;
	}
	return served;
}

static void close_raw(struct raw *raw)
{
	raw_ioctl(raw->fd, O2G_IOC_CLOSE, 0);
	munmap(raw->area, raw->size);
	close(raw->fd);
}

static void rewritten_round(int round)
{
	struct raw other = raw_open();
	struct o2g_sqe *sqe;
	pthread_t writer;
	uint64_t end;
	int served;

	victim = raw_open();
	raw_join(&victim, &other);
	/* Read before the header is rewritten. */
	sqe = (struct o2g_sqe *)((uint8_t *)victim.area + victim.area->sqe);
	end = victim.area->outbox; /* header and rings */
	rewrites = round % REWRITES;
	writer_over = 0;
	if (rewrites)
		pthread_create(&writer, 0, rewrite_area, &end);
	served = misuse_rings(&other, sqe);
	if (rewrites) {
		__atomic_store_n(&writer_over, 1, __ATOMIC_RELAXED);
		pthread_join(writer, 0);
	}
	if (rewrites != EVERYTHING)
		tap_ok(served == 400, "rings: round %d: every kick is answered",
		       round);
	close_raw(&victim);
	close_raw(&other);
	tap_ok(talk_good(), "rings: round %d does not disturb others", round);
}

static void test_rings(void)
{
	for (int round = 0; round < 3 * REWRITES; round++)
		rewritten_round(round);
}

/* ---- the area ---- */

/* In a child, which may be killed by what it does to itself. */
static void area_in_child(const char *what, void (*wrong)(struct raw *raw))
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		struct raw a = raw_open(), b = raw_open();
		void *buffer = malloc(1 << 20);

		raw_join(&a, &b);
		raw_do(&a, O2G_OP_RECV, 1, 1, buffer, 100);
		raw_do(&a, O2G_OP_RECV, 1, 2, buffer, 1 << 20);
		wrong(&a);
		for (unsigned tag = 0; tag < 4; tag++)
			raw_do(&b, O2G_OP_SEND, 1, tag, good_out,
			       tag == 2 ? sizeof(good_out) : 100);
		for (int i = 0; i < 20; i++)
			raw_ioctl(a.fd, O2G_IOC_KICK, 0);
		raw_event(&b, 0);
		_exit(0);
	}
	waitpid(child, &status, 0);
	tap_ok((WIFEXITED(status) && !WEXITSTATUS(status)) ||
		       (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV),
	       "area: %s harms only its own program", what);
	tap_ok(talk_good(), "area: %s: others go on", what);
}

static void area_unmap(struct raw *raw)
{
	munmap(raw->area, raw->size);
}

static void partly_unmapped(struct raw *raw)
{
	munmap((uint8_t *)raw->area + raw->size / 2, raw->size / 2 & ~4095ull);
}

static void read_only(struct raw *raw)
{
	mprotect(raw->area, raw->size, PROT_READ);
}

static void area_protect(struct raw *raw)
{
	mprotect(raw->area, raw->size, PROT_READ | PROT_WRITE | PROT_EXEC);
}

static void area_move(struct raw *raw)
{
	mremap(raw->area, raw->size, raw->size, MREMAP_MAYMOVE);
	mremap(raw->area, raw->size, raw->size * 2, MREMAP_MAYMOVE);
	mremap(raw->area, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED,
	       mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

static void area_replace(struct raw *raw)
{
	mmap(raw->area, raw->size, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void area_advise(struct raw *raw)
{
	for (int advice = 0; advice < 32; advice++)
		madvise(raw->area, raw->size, advice);
}

static void area_lend(struct raw *raw)
{
	/* The module copies the slab into itself, or from itself. */
	uint8_t *slab = (uint8_t *)raw->area + raw->area->slab;

	for (unsigned tag = 0; tag < 8; tag++) {
		raw_do(raw, O2G_OP_RECV, O2G_ANY_PEER, tag, slab, 65536);
		raw_do(raw, O2G_OP_SEND, 1, tag, raw->area, 65536);
		raw_do(raw, O2G_OP_SEND, 0, tag, raw->area, 65536);
	}
}

static void area_close(struct raw *raw)
{
	close(raw->fd);
}

static void replaced_by_exec(struct raw *raw)
{
	(void)raw;
	execl("/bin/true", "true", (char *)0);
}

static void test_area(void)
{
	area_in_child("unmapping", area_unmap);
	area_in_child("unmapping half", partly_unmapped);
	area_in_child("making it read-only", read_only);
	area_in_child("making it executable", area_protect);
	area_in_child("moving it", area_move);
	area_in_child("mapping over it", area_replace);
	area_in_child("madvise on it", area_advise);
	area_in_child("a buffer in it", area_lend);
	area_in_child("closing the device", area_close);
	area_in_child("exec", replaced_by_exec);
}

/* ---- calls ---- */

static void any_call(struct raw *raw, int socket)
{
	uint64_t words[20];
	unsigned long request = _IOC(random_bits() % 4, '2', random_bits() % 14,
				     random_bits() % 200);
	static const unsigned long real[] = {
		O2G_IOC_OPEN,	O2G_IOC_PEER,	  O2G_IOC_LOST,
		O2G_IOC_ATTACH, O2G_IOC_IDENTIFY, O2G_IOC_KICK,
		O2G_IOC_WAKE,	O2G_IOC_CALM,	  O2G_IOC_COUNTS};

	for (int i = 0; i < 20; i++)
		words[i] = random_bits() % 3 ? odd_number() : 0;
	if (random_bits() % 4)
		request = real[random_bits() % (sizeof(real) / sizeof(*real))];
	if (random_bits() % 4 == 0)
		memcpy(words, &socket, sizeof(socket));
	if (random_bits() % 16 == 0)
		raw_ioctl(raw->fd, request, (void *)odd_number());
	else if (request != (unsigned long)O2G_IOC_COUNTS)
		raw_ioctl(raw->fd, request, words);
	else {
		uint64_t counts[64] = {random_bits() % 3 ? random_bits() % 513
							 : odd_number()};

		raw_ioctl(raw->fd, request, counts);
	}
}

static void test_calls(void)
{
	for (int round = 0; round < 20; round++) {
		struct raw raw = {.fd = open("/dev/" O2G_DEVICE_NAME,
					     O_RDWR | O_CLOEXEC)};
		int end[2];

		raw_pair(end);
		setsockopt(end[0], IPPROTO_TCP, TCP_ULP, O2G_DEVICE_NAME,
			   sizeof(O2G_DEVICE_NAME));
		if (round % 2) {
			close(raw.fd);
			raw = raw_open();
		}
		for (int i = 0; i < 1000; i++)
			any_call(&raw, end[0]);
		if (raw.area)
			munmap(raw.area, raw.size);
		close(raw.fd);
		close(end[0]), close(end[1]);
	}
	tap_ok(talk_good(), "calls: 20,000 of any kind");
}

/* ---- buffers ---- */

enum { BUFFER = 300000 };

/* Each message lands in the mapping that is there when it comes. */
static void test_remapped(void)
{
	void *place =
		mmap(0, BUFFER, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static uint8_t text[BUFFER];
	int bad = 0;

	for (unsigned n = 0; n < 50; n++) {
		uint64_t length = n % 2 ? BUFFER : 5000;
		uint8_t *at =
			mmap(place, BUFFER, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		struct o2g_cqe cqe;

		raw_fill(text, length, n);
		raw_do(&good[1], O2G_OP_RECV, 1, n, at, length);
		raw_do(&good[0], O2G_OP_SEND, 1, n, text, length);
		cqe = raw_event(&good[1], at);
		raw_event(&good[0], 0);
		bad += cqe.status != 0 || !raw_check(at, length, n);
		munmap(at, BUFFER);
	}
	tap_ok(!bad, "buffers: each message is written to the newest mapping");
}

/* A send or a receive whose memory is gone fails, alone or with its
 * connection. */
static void test_missing(const char *what, bool sends, int protection)
{
	struct raw a = raw_open(), b = raw_open();
	uint8_t *at = mmap(0, BUFFER, protection, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0),
		*fine = malloc(BUFFER);
	struct o2g_cqe cqe;

	raw_join(&a, &b);
	if (protection == PROT_NONE)
		munmap(at, BUFFER);
	raw_do(&b, O2G_OP_RECV, 1, 1, sends ? fine : at, BUFFER);
	raw_do(&a, O2G_OP_SEND, 1, 1, sends ? at : fine, BUFFER);
	cqe = raw_event(sends ? &a : &b, fine);
	tap_ok(cqe.status < 0, "buffers: %s fails: %s", what,
	       strerror(-cqe.status));
	raw_close(&a);
	raw_close(&b);
	free(fine);
	munmap(at, BUFFER);
}

/* A file whose end comes before the buffer's. */
static void cut_short(void)
{
	int fd = memfd_create("short", MFD_CLOEXEC);
	struct raw a = raw_open(), b = raw_open();
	static uint8_t text[BUFFER];
	uint8_t *at;

	if (ftruncate(fd, BUFFER))
		raw_die("ftruncate");
	at = mmap(0, BUFFER, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	raw_join(&a, &b);
	raw_do(&b, O2G_OP_RECV, 1, 1, at, BUFFER);
	if (ftruncate(fd, BUFFER / 2))
		raw_die("ftruncate");
	raw_do(&a, O2G_OP_SEND, 1, 1, text, BUFFER);
	tap_ok(raw_event(&b, at).status < 0,
	       "buffers: a receive into a file that was cut fails");
	raw_close(&a);
	raw_close(&b);
	munmap(at, BUFFER);
	close(fd);
}

static void *churn_mapping(void *place)
{
	while (!__atomic_load_n(&writer_over, __ATOMIC_RELAXED)) {
		mmap(place, BUFFER, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		for (int i = 0; i < 30; i++) /* some come, some fail */
			sched_yield();
		mmap(place, BUFFER, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
	return 0;
}

/* Memory that comes and goes while messages arrive there. */
static void test_churned(void)
{
	uint8_t *place =
		mmap(0, BUFFER, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static uint8_t text[BUFFER];
	int ended = 0, received = 0;
	pthread_t other;

	writer_over = 0;
	pthread_create(&other, 0, churn_mapping, place);
	for (int round = 0; round < 40; round++) {
		struct raw a = raw_open(), b = raw_open();
		struct o2g_cqe cqe;

		raw_join(&a, &b);
		raw_do(&b, O2G_OP_RECV, 1, 1, place, BUFFER);
		raw_do(&a, O2G_OP_SEND, 1, 1, text, BUFFER);
		cqe = raw_event(&b, text);
		received += cqe.status == 0;
		ended += cqe.status < 0;
		raw_close(&a);
		raw_close(&b);
	}
	__atomic_store_n(&writer_over, 1, __ATOMIC_RELAXED);
	pthread_join(other, 0);
	tap_ok(received + ended == 40,
	       "buffers: memory that comes and goes: %d came, %d failed",
	       received, ended);
	munmap(place, BUFFER);
}

static void test_buffers(void)
{
	test_remapped();
	test_missing("a receive into unmapped memory", false, PROT_NONE);
	test_missing("a receive into read-only memory", false, PROT_READ);
	test_missing("a send from unmapped memory", true, PROT_NONE);
	cut_short();
	test_churned();
}

int main(int argc, char **argv)
{
	static const struct way way[] = {{"rings", test_rings},
					 {"area", test_area},
					 {"calls", test_calls},
					 {"buffers", test_buffers}};

	make_playground();
	return run_way(way, sizeof(way) / sizeof(*way), argc, argv);
}
