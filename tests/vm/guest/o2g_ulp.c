// SPDX-License-Identifier: MIT
/*
 * Attached sockets against everybody who still has a descriptor of one, and
 * against what TCP does: every way of reading, writing and bending the stream
 * is refused or does no harm, and each end of a stream is the right one. Run
 * as root, to whom more is allowed. With `silence`: how long a dead host is
 * waited for.
 */
#include "o2g_good.h"

#include <linux/bpf.h>
#include <linux/kcm.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <skep/o2g_wire.h>

#ifndef TCP_ZEROCOPY_RECEIVE
#define TCP_ZEROCOPY_RECEIVE 35
#endif
#define FRAME sizeof(struct o2g_frame)

/* An endpoint with one attached socket, whose descriptor stays open here, and
 * the plain other end of it. */
struct bench {
	struct raw raw;
	int near, far;
};

static uint8_t in[1 << 20];

static int set_ulp(int fd)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_ULP, O2G_DEVICE_NAME,
			  sizeof(O2G_DEVICE_NAME))
		       ? -errno
		       : 0;
}

static struct bench bench_of(int family)
{
	struct bench b = {.raw = raw_open()};
	int end[2], r;

	raw_pair_of(family, end);
	b.near = end[0];
	b.far = end[1];
	r = raw_attach(&b.raw, b.near, 1);
	if (r) {
		errno = -r;
		raw_die("O2G_IOC_ATTACH");
	}
	return b;
}

static struct bench open_bench(void)
{
	return bench_of(AF_INET);
}

static void bench_close(struct bench *b)
{
	if (b->near >= 0)
		close(b->near);
	if (b->far >= 0)
		close(b->far);
	raw_close(&b->raw);
}

/* ---- the other end, by hand ---- */

static struct o2g_frame make_header(uint8_t type, uint64_t tag, uint64_t length)
{
	static uint32_t id;

	return (struct o2g_frame){.type = type,
				  .id = type == O2G_BYE ? 0 : ++id,
				  .context = 1,
				  .tag = tag,
				  .length = length,
				  .body = (uint32_t)length};
}

static void write_bytes(int fd, const void *bytes, size_t length)
{
	if (send(fd, bytes, length, MSG_NOSIGNAL) != (ssize_t)length)
		raw_die("send");
}

static void put_message(int fd, uint64_t tag, const void *body, size_t length)
{
	struct o2g_frame frame = make_header(O2G_MESSAGE, tag, length);

	write_bytes(fd, &frame, sizeof(frame));
	write_bytes(fd, body, length);
}

static void put_bye(int fd)
{
	struct o2g_frame frame = {.type = O2G_BYE};

	write_bytes(fd, &frame, sizeof(frame));
}

static void post_receive(struct raw *raw, uint64_t tag)
{
	raw_do(raw, O2G_OP_RECV, 1, tag, in, sizeof(in));
}

/* A message from the far end arrives as it should. */
static bool message_arrives(struct bench *b)
{
	static uint64_t tag = 1000;
	struct o2g_cqe cqe;

	post_receive(&b->raw, ++tag);
	put_message(b->far, tag, "hello", 6);
	cqe = raw_event(&b->raw, in);
	return cqe.status == 0 && cqe.tag == tag && cqe.length == 6 &&
	       !memcmp(in, "hello", 6);
}

static int status_of(struct raw *raw)
{
	return raw_event(raw, in).status;
}

/* ---- ways to read and write ---- */

static bool is_busy(long r)
{
	return r < 0 && errno == EBUSY;
}

static void test_reading(struct bench *b)
{
	struct o2g_frame frame = make_header(O2G_MESSAGE, 7, 4);
	int file[2], r;
	char byte[8];

	/* Half a frame lies there, or has been taken. */
	post_receive(&b->raw, 7);
	write_bytes(b->far, &frame, 20);
	tap_ok(is_busy(recv(b->near, byte, 1, 0)), "recv");
	tap_ok(is_busy(recv(b->near, byte, 1, MSG_PEEK)), "peek");
	tap_ok(is_busy(recv(b->near, byte, 1, MSG_OOB)), "urgent recv");
	tap_ok(is_busy(recv(b->near, byte, 1, MSG_ERRQUEUE)),
	       "the error queue");
	tap_ok(is_busy(read(b->near, byte, 1)), "read");
	r = pipe(file);
	tap_ok(!r && is_busy(splice(b->near, 0, file[1], 0, 8,
				    SPLICE_F_NONBLOCK)),
	       "splice from it");
	close(file[0]);
	close(file[1]);
	write_bytes(b->far, (uint8_t *)&frame + 20, sizeof(frame) - 20);
	write_bytes(b->far, "four", 4);
	tap_ok(status_of(&b->raw) == 0 && !memcmp(in, "four", 4),
	       "no call took a byte of the stream");
}

static void test_writing(struct bench *b, const char *over)
{
	int file[2], zero = open("/proc/self/exe", O_RDONLY), on = 1;
	char byte[8] = "byte";

	setsockopt(b->near, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on));
	tap_ok(is_busy(send(b->near, byte, 4, MSG_NOSIGNAL)), "send over %s",
	       over);
	tap_ok(is_busy(send(b->near, byte, 4, MSG_NOSIGNAL | MSG_ZEROCOPY)),
	       "send without a copy over %s", over);
	tap_ok(is_busy(send(b->near, byte, 1, MSG_NOSIGNAL | MSG_OOB)),
	       "urgent send over %s", over);
	tap_ok(is_busy(write(b->near, byte, 4)), "write over %s", over);
	tap_ok(is_busy(sendfile(b->near, zero, 0, 8)), "sendfile over %s",
	       over);
	if (pipe(file) || write(file[1], byte, 4) != 4)
		raw_die("pipe");
	tap_ok(is_busy(splice(file[0], 0, b->near, 0, 4, SPLICE_F_NONBLOCK)),
	       "splice to it over %s", over);
	close(file[0]);
	close(file[1]);
	close(zero);
	tap_ok(recv(b->far, byte, 8, MSG_DONTWAIT) < 0 && errno == EAGAIN,
	       "no call put a byte into the stream over %s", over);
}

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

static void test_bending(struct bench *b)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	struct linger now = {.l_onoff = 1};
	struct pollfd p = {.fd = b->near, .events = POLLIN | POLLOUT};
	char copy[64] = "";
	socklen_t length = sizeof(copy);

	tap_ok(is_busy(shutdown(b->near, SHUT_RDWR)), "shutdown");
	tap_ok(is_busy(connect(b->near, &none, sizeof(none))), "disconnect");
	tap_ok(is_busy(listen(b->near, 1)), "listen");
	tap_ok(accept(b->near, 0, 0) < 0, "accept");
	tap_ok(setsockopt(b->near, IPPROTO_TCP, TCP_ULP, "tls", 4) < 0 &&
		       set_ulp(b->near) < 0,
	       "another ULP, or this one again");
	tap_ok(set_option(b->near, IPPROTO_TCP, TCP_REPAIR, 1) == -EBUSY,
	       "repair");
	tap_ok(set_option(b->near, SOL_SOCKET, SO_RCVLOWAT, 1 << 20) == -EBUSY,
	       "a low-water mark");
	tap_ok(is_busy(getsockopt(b->near, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE,
				  copy, &length)),
	       "reading by mapped pages");
	tap_ok(is_busy((long)mmap(0, 4096, PROT_READ, MAP_SHARED, b->near, 0)),
	       "mapping");
	length = sizeof(copy);
	tap_ok(getsockopt(b->near, IPPROTO_TCP, TCP_INFO, copy, &length) == 0,
	       "the stream can be inspected");
	setsockopt(b->near, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	set_option(b->near, SOL_SOCKET, SO_SNDBUF, 4096);
	set_option(b->near, SOL_SOCKET, SO_RCVBUF, 1);
	poll(&p, 1, 0);
	tap_ok(message_arrives(b), "the stream goes on");
}

/* Such a socket can be made one of IPv4, unless it is attached. */
static void test_mapped(void)
{
	struct bench b = bench_of(RAW_MAPPED);

	tap_ok(set_option(b.near, IPPROTO_IPV6, IPV6_ADDRFORM, AF_INET) ==
			       -EBUSY &&
		       set_option(b.far, IPPROTO_IPV6, IPV6_ADDRFORM,
				  AF_INET) == 0,
	       "another family");
	tap_ok(message_arrives(&b), "IPv4 as IPv6 is served");
	bench_close(&b);
}

/* ---- others in the kernel who take sockets ---- */

static int bpf_call(int command, union bpf_attr *attr)
{
	int r = (int)syscall(SYS_bpf, command, attr, sizeof(*attr));

	return r < 0 ? -errno : r;
}

/* A program that says 0. */
static int load_program(void)
{
	struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0},
		{.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
			       .insn_cnt = 2,
			       .insns = (uintptr_t)code,
			       .license = (uintptr_t) "GPL"};

	return bpf_call(BPF_PROG_LOAD, &attr);
}

static int to_kcm(int fd, int socket, int program)
{
	struct kcm_attach attach = {.fd = socket, .bpf_fd = program};

	return raw_ioctl(fd, SIOCKCMATTACH, &attach);
}

static int to_map(int map, int socket)
{
	int key = 0;
	union bpf_attr attr = {.map_fd = (uint32_t)map};

	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)&socket;
	return bpf_call(BPF_MAP_UPDATE_ELEM, &attr);
}

/* Is there a KCM that this kernel could load? Only the answer "no such module"
 * is a no. */
static bool has_kcm(void)
{
	const int status = system("modprobe -n kcm >/dev/null 2>&1");

	return !WIFEXITED(status) || WEXITSTATUS(status) != 1;
}

/* Both take a plain socket, which shows that it is not for another reason that
 * they do not take an attached one. */
static void to_kernel_connections(struct bench *b)
{
	static const char *const names[] = {
		"KCM does not get a socket with the ULP",
		"a socket of KCM does not get the ULP"};
	int kcm = socket(AF_KCM, SOCK_SEQPACKET, 0), code = load_program(),
	    end[2];

	if (kcm < 0 && errno == EAFNOSUPPORT && !has_kcm()) {
		for (int i = 0; i < 2; i++)
			tap_skip(names[i], "this kernel was built without KCM");
		close(code);
		return;
	}
	raw_pair(end);
	tap_ok(to_kcm(kcm, b->near, code) < 0 && to_kcm(kcm, end[0], code) == 0,
	       "%s", names[0]);
	tap_ok(set_ulp(end[0]) < 0, "%s", names[1]);
	close(kcm);
	close(code);
	close(end[0]);
	close(end[1]);
}

static void to_socket_map(struct bench *b)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_SOCKMAP,
			       .key_size = 4,
			       .value_size = 4,
			       .max_entries = 1};
	int map = bpf_call(BPF_MAP_CREATE, &attr), end[2];

	raw_pair(end);
	tap_ok(to_map(map, b->near) < 0 && to_map(map, end[1]) == 0,
	       "no socket map gets a socket with the ULP");
	tap_ok(set_ulp(end[1]) < 0, "a socket of a map does not get the ULP");
	close(map);
	close(end[0]);
	close(end[1]);
}

static void test_takers(struct bench *b)
{
	to_kernel_connections(b);
	to_socket_map(b);
	tap_ok(message_arrives(b), "the stream goes on after refused maps");
}

/* ---- sockets that are not right, or not attached ---- */

static void test_unattached(void)
{
	int end[2], udp = socket(AF_INET, SOCK_DGRAM, 0);
	char byte = 0;

	tap_ok(set_ulp(udp) < 0, "the ULP is for TCP");
	close(udp);
	raw_pair_of(AF_INET, end);
	tap_ok(set_ulp(end[0]) == 0 &&
		       recv(end[0], &byte, 1, MSG_DONTWAIT) < 0 &&
		       errno == EBUSY && send(end[0], &byte, 1, 0) < 0,
	       "a socket with the ULP but no endpoint is refused as well");
	close(end[0]);
	tap_ok(recv(end[1], &byte, 1, 0) == 0,
	       "a socket with the ULP but no endpoint closes");
	close(end[1]);
}

static void *receive_bytes(void *context)
{
	char byte[64];
	ssize_t n = recv(*(int *)context, byte, sizeof(byte), 0);

	return n == 0 ? context : 0;
}

static pid_t reader_id;

static void *run_receiver(void *context)
{
	__atomic_store_n(&reader_id, gettid(), __ATOMIC_RELEASE);
	return receive_bytes(context);
}

/* A call that sleeps in recv when the ULP is set. */
static void before_the_ulp(void)
{
	struct bench b = {.raw = raw_open()};
	pthread_t thread;
	void *ok = 0;
	int end[2];

	raw_pair_of(AF_INET, end);
	b.near = end[0];
	b.far = end[1];
	reader_id = 0;
	pthread_create(&thread, 0, run_receiver, &b.near);
	while (!__atomic_load_n(&reader_id, __ATOMIC_ACQUIRE))
		usleep(100);
	raw_asleep(reader_id);
	if (raw_attach(&b.raw, b.near, 1))
		raw_die("O2G_IOC_ATTACH");
	tap_ok(message_arrives(&b),
	       "a recv that began before the ULP gets no byte");
	put_bye(b.far);
	shutdown(b.far, SHUT_WR);
	pthread_join(thread, &ok);
	tap_ok(ok != 0, "a recv that began before the ULP sees the end");
	bench_close(&b);
}

/* ---- ends of the stream ---- */

static void reset_connection(int fd)
{
	struct linger now = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(fd);
}

enum how { CLEAN, FIN, RST, URGENT, NONSENSE, BEHIND_BYE, HOWS };

static const char *const how_name[HOWS] = {
	"BYE",	       "the end without BYE",	      "a reset",
	"urgent data", "nonsense instead of a frame", "bytes after BYE"};

static void end_by(struct bench *b, enum how how)
{
	uint8_t nonsense[FRAME];

	memset(nonsense, 0xa5, sizeof(nonsense));
	if (how == CLEAN || how == BEHIND_BYE)
		put_bye(b->far);
	if (how == NONSENSE || how == BEHIND_BYE)
		write_bytes(b->far, nonsense, sizeof(nonsense));
	if (how == URGENT && send(b->far, "!", 1, MSG_OOB) != 1)
		raw_die("send");
	if (how == RST) {
		reset_connection(b->far);
		b->far = -1;
	} else if (how == CLEAN || how == FIN) {
		shutdown(b->far, SHUT_WR);
	}
}

/* What came whole before the end is delivered; a receive behind it fails. */
static void test_ends(enum how how)
{
	struct bench b = open_bench();
	const int want = how == CLEAN ? -ESHUTDOWN : -ECONNRESET;

	put_message(b.far, 1, "whole", 5);
	end_by(&b, how);
	post_receive(&b.raw, 2);
	tap_ok(status_of(&b.raw) == want, "%s: a receive fails so",
	       how_name[how]);
	if (how != RST) {
		post_receive(&b.raw, 1);
		tap_ok(status_of(&b.raw) == 0 && !memcmp(in, "whole", 5),
		       "%s: what came before is there", how_name[how]);
		/* The link is gone, whoever has its file: the far end knows. */
		while (recv(b.far, in, sizeof(in), 0) > 0)
			;
		tap_ok(1, "%s: the other side sees the end", how_name[how]);
	}
	bench_close(&b);
}

/* FIN inside a frame's header, in its body, between two pieces. */
static void test_cut(size_t at)
{
	struct bench b = open_bench();
	struct o2g_frame frame = make_header(O2G_MESSAGE, 3, 100000);
	uint8_t *bytes = calloc(1, FRAME + 100000);

	memcpy(bytes, &frame, FRAME);
	post_receive(&b.raw, 3);
	write_bytes(b.far, bytes, at);
	shutdown(b.far, SHUT_WR);
	tap_ok(status_of(&b.raw) == -ECONNRESET, "an end after %zu bytes", at);
	free(bytes);
	bench_close(&b);
}

/* Everything was there, and the stream over, before it was attached. */
static void test_late(void)
{
	struct bench b = {.raw = raw_open()};
	int end[2];

	raw_pair_of(AF_INET, end);
	b.near = end[0];
	b.far = end[1];
	put_message(b.far, 1, "early", 5);
	put_bye(b.far);
	shutdown(b.far, SHUT_WR);
	while (recv(b.near, in, sizeof(in), MSG_PEEK) <
	       (ssize_t)(2 * FRAME + 5))
		usleep(1000);
	if (raw_attach(&b.raw, b.near, 1))
		raw_die("O2G_IOC_ATTACH");
	post_receive(&b.raw, 1);
	tap_ok(status_of(&b.raw) == 0 && !memcmp(in, "early", 5),
	       "a stream that had ended before it was attached is read");
	post_receive(&b.raw, 2);
	tap_ok(status_of(&b.raw) == -ESHUTDOWN,
	       "such a stream is read to its end");
	bench_close(&b);
}

/* A child has the file too: the program's end is the stream's all the same. */
static void shared_file(void)
{
	struct bench b = open_bench();
	int hold[2];
	char byte;
	pid_t child;

	if (pipe(hold))
		raw_die("pipe");
	child = fork();
	if (child == 0) {
		close(hold[1]);
		_exit(read(hold[0], &byte, 1) != 0 ||
		      send(b.near, "x", 1, MSG_NOSIGNAL) >= 0);
	}
	close(hold[0]);
	close(b.near);
	b.near = -1;
	raw_close(&b.raw);
	while (recv(b.far, in, sizeof(in), 0) > 0)
		;
	tap_ok(1, "the stream ends though a child has the file");
	close(hold[1]);
	int status = 0;

	waitpid(child, &status, 0);
	tap_ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	       "the child cannot use the file");
	close(b.far);
}

/* ---- a flood ---- */

#define SENDERS 40
#define EACH 3
#define LONG 20000

static int flood_from(struct raw *raw, unsigned seed)
{
	static uint8_t body[LONG];
	int end[2];

	raw_pair(end);
	for (unsigned i = 0; i < EACH; i++) {
		raw_fill(body, LONG, seed * EACH + i);
		put_message(end[1], 5000 + seed * EACH + i, body, LONG);
	}
	if (raw_attach(raw, end[0], O2G_NO_PEER))
		raw_die("O2G_IOC_ATTACH");
	close(end[0]);
	return end[1];
}

/* More than may be held comes over many streams: each that finds no room is
 * left unread, and read again when receives make some. */
static void test_flood(void)
{
	struct o2g_device_open options = raw_options();
	struct raw raw;
	int far[SENDERS];
	unsigned received = 0;

	options.unexpected = 256 << 10;
	raw = raw_open_with(options);
	for (unsigned i = 0; i < SENDERS; i++)
		far[i] = flood_from(&raw, i);
	tap_ok(raw_counts(&raw).stopped_reading >= SENDERS / 2,
	       "streams without room are left unread");
	for (unsigned i = 0; i < SENDERS * EACH; i++) {
		struct o2g_sqe any =
			raw_entry(O2G_OP_RECV, O2G_ANY_PEER, 0, in, sizeof(in));
		struct o2g_cqe cqe;

		any.ignore = ~0ull;
		raw_submit(&raw, any);
		cqe = raw_event(&raw, in);
		received += cqe.status == 0 && cqe.length == LONG &&
			    raw_check(in, LONG, (unsigned)(cqe.tag - 5000));
	}
	tap_ok(received == SENDERS * EACH,
	       "all streams are received when there is space");
	for (unsigned i = 0; i < SENDERS; i++)
		close(far[i]);
	raw_close(&raw);
}

/* ---- families and namespaces ---- */

static void set_loopback(short flags)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = flags};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (ioctl(fd, SIOCSIFFLAGS, &lo))
		raw_die("SIOCSIFFLAGS");
	close(fd);
}

static void other_namespace(void)
{
	int home = open("/proc/self/ns/net", O_RDONLY), end[2];
	struct bench b = {.raw = raw_open()};

	if (unshare(CLONE_NEWNET)) {
		tap_skip("a socket of another namespace", strerror(errno));
		return;
	}
	set_loopback(IFF_UP);
	raw_pair_of(AF_INET, end);
	if (setns(home, CLONE_NEWNET))
		raw_die("setns");
	close(home);
	/* Nothing but the two sockets holds that namespace now. */
	b.near = end[0];
	b.far = end[1];
	tap_ok(raw_attach(&b.raw, b.near, 1) == 0,
	       "a socket of another namespace is attached");
	close(b.near);
	b.near = -1;
	tap_ok(message_arrives(&b),
	       "a socket of an otherwise empty namespace is served");
	bench_close(&b);
}

/* A host that falls silent with data under way is dead after 30 s; one whose
 * program does not read is not. */
static void test_silence(void)
{
	static uint8_t body[1000000];
	const size_t all = sizeof(body) + 8 * FRAME; /* pieces of 128 KiB */
	int home = open("/proc/self/ns/net", O_RDONLY), away;
	struct bench idle = open_bench(), gone;
	struct o2g_cqe cqe = {0};
	size_t got = 0;
	double began;

	set_option(idle.far, SOL_SOCKET, SO_RCVBUF, 4096);
	raw_do(&idle.raw, O2G_OP_SEND, 1, 1, body, sizeof(body));
	if (unshare(CLONE_NEWNET))
		raw_die("unshare");
	away = open("/proc/self/ns/net", O_RDONLY);
	set_loopback(IFF_UP);
	gone = open_bench();
	set_loopback(0);
	if (setns(home, CLONE_NEWNET))
		raw_die("setns");
	close(home);
	close(away);
	post_receive(&gone.raw, 2);
	began = raw_now();
	raw_do(&gone.raw, O2G_OP_SEND, 1, 1, body, 100);
	tap_ok(raw_take(&gone.raw, &cqe, 1) && cqe.op == O2G_OP_SEND &&
		       raw_take(&gone.raw, &cqe, 200) &&
		       cqe.op == O2G_OP_RECV && cqe.status == -ECONNRESET &&
		       raw_now() - began > 25,
	       "a host that falls silent is dead after a while");
	while (got < all) {
		ssize_t n = recv(idle.far, in, sizeof(in), 0);

		if (n <= 0)
			break;
		got += (size_t)n;
	}
	tap_ok(got == all, "a host whose program does not read stays alive");
	bench_close(&gone);
	bench_close(&idle);
}

/* ---- many at once ---- */

static void *comes_and_goes(void *context)
{
	struct raw *raw = context;

	for (int i = 0; i < 50; i++) {
		int end[2], r;

		raw_pair_of(i & 1 ? AF_INET : AF_INET6, end);
		r = raw_attach(raw, end[0], O2G_NO_PEER);
		if (i % 3 == 0)
			close(end[0]);
		if (i % 2)
			put_bye(end[1]);
		if (i % 5)
			close(end[1]);
		else
			reset_connection(end[1]);
		if (i % 3)
			close(end[0]);
		if (r && r != -ENOTCONN && r != -ENOSPC)
			return (void *)(intptr_t)r;
	}
	return 0;
}

static void test_races(void)
{
	struct raw raw = raw_open();
	pthread_t thread[4];
	void *r, *bad = 0;

	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], 0, comes_and_goes, &raw);
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], &r);
		bad = r ? r : bad;
	}
	tap_ok(!bad, "sockets that come and go at once");
	raw_close(&raw);
}

int main(int argc, char **argv)
{
	struct bench b;

	begin_good();
	if (argc > 1 && !strcmp(argv[1], "silence")) {
		test_silence();
		finish_good("silence");
		return tap_done();
	}
	b = open_bench();
	test_reading(&b);
	test_writing(&b, "IPv4");
	test_bending(&b);
	test_takers(&b);
	bench_close(&b);
	b = bench_of(AF_INET6);
	tap_ok(message_arrives(&b), "IPv6 is served");
	test_writing(&b, "IPv6");
	bench_close(&b);
	test_mapped();
	test_unattached();
	before_the_ulp();
	for (enum how how = CLEAN; how < HOWS; how++)
		test_ends(how);
	test_cut(20);
	test_cut(FRAME);
	test_cut(FRAME + 70000);
	test_late();
	shared_file();
	test_flood();
	other_namespace();
	test_races();
	finish_good("sockets in wrong hands");
	return tap_done();
}
