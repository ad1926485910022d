// SPDX-License-Identifier: MIT
/*
 * The kernel engine as include/skep/o2g_device.h promises it, without a
 * library: what is refused, messages of every way, both ends in this process.
 */
#include "o2g_raw.h"

#include <signal.h>
#include <sys/wait.h>

#define LARGE (3u << 20)

static uint8_t *out, *in;

/* ---- what is refused ---- */

static int try_open(struct o2g_device_open options)
{
	int fd = open("/dev/" O2G_DEVICE_NAME, O_RDWR | O_CLOEXEC), r;

	if (fd < 0)
		raw_die("/dev/" O2G_DEVICE_NAME);
	r = raw_ioctl(fd, O2G_IOC_OPEN, &options);
	close(fd);
	return r;
}

static void refused_options(void)
{
	struct o2g_device_open o = raw_options();

	tap_ok(try_open(o) == 0, "an endpoint opens");
	o.revision++;
	tap_ok(try_open(o) == -EPROTO, "another revision is refused");
	o = raw_options();
	o.zero[1] = 1;
	tap_ok(try_open(o) == -EINVAL, "a reserved field is refused");
	o = raw_options();
	o.sq_entries = 100;
	tap_ok(try_open(o) == -EINVAL, "a ring of 100 is refused");
	o = raw_options();
	o.slab_message = 0;
	tap_ok(try_open(o) == -EINVAL, "no slab is refused");
	o = raw_options();
	o.cq_entries = 1u << 31;
	tap_ok(try_open(o) < 0, "a huge ring is refused");
	o = raw_options();
	o.unexpected = ~0ull;
	tap_ok(try_open(o) < 0, "a slab without end is refused");
	o = raw_options();
	o.postings = ~0u;
	o.peers = ~0u;
	tap_ok(try_open(o) == 0 || try_open(o) == -EINVAL ||
		       try_open(o) == -ENOMEM,
	       "huge numbers are accepted as limits or refused");
}

static void refused_calls(void)
{
	int fd = open("/dev/" O2G_DEVICE_NAME, O_RDWR | O_CLOEXEC);
	struct o2g_device_open o = raw_options();
	struct raw raw = raw_open();
	uint64_t us = 0;

	tap_ok(raw_ioctl(fd, O2G_IOC_KICK, 0) < 0 &&
		       raw_ioctl(fd, O2G_IOC_SLEEP, &us) < 0 &&
		       raw_ioctl(fd, O2G_IOC_CLOSE, 0) < 0,
	       "nothing works before O2G_IOC_OPEN");
	tap_ok(mmap(0, 65536, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED,
	       "neither does mmap");
	close(fd);
	tap_ok(raw_ioctl(raw.fd, O2G_IOC_OPEN, &o) < 0,
	       "an endpoint opens once");
	tap_ok(raw_ioctl(raw.fd, _IO('2', 99), 0) == -ENOTTY,
	       "an unknown call is refused");
	tap_ok(mmap(0, raw.size, PROT_READ, MAP_SHARED, raw.fd, 0) ==
		       MAP_FAILED,
	       "the area is mapped once");
	tap_ok(raw_ioctl(raw.fd, O2G_IOC_OPEN, (void *)8) == -EFAULT ||
		       raw_ioctl(raw.fd, O2G_IOC_PEER, (void *)8) == -EFAULT,
	       "a bad pointer is -EFAULT");
	raw_close(&raw);
}

/* With a key where there is to be none, or a flag that does not exist. */
static int try_keys(struct raw *raw, int socket, uint32_t encrypted, int at)
{
	struct o2g_device_attach attach = {.socket = socket,
					   .peer = 1,
					   .credit_out = RAW_CREDIT,
					   .credit_in = RAW_CREDIT,
					   .encrypted = encrypted};

	if (at >= 0)
		attach.key_out[at] = 1;
	return raw_ioctl(raw->fd, O2G_IOC_ATTACH, &attach);
}

static int try_attach(struct raw *raw, int socket, uint32_t peer,
		      uint32_t credit)
{
	struct o2g_device_attach attach = {.socket = socket,
					   .peer = peer,
					   .credit_out = credit,
					   .credit_in = RAW_CREDIT};

	return raw_ioctl(raw->fd, O2G_IOC_ATTACH, &attach);
}

static int set_ulp(int socket)
{
	return setsockopt(socket, IPPROTO_TCP, TCP_ULP, O2G_DEVICE_NAME,
			  sizeof(O2G_DEVICE_NAME))
		       ? -errno
		       : 0;
}

static void refused_sockets(void)
{
	struct raw raw = raw_open(), other = raw_open();
	int end[2], lone = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char byte = 1;

	raw_pair(end);
	tap_ok(try_attach(&raw, raw.fd, 1, RAW_CREDIT) == -ENOTSOCK,
	       "a file that is not a socket is refused");
	tap_ok(try_attach(&raw, -1, 1, RAW_CREDIT) == -EBADF,
	       "an invalid descriptor is refused");
	tap_ok(try_attach(&raw, end[0], 1, RAW_CREDIT) == -EINVAL,
	       "a socket without the ULP is refused");
	tap_ok(set_ulp(lone) < 0, "the ULP refuses an unconnected socket");
	tap_ok(set_ulp(end[0]) == 0 &&
		       try_attach(&raw, end[0], 9, RAW_CREDIT) < 0,
	       "an unknown peer is refused");
	tap_ok(try_attach(&raw, end[0], 1, 1) == -EINVAL,
	       "impossible credit is refused");
	tap_ok(try_keys(&raw, end[0], 0, 0) == -EINVAL &&
		       try_keys(&raw, end[0], 0, 2 * O2G_KEY_SIZE - 1) ==
			       -EINVAL &&
		       try_keys(&raw, end[0], 2, -1) == -EINVAL,
	       "keys of no encrypted socket are refused");
	tap_ok(try_attach(&raw, end[0], 1, RAW_CREDIT) == 0,
	       "a socket can be attached after refusals");
	tap_ok(try_attach(&other, end[0], 1, RAW_CREDIT) == -EBUSY,
	       "a socket cannot be attached twice");
	tap_ok(send(end[0], &byte, 1, MSG_NOSIGNAL) < 0 &&
		       recv(end[0], &byte, 1, MSG_DONTWAIT) < 0 &&
		       recv(end[0], &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0,
	       "an attached socket's owner can neither send nor receive");
	tap_ok(setsockopt(end[0], IPPROTO_TCP, TCP_ULP, "tls", 4) < 0,
	       "an attached socket takes no other ULP");
	close(lone);
	close(end[0]);
	raw_close(&raw);
	raw_close(&other);
	/* O2G_BYE, then the end of the stream. */
	tap_ok(recv(end[1], in, sizeof(struct o2g_frame), MSG_WAITALL) ==
			       sizeof(struct o2g_frame) &&
		       in[0] == O2G_BYE && recv(end[1], in, 1, 0) == 0,
	       "the other side gets BYE and the end");
	close(end[1]);
}

/* ---- messages ---- */

static bool await_received(struct raw *raw, uint8_t *buffer, uint64_t length,
			   unsigned seed)
{
	struct o2g_cqe cqe = raw_event(raw, buffer);

	return cqe.op == O2G_OP_RECV && cqe.status == 0 && cqe.tag == seed &&
	       cqe.length == length && raw_check(buffer, length, seed);
}

static bool await_sent(struct raw *raw)
{
	struct o2g_cqe cqe = raw_event(raw, 0);

	return cqe.op == O2G_OP_SEND && cqe.status == 0;
}

static void send_one(struct raw *from, struct raw *to, uint64_t length,
		     bool posted)
{
	static unsigned seed;
	struct o2g_device_counts before, after;

	memset(in, 0, length);
	raw_fill(out, length, ++seed);
	before = raw_counts(to);
	if (posted)
		raw_do(to, O2G_OP_RECV, 1, seed, in, length);
	raw_do(from, O2G_OP_SEND, 1, seed, out, length);
	if (!posted) { /* it is there before its receive is */
		double end = raw_now() + RAW_TIMEOUT_S;

		while (raw_counts(to).unmatched == 0 && raw_now() < end)
			usleep(1000);
		raw_do(to, O2G_OP_RECV, O2G_ANY_PEER, seed, in, length);
	}
	tap_ok(await_received(to, in, length, seed) && await_sent(from),
	       "%llu bytes to a receive that is posted %s",
	       (unsigned long long)length, posted ? "before" : "after");
	after = raw_counts(to);
	tap_ok(after.received == before.received + 1 &&
		       after.expected - before.expected == (posted ? 1 : 0) &&
		       after.unmatched == 0 && after.posted == 0,
	       "%llu bytes, posted %s: the counters say so",
	       (unsigned long long)length, posted ? "before" : "after");
}

static void test_messages(void)
{
	static const uint64_t sizes[] = {
		0, 8, 8192, 8193, 200000, RAW_CREDIT - 300, LARGE};
	struct raw a = raw_open(), b = raw_open();

	raw_join(&a, &b);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (int posted = 0; posted < 2; posted++)
			send_one(posted ? &a : &b, posted ? &b : &a, sizes[i],
				 posted);
	raw_close(&a);
	raw_close(&b);
}

static void test_itself(void)
{
	static const uint64_t sizes[] = {5, 100000, LARGE};
	struct raw a = raw_open();

	for (unsigned i = 0; i < 3; i++) {
		raw_fill(out, sizes[i], i);
		memset(in, 0, sizes[i]);
		raw_do(&a, O2G_OP_RECV, 0, i, in, sizes[i]);
		raw_do(&a, O2G_OP_SEND, 0, i, out, sizes[i]);
		for (int n = 0; n < 2; n++)
			raw_event(&a, in);
		tap_ok(raw_check(in, sizes[i], i), "%llu bytes to itself",
		       (unsigned long long)sizes[i]);
	}
	raw_close(&a);
}

/* Order, and rings that turn round often. */
static void test_many(void)
{
	enum { MESSAGES = 2000, WINDOW = 100 };
	struct raw a = raw_open(), b = raw_open();
	static uint32_t word[WINDOW], got[WINDOW];
	int bad = 0;

	raw_join(&a, &b);
	for (uint32_t n = 0; n < MESSAGES; n += WINDOW) {
		for (uint32_t i = 0; i < WINDOW; i++)
			raw_do(&b, O2G_OP_RECV, 1, 7, &got[i], 4);
		for (uint32_t i = 0; i < WINDOW; i++) {
			word[i] = n + i;
			raw_do(&a, O2G_OP_SEND, 1, 7, &word[i], 4);
		}
		for (uint32_t i = 0; i < WINDOW; i++) {
			raw_event(&b, &got[i]);
			bad += got[i] != n + i;
			raw_event(&a, 0);
		}
	}
	tap_ok(!bad, "%d messages come in order", MESSAGES);
	raw_close(&a);
	raw_close(&b);
}

/* ---- ends ---- */

static void test_death(void)
{
	struct raw a = raw_open(), b = raw_open();
	struct linger at_once = {1, 0};
	struct o2g_cqe cqe;
	int end[2];

	raw_join(&a, &b);
	raw_pair(end);
	raw_give(&a, end[0], 2);
	raw_do(&a, O2G_OP_RECV, 2, 1, in, 100);
	setsockopt(end[1], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(end[1]);
	cqe = raw_event(&a, in);
	tap_ok(cqe.status == -ECONNRESET,
	       "a reset fails the receive that names the peer");
	send_one(&b, &a, 100, true);
	raw_close(&a);
	raw_close(&b);
}

static void test_unknown_peer(void)
{
	struct raw a = raw_open();
	int status, end[2];
	pid_t child;

	raw_pair(end);
	child = fork();
	if (child == 0) {
		int bad = raw_ioctl(a.fd, O2G_IOC_KICK, 0) != -EPERM ||
			  try_attach(&a, end[0], 1, RAW_CREDIT) == 0;

		/* The area is not inherited: touching it is the end. */
		if (!bad)
			*(volatile uint32_t *)&a.area->magic;
		_exit(bad);
	}
	waitpid(child, &status, 0);
	tap_ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV,
	       "a child can neither call the endpoint nor map its area");
	tap_ok(raw_ioctl(a.fd, O2G_IOC_KICK, 0) == 0,
	       "the owner can call the endpoint after the child's attempt");
	close(end[0]), close(end[1]);
	raw_close(&a);
}

static void test_sleeping(void)
{
	struct raw a = raw_open(), b = raw_open();
	struct pollfd p = {.fd = b.fd, .events = POLLIN};
	uint64_t us = 1000;
	uint32_t ms = 0;

	raw_join(&a, &b);
	tap_ok(poll(&p, 1, 0) == 0, "no message has arrived");
	raw_ioctl(b.fd, O2G_IOC_SLEEP, &us);
	raw_do(&b, O2G_OP_RECV, 1, 3, in, 10);
	tap_ok(o2g_ring_sleeps(b.area), "the ring is empty");
	raw_do(&a, O2G_OP_SEND, 1, 3, out, 10);
	tap_ok(poll(&p, 1, (int)RAW_TIMEOUT_S * 1000) == 1,
	       "poll reports a message");
	o2g_ring_awake(b.area);
	raw_event(&b, in);
	raw_ioctl(b.fd, O2G_IOC_CALM, 0);
	tap_ok(poll(&p, 1, 0) == 0,
	       "poll reports nothing after the message was received");
	raw_ioctl(b.fd, O2G_IOC_WAKE, 0);
	tap_ok(poll(&p, 1, 0) == 1, "poll reports O2G_IOC_WAKE");
	raw_event(&a, 0);
	tap_ok(raw_ioctl(a.fd, O2G_IOC_FINISH, &ms) == -ETIMEDOUT ||
		       raw_ioctl(a.fd, O2G_IOC_FINISH, &ms) == 0,
	       "O2G_IOC_FINISH waits up to its timeout");
	raw_ioctl(a.fd, O2G_IOC_CLOSE, 0);
	tap_ok(raw_ioctl(a.fd, O2G_IOC_KICK, 0) == -ESHUTDOWN,
	       "calls after the end return -ESHUTDOWN");
	munmap(a.area, a.size);
	close(a.fd);
	raw_close(&b);
}

int main(void)
{
	alarm(scaled_timeout(300));
	out = malloc(LARGE);
	in = malloc(LARGE);
	if (!out || !in)
		raw_die("malloc");
	refused_options();
	refused_calls();
	test_messages();
	test_itself();
	test_many();
	refused_sockets();
	test_death();
	test_unknown_peer();
	test_sleeping();
	return tap_done();
}
