// SPDX-License-Identifier: MIT
/*
 * sms against a proxy that answers what it likes, at any moment: each answer is
 * made of bytes, written over the whole slot, `parts` and lengths too. Copies
 * are checked here against the buffers that the caller gave.
 */
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/include/user.h"
#include "sms/kernel/kernel.h"
#include "sms/test/play.h"

#define BUFFER 0x80000ull /* of the program: more than fits into a slot */
#define OWN 0x2000ull	  /* of abi */
#define GUARD 64
#define DATA 256 /* of the slot, that answers fill */

static struct core core;
static struct mail_slot *slot;
static u8 *program, own[OWN + GUARD], *mark;
static struct bytes answers;
/* What the proxy found of the last call, and the offsets of all. */
static struct {
	u32 calls, parts;
	u64 bytes; /* in parts */
	u64 arg[4];
	s64 offset[8];
	u8 data[DATA], path[MAIL_PATH_SIZE], bulk[512];
} asked;
/* Calls that are not answered at once: what happens during each halt. */
static void (*at_halt)(u32 halts);
static u32 halts;
static struct task task[2];
struct abi_proc *sms_proc;

struct core *sms_core_at(u32 number)
{
	must(!number);
	return &core;
}

static int has_handle(u32 op)
{
	return op == MAIL_FILE_CLOSE || op == MAIL_FILE_READ ||
	       op == MAIL_FILE_WRITE || op == MAIL_FILE || op == MAIL_SOCK;
}

static void note_call(void)
{
	u32 i;

	must(slot->state == MAIL_CALL);
	must(slot->handle == (has_handle(slot->op) ? 3 : -1));
	asked.offset[asked.calls++ % 8] = (s64)slot->arg[1];
	memcpy(asked.arg, slot->arg, sizeof(asked.arg));
	asked.parts = slot->parts;
	asked.bytes = 0;
	for (i = 0; i < slot->parts && i < MAIL_PARTS; i++)
		asked.bytes += slot->part[i].length;
	memcpy(asked.data, slot->data, DATA);
	memcpy(asked.path, slot->data + MAIL_PATH, sizeof(asked.path));
	memcpy(asked.bulk, slot->data + MAIL_BULK, sizeof(asked.bulk));
}

/* The proxy: anything, over everything that it can write. */
void sms_cpu_doorbell_call(struct core *c)
{
	must(c->slot == slot);
	note_call();
	if (at_halt)
		return;
	if (!answers.left) /* or a file would be read byte by byte */
		slot->result = slot->op == MAIL_IO_WAIT ? -LINUX_EIO : 0;
	take_bytes(&answers, slot, __builtin_offsetof(struct mail_slot, part));
	take_bytes(&answers, slot->data, DATA);
	take_bytes(&answers, slot->data + MAIL_BULK, 600);
	slot->state = take_one(&answers) ? MAIL_DONE : 77;
}

/* What is answered at once is neither looked for nor halted for. */
void sms_cpu_doorbell(void)
{
}

int sms_cpu_poll(const u32 *word, u32 expect)
{
	must(at_halt);
	return *word != expect;
}

void sms_halt(void)
{
	must(at_halt);
	at_halt(++halts);
}

int sms_events_is_here(void)
{
	return 0;
}

void sms_cpu_wait(const u32 *word, u32 expect, u64 deadline_ns)
{
	(void)word;
	(void)expect;
	(void)deadline_ns;
	must(0);
}

void sms_events_take(void)
{
}

struct task *sms_task_at(u32 thread)
{
	must(thread < 2);
	return &task[thread];
}

void sms_thread_ready(struct task *t)
{
	must(t->polled && !t->list);
}

int sms_thread_pass(const u32 *word, u32 expect, u64 deadline_ns)
{
	(void)word;
	(void)expect;
	(void)deadline_ns;
	return 0;
}

void sms_thread_loosen(void)
{
}

void sms_thread_stay(void)
{
}

s64 sms_time_clock(u32 clock)
{
	return clock + 1000;
}

static int is_inside(const void *at, u64 len, const u8 *start, u64 size)
{
	u64 offset = (u64)((const u8 *)at - start);

	return (const u8 *)at >= start && offset <= size &&
	       len <= size - offset;
}

static void check_side(const void *at, u64 len)
{
	must(is_inside(at, len, program, BUFFER) ||
	     is_inside(at, len, own, OWN) ||
	     is_inside(at, len, slot->data + MAIL_BULK, MAIL_BULK_SIZE));
}

u64 abi_user_move(void *to, const void *from, u64 n)
{
	check_side(to, n);
	check_side(from, n);
	memmove(to, from, n);
	return 0;
}

int sms_memory_touch(u64 addr, u32 prot)
{
	(void)prot;
	return is_inside((void *)addr, 1, program, BUFFER);
}

/* Every other page is its own part. */
u64 sms_memory_offset(u64 addr, u32 prot, u64 *length)
{
	(void)prot;
	*length = PAGE - addr % PAGE;
	return addr % (2 * PAGE) + (addr / PAGE % 4 ? 0 : 0x100000);
}

u32 abi_count_refused(const struct abi_proc *p, u32 nr)
{
	(void)p;
	return nr;
}

static void reset_slot(void)
{
	if (!slot) {
		slot = mmap(NULL, sizeof(*slot), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		program = mmap(
			(void *)SKEP_MMAP_START, BUFFER, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
			0);
		must(slot != MAP_FAILED && program == (u8 *)SKEP_MMAP_START);
		core.self = &core;
		core.slot = slot;
		core.ledger = &slot->ledger;
		must(!syscall(SYS_arch_prctl, ARCH_SET_GS, &core));
	}
	memset(&asked, 0, sizeof(asked));
	at_halt = 0;
	halts = 0;
	core.kicked = core.poll_kick = core.pollers = core.polling = 0;
	core.poller = NO_THREAD;
	task[0] = (struct task){.thread = 0};
	task[1] = (struct task){.thread = 1};
	mark = own + OWN;
	memset(mark, 0xa5, GUARD);
}

/* Both kinds of buffer, and as many bytes as the input says. */
static void *make_buffer(struct bytes *b, u64 *len)
{
	u32 size = 0;
	int is_own = take_one(b) & 1;

	take_bytes(b, &size, 3);
	*len = size % ((is_own ? OWN : BUFFER) + 1);
	return is_own ? own : program;
}

static void expect_good(s64 n, u64 most)
{
	must(n >= -4095 && (n < 0 || (u64)n <= most));
}

static void play_io(struct bytes *b, int writes)
{
	struct abi_io io = {.offset = take_one(b) & 1 ? ABI_STREAM : 5};

	io.buf = make_buffer(b, &io.len);
	answers = *b;
	expect_good(writes ? sms_forward_write(3, &io)
			   : sms_forward_read(3, &io),
		    io.len);
}

static void play_file(struct bytes *b)
{
	struct abi_file_op op = {.verb = take_one(b) % 9};
	struct abi_dirent entry = {0};
	struct abi_statfs statfs;
	struct abi_stat stat;

	op.stat = &stat;
	op.statfs = &statfs;
	op.dirent = &entry;
	answers = *b;
	expect_good(sms_forward_file(3, &op),
		    op.verb == ABI_FILE_WINSIZE ? 0xffffffff
		    : op.verb == ABI_FILE_AVAILABLE
			    ? 0x7fffffff
			    : op.verb == ABI_FILE_READDIR);
	must(memchr(entry.name, 0, sizeof(entry.name)));
}

static void play_path(struct bytes *b)
{
	struct abi_path_op op = {.verb = take_one(b) % 14, .path = "/a"};
	struct abi_statfs statfs;
	struct abi_stat stat;

	op.path2 = "/b";
	op.buf = make_buffer(b, &op.len);
	op.stat = &stat;
	op.statfs = &statfs;
	answers = *b;
	expect_good(sms_forward_path(&op),
		    op.verb == ABI_PATH_READLINK ? op.len : 0);
}

static void play_sock(struct bytes *b)
{
	struct abi_sock_op op = {.verb = take_one(b) % 11};
	u64 len;

	op.buf = make_buffer(b, &len);
	op.len = len;
	op.addrlen = take_one(b) % 129;
	answers = *b;
	expect_good(sms_forward_sock(3, &op), len);
	must(op.addrlen <= sizeof(op.addr));
	must(op.len <= len);
}

/* A thread that left the core before. */
static void add_poller(struct abi_poll *list, u32 count)
{
	task[1].list = list;
	task[1].count = count;
	task[1].until = 2000;
	core.pollers = 1;
	core.poller = 1;
}

/* One that has the core; each gets what is its own, and no more. */
static void play_wait(struct bytes *b)
{
	static struct abi_poll list[0x10001], other[0x10001];
	u32 count = 0, others = 0;

	take_bytes(b, &count, 2);
	take_bytes(b, &others, 2);
	answers = *b;
	core.kicked = take_one(&answers) & 1;
	if (take_one(&answers) & 1)
		add_poller(other, others);
	other[others].revents = 0xa5a5;
	list[count].revents = 0xa5a5;
	expect_good(sms_poll_wait(list, count, ABI_FOREVER, 0), count);
	task[1].kicked = core.poll_kick = take_one(&answers) & 1;
	sms_poll_look(&core);
	must(list[count].revents == 0xa5a5 && other[others].revents == 0xa5a5);
	must(core.pollers < 2 && (core.pollers || !core.polling));
	if (task[1].polled)
		expect_good(task[1].result, others);
}

static void play_open(struct bytes *b)
{
	struct abi_open open = {.path = "/a"};

	answers = *b;
	expect_good(sms_forward_open(&open), 0);
	expect_good(sms_forward_sock_open(1, 2, 3), 0x7fffffff);
	expect_good(sms_forward_close(3), 0);
}

int LLVMFuzzerTestOneInput(const u8 *data, __SIZE_TYPE__ size)
{
	struct bytes b = {data, size};
	u32 what = take_one(&b) % 7, i;

	reset_slot();
	if (what < 2)
		play_io(&b, (int)what);
	if (what == 2)
		play_file(&b);
	if (what == 3)
		play_path(&b);
	if (what == 4)
		play_sock(&b);
	if (what == 5)
		play_wait(&b);
	if (what == 6)
		play_open(&b);
	for (i = 0; i < GUARD; i++)
		must(mark[i] == 0xa5);
	return 0;
}

#ifndef SMS_FUZZ
#include "tests/tap.h"

/* What a proxy writes over the head of the slot; then the data. */
struct answer {
	u32 state, op;
	s32 handle;
	u32 parts;
	u64 arg[4];
	s64 result;
	u32 cancel, notify, slice, zero;
	u8 data[DATA];
};
_Static_assert(__builtin_offsetof(struct answer, data) ==
		       __builtin_offsetof(struct mail_slot, part),
	       "as in a slot");

static void set_answer(struct answer *a, s64 result, u32 parts)
{
	*a = (struct answer){.result = result, .parts = parts};
	answers = (struct bytes){(const u8 *)a, sizeof(*a)};
}

static void test_results(void)
{
	struct abi_io io = {.len = 100, .offset = ABI_STREAM};
	struct answer a;

	io.buf = own;
	set_answer(&a, 100, 0);
	tap_ok(sms_forward_read(3, &io) == 100, "results: all bytes");
	set_answer(&a, 101, 0);
	tap_ok(sms_forward_read(3, &io) == -LINUX_EIO,
	       "results: one byte above the request is refused");
	set_answer(&a, -4095, 0);
	tap_ok(sms_forward_read(3, &io) == -4095, "results: the largest errno");
	set_answer(&a, -4096, 0);
	tap_ok(sms_forward_read(3, &io) == -LINUX_EIO,
	       "results: a number above the largest errno is refused");
	set_answer(&a, (s64)(1ull << 63), 0);
	tap_ok(sms_forward_read(3, &io) == -LINUX_EIO,
	       "results: the smallest number is refused");
	set_answer(&a, 1, 0);
	tap_ok(sms_forward_close(3) == -LINUX_EIO,
	       "results: anything but 0 is refused where 0 is due");
	set_answer(&a, 1, 0);
	tap_ok(sms_forward_open(&(struct abi_open){.path = "/a"}) == -LINUX_EIO,
	       "results: an open with an error has no handle");
}

/* What the proxy answers to several calls, one after the other. */
struct reply {
	struct answer head;
	u8 bulk[600], done;
} __attribute__((packed));

static void answer_all(struct reply *r, u32 count)
{
	answers = (struct bytes){(const u8 *)r, count * sizeof(*r)};
}

/* A file with a position is read until its end, a stream as far as it gives.
 */
static void test_offsets(void)
{
	static const struct {
		s64 at, second, third, bytes;
		const char *name;
	} c[] = {
		{0, 100, 150, 150, "from its start"},
		{7, 107, 157, 150, "from further on"},
		{ABI_CURRENT, ABI_CURRENT, ABI_CURRENT, 150,
		 "from the position that Linux keeps"},
		{ABI_STREAM, 0, 0, 100, "a stream, once"},
	};
	struct abi_io io = {.buf = own, .len = OWN};
	u32 i;

	for (i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct reply r[3] = {{.head.result = 100}, {.head.result = 50}};

		reset_slot();
		answer_all(r, 3);
		io.offset = c[i].at;
		tap_ok(sms_forward_read(3, &io) == c[i].bytes && !asked.parts &&
			       asked.offset[0] == c[i].at &&
			       asked.offset[1] == c[i].second &&
			       asked.offset[2] == c[i].third,
		       "offsets: a file is read %s", c[i].name);
	}
}

static void test_directory(void)
{
	struct abi_dirent entry = {.next = 77};
	struct abi_file_op op = {.verb = ABI_FILE_READDIR, .dirent = &entry};
	struct reply r = {.head.result = 1};

	reset_slot();
	memset(r.bulk, 'x', sizeof(r.bulk));
	answer_all(&r, 1);
	tap_ok(sms_forward_file(3, &op) == 1 &&
		       ((struct abi_file_op *)asked.data)->verb ==
			       ABI_FILE_READDIR &&
		       ((struct abi_dirent *)asked.bulk)->next == 77 &&
		       strspn(entry.name, "x") == sizeof(entry.name) - 1,
	       "directory: an entry's name gets a terminator");
	memset(&entry, 0, sizeof(entry));
	r.head.result = 0;
	answer_all(&r, 1);
	tap_ok(sms_forward_file(3, &op) == 0 && !entry.name[0],
	       "directory: no entry is read behind the last");
}

/* An entry of a directory with the cookies 80, 81 and so on: 11 after a call of
 * the proxy, 10 without one. */
static s64 list_one(s32 handle, struct abi_dirent *entry, s64 answer)
{
	static struct abi_dirent all[MAIL_ENTRIES];
	struct abi_file_op op = {.verb = ABI_FILE_READDIR, .dirent = entry};
	struct reply r = {.head.result = answer};
	u32 before = asked.calls, i;
	s64 n;

	for (i = 0; i < MAIL_ENTRIES; i++)
		all[i].next = 80 + i;
	memcpy(slot->data + MAIL_BULK, all, sizeof(all));
	memcpy(r.bulk, all, sizeof(r.bulk));
	answer_all(&r, 1);
	n = sms_forward_file(handle, &op);
	return n < 0 ? n : n * 10 + (s64)(asked.calls - before);
}

static void test_listing(void)
{
	struct abi_dirent e = {.next = 77};
	u32 i, same = 0;

	for (i = 0; i < MAIL_ENTRIES; i++)
		same += list_one(3, &e, MAIL_ENTRIES) == 10 + !i &&
			e.next == 80 + i;
	tap_ok(same == i, "listing: one call of the proxy, many entries");
	tap_ok(list_one(3, &e, 2) == 11, "listing: then it is asked again");
	e.next++;
	tap_ok(list_one(3, &e, 2) == 11, "listing: another cookie asks");
	core.count.calls++;
	tap_ok(list_one(3, &e, 2) == 11, "listing: another system call asks");
	sms_forward_close(3);
	tap_ok(list_one(3, &e, 2) == 11, "listing: another use of the slot");
	core.listing.handle = 4;
	tap_ok(list_one(3, &e, 2) == 11, "listing: another directory asks");
	core.count.calls++;
	tap_ok(list_one(3, &e, MAIL_ENTRIES + 1) == -LINUX_EIO,
	       "listing: more than there is room for is an error");
}

/* Each operation that fills an object. */
static void test_objects(void)
{
	struct reply r = {.head.result = 0};
	struct abi_statfs statfs;
	struct abi_stat stat;
	u32 v;

	memset(r.bulk, 3, sizeof(r.bulk));
	for (v = 0; v <= ABI_PATH_STATFS; v++) {
		struct abi_path_op path = {.verb = v, .path = "/a"};
		struct abi_file_op file = {.verb = v};
		int of_stat = v == ABI_PATH_STAT || v == ABI_PATH_LSTAT;

		path.stat = file.stat = &stat;
		path.statfs = file.statfs = &statfs;
		if (v == ABI_PATH_READLINK)
			continue;
		reset_slot();
		stat.ino = statfs.type = 0;
		answer_all(&r, 1);
		tap_ok(!sms_forward_path(&path) && !stat.ino == !of_stat &&
			       !statfs.type == (v != ABI_PATH_STATFS),
		       "objects: of path operation %u", v);
		stat.ino = statfs.type = 0;
		answer_all(&r, 1);
		tap_ok(v == ABI_FILE_READDIR || v > ABI_FILE_PIPE_SIZE ||
			       (!sms_forward_file(3, &file) &&
				!stat.ino == (v != ABI_FILE_STAT) &&
				!statfs.type == (v != ABI_FILE_STATFS)),
		       "objects: of file operation %u", v);
	}
}

/* What a call says reaches the proxy, and no address of sms does. */
static void test_paths(void)
{
	static char text[MAIL_PATH_SIZE + 1];
	struct abi_path_op op = {.verb = ABI_PATH_UTIMENS, .mode = 5}, *to;
	struct abi_stat stat;
	struct answer a;

	reset_slot();
	to = (struct abi_path_op *)asked.data;
	op.path = op.path2 = "/name";
	op.times[1] = 9;
	op.stat = &stat;
	op.buf = own;
	set_answer(&a, 0, 0);
	tap_ok(!sms_forward_path(&op) && to->verb == ABI_PATH_UTIMENS &&
		       to->mode == 5 && to->times[1] == 9 &&
		       !strcmp((char *)asked.path, "/name"),
	       "paths: an operation and its name");
	tap_ok(!to->path && !to->path2 && !to->buf && !to->stat && !to->statfs,
	       "paths: a bad address is EFAULT");
	memset(text, 'x', sizeof(text) - 2);
	op.path = op.path2 = text;
	set_answer(&a, 0, 0);
	tap_ok(!sms_forward_path(&op) && !strcmp((char *)asked.path, text),
	       "paths: the longest name");
	text[MAIL_PATH_SIZE - 1] = 'x';
	tap_ok(sms_forward_path(&op) == -LINUX_ENAMETOOLONG && asked.calls == 2,
	       "paths: a byte more is refused here");
}

/* Parts of the pool stay that, whatever the slot says afterwards. */
static void test_parts(void)
{
	struct abi_io io = {.len = BUFFER, .offset = ABI_STREAM};
	struct answer a;

	io.buf = program;
	memset(program, 1, BUFFER);
	memset(slot->data, 2, sizeof(slot->data));
	set_answer(&a, BUFFER, 0);
	tap_ok(sms_forward_read(3, &io) == BUFFER && asked.bytes == BUFFER &&
		       program[0] == 1 && program[BUFFER - 1] == 1,
	       "parts: bytes that went to the pool do not come from the slot");
	io.buf = own;
	io.len = OWN;
	set_answer(&a, OWN, 9);
	tap_ok(sms_forward_read(3, &io) == (s64)OWN && own[OWN - 1] == 2,
	       "parts: bytes in the slot do not become parts");
}

static void test_sockets(void)
{
	struct abi_sock_op op = {.verb = ABI_SOCK_GETOPT}, *to;
	struct answer a;

	op.buf = own;
	op.len = 4;
	set_answer(&a, 0, 0);
	to = (struct abi_sock_op *)a.data;
	to->len = ~0ull;
	to->addrlen = ~0u;
	tap_ok(!sms_forward_sock(3, &op) && op.len == 4 &&
		       op.addrlen == sizeof(op.addr),
	       "sockets: an option is no longer than its buffer");
}

static void socket_bytes(void)
{
	struct abi_sock_op op = {.verb = ABI_SOCK_SEND};
	struct reply r = {.head.result = 4};

	reset_slot();
	memset(r.bulk, 'r', sizeof(r.bulk));
	memcpy(own, "sent", 4);
	op.buf = own;
	op.len = 4;
	answer_all(&r, 1);
	tap_ok(sms_forward_sock(3, &op) == 4 && !memcmp(asked.bulk, "sent", 4),
	       "sockets: bytes go out");
	op.verb = ABI_SOCK_SETOPT;
	r.head.result = 0;
	memcpy(own, "set!", 4);
	answer_all(&r, 1);
	tap_ok(!sms_forward_sock(3, &op) && !memcmp(asked.bulk, "set!", 4),
	       "sockets: an option goes out");
	op.verb = ABI_SOCK_RECV;
	r.head.result = 2;
	answer_all(&r, 1);
	tap_ok(sms_forward_sock(3, &op) == 2 && !memcmp(own, "rrt!", 4),
	       "sockets: as many bytes come as the result says");
	op.verb = ABI_SOCK_SEND;
	op.len = 0;
	r.head.result = 0;
	answer_all(&r, 1);
	asked.calls = 0;
	tap_ok(!sms_forward_sock(3, &op) && asked.calls == 1,
	       "sockets: an empty datagram is sent");
}

/* Moments of an answer ------------------------------------------------- */

static void nmi_answer(void)
{
	core.answered = core.poked = 1;
}

/* As the proxy does it: the answer, then who looks for it. */
static void answer_late(int notifies)
{
	slot->result = 0;
	slot->state = MAIL_DONE;
	if (notifies)
		slot->notify = 0;
}

static void at_once(u32 n)
{
	must(n == 1);
	answer_late(1);
	nmi_answer();
}

/* Another NMI ends the first halt. */
static void after_another(u32 n)
{
	must(n <= 2);
	if (n == 1)
		answer_late(1);
	else
		nmi_answer();
}

static void only_another(u32 n)
{
	must(n <= 2);
	if (n == 2)
		after_another(1), nmi_answer();
}

/* The proxy looked at `notify` before it was set: no NMI comes. */
static void answer_unasked(u32 n)
{
	must(n == 1);
	answer_late(0);
}

static void test_halted(void)
{
	static const struct {
		void (*during)(u32 n);
		u32 halts;
		const char *name;
	} c[] = {
		{at_once, 1, "the answer's NMI ends it"},
		{after_another, 2, "an answer's NMI is waited for"},
		{only_another, 2, "another NMI does not end it"},
		{answer_unasked, 1,
		 "does not wait for an NMI that nobody sends"},
	};
	u32 i;

	for (i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		reset_slot();
		at_halt = c[i].during;
		tap_ok(!sms_forward_close(3) && halts == c[i].halts &&
			       !slot->notify,
		       "halted: %s", c[i].name);
	}
	reset_slot();
}

/* The slot is used by a wait of a thread that has left the core. */
static void test_poll(void)
{
	static u8 none[256];
	struct abi_poll other = {.handle = 4};

	reset_slot();
	answers = (struct bytes){none, sizeof(none)};
	add_poller(&other, 1);
	sms_poll_look(&core);
	tap_ok(core.polling && !sms_forward_close(3) && !core.polling &&
		       core.pollers == 1,
	       "polls: a close waits until the slot is free");
}

/* What a call gets through the registers of the slot, and gives back. */
static void test_arguments(void)
{
	struct abi_sock_op op = {.verb = ABI_SOCK_ACCEPT, .handle = -1}, *from;
	struct abi_open open = {
		.path = "/a", .flags = 1, .mode = 2, .wait = 3, .handle = -1};
	struct answer a;

	reset_slot();
	set_answer(&a, 9, 0);
	tap_ok(sms_forward_sock_open(1, 2, 3) == 9 && asked.arg[0] == 1 &&
		       asked.arg[1] == 2 && asked.arg[2] == 3,
	       "arguments: a socket's domain, type and protocol");
	set_answer(&a, 0, 0);
	from = (struct abi_sock_op *)a.data;
	from->handle = 8;
	from->addrlen = 2;
	from->addr[0] = 'a';
	tap_ok(!sms_forward_sock(3, &op) && op.handle == 8 && op.addrlen == 2 &&
		       op.addr[0] == 'a',
	       "arguments: the socket and the peer that accept found");
	set_answer(&a, 0, 0);
	((struct abi_open *)a.data)->handle = 6;
	((struct abi_open *)a.data)->type = 7;
	tap_ok(!sms_forward_open(&open) && open.handle == 6 && open.type == 7 &&
		       ((struct abi_open *)asked.data)->flags == 1 &&
		       ((struct abi_open *)asked.data)->mode == 2 &&
		       ((struct abi_open *)asked.data)->wait == 3,
	       "arguments: how a file is opened, and what it is");
}

int main(void)
{
	reset_slot();
	test_results();
	test_offsets();
	test_directory();
	test_listing();
	test_objects();
	test_paths();
	test_poll();
	test_arguments();
	test_parts();
	test_sockets();
	socket_bytes();
	test_halted();
	tap_ok(play_random(20000), "random: 20000 answers of random bytes");
	return tap_done();
}
#endif
