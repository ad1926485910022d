// SPDX-License-Identifier: MIT
/* Pipes, socket pairs, eventfd and timerfd, alone and between threads. */
#include "abi/test/host_io.h"
#include "abi/uapi/linux.h"

static u32 other; /* a second thread */

static s32 *open_pipe(u32 flags)
{
	s32 *fd = GUEST(0x3000);

	return CALL(pipe2, page + 0x3000, flags) ? NULL : fd;
}

static u32 free_rings(void)
{
	u32 i, n = 0;

	for (i = 0; i < ABI_RING_MAX; i++)
		n += !p->fds.ring[i].used;
	return n;
}

static void test_basics(void)
{
	s32 *fd = open_pipe(ABI_O_NONBLOCK), r = fd[0], w = fd[1], *n;

	tap_ok(CALL(read, r, page, 1) == -LINUX_EAGAIN,
	       "an empty pipe is EAGAIN");
	tap_ok(CALL(write, w, io_str(0, "hello"), 5) == 5 &&
		       CALL(read, r, page, 3) == 3 &&
		       CALL(read, r, page, 9) == 2,
	       "bytes go through");
	tap_ok(CALL(write, r, page, 1) == -LINUX_EBADF &&
		       CALL(read, w, page, 1) == -LINUX_EBADF &&
		       CALL(lseek, r, 0, 0) == -LINUX_ESPIPE &&
		       CALL(pread64, r, page, 1, 0) == -LINUX_ESPIPE,
	       "ends have one direction and no position");
	tap_ok(CALL(write, w, page, 0xf000) == 0xf000 &&
		       CALL(write, w, page, 4096) == 4096 &&
		       CALL(write, w, page, 1) == -LINUX_EAGAIN,
	       "a pipe holds 64 KiB");
	CALL(read, r, page, 100);
	tap_ok(CALL(write, w, page, 101) == -LINUX_EAGAIN &&
		       CALL(write, w, page, 5000) == 100,
	       "small writes are atomic, large ones may be partial");
	n = GUEST(0x3100);
	tap_ok(CALL(ioctl, r, 0x541b, page + 0x3100) == 0 && *n == 65536,
	       "FIONREAD counts");
	tap_ok(CALL(fcntl, r, 1032) == 65536, "F_GETPIPE_SZ");
	CALL(close, w);
	while (CALL(read, r, page, 0xf000) > 0)
		;
	tap_ok(CALL(read, r, page, 1) == 0,
	       "end of file after the last writer");
	CALL(close, r);
	tap_ok(free_rings() == ABI_RING_MAX,
	       "closed pipes release their buffers");
	tap_ok(CALL(pipe2, page + 0x3000, 1) == -LINUX_EINVAL &&
		       CALL(pipe2, 0x10, 0) == -LINUX_EFAULT &&
		       free_rings() == ABI_RING_MAX && !p->fds.slot[0].desc,
	       "a pipe that fails leaves no descriptor");
}

static void test_wrapped(void)
{
	s32 *fd = open_pipe(ABI_O_NONBLOCK), r = fd[0], w = fd[1];
	u32 round, bad = 0, i, next = 0, expect = 0;
	u8 *b = GUEST(0x4000);

	for (round = 0; round < 400; round++) {
		for (i = 0; i < 1777; i++)
			b[i] = (u8)next++;
		bad += CALL(write, w, page + 0x4000, 1777) != 1777;
		bad += CALL(read, r, page + 0x4000, 1777) != 1777;
		for (i = 0; i < 1777; i++)
			bad += b[i] != (u8)expect++;
	}
	tap_ok(!bad, "bytes stay in order when the ring wraps");
	CALL(close_range, 0, ~0u, 0);
}

static void test_blocking(void)
{
	s32 *fd = open_pipe(0), r = fd[0], w = fd[1];
	struct io_task task = {.t = other, .nr = ABI_NR_read};

	task.a[0] = (u64)r;
	task.a[1] = page + 0x5000;
	task.a[2] = 10;
	io_start(&task);
	tap_ok(WAIT_FOR(io_sleeps(other)), "a reader of an empty pipe sleeps");
	CALL(write, w, io_str(0, "now"), 3);
	tap_ok(io_join(&task) == 3, "a write wakes a sleeping reader");
	io_start(&task);
	WAIT_FOR(io_sleeps(other));
	CALL(close, r);
	CALL(write, w, io_str(0, "late"), 4);
	tap_ok(io_join(&task) == 4,
	       "a reader finishes although its descriptor was closed");
	CALL(close, w);
	tap_ok(free_rings() == ABI_RING_MAX,
	       "a reader that finishes releases the closed pipe");
	fd = open_pipe(0);
	io_start(&task);
	WAIT_FOR(io_sleeps(other));
	CALL(close, fd[1]);
	tap_ok(io_join(&task) == 0, "the last writer's close wakes a reader");
	CALL(close_range, 0, ~0u, 0);
}

static void test_writer(void)
{
	s32 *fd = open_pipe(0), r = fd[0], w = fd[1];
	struct io_task task = {.t = other, .nr = ABI_NR_writev};
	struct abi_iovec *v = GUEST(0x3200);
	u32 i, got = 0;

	for (i = 0; i < 5; i++)
		v[i] = (struct abi_iovec){page + 0x4000, 0xb000};
	task.a[0] = (u64)w;
	task.a[1] = page + 0x3200;
	task.a[2] = 5;
	io_start(&task);
	tap_ok(WAIT_FOR(io_sleeps(other)), "a writer sleeps on a full pipe");
	while (got < 5 * 0xb000)
		got += (u32)CALL(read, r, page, 0x2f00);
	tap_ok(io_join(&task) == 5 * 0xb000,
	       "a blocking writev writes all of its bytes");
	CALL(close_range, 0, ~0u, 0);
}

static void test_broken(void)
{
	s32 *fd = open_pipe(0), w = fd[1];
	struct abi_sigaction *act = GUEST(0x3300);

	CALL(close, fd[0]);
	*act = (struct abi_sigaction){.handler = ABI_SIG_IGN};
	CALL(rt_sigaction, ABI_SIGPIPE, page + 0x3300, 0, 8);
	tap_ok(CALL(write, w, page, 1) == -LINUX_EPIPE,
	       "a pipe without reader is EPIPE");
	*(u64 *)GUEST(0x3300) = 1ull << (ABI_SIGPIPE - 1);
	CALL(rt_sigprocmask, 0, page + 0x3300, 0, 8);
	*act = (struct abi_sigaction){.handler = ABI_SIG_DFL};
	CALL(rt_sigaction, ABI_SIGPIPE, page + 0x3300, 0, 8);
	CALL(write, w, page, 1);
	tap_ok(p->threads.thread[0].pending >> (ABI_SIGPIPE - 1) & 1,
	       "a pipe without reader sends SIGPIPE to the thread");
	CALL(close_range, 0, ~0u, 0);
	CALL(socketpair, 1, 1, 0, page + 0x3000);
	CALL(close, 1);
	p->threads.thread[0].pending = 0;
	tap_ok(CALL(sendto, 0, page, 1, ABI_MSG_NOSIGNAL) == -LINUX_EPIPE &&
		       !p->threads.thread[0].pending,
	       "MSG_NOSIGNAL sends no SIGPIPE");
	CALL(close_range, 0, ~0u, 0);
}

static void test_pair(void)
{
	s32 *fd = GUEST(0x3000);
	u32 *len = GUEST(0x3100);

	fake.logs = 0;
	tap_ok(CALL(socketpair, 1, ABI_SOCK_DGRAM, 0, page + 0x3000) ==
			       -LINUX_ESOCKTNOSUPPORT &&
		       CALL(socketpair, 1, 5, 0, page + 0x3000) ==
			       -LINUX_ESOCKTNOSUPPORT &&
		       fake.logs == 1 && strstr(fake.last_log, "SOCK_STREAM"),
	       "another type of socket is refused, and said once");
	tap_ok(CALL(socketpair, 1, ABI_SOCK_STREAM | ABI_O_NONBLOCK, 0,
		    page + 0x3000) == 0,
	       "socketpair");
	tap_ok(CALL(write, fd[0], io_str(0, "ping"), 4) == 4 &&
		       CALL(recvfrom, fd[1], page, 2, ABI_MSG_PEEK) == 2 &&
		       CALL(read, fd[1], page, 9) == 4 &&
		       CALL(write, fd[1], page, 2) == 2 &&
		       CALL(read, fd[0], page, 9) == 2,
	       "a socket pair carries bytes both ways, and MSG_PEEK leaves "
	       "them");
	*len = 4;
	tap_ok(CALL(getsockopt, fd[0], 1, ABI_SO_TYPE, page + 0x3200,
		    page + 0x3100) == 0 &&
		       *(s32 *)GUEST(0x3200) == 1,
	       "SO_TYPE");
	tap_ok(CALL(shutdown, fd[0], 1) == 0 && CALL(read, fd[1], page, 1) == 0,
	       "shutdown ends one direction of a pair");
	tap_ok(CALL(write, fd[1], page, 1) == 1 && CALL(read, fd[0], page, 1),
	       "shutdown leaves the other direction of a pair");
	tap_ok(CALL(socketpair, 2, 1, 0, page + 0x3000) == -LINUX_ENOTSUP &&
		       CALL(socketpair, 1, 2, 0, page + 0x3000) ==
			       -LINUX_ESOCKTNOSUPPORT,
	       "socketpair refuses other domains and types");
	CALL(close_range, 0, ~0u, 0);
	tap_ok(free_rings() == ABI_RING_MAX,
	       "closed pairs release their buffers");
}

static void test_events(void)
{
	struct io_task task = {.t = other, .nr = ABI_NR_read};
	s64 fd = CALL(eventfd2, 3, ABI_O_NONBLOCK), sem;
	u64 *v = GUEST(0);

	tap_ok(CALL(read, fd, page, 8) == 8 && *v == 3 &&
		       CALL(read, fd, page, 8) == -LINUX_EAGAIN,
	       "an eventfd returns its counter once");
	sem = CALL(eventfd2, 2, 1 | ABI_O_NONBLOCK);
	tap_ok(CALL(read, sem, page, 8) == 8 && *v == 1 &&
		       CALL(read, sem, page, 8) == 8 &&
		       CALL(read, sem, page, 8) == -LINUX_EAGAIN,
	       "an eventfd with EFD_SEMAPHORE counts down");
	*v = ~0ull - 1;
	tap_ok(CALL(write, fd, page, 8) == 8 &&
		       (*v = 1, CALL(write, fd, page, 8)) == -LINUX_EAGAIN &&
		       (*v = ~0ull, CALL(write, fd, page, 8)) ==
			       -LINUX_EINVAL &&
		       CALL(write, fd, page, 7) == -LINUX_EINVAL,
	       "an eventfd's counter has a largest value");
	CALL(close_range, 0, ~0u, 0);
	fd = CALL(eventfd2, 0, 0);
	task.a[0] = (u64)fd;
	task.a[1] = page + 0x5000;
	task.a[2] = 8;
	io_start(&task);
	WAIT_FOR(io_sleeps(other));
	*v = 5;
	CALL(write, fd, page, 8);
	tap_ok(io_join(&task) == 8 && *(u64 *)GUEST(0x5000) == 5,
	       "a write wakes a reader of an eventfd");
	*(struct abi_sigaction *)GUEST(0x3300) = (struct abi_sigaction){
		.handler = text + 0x80, .flags = ABI_SA_RESTORER};
	CALL(rt_sigaction, 40, page + 0x3300, 0, 8);
	io_start(&task);
	WAIT_FOR(io_sleeps(other));
	CALL(tgkill, p->info.pid, abi_thread_get(p, other)->tid, 40);
	tap_ok(WAIT_FOR(__atomic_load_n(&task.done, __ATOMIC_SEQ_CST)),
	       "a signal ends the wait of a reader");
	io_join(&task);
	tap_ok(task.regs.rip == text + 0x80,
	       "the handler of a signal that ends a read runs");
	CALL(close_range, 0, ~0u, 0);
}

static void test_timers(void)
{
	s64 fd = CALL(timerfd_create, 1, ABI_O_NONBLOCK);
	struct abi_itimerspec *t = GUEST(0x3000);
	u64 *ticks = GUEST(0), began;

	tap_ok(CALL(read, fd, page, 8) == -LINUX_EAGAIN,
	       "a timerfd that is not armed");
	*t = (struct abi_itimerspec){{0, 1000000}, {0, 1000000}};
	tap_ok(CALL(timerfd_settime, fd, 0, page + 0x3000, 0) == 0, "armed");
	CALL(fcntl, fd, 4, 0);
	began = guest_now(ABI_CLOCK_MONOTONIC);
	tap_ok(CALL(read, fd, page, 8) == 8 && *ticks >= 1 &&
		       guest_now(ABI_CLOCK_MONOTONIC) - began < ABI_NS,
	       "a read of a timerfd waits for the first expiration");
	WAIT_FOR(guest_now(ABI_CLOCK_MONOTONIC) - began > 20000000);
	tap_ok(CALL(read, fd, page, 8) == 8 && *ticks >= 10,
	       "a timerfd counts unread expirations");
	*t = (struct abi_itimerspec){{0, 0}, {100, 0}};
	CALL(timerfd_settime, fd, 0, page + 0x3000, page + 0x3100);
	tap_ok(CALL(timerfd_gettime, fd, page + 0x3000) == 0 &&
		       t->value.sec == 99 && !t->interval.sec &&
		       ((struct abi_itimerspec *)GUEST(0x3100))
				       ->interval.nsec == 1000000,
	       "timerfd_settime returns the remaining time and the old "
	       "setting");
	*t = (struct abi_itimerspec){{0, 0}, {0, 1000000000}};
	tap_ok(CALL(timerfd_settime, fd, 0, page + 0x3000, 0) ==
			       -LINUX_EINVAL &&
		       CALL(timerfd_create, 77, 0) == -LINUX_EINVAL &&
		       CALL(timerfd_settime, 99, 0, page + 0x3000, 0) ==
			       -LINUX_EINVAL,
	       "timerfd_settime checks its arguments");
	*t = (struct abi_itimerspec){{0, 0}, {1, 0}};
	CALL(fcntl, fd, 4, ABI_O_NONBLOCK);
	tap_ok(CALL(timerfd_settime, fd, 1, page + 0x3000, 0) == 0 &&
		       CALL(read, fd, page, 8) == 8 && *ticks == 1,
	       "an absolute time in the past expires at once");
	CALL(close_range, 0, ~0u, 0);
}

/* Two threads, many small writes and reads: no wake-up may be lost. */
static void ping_pong(void)
{
	s32 *fd = GUEST(0x3000);
	struct io_task task = {.t = other, .nr = ABI_NR_sendto};
	u32 i, bad = 0;

	CALL(socketpair, 1, 1, 0, page + 0x3000);
	task.a[0] = (u64)fd[1];
	task.a[1] = page + 0x5000;
	task.a[2] = 1;
	for (i = 0; i < 2000; i++) {
		io_start(&task);
		bad += CALL(read, fd[0], page, 1) != 1;
		bad += io_join(&task) != 1;
	}
	tap_ok(!bad, "2000 round trips lose no wake-up");
	CALL(close_range, 0, ~0u, 0);
}

int main(void)
{
	guest_new();
	io_install();
	other = guest_thread()->index;
	test_basics();
	test_wrapped();
	test_blocking();
	test_writer();
	test_pair();
	test_timers();
	ping_pong();
	test_broken();
	test_events();
	guest_free();
	return tap_done();
}
