// SPDX-License-Identifier: MIT
/* Sockets over the host's non-blocking ones: stream, datagram, options. */
#include "abi/test/host_io.h"
#include "abi/uapi/linux.h"
#include <fcntl.h>
#include <sys/un.h>

static u32 other;

static u64 write_address(u32 slot, u32 port)
{
	struct sockaddr_in *a = GUEST(0x2000 + slot * 0x40);

	memset(a, 0, sizeof(*a));
	a->sin_family = AF_INET;
	a->sin_port = htons((u16)port);
	a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return page + 0x2000 + slot * 0x40;
}

static u32 port_of(s64 fd)
{
	u32 *len = GUEST(0x2200);
	struct sockaddr_in *a = GUEST(0x2240);

	*len = 16;
	CALL(getsockname, fd, page + 0x2240, page + 0x2200);
	return ntohs(a->sin_port);
}

static s64 open_listener(void)
{
	s64 fd = CALL(socket, 2, 1, 0);

	CALL(bind, fd, write_address(0, 0), 16);
	CALL(listen, fd, 8);
	return fd;
}

static void test_refusals(void)
{
	u32 logs = fake.logs;
	s64 e;

	tap_ok(CALL(socket, 16, 3, 0) == -LINUX_EAFNOSUPPORT &&
		       fake.logs == logs + 1,
	       "AF_NETLINK is refused with a message");
	tap_ok(CALL(socket, 2, 3, 0) == -LINUX_ESOCKTNOSUPPORT &&
		       CALL(socket, 2, 1 | 0x100, 0) == -LINUX_EINVAL,
	       "types and flags are checked");
	e = CALL(eventfd2, 0, 0);
	tap_ok(CALL(bind, 77, page, 16) == -LINUX_EBADF &&
		       CALL(bind, e, page, 16) == -LINUX_ENOTSOCK,
	       "socket calls return EBADF and ENOTSOCK");
	CALL(close_range, 0, ~0u, 0);
}

/* struct sockaddr_un; the length that a program passes. */
static u32 write_name(const char *name)
{
	u8 *to = GUEST(0x3000);
	u32 len = (u32)strlen(name);

	memset(to, 0, 110);
	to[0] = ABI_AF_UNIX;
	memcpy(to + 2, name, len);
	return 2 + len;
}

static s64 connect_name(s64 fd, const char *name)
{
	u32 len = write_name(name);

	return CALL(connect, fd, page + 0x3000, len);
}

static void test_unix_names(void)
{
	char dir[] = "/tmp/skep-unix-XXXXXX", name[64];
	s64 fd = CALL(socket, 1, 1 | ABI_O_CLOEXEC | ABI_O_NONBLOCK, 0);
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int host = socket(AF_UNIX, SOCK_STREAM, 0);

	fake.logs = 0;
	tap_ok(mkdtemp(dir) && fd >= 0 && host >= 0, "sockets of AF_UNIX");
	tap_ok(connect_name(fd, "/none/nscd/socket") == -LINUX_ENOENT &&
		       !fake.logs,
	       "a daemon that does not run is not there, without a word");
	snprintf(name, sizeof(name), "%s/file", dir);
	close(open(name, O_CREAT | O_WRONLY, 0600));
	tap_ok(connect_name(fd, name) == -LINUX_ECONNREFUSED && !fake.logs,
	       "a file is no socket");
	unlink(name);
	snprintf(un.sun_path, sizeof(un.sun_path), "%s/socket", dir);
	if (bind(host, (struct sockaddr *)&un, sizeof(un)))
		perror("bind");
	tap_ok(connect_name(fd, un.sun_path) == -LINUX_EAFNOSUPPORT &&
		       fake.logs == 1 && strstr(fake.last_log, "AF_UNIX"),
	       "a socket that is there is refused by name");
	tap_ok(CALL(bind, fd, page + 0x3000, write_name("x")) ==
			       -LINUX_EAFNOSUPPORT &&
		       CALL(listen, fd, 1) == -LINUX_EAFNOSUPPORT &&
		       fake.logs == 1,
	       "so are bind and listen");
	unlink(un.sun_path);
	rmdir(dir);
	close(host);
	tap_ok(CALL(connect, fd, page + 0x3000, 2) == -LINUX_EINVAL &&
		       CALL(connect, fd, page + 0x3000, 111) == -LINUX_EINVAL &&
		       CALL(connect, fd, write_address(0, 0), 16) ==
			       -LINUX_EINVAL,
	       "names are checked");
	tap_ok(CALL(write, fd, page, 1) == -LINUX_ENOTCONN &&
		       CALL(read, fd, page, 1) == -LINUX_EINVAL &&
		       CALL(getpeername, fd, page, page + 0x100) ==
			       -LINUX_ENOTCONN &&
		       CALL(accept, fd, 0, 0) == -LINUX_EINVAL,
	       "without a peer nothing is sent or received");
	tap_ok(CALL(socket, 1, 5, 0) == -LINUX_ESOCKTNOSUPPORT &&
		       CALL(socket, 1, 1, 7) == -LINUX_EPROTONOSUPPORT,
	       "other types and protocols are refused");
	fd = CALL(socket, 1, 2, 0);
	tap_ok(CALL(sendto, fd, page, 1, 0, page + 0x3000,
		    write_name("/none/log")) == -LINUX_ENOENT &&
		       CALL(sendto, fd, page, 1, 0, 0, 0) == -LINUX_ENOTCONN &&
		       CALL(recvfrom, fd, page, 1, 0, 0, 0) ==
			       -LINUX_EAFNOSUPPORT,
	       "datagrams find no peer either");
	CALL(close_range, 0, ~0u, 0);
}

static void test_connecting(void)
{
	struct io_task task = {.t = other, .nr = ABI_NR_accept4};
	s64 l = open_listener(), a = CALL(socket, 2, 1, 0), b;
	u32 *len = GUEST(0x2300);

	*len = 5;
	task.a[0] = (u64)l;
	task.a[1] = page + 0x2340;
	task.a[2] = page + 0x2300;
	task.a[3] = ABI_O_CLOEXEC;
	io_start(&task);
	WAIT_FOR(io_sleeps(other));
	tap_ok(CALL(connect, a, write_address(1, port_of(l)), 16) == 0,
	       "a blocking connect");
	b = io_join(&task);
	tap_ok(b > a && *len == 16 && CALL(fcntl, b, 1) == 1,
	       "a blocking accept, with the true length of the address");
	tap_ok(CALL(write, a, io_str(0, "hello"), 5) == 5 &&
		       CALL(recvfrom, b, page, 9, 0) == 5 &&
		       !memcmp(GUEST(0), "hello", 5),
	       "a connection carries bytes");
	tap_ok(CALL(recvfrom, b, page, 9, ABI_MSG_DONTWAIT) == -LINUX_EAGAIN,
	       "MSG_DONTWAIT");
	tap_ok(CALL(ioctl, b, 0x5421, io_str(2, "\1\0\0\0")) == 0 &&
		       CALL(read, b, page, 1) == -LINUX_EAGAIN,
	       "FIONBIO");
	CALL(shutdown, a, 1);
	CALL(fcntl, b, 4, 0);
	tap_ok(CALL(read, b, page, 1) == 0, "end of file after shutdown");
	CALL(close_range, 0, ~0u, 0);
}

static void test_failing(void)
{
	s64 l = open_listener(), a = CALL(socket, 2, 1 | ABI_O_NONBLOCK, 0);
	u32 port = port_of(l);
	struct abi_pollfd *f = GUEST(0x2800);
	s64 first;

	CALL(close, l);
	first = CALL(connect, a, write_address(1, port), 16);
	f[0] = (struct abi_pollfd){(s32)a, ABI_POLLOUT, 0};
	CALL(poll, page + 0x2800, 1, 1000);
	*(u32 *)GUEST(0x2300) = 4;
	CALL(getsockopt, a, 1, ABI_SO_ERROR, page + 0x2340, page + 0x2300);
	tap_ok(first == -LINUX_ECONNREFUSED ||
		       *(s32 *)GUEST(0x2340) == LINUX_ECONNREFUSED,
	       "a refused connection is reported by SO_ERROR");
	CALL(close_range, 0, ~0u, 0);
	a = CALL(socket, 2, 1, 0);
	tap_ok(CALL(connect, a, write_address(1, port), 16) ==
		       -LINUX_ECONNREFUSED,
	       "a refused connection is reported by a blocking connect");
	tap_ok(CALL(connect, a, page, 200) == -LINUX_EINVAL &&
		       CALL(connect, a, 0x10, 16) == -LINUX_EFAULT,
	       "addresses are checked");
	CALL(close_range, 0, ~0u, 0);
}

/* A connected pair of host sockets as abi's numbers 10 and 11. */
static void open_pair(int type)
{
	int sv[2], i;

	if (socketpair(AF_UNIX, type | SOCK_NONBLOCK, 0, sv))
		abort();
	for (i = 0; i < 2; i++) {
		abi_fd_attach(p, (u32)(10 + i), sv[i], ABI_S_IFSOCK,
			      ABI_O_RDWR);
		p->fds.desc[p->fds.slot[10 + i].desc - 1].sock_type =
			type == SOCK_DGRAM ? ABI_SOCK_DGRAM : ABI_SOCK_STREAM;
	}
}

static void test_timeouts(void)
{
	struct abi_timeval *tv = GUEST(0x2300);

	open_pair(SOCK_STREAM);
	*tv = (struct abi_timeval){0, 20000};
	tap_ok(CALL(setsockopt, 10, 1, 20, page + 0x2300, 16) == 0 &&
		       CALL(read, 10, page, 1) == -LINUX_EAGAIN,
	       "SO_RCVTIMEO ends a wait");
	tv->sec = 9;
	*(u32 *)GUEST(0x2340) = 16;
	tap_ok(CALL(getsockopt, 10, 1, 20, page + 0x2300, page + 0x2340) == 0 &&
		       !tv->sec && tv->usec == 20000,
	       "getsockopt returns SO_RCVTIMEO");
	tv->usec = 1000000;
	tap_ok(CALL(setsockopt, 10, 1, 20, page + 0x2300, 16) == -LINUX_EDOM,
	       "SO_RCVTIMEO checks its value");
	CALL(close_range, 0, ~0u, 0);
}

static void test_vectors(void)
{
	struct abi_iovec *v = GUEST(0x2400);
	struct abi_msghdr *h = GUEST(0x2500);

	open_pair(SOCK_STREAM);
	memcpy(GUEST(0), "headbody", 8);
	v[0] = (struct abi_iovec){page, 4};
	v[1] = (struct abi_iovec){page + 4, 4};
	tap_ok(CALL(writev, 10, page + 0x2400, 2) == 8 &&
		       CALL(recvfrom, 11, page + 0x100, 20, 0) == 8 &&
		       !memcmp(GUEST(0x100), "headbody", 8),
	       "sendmsg sends its vector as one datagram");
	memset(h, 0, sizeof(*h));
	h->iov = page + 0x2400;
	h->iovlen = 2;
	tap_ok(CALL(sendmsg, 10, page + 0x2500, 0) == 8, "sendmsg");
	v[0] = (struct abi_iovec){page + 0x200, 3};
	v[1] = (struct abi_iovec){page + 0x210, 30};
	tap_ok(CALL(recvmsg, 11, page + 0x2500, 0) == 8 &&
		       !memcmp(GUEST(0x200), "hea", 3) &&
		       !memcmp(GUEST(0x210), "dbody", 5) && !h->flags,
	       "recvmsg fills its vector");
	h->control = page;
	h->controllen = 20;
	tap_ok(CALL(sendmsg, 10, page + 0x2500, 0) == -LINUX_EINVAL,
	       "SCM_RIGHTS is refused");
	h->iovlen = 2000;
	h->control = 0;
	tap_ok(CALL(sendmsg, 10, page + 0x2500, 0) == -LINUX_EMSGSIZE,
	       "the number of buffers is checked");
	CALL(close_range, 0, ~0u, 0);
}

static void test_datagrams(void)
{
	struct abi_iovec *v = GUEST(0x2400);
	struct abi_mmsghdr *m = GUEST(0x2500);

	open_pair(SOCK_DGRAM);
	memcpy(GUEST(0), "0123456789", 10);
	v[0] = (struct abi_iovec){page, 4};
	v[1] = (struct abi_iovec){page + 4, 6};
	v[2] = (struct abi_iovec){page + 0x100, 3};
	v[3] = (struct abi_iovec){page + 0x110, 3};
	memset(m, 0, 2 * sizeof(*m));
	m[0].hdr.iov = m[1].hdr.iov = page + 0x2400;
	m[0].hdr.iovlen = 2;
	m[1].hdr.iovlen = 1;
	tap_ok(CALL(sendmmsg, 10, page + 0x2500, 2, 0) == 2 && m[0].len == 10 &&
		       m[1].len == 4,
	       "sendmmsg keeps messages apart");
	m[0].hdr.iov = page + 0x2420;
	m[0].hdr.iovlen = 2;
	tap_ok(CALL(recvmmsg, 11, page + 0x2500, 2, 0x10000, 0) == 2 &&
		       m[0].len == 6 && m[0].hdr.flags & ABI_MSG_TRUNC &&
		       m[1].len == 4 && !m[1].hdr.flags,
	       "recvmmsg reports truncation");
	CALL(sendto, 10, page, 10, 0);
	tap_ok(CALL(recvfrom, 11, page, 4, ABI_MSG_TRUNC) == 10,
	       "MSG_TRUNC gives the true length");
	tap_ok(CALL(sendto, 10, page, 0, 0) == 0 &&
		       CALL(recvfrom, 11, page, 9, ABI_MSG_DONTWAIT) == 0,
	       "an empty datagram arrives");
	v[0].len = v[1].len = 0x9000;
	tap_ok(CALL(writev, 10, page + 0x2400, 2) == -LINUX_EMSGSIZE,
	       "a vector that is too long for one datagram");
	CALL(close_range, 0, ~0u, 0);
}

/* 4 MiB through a socket with small buffers, in blocking calls. */
static void test_bulk(void)
{
	struct io_task task = {.t = other, .nr = ABI_NR_write};
	u64 area = guest_map(1 << 22, 3), to = guest_map(1 << 22, 3), i;
	s64 got = 0, n = 1;

	open_pair(SOCK_STREAM);
	for (i = 0; i < 1 << 22; i += 8)
		*(u64 *)(area + i) = i * 0x9e3779b97f4a7c15ull;
	task.a[0] = 10;
	task.a[1] = area;
	task.a[2] = 1 << 22;
	io_start(&task);
	n = CALL(recvfrom, 11, to, 1 << 22, ABI_MSG_WAITALL);
	got += n > 0 ? n : 0;
	tap_ok(io_join(&task) == 1 << 22 && got == 1 << 22 &&
		       !memcmp((void *)area, (void *)to, 1 << 22),
	       "4 MiB in one blocking write and one MSG_WAITALL");
	CALL(close_range, 0, ~0u, 0);
}

int main(void)
{
	guest_new();
	io_install();
	other = guest_thread()->index;
	test_refusals();
	test_unix_names();
	test_connecting();
	test_failing();
	test_timeouts();
	test_vectors();
	test_datagrams();
	test_bulk();
	guest_free();
	return tap_done();
}
