// SPDX-License-Identifier: MIT
/*
 * Peers and ends that are no fault of the program's.
 *
 *   o2g_wreck frames     a peer that was let in sends what it must not
 *   o2g_wreck streams    it sends well, but in pieces, cut or never reads
 *   o2g_wreck records    it encrypts, and sends the same, or no records
 *   o2g_wreck deaths     a process is killed at every stage
 *   o2g_wreck traffic    messages until standard input ends
 */
#include "o2g_good.h"
#include "o2g_records.h"

#include <linux/io_uring.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define LARGE (16u << 20)

/* ---- a peer by hand: the other end of an attached socket ---- */

enum { PEERS = 2000 };
static struct raw target;
static uint32_t next_peer = 1;
static uint8_t body[O2G_BODY_MAX + 100];

/* An encrypted connection's own end; by its descriptor, while `raw_key_in` is
 * set. */
enum { FILES = 1024 };
static struct o2g_seal seal_of[FILES];
static uint8_t record[O2G_RECORD_MAX];

/* An endpoint with names for many. */
static void open_target(void)
{
	struct o2g_device_open options = raw_options();

	options.peers = PEERS;
	target = raw_open_with(options);
	for (uint32_t p = 3; p < PEERS; p++) {
		struct o2g_device_peer peer = {.peer = p};

		if (ioctl(target.fd, O2G_IOC_PEER, &peer))
			raw_die("O2G_IOC_PEER");
	}
}

static int connect_peer(uint32_t *number)
{
	int end[2];

	raw_pair(end);
	*number = next_peer++;
	raw_give(&target, end[0], *number);
	if (end[1] >= FILES)
		raw_die("too many files");
	o2g_seal_start(&seal_of[end[1]], key_in);
	return end[1];
}

static size_t make_record(int fd, const void *bytes, size_t length)
{
	memcpy(record + O2G_RECORD_HEAD, bytes, length);
	return o2g_record_seal(&seal_of[fd], record, (uint32_t)length);
}

static void send_bytes(int fd, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;

	while (length) {
		ssize_t n = send(fd, at, length, MSG_NOSIGNAL);

		if (n <= 0)
			return; /* it was cut off, as it should be */
		at += n;
		length -= (size_t)n;
	}
}

/* As a peer sends them: in records, if the connection is encrypted. */
static void write_bytes(int fd, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;
	size_t n;

	if (!raw_key_in) {
		send_bytes(fd, bytes, length);
		return;
	}
	for (; length; length -= n, at += n) {
		n = length < O2G_RECORD_TEXT ? length : O2G_RECORD_TEXT;
		send_bytes(fd, record, make_record(fd, at, n));
	}
}

static struct o2g_frame message_frame(uint64_t length, uint32_t bytes)
{
	return (struct o2g_frame){.type = O2G_MESSAGE,
				  .id = 1,
				  .context = 1,
				  .tag = 1,
				  .body = bytes,
				  .length = length};
}

/* The other side ended the stream. */
static bool cut_off(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n = 1;

	while (n > 0 && poll(&p, 1, (int)RAW_TIMEOUT_S * 1000) == 1)
		n = recv(fd, body, sizeof(body), 0);
	return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* Sends it to a receive that names the peer, which must fail. */
static void expect_failure(const char *what, const struct o2g_frame *frame,
			   int frames, size_t bytes)
{
	struct o2g_cqe cqe;
	uint32_t peer;
	int fd = connect_peer(&peer);

	raw_do(&target, O2G_OP_RECV, peer, 99, good_in, 100);
	write_bytes(fd, frame, sizeof(*frame) * (size_t)frames);
	write_bytes(fd, body, bytes);
	cqe = raw_event(&target, good_in);
	tap_ok(cqe.op == O2G_OP_RECV && cqe.status < 0 && cut_off(fd),
	       "frames: %s ends the connection: %s", what,
	       strerror(-cqe.status));
	close(fd);
}

static void one_wrong(const char *what, struct o2g_frame frame)
{
	expect_failure(what, &frame, 1,
		       frame.body < sizeof(body) ? frame.body : 0);
}

static void test_malformed(void)
{
	struct o2g_frame f[3];

	f[0] = (struct o2g_frame){.type = 0};
	one_wrong("type 0", f[0]);
	f[0].type = O2G_FRAME_TYPES;
	one_wrong("an unknown type", f[0]);
	f[0] = message_frame(10, 10);
	f[0].zero = 1;
	one_wrong("a reserved field", f[0]);
	f[0] = message_frame(10, 10);
	f[0].high = 1u << 31;
	one_wrong("another reserved field", f[0]);
	f[0] = message_frame(10, 10);
	f[0].flags = 0x80;
	one_wrong("an unknown flag", f[0]);
	one_wrong("a message without an id",
		  (struct o2g_frame){.type = O2G_MESSAGE, .context = 1});
	one_wrong("a body above the message's length", message_frame(5, 10));
	one_wrong("a body above every limit",
		  message_frame(O2G_BODY_MAX + 1, O2G_BODY_MAX + 1));
	one_wrong("a body of 4 GB", message_frame(~0u, ~0u));
	one_wrong("a message above every limit", message_frame(~0ull, 10));
	one_wrong("a message beyond credit", message_frame(RAW_CREDIT + 1, 10));
	f[0] = message_frame(0, 0);
	f[0].credit = 1;
	one_wrong("more credit than was spent", f[0]);
	one_wrong("a piece of no message",
		  (struct o2g_frame){.type = O2G_PIECE, .id = 5, .body = 10});
	one_wrong("a grant without a request",
		  (struct o2g_frame){.type = O2G_GRANT, .id = 5, .length = 9});
	one_wrong("an empty request",
		  (struct o2g_frame){.type = O2G_REQUEST, .id = 1});
	one_wrong("BYE with a body",
		  (struct o2g_frame){.type = O2G_BYE, .body = 1});
	one_wrong("an answer to no access",
		  (struct o2g_frame){.type = O2G_DONE, .id = 5});
	one_wrong("a reply to no read",
		  (struct o2g_frame){.type = O2G_REPLY, .id = 5, .body = 9});
	one_wrong("a write above its length",
		  (struct o2g_frame){.type = O2G_WRITE, .id = 5, .body = 9});
	f[0] = f[1] = message_frame(100000, 0);
	expect_failure("an id used twice", f, 2, 0);
	f[0] = message_frame(100000, 0);
	f[1] = (struct o2g_frame){.type = O2G_BYE};
	expect_failure("BYE inside a message", f, 2, 0);
	f[0] = f[1];
	expect_failure("frames after BYE", f, 2, 0);
}

/* Good frames with a few bits changed: nobody knows what must come of it, but
 * others stay as they are. */
static void random_frames(int rounds)
{
	int fd, ends = 0;
	uint32_t peer;

	for (int i = 0; i < rounds; i++) {
		struct o2g_frame f[4] = {
			message_frame(random_bits() % 50000, 0),
			message_frame(200000, 100000),
			message_frame(random_bits() % 300, 0),
			{.type = O2G_CREDIT}};
		uint8_t *bytes = (uint8_t *)f;

		fd = connect_peer(&peer);
		f[0].body = (uint32_t)f[0].length;
		f[1].id = 2, f[2].id = 3;
		f[2].type = random_bits() % 2 ? O2G_REQUEST : O2G_MESSAGE;
		for (uint64_t n = random_bits() % 4; n > 0; n--)
			bytes[random_bits() % sizeof(f)] ^=
				1 << random_bits() % 8;
		for (int n = 0; n < 4; n++) {
			write_bytes(fd, &f[n], sizeof(f[n]));
			write_bytes(fd, body, f[n].body % sizeof(body));
		}
		if (random_bits() % 2)
			shutdown(fd, SHUT_WR);
		close(fd);
		ends++;
	}
	tap_ok(ends == rounds && talk_good(),
	       "frames: %d peers with changed bits do not disturb others",
	       rounds);
}

static void close_target(void)
{
	ioctl(target.fd, O2G_IOC_CLOSE, 0);
	munmap(target.area, target.size);
	close(target.fd);
}

static void test_frames(void)
{
	open_target();
	test_malformed();
	random_frames(200);
	close_target();
}

/* ---- streams ---- */

/* A message a byte at a time, with urgent bytes between that are none. */
static void in_bytes(void)
{
	enum { LENGTH = 300 };
	struct o2g_frame frame = message_frame(LENGTH, LENGTH);
	struct o2g_cqe cqe;
	uint32_t peer;
	int fd = connect_peer(&peer);

	raw_fill(body, LENGTH, 9);
	raw_do(&target, O2G_OP_RECV, peer, 1, good_in, LENGTH);
	for (size_t i = 0; i < sizeof(frame); i++)
		write_bytes(fd, (uint8_t *)&frame + i, 1);
	for (size_t i = 0; i < LENGTH; i++)
		write_bytes(fd, body + i, 1);
	cqe = raw_event(&target, good_in);
	tap_ok(cqe.status == 0 && raw_check(good_in, LENGTH, 9),
	       "streams: a message sent byte by byte is complete");
	/* Now one whose end never comes. */
	raw_do(&target, O2G_OP_RECV, peer, 2, good_in, LENGTH);
	frame.tag = 2;
	write_bytes(fd, &frame, sizeof(frame));
	write_bytes(fd, body, LENGTH / 2);
	shutdown(fd, SHUT_WR);
	cqe = raw_event(&target, good_in);
	tap_ok(cqe.status == -ECONNRESET && cut_off(fd),
	       "streams: an end inside a message fails its receive");
	close(fd);
}

static void test_urgent(void)
{
	struct o2g_frame frame = message_frame(10, 10);
	uint32_t peer;
	int fd = connect_peer(&peer);

	raw_do(&target, O2G_OP_RECV, peer, 1, good_in, 10);
	write_bytes(fd, &frame, 20);
	send(fd, "!", 1, MSG_OOB | MSG_NOSIGNAL);
	write_bytes(fd, (uint8_t *)&frame + 20, sizeof(frame) - 20);
	write_bytes(fd, body, 10);
	close(fd);
	tap_ok(raw_event(&target, good_in).op == O2G_OP_RECV,
	       "streams: urgent data leave no receive behind");
}

/* Peers that send and never read: their end is served all the same. */
static void never_reads(void)
{
	uint8_t *large = malloc(LARGE);
	struct o2g_cqe cqe;
	uint32_t peer;
	int fd = connect_peer(&peer);

	for (int i = 0; i < 20; i++)
		raw_do(&target, O2G_OP_SEND, peer, 5, large, RAW_CREDIT / 32);
	raw_do(&target, O2G_OP_SEND, peer, 5, large, LARGE);
	tap_ok(talk_good(),
	       "streams: a peer that never reads does not delay others");
	for (int i = 0; i < 21; i++) {
		if (i == 0)
			close(fd);
		cqe = raw_event(&target, 0);
	}
	tap_ok(cqe.status < 0,
	       "streams: its end fails the sends that it did not read");
	free(large);
}

/* Floods of small messages that nobody receives, as far as they are read. */
static void test_flood(void)
{
	struct {
		struct o2g_frame frame;
		uint8_t text[40];
	} small = {.frame = message_frame(40, 40)};
	struct o2g_device_counts counts;
	uint32_t peer;
	int fds[20];

	for (int i = 0; i < 20; i++) {
		fds[i] = connect_peer(&peer);
		for (unsigned n = 1; n <= RAW_CREDIT / 300; n++) {
			small.frame.id = n;
			if (send(fds[i], &small, sizeof(small),
				 MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(small))
				break;
		}
	}
	tap_ok(talk_good(), "streams: 20 peers that flood do not delay others");
	counts = raw_counts(&target);
	tap_ok(counts.unmatched_bytes <= raw_options().unexpected,
	       "streams: no more than the limit is buffered: %llu bytes",
	       (unsigned long long)counts.unmatched_bytes);
	for (int i = 0; i < 20; i++)
		close(fds[i]);
}

static void test_streams(void)
{
	open_target();
	in_bytes();
	test_urgent();
	never_reads();
	test_flood();
	close_target();
}

/* ---- records ---- */

/* A record that arrives in pieces, the last of which may never come. */
static void split_record(size_t lost)
{
	struct o2g_frame frame = message_frame(0, 0);
	struct o2g_cqe cqe;
	uint32_t peer;
	int fd = connect_peer(&peer);
	const size_t size = make_record(fd, &frame, sizeof(frame));

	raw_do(&target, O2G_OP_RECV, peer, 1, good_in, 10);
	for (size_t i = 0; i + lost < size; i++)
		send_bytes(fd, record + i, 1);
	if (lost)
		shutdown(fd, SHUT_WR);
	cqe = raw_event(&target, good_in);
	tap_ok(lost ? cqe.status == -ECONNRESET && cut_off(fd) : !cqe.status,
	       "records: one without its last %zu bytes", lost);
	close(fd);
}

static uint64_t count_over_budget(void)
{
	struct o2g_device_counts counts = {.size = sizeof(counts)};

	if (ioctl(target.fd, O2G_IOC_COUNTS, &counts))
		raw_die("O2G_IOC_COUNTS");
	return counts.over_budget;
}

/* A message in records of a byte each, which all arrive at once: a softirq
 * opens some of them, and a worker the others. */
static void tiny_records(void)
{
	enum { LENGTH = 2000, SIZE = O2G_RECORD_HEAD + 1 + O2G_RECORD_TAG };
	static uint8_t all[LENGTH * SIZE];
	struct o2g_frame frame = message_frame(LENGTH, LENGTH);
	const uint64_t before = count_over_budget();
	struct o2g_cqe cqe;
	uint32_t peer;
	int fd = connect_peer(&peer);

	raw_fill(body, LENGTH, 7);
	write_bytes(fd, &frame, sizeof(frame));
	for (size_t i = 0; i < LENGTH; i++) {
		make_record(fd, body + i, 1);
		memcpy(all + i * SIZE, record, SIZE);
	}
	send_bytes(fd, all, sizeof(all));
	raw_do(&target, O2G_OP_RECV, peer, 1, good_in, LENGTH);
	cqe = raw_event(&target, good_in);
	tap_ok(!cqe.status && raw_check(good_in, LENGTH, 7),
	       "records: a message in records of a byte arrives");
	tap_ok(count_over_budget() > before,
	       "records: a softirq does not open all of them");
	close(fd);
}

/* Records of which a few bits are changed, that are cut, or that are none. */
static void random_records(int rounds)
{
	struct o2g_frame frame = message_frame(8000, 8000);
	int i, fd, wrong = 0;
	struct o2g_cqe cqe;
	uint32_t peer;
	size_t size;

	memcpy(body, &frame, sizeof(frame));
	for (i = 0; i < rounds; i++) {
		fd = connect_peer(&peer);
		raw_do(&target, O2G_OP_RECV, peer, 1, good_in, 8000);
		size = make_record(fd, body, sizeof(frame) + 8000);
		if (i % 4 == 0)
			memset(record, (int)random_bits(), size);
		else if (i % 4 == 1)
			size -= 1 + random_bits() % (size - 1);
		else
			record[random_bits() % size] ^= 1 << random_bits() % 8;
		send_bytes(fd, record, size);
		shutdown(fd, SHUT_WR);
		cqe = raw_event(&target, good_in);
		wrong += cqe.status >= 0 || !cut_off(fd);
		close(fd);
	}
	tap_ok(!wrong && talk_good(),
	       "records: %d wrong ones end their connections and no other",
	       rounds);
}

static void test_records(void)
{
	raw_key_out = key_out;
	raw_key_in = key_in;
	open_target();
	test_malformed();
	random_frames(100);
	in_bytes();
	for (size_t lost = 0; lost < 40; lost += 13)
		split_record(lost);
	tiny_records();
	random_records(200);
	close_target();
	leaves_late();
	raw_key_out = raw_key_in = NULL;
}

/* ---- deaths ---- */

enum stage {
	OPENED,
	MADE,
	ULP_SET,
	ATTACHED,
	POSTED,
	INSIDE_BODY,
	HELD,
	SENDING,
	SLEEPING,
	FINISHING,
	ENDED,
	STAGES
};
static const char *const stage_name[] = {"open",
					 "with an endpoint",
					 "with the ULP alone",
					 "attached",
					 "with receives posted",
					 "inside a large body",
					 "with a message buffered",
					 "with a send that blocks",
					 "asleep",
					 "finishing",
					 "with its endpoint closed"};

static int progress[2]; /* a pipe: the child tells its parent */

static void write_mark(void)
{
	if (write(progress[1], "x", 1) != 1)
		_exit(1);
}

static void read_mark(void)
{
	char byte;

	if (read(progress[0], &byte, 1) != 1)
		raw_die("the child ended by itself");
}

static void attach_far(struct raw *raw, int socket)
{
	struct o2g_device_attach attach = {.socket = socket,
					   .peer = 1,
					   .credit_out = 4 * LARGE,
					   .credit_in = RAW_CREDIT};

	if (ioctl(raw->fd, O2G_IOC_ATTACH, &attach))
		raw_die("O2G_IOC_ATTACH");
	close(socket);
}

/* Brings a process to that stage and stays there. */
static void reach_stage(enum stage stage, int near)
{
	uint64_t us = 3600000000ull;
	uint32_t ms = 3600000;
	struct raw raw;

	if (stage == OPENED) {
		if (open("/dev/" O2G_DEVICE_NAME, O_RDWR) < 0)
			raw_die("/dev/" O2G_DEVICE_NAME);
		return;
	}
	raw = raw_open();
	if (stage == MADE)
		return;
	if (setsockopt(near, IPPROTO_TCP, TCP_ULP, O2G_DEVICE_NAME,
		       sizeof(O2G_DEVICE_NAME)))
		raw_die("TCP_ULP");
	if (stage == ULP_SET)
		return;
	attach_far(&raw, near);
	if (stage == POSTED || stage == INSIDE_BODY)
		raw_do(&raw, O2G_OP_RECV, 1, 1, malloc(LARGE), LARGE);
	if (stage == POSTED || stage == SLEEPING)
		raw_do(&raw, O2G_OP_RECV, O2G_ANY_PEER, 2, malloc(99), 99);
	if (stage == SENDING || stage == FINISHING)
		raw_do(&raw, O2G_OP_SEND, 1, 1, malloc(LARGE), LARGE);
	while (stage == INSIDE_BODY && raw_counts(&raw).frames_in == 0)
		usleep(1000);
	while (stage == HELD && raw_counts(&raw).unmatched == 0)
		usleep(1000);
	if (stage == ENDED)
		raw_ioctl(raw.fd, O2G_IOC_CLOSE, 0);
	write_mark();
	if (stage == SLEEPING && o2g_ring_sleeps(raw.area))
		raw_ioctl(raw.fd, O2G_IOC_SLEEP, &us);
	if (stage == FINISHING)
		raw_ioctl(raw.fd, O2G_IOC_FINISH, &ms);
	for (;;)
		pause();
}

static char state_of(pid_t pid)
{
	char path[64], text[512] = "", *at;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return 0;
	close(fd);
	at = strrchr(text, ')');
	return at ? at[2] : 0;
}

static void kill_now(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, 0, 0);
}

static void killed_at(enum stage stage)
{
	double end = raw_now() + RAW_TIMEOUT_S;
	struct o2g_frame frame = message_frame(100000, 50000);
	int pair[2];
	pid_t child;

	if (stage == HELD)
		frame = message_frame(5000, 5000);
	raw_pair(pair);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[1]);
		reach_stage(stage, pair[0]);
		write_mark();
		for (;;)
			pause();
	}
	close(pair[0]);
	if (stage == HELD || stage == INSIDE_BODY) {
		write_bytes(pair[1], &frame, sizeof(frame));
		write_bytes(pair[1], body, stage == HELD ? frame.body : 20000);
	}
	read_mark();
	while (state_of(child) != 'S' && raw_now() < end)
		usleep(1000);
	kill_now(child);
	tap_ok(cut_off(pair[1]), "deaths: killed %s, its peer is told",
	       stage_name[stage]);
	tap_ok(talk_good(), "deaths: killed %s, others go on",
	       stage_name[stage]);
	close(pair[1]);
}

/* Messages of all sizes in a process of its own, a mark for each. */
static void run_chatter(void)
{
	static const uint64_t sizes[] = {1, 8192, 100000, 1000000};
	uint8_t *from = malloc(1000000), *to = malloc(1000000);
	struct raw a = raw_open(), b = raw_open();

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	raw_join(&a, &b);
	for (unsigned n = 0;; n++) {
		uint64_t length = sizes[n % 4];

		raw_do(&b, O2G_OP_RECV, 1, n, to, length);
		raw_do(&a, O2G_OP_SEND, 1, n, from, length);
		write_mark();
		raw_event(&b, to);
		raw_event(&a, 0);
	}
}

static void killed_amid(int times)
{
	for (int i = 0; i < times; i++) {
		pid_t child = fork();

		if (child == 0)
			run_chatter();
		for (uint64_t n = 1 + random_bits() % 30; n > 0; n--)
			read_mark();
		kill_now(child);
		/* What it told before its end. */
		close(progress[0]), close(progress[1]);
		if (pipe2(progress, O_CLOEXEC))
			raw_die("pipe");
	}
	tap_ok(talk_good(), "deaths: %d processes killed amid messages", times);
}

static void push_entry(struct raw *raw, uint8_t op, uint64_t n, void *at,
		       uint64_t length)
{
	const struct o2g_sqe sqe =
		raw_entry(op, 1 + (uint32_t)n % 2, n, at, length);

	while (!o2g_ring_submit(raw->area, &sqe))
		raw_ioctl(raw->fd, O2G_IOC_KICK, 0);
}

/* Some 27 GB to an endpoint of the same process whose receives are posted, and
 * hold nothing: no end of it waits for anybody. */
static void sends_to_itself(void)
{
	enum { SENDS = 30000, LENGTH = 900000 };
	struct o2g_device_open options = raw_options();
	uint8_t *from = malloc(LENGTH);
	struct raw a, b;
	int end[2];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	options.sq_entries = 4096;
	options.postings = SENDS + 1;
	a = raw_open_with(options);
	b = raw_open_with(options);
	raw_join(&a, &b);
	raw_pair(end);
	raw_give(&a, end[0], 2);
	raw_give(&b, end[1], 2);
	for (unsigned n = 0; n < SENDS; n++)
		push_entry(&b, O2G_OP_RECV, n, 0, 0);
	for (unsigned n = 0; n < SENDS; n++)
		push_entry(&a, O2G_OP_SEND, n, from, LENGTH);
	raw_ioctl(b.fd, O2G_IOC_KICK, 0);
	raw_ioctl(a.fd, O2G_IOC_KICK, 0);
	write_mark();
	for (;;)
		pause();
}

static int count_engines(void)
{
	FILE *f = fopen("/sys/module/o2g/parameters/engines", "r");
	int n = -1;

	if (!f || fscanf(f, "%d", &n) != 1)
		raw_die("/sys/module/o2g/parameters/engines");
	fclose(f);
	return n;
}

static void killed_busy(void)
{
	double end = raw_now() + RAW_TIMEOUT_S;
	int before = count_engines(), during;
	pid_t child = fork();

	if (child == 0)
		sends_to_itself();
	read_mark();
	during = count_engines();
	kill_now(child);
	while (count_engines() > before && raw_now() < end)
		usleep(1000);
	tap_ok(during == before + 2 && count_engines() == before,
	       "deaths: no endpoint of a dead process is left: %d, %d, %d "
	       "endpoints",
	       before, during, count_engines());
}

/* Then a worker of the kernel's closes it, and may not wait. */
static void last_in_a_ring(void)
{
	struct io_uring_params params = {.flags = 0};
	double end = raw_now() + RAW_TIMEOUT_S;
	int before = count_engines(), during, ring;
	struct raw raw = raw_open();

	ring = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (ring < 0 || syscall(SYS_io_uring_register, ring,
				IORING_REGISTER_FILES, &raw.fd, 1))
		raw_die("io_uring");
	during = count_engines();
	munmap(raw.area, raw.size);
	close(raw.fd);
	close(ring);
	while (count_engines() > before && raw_now() < end)
		usleep(1000);
	tap_ok(during == before + 1 && count_engines() == before,
	       "deaths: io_uring had its descriptor last: %d, %d, %d endpoints",
	       before, during, count_engines());
}

static void test_deaths(void)
{
	if (pipe2(progress, O_CLOEXEC))
		raw_die("pipe");
	/* These two count, so they come before those that leave much. */
	killed_busy();
	last_in_a_ring();
	for (enum stage stage = 0; stage < STAGES; stage++)
		killed_at(stage);
	killed_amid(12);
}

/* ---- traffic ---- */

static void test_traffic(void)
{
	struct pollfd p = {.fd = 0, .events = POLLIN};
	unsigned rounds = 0;
	bool on = true;

	while (on) {
		on = talk_good() && poll(&p, 1, 0) == 0;
		if (++rounds == 1) { /* whoever waits for it may begin */
			printf("# talking\n");
			fflush(stdout);
		}
	}
	tap_ok(poll(&p, 1, 0) == 1, "traffic: %u rounds", rounds);
}

int main(int argc, char **argv)
{
	static const struct way way[] = {{"frames", test_frames},
					 {"streams", test_streams},
					 {"records", test_records},
					 {"deaths", test_deaths},
					 {"traffic", test_traffic}};

	return run_way(way, sizeof(way) / sizeof(*way), argc, argv);
}
