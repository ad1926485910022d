// SPDX-License-Identifier: MIT
/* poll, select and epoll over objects inside abi and host handles together. */
#include "abi/test/host_io.h"
#include "abi/uapi/linux.h"

#define IN ABI_POLLIN
#define OUT ABI_POLLOUT
#define ET ABI_EPOLLET
#define HUP ABI_POLLHUP
#define RDHUP ABI_POLLRDHUP

static u32 other;

static s64 epoll_ctl_of(s64 ep, u32 op, s64 fd, u32 events)
{
	*(struct abi_epoll_event *)GUEST(0x2000) =
		(struct abi_epoll_event){events, (u64)fd};
	return CALL(epoll_ctl, ep, op, fd, page + 0x2000);
}

#define ADD(ep, fd, events) epoll_ctl_of(ep, 1, fd, events)
#define MOD(ep, fd, events) epoll_ctl_of(ep, 3, fd, events)
#define DEL(ep, fd) epoll_ctl_of(ep, 2, fd, 0)

static s64 wait_ready(s64 ep, s32 ms)
{
	return CALL(epoll_wait, ep, page + 0x2100, 16, (u64)(s64)ms);
}

/* The bits reported for `fd` by the last wait, which returned `n`. */
static u32 events_of(s64 n, s64 fd)
{
	struct abi_epoll_event *e = GUEST(0x2100);

	for (; n > 0; n--, e++)
		if (e->data == (u64)fd)
			return e->events;
	return 0;
}

static s32 *pipe_ends(void)
{
	CALL(pipe2, page + 0x3000, ABI_O_NONBLOCK);
	return GUEST(0x3000);
}

/* Two host sockets, connected: [0] is the test's own, [1] abi's number. */
static void host_pair(s32 *fd)
{
	int sv[2];
	s64 n;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sv))
		abort();
	for (n = 100; p->fds.slot[n].desc; n++)
		;
	abi_fd_attach(p, (u32)n, sv[1], ABI_S_IFSOCK,
		      ABI_O_RDWR | ABI_O_NONBLOCK);
	fd[0] = sv[0];
	fd[1] = (s32)n;
}

static void all_closed(const char *what)
{
	u32 i, used = 0;

	CALL(close_range, 0, ~0u, 0);
	for (i = 0; i < ABI_WATCH_MAX; i++)
		used += p->fds.watch[i].used;
	for (i = 0; i < ABI_DESC_MAX; i++)
		used += p->fds.desc[i].kind != ABI_DESC_FREE;
	tap_ok(!used, "%s: no descriptor or watch is left", what);
}

static void test_polling(void)
{
	s32 *e = pipe_ends(), r = e[0], w = e[1], host[2];
	struct abi_pollfd *f = GUEST(0x2800);

	host_pair(host);
	f[0] = (struct abi_pollfd){r, IN, 0};
	f[1] = (struct abi_pollfd){w, OUT, 0};
	f[2] = (struct abi_pollfd){host[1], IN | OUT, 0};
	f[3] = (struct abi_pollfd){-1, IN, 7};
	f[4] = (struct abi_pollfd){77, IN, 0};
	tap_ok(CALL(poll, page + 0x2800, 5, 0) == 3 && !f[0].revents &&
		       f[1].revents == OUT && f[2].revents == OUT &&
		       !f[3].revents && f[4].revents == ABI_POLLNVAL,
	       "poll reports what is ready in a mixed list");
	CALL(write, w, page, 1);
	tap_ok(write(host[0], "x", 1) == 1 &&
		       CALL(poll, page + 0x2800, 3, (u64)-1) == 3 &&
		       f[0].revents == IN && f[2].revents == (IN | OUT),
	       "poll reports input of a pipe and of a socket");
	CALL(close, w);
	f[0].events = 0;
	tap_ok(CALL(poll, page + 0x2800, 1, 0) == 1 &&
		       f[0].revents == ABI_POLLHUP,
	       "poll reports POLLHUP without a request");
	f[0] = (struct abi_pollfd){-1, 0, 0};
	tap_ok(CALL(poll, page + 0x2800, 1, 20) == 0,
	       "poll returns 0 after its timeout");
	tap_ok(CALL(poll, 0x10, 1, 0) == -LINUX_EFAULT &&
		       CALL(poll, page + 0x2800, 5000, 0) == -LINUX_EINVAL,
	       "poll checks its list");
	close(host[0]);
	all_closed("poll");
}

static void test_large(void)
{
	struct abi_pollfd *f = GUEST(0x2800);
	s32 *e = pipe_ends(), w = e[1], host[2];
	u32 i, bad = 0;

	host_pair(host);
	for (i = 0; i < 300; i++)
		f[i] = (struct abi_pollfd){i % 2 ? w : host[1], OUT, 0};
	bad += CALL(poll, page + 0x2800, 300, 0) != 300;
	for (i = 0; i < 300; i++)
		bad += f[i].revents != OUT;
	tap_ok(!bad, "poll takes a list of 300");
	close(host[0]);
	all_closed("large");
}

static void test_selecting(void)
{
	s32 *e = pipe_ends(), r = e[0], w = e[1], host[2];
	u64 *in = GUEST(0x2800), *out = GUEST(0x2900);
	struct abi_timeval *tv = GUEST(0x2a00);

	host_pair(host);
	memset(in, 0, 128);
	memset(out, 0, 128);
	in[0] = 1ull << r;
	in[1] = 1ull << (host[1] - 64);
	out[0] = 1ull << w;
	tap_ok(CALL(select, 128, page + 0x2800, page + 0x2900, 0, 0) == 1 &&
		       !in[0] && !in[1] && out[0] == 1ull << w,
	       "select reports output");
	in[0] = 1ull << r;
	in[1] = 1ull << (host[1] - 64);
	*tv = (struct abi_timeval){5, 0};
	close(host[0]);
	tap_ok(CALL(select, 128, page + 0x2800, 0, 0, page + 0x2a00) == 1 &&
		       !in[0] && in[1] && tv->sec == 4,
	       "select reports a closed socket as readable, and the time left");
	in[0] = 1ull << 50;
	tap_ok(CALL(select, 64, page + 0x2800, 0, 0, 0) == -LINUX_EBADF,
	       "select refuses an unused descriptor with EBADF");
	all_closed("select");
}

static void test_levels(void)
{
	s64 ep = CALL(epoll_create1, 0), n;
	s32 *e = pipe_ends(), r = e[0], w = e[1], host[2];

	host_pair(host);
	tap_ok(!ADD(ep, r, IN) && !ADD(ep, w, OUT) && !ADD(ep, host[1], IN),
	       "epoll_ctl adds three entries");
	tap_ok(ADD(ep, r, IN) == -LINUX_EEXIST &&
		       DEL(ep, ep) == -LINUX_EINVAL &&
		       MOD(ep, 99, IN) == -LINUX_EBADF &&
		       epoll_ctl_of(ep, 9, r, 0) == -LINUX_EINVAL,
	       "epoll_ctl checks its arguments");
	n = wait_ready(ep, 0);
	tap_ok(n == 1 && events_of(n, w) == OUT, "only output is ready");
	CALL(write, w, page, 1);
	n = wait_ready(ep, 0);
	tap_ok(n == 2 && events_of(n, r) == IN && (n = wait_ready(ep, 0)) == 2,
	       "a level-triggered event is reported again");
	if (write(host[0], "x", 1) != 1)
		abort();
	n = wait_ready(ep, 0);
	tap_ok(n == 3 && events_of(n, host[1]) == IN,
	       "a host handle is reported as well");
	tap_ok(!MOD(ep, w, 0) && !DEL(ep, r) && (n = wait_ready(ep, 0)) == 1 &&
		       DEL(ep, r) == -LINUX_ENOENT,
	       "entries are modified and deleted");
	CALL(close, host[1]);
	tap_ok(wait_ready(ep, 0) == 0, "a closed descriptor leaves the list");
	tap_ok(CALL(epoll_wait, ep, page, 0, 0) == -LINUX_EINVAL &&
		       CALL(epoll_wait, r, page, 1, 0) == -LINUX_EINVAL,
	       "epoll_wait checks its arguments");
	close(host[0]);
	all_closed("levels");
}

static void test_edges(void)
{
	s64 ep = CALL(epoll_create1, 0), n;
	s32 *e = pipe_ends(), r = e[0], w = e[1];

	ADD(ep, r, IN | ET);
	CALL(write, w, page, 2);
	n = wait_ready(ep, 0);
	tap_ok(n == 1 && events_of(n, r) == IN && wait_ready(ep, 0) == 0,
	       "an edge is reported once");
	CALL(read, r, page, 1);
	tap_ok(wait_ready(ep, 0) == 0, "a partial read is no new edge");
	CALL(write, w, page, 1);
	tap_ok(wait_ready(ep, 0) == 1 && wait_ready(ep, 0) == 0,
	       "new bytes are an edge even if old bytes are unread");
	CALL(close, w);
	n = wait_ready(ep, 0);
	tap_ok(n == 1 && events_of(n, r) == (IN | ABI_POLLHUP) &&
		       wait_ready(ep, 0) == 0,
	       "the end of the stream is an edge");
	all_closed("edges");
}

/* As Go's netpoller uses it: everything at once, edge-triggered. */
static void host_edges(void)
{
	s64 ep = CALL(epoll_create1, 0), n;
	s32 host[2];
	char sink[4096];

	host_pair(host);
	ADD(ep, host[1], IN | OUT | ABI_POLLRDHUP | ET);
	n = wait_ready(ep, 0);
	tap_ok(n == 1 && events_of(n, host[1]) == OUT && wait_ready(ep, 0) == 0,
	       "host: output is one edge");
	if (write(host[0], "abcd", 4) != 4)
		abort();
	n = wait_ready(ep, 0);
	tap_ok(n == 1 && events_of(n, host[1]) & IN && wait_ready(ep, 0) == 0,
	       "host: input is one edge");
	tap_ok(CALL(read, host[1], page, 9) == 4 &&
		       CALL(read, host[1], page, 9) == -LINUX_EAGAIN &&
		       wait_ready(ep, 0) == 0,
	       "host: no edge without new bytes");
	if (write(host[0], "efgh", 4) != 4)
		abort();
	tap_ok(wait_ready(ep, 0) == 1 && wait_ready(ep, 0) == 0,
	       "host: the next bytes are the next edge");
	CALL(read, host[1], page, 4);
	if (write(host[0], "ijkl", 4) != 4)
		abort();
	tap_ok(wait_ready(ep, 0) == 1,
	       "host: bytes after a complete read are an edge");
	while (CALL(write, host[1], page, 0x8000) > 0)
		;
	tap_ok(wait_ready(ep, 0) == 0, "host: a full socket is no edge");
	while (read(host[0], sink, sizeof(sink)) > 0)
		;
	n = wait_ready(ep, 100);
	tap_ok(n == 1 && events_of(n, host[1]) & OUT,
	       "host: new space for output is an edge");
	close(host[0]);
	n = wait_ready(ep, 100);
	tap_ok(n == 1 && events_of(n, host[1]) & ABI_POLLRDHUP,
	       "host: the end of the stream is an edge");
	all_closed("edges of host handles");
}

/* poll(2) reports a hang-up whether requested or not. */
static void hang_up(void)
{
	s64 ep = CALL(epoll_create1, 0);
	s32 fd[2];

	host_pair(fd);
	ADD(ep, fd[1], IN | OUT | RDHUP | ET);
	close(fd[0]);
	tap_ok(wait_ready(ep, 1000) == 1 && events_of(1, fd[1]) & HUP &&
		       wait_ready(ep, 0) == 0 && wait_ready(ep, 20) == 0,
	       "host: a hang-up is reported once and does not keep waits "
	       "awake");
	tap_ok(CALL(read, (u64)fd[1], page, 1) == 0 &&
		       wait_ready(ep, 1000) == 1 && wait_ready(ep, 0) == 0,
	       "host: a read reports the hang-up once more");
	CALL(close, (u64)fd[1]);
	CALL(close, (u64)ep);
	all_closed("hang-up");
}

static void test_oneshot(void)
{
	s64 ep = CALL(epoll_create1, 0);
	s32 *e = pipe_ends(), r = e[0], w = e[1];

	ADD(ep, r, IN | ABI_EPOLLONESHOT);
	CALL(write, w, page, 1);
	tap_ok(wait_ready(ep, 0) == 1 && wait_ready(ep, 0) == 0,
	       "EPOLLONESHOT reports once");
	CALL(write, w, page, 1);
	tap_ok(wait_ready(ep, 0) == 0 &&
		       !MOD(ep, r, IN | ABI_EPOLLONESHOT | ET) &&
		       wait_ready(ep, 0) == 1 && wait_ready(ep, 0) == 0,
	       "EPOLLONESHOT reports again after EPOLL_CTL_MOD");
	all_closed("oneshot");
}

static void test_nested(void)
{
	s64 a = CALL(epoll_create1, 0), b = CALL(epoll_create1, 0), ep, last;
	s32 *e = pipe_ends(), r = e[0], w = e[1], host[2];
	struct abi_pollfd *f = GUEST(0x2800);
	u32 i;

	host_pair(host);
	tap_ok(!ADD(a, b, IN) && ADD(b, a, IN) == -LINUX_ELOOP &&
		       ADD(a, a, IN) == -LINUX_EINVAL,
	       "epoll descriptors cannot watch each other in a circle");
	ADD(b, r, IN);
	ADD(b, host[1], IN);
	tap_ok(wait_ready(a, 0) == 0, "an epoll without events is not ready");
	CALL(write, w, page, 1);
	tap_ok(events_of(wait_ready(a, 0), b) == IN,
	       "an epoll with an event is ready");
	CALL(read, r, page, 1);
	if (write(host[0], "x", 1) != 1)
		abort();
	f[0] = (struct abi_pollfd){(s32)b, IN, 0};
	tap_ok(events_of(wait_ready(a, 0), b) == IN &&
		       CALL(poll, page + 0x2800, 1, 0) == 1,
	       "an epoll is ready through a host handle, and for poll");
	for (last = CALL(epoll_create1, 0), i = 0; i < 8; i++, last = ep) {
		ep = CALL(epoll_create1, 0);
		if (ADD(ep, last, IN))
			break;
	}
	tap_ok(i > 2 && i < 8, "the length of a chain of epolls is limited");
	close(host[0]);
	all_closed("nested");
}

static void test_waking(void)
{
	struct io_task task = {.t = other, .nr = ABI_NR_epoll_wait};
	s64 ep = CALL(epoll_create1, 0), ev = CALL(eventfd2, 0, 0);
	s32 host[2];
	char byte[1];
	u64 *one = GUEST(0);

	host_pair(host);
	*one = 1;
	ADD(ep, ev, IN | ET);
	ADD(ep, host[1], IN | ET);
	task.a[0] = (u64)ep;
	task.a[1] = page + 0x2100;
	task.a[2] = 16;
	task.a[3] = ~0ull;
	io_start(&task);
	WAIT_FOR(io_sleeps(other));
	CALL(write, ev, page, 8);
	tap_ok(io_join(&task) == 1 && events_of(1, ev) == IN,
	       "an eventfd wakes a thread that waits for host handles");
	io_start(&task);
	WAIT_FOR(io_sleeps(other));
	if (write(host[0], "x", 1) != 1)
		abort();
	tap_ok(io_join(&task) == 1 && events_of(1, host[1]) == IN,
	       "an event of the host wakes a thread that waits for host "
	       "handles");
	io_start(&task);
	WAIT_FOR(io_sleeps(other));
	CALL(read, host[1], page + 8, 9);
	CALL(read, host[1], page + 8, 9);
	if (write(host[0], "y", 1) != 1)
		abort();
	tap_ok(io_join(&task) == 1 && events_of(1, host[1]) == IN,
	       "a handle that is drained during a wait is watched again");
	CALL(read, host[1], page + 8, 9);
	CALL(read, ev, page + 8, 8);
	io_start(&task);
	WAIT_FOR(io_sleeps(other));
	CALL(close, host[1]);
	tap_ok(WAIT_FOR(read(host[0], byte, 1) == 0),
	       "a socket that is waited for closes at once");
	ev = CALL(eventfd2, 1, 0);
	ADD(ep, ev, IN);
	tap_ok(io_join(&task) == 1,
	       "an entry that is added during a wait counts");
	close(host[0]);
	all_closed("waking");
}

static void test_timing(void)
{
	s64 ep = CALL(epoll_create1, 0), t = CALL(timerfd_create, 1, 0);
	u64 began = guest_now(ABI_CLOCK_MONOTONIC);

	*(struct abi_itimerspec *)GUEST(0x2800) =
		(struct abi_itimerspec){{0, 5000000}, {0, 5000000}};
	CALL(timerfd_settime, t, 0, page + 0x2800, 0);
	ADD(ep, t, IN | ET);
	tap_ok(wait_ready(ep, -1) == 1 && wait_ready(ep, -1) == 1 &&
		       guest_now(ABI_CLOCK_MONOTONIC) - began < ABI_NS,
	       "each tick of a timer is an edge");
	all_closed("timing");
}

/* Every entry of a long ready list has its turn. */
static void test_fairness(void)
{
	s64 ep = CALL(epoll_create1, 0), fd;
	u32 seen[40] = {0}, i, missed = 0;

	for (i = 0; i < 40; i++) {
		fd = CALL(eventfd2, 1, 0);
		epoll_ctl_of(ep, 1, fd, IN);
	}
	for (i = 0; i < 40; i++) {
		CALL(epoll_wait, ep, page + 0x2100, 1, 0);
		seen[(((struct abi_epoll_event *)GUEST(0x2100))->data - 1) %
		     40]++;
	}
	for (i = 0; i < 40; i++)
		missed += seen[i] != 1;
	tap_ok(!missed, "40 entries, one at a time: each is reported once");
	all_closed("fairness");
}

/* Writer and epoll reader race: the sum shows whether an edge was lost. */
static void test_race(void)
{
	struct io_task task = {.t = other, .nr = ABI_NR_write};
	s64 ep = CALL(epoll_create1, 0), ev = CALL(eventfd2, 0, ABI_O_NONBLOCK);
	u64 sum = 0, *v = GUEST(0);
	u32 i;

	ADD(ep, ev, IN | ET);
	*(u64 *)GUEST(0x5000) = 1;
	task.a[0] = (u64)ev;
	task.a[1] = page + 0x5000;
	task.a[2] = 8;
	for (i = 0; i < 1000 && sum == i; i++) {
		io_start(&task);
		if (wait_ready(ep, 5000) != 1)
			break;
		if (CALL(read, ev, page, 8) == 8)
			sum += *v;
		io_join(&task);
	}
	tap_ok(sum == 1000, "1000 racing edges, none lost");
	all_closed("race");
}

int main(void)
{
	guest_new();
	io_install();
	other = guest_thread()->index;
	test_polling();
	test_large();
	test_selecting();
	test_levels();
	test_edges();
	host_edges();
	hang_up();
	test_oneshot();
	test_nested();
	test_waking();
	test_timing();
	test_fairness();
	test_race();
	guest_free();
	return tap_done();
}
