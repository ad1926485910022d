// SPDX-License-Identifier: MIT
/*
 * Sockets: Winsock, never blocking. Addresses and flags are translated here,
 * options in sockopt.c. Owns the state of Winsock's start.
 */
#include "sock.h"
#include "view.h"

#define SOCK_TYPE 0xf
#define SOCK_STREAM_LINUX 1
#define SOCK_DGRAM_LINUX 2

#define MSG_PEEK_LINUX 0x2
#define MSG_OOB_LINUX 0x1
#define MSG_TRUNC_LINUX 0x20

#define IO_MAX 0x40000000u

static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
static s64 started = -LINUX_ENETDOWN;

static BOOL CALLBACK start_winsock(INIT_ONCE *o, void *arg, void **context)
{
	WSADATA data;
	int err = WSAStartup(MAKEWORD(2, 2), &data);

	(void)o;
	(void)arg;
	(void)context;
	started = err ? bee_win_error((DWORD)err) : 0;
	return TRUE;
}

int bee_sock_init(void)
{
	InitOnceExecuteOnce(&once, start_winsock, NULL, NULL);
	return (int)started;
}

/* Addresses: only the family differs, and only for IPv6 ------------------- */

static s64 addr_out(const struct abi_sock_op *op, struct sockaddr_storage *a,
		    int *len)
{
	u16 family;

	if (op->addrlen < 2 || op->addrlen > sizeof(op->addr))
		return -LINUX_EINVAL;
	memset(a, 0, sizeof(*a));
	memcpy(a, op->addr, op->addrlen);
	family = (u16)(op->addr[0] | op->addr[1] << 8);
	switch (family) {
	case AF_INET_LINUX:
		*len = sizeof(struct sockaddr_in);
		break;
	case AF_INET6_LINUX:
		a->ss_family = AF_INET6;
		*len = sizeof(struct sockaddr_in6);
		break;
	case 0: /* AF_UNSPEC: connect() with it dissolves an association */
		*len = sizeof(struct sockaddr_in);
		return 0;
	default:
		return -LINUX_EAFNOSUPPORT;
	}
	return op->addrlen < (u32)*len ? -LINUX_EINVAL : 0;
}

static void addr_in(struct abi_sock_op *op, const struct sockaddr_storage *a,
		    int len)
{
	u16 family = a->ss_family == AF_INET6 ? AF_INET6_LINUX : a->ss_family;

	if (len < 0)
		len = 0;
	if ((u32)len > sizeof(op->addr))
		len = sizeof(op->addr);
	memcpy(op->addr, a, (u32)len);
	op->addrlen = (u32)len;
	if (len < 2)
		return;
	op->addr[0] = (u8)family;
	op->addr[1] = (u8)(family >> 8);
}

/* Making them ----------------------------------------------------------------
 */

static s64 adopt_socket(SOCKET s, u32 domain, u32 type)
{
	struct win_handle *h;
	u_long on = 1;
	s32 number;

	if (ioctlsocket(s, FIONBIO, &on)) {
		closesocket(s);
		return bee_win_sock_last();
	}
	h = bee_handle_new(WIN_SOCK, &number);
	if (!h) {
		closesocket(s);
		return -LINUX_ENFILE;
	}
	h->s = s;
	h->sock_domain = domain;
	h->sock_type = type;
	return number;
}

/*
 * On Linux an IPv6 socket also accepts IPv4, and a datagram socket does not
 * report that an earlier packet was refused. Windows has other defaults.
 */
static void set_defaults(SOCKET s, u32 domain, u32 type)
{
	DWORD off = 0, got;
	BOOL report = FALSE;

	if (domain == AF_INET6_LINUX)
		setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, (char *)&off,
			   sizeof(off));
	if (type == SOCK_DGRAM_LINUX)
		WSAIoctl(s, SIO_UDP_CONNRESET_CODE, &report, sizeof(report),
			 NULL, 0, &got, NULL, NULL);
}

s64 bee_sock_open(u32 domain, u32 type, u32 protocol)
{
	int family;
	SOCKET s;
	s64 err = bee_sock_init();

	if (err)
		return err;
	type &= SOCK_TYPE;
	if (domain == AF_INET_LINUX)
		family = AF_INET;
	else if (domain == AF_INET6_LINUX)
		family = AF_INET6;
	else
		return -LINUX_EAFNOSUPPORT;
	if (type != SOCK_STREAM_LINUX && type != SOCK_DGRAM_LINUX)
		return -LINUX_ESOCKTNOSUPPORT;
	s = WSASocketW(family, (int)type, (int)protocol, NULL, 0,
		       WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
	if (s == INVALID_SOCKET)
		return bee_win_sock_last();
	set_defaults(s, domain, type);
	return adopt_socket(s, domain, type);
}

static s64 do_accept(struct win_handle *h, struct abi_sock_op *op)
{
	struct sockaddr_storage a;
	int len = sizeof(a);
	SOCKET s = accept(h->s, (struct sockaddr *)&a, &len);
	s64 n;

	if (s == INVALID_SOCKET)
		return bee_win_sock_last();
	addr_in(op, &a, len);
	n = adopt_socket(s, h->sock_domain, h->sock_type);
	if (n < 0)
		return n;
	op->handle = (s32)n;
	bee_handle_get(op->handle)->sock_peer = 1;
	return 0;
}

static s64 do_connect(struct win_handle *h, struct abi_sock_op *op)
{
	struct sockaddr_storage a;
	int len, err;
	s64 n = addr_out(op, &a, &len);

	if (n)
		return n;
	h->sock_peer = 1;
	if (!connect(h->s, (struct sockaddr *)&a, len)) {
		h->sock_connecting = 0;
		return 0;
	}
	err = WSAGetLastError();
	/* Winsock reports "try again" for a connection in progress. */
	if (err == WSAEWOULDBLOCK) {
		h->sock_connecting = 1;
		return -LINUX_EINPROGRESS;
	}
	return err == WSAEINVAL && h->sock_connecting
		       ? -LINUX_EALREADY
		       : bee_win_error((DWORD)err);
}

static s64 do_bind(struct win_handle *h, struct abi_sock_op *op)
{
	struct sockaddr_storage a;
	int len;
	s64 n = addr_out(op, &a, &len);

	if (n)
		return n;
	return bind(h->s, (struct sockaddr *)&a, len) ? bee_win_sock_last() : 0;
}

static s64 do_listen(struct win_handle *h, struct abi_sock_op *op)
{
	struct sockaddr_storage a = {0};
	int err;

	if (!listen(h->s, op->value))
		return 0;
	err = WSAGetLastError();
	if (err != WSAEINVAL)
		return bee_win_error((DWORD)err);
	/* Here Linux binds an unbound socket to any free port. */
	a.ss_family = h->sock_domain == AF_INET6_LINUX ? AF_INET6 : AF_INET;
	if (bind(h->s, (struct sockaddr *)&a,
		 a.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					 : sizeof(struct sockaddr_in)) ||
	    listen(h->s, op->value))
		return bee_win_sock_last();
	return 0;
}

/* Bytes ----------------------------------------------------------------------
 */

static int clip_length(u64 len)
{
	return len < IO_MAX ? (int)len : (int)IO_MAX;
}

/*
 * MSG_NOSIGNAL and MSG_DONTWAIT always apply here; abi implements MSG_WAITALL.
 */
static int flags_out(u32 flags)
{
	int f = 0;

	if (flags & MSG_OOB_LINUX)
		f |= MSG_OOB;
	if (flags & MSG_PEEK_LINUX)
		f |= MSG_PEEK;
	return f;
}

static s64 do_send(struct win_handle *h, struct abi_sock_op *op)
{
	struct sockaddr_storage a;
	int f = flags_out(op->flags), n, len;
	s64 err;

	if (!h->sock_peer && h->sock_type == SOCK_STREAM_LINUX)
		return -LINUX_EPIPE;

	if (op->addrlen && h->sock_type == SOCK_DGRAM_LINUX) {
		err = addr_out(op, &a, &len);
		if (err)
			return err;
		n = sendto(h->s, op->buf, clip_length(op->len), f,
			   (struct sockaddr *)&a, len);
	} else {
		n = send(h->s, op->buf, clip_length(op->len), f);
	}
	if (n >= 0)
		return n;
	err = bee_win_sock_last();
	/* Linux reports a reset once, and EPIPE after that. */
	if (err == -LINUX_ECONNABORTED ||
	    (err == -LINUX_ECONNRESET && h->sock_reset))
		return -LINUX_EPIPE;
	h->sock_reset |= err == -LINUX_ECONNRESET;
	return err;
}

static s64 recv_failed(struct win_handle *h, const struct abi_sock_op *op)
{
	int err = WSAGetLastError();

	/*
	 * A datagram that is longer than the buffer is truncated without an
	 * error.
	 */
	if (err == WSAEMSGSIZE && h->sock_type == SOCK_DGRAM_LINUX)
		return (s64)op->len;
	if (err == WSAEWOULDBLOCK && op->flags & MSG_OOB_LINUX)
		return -LINUX_EINVAL; /* there is none */
	if (err == WSAESHUTDOWN)
		return 0;
	if (err == WSAECONNABORTED || err == WSAECONNRESET) {
		if (h->sock_reset)
			return 0;
		h->sock_reset = 1;
		return -LINUX_ECONNRESET;
	}
	return bee_win_error((DWORD)err);
}

static s64 do_recv(struct win_handle *h, struct abi_sock_op *op)
{
	struct sockaddr_storage a;
	int len = sizeof(a), n;
	s64 got;

	if (!op->len && h->sock_type == SOCK_STREAM_LINUX)
		return 0;
	n = recvfrom(h->s, op->buf, clip_length(op->len), flags_out(op->flags),
		     (struct sockaddr *)&a, &len);
	got = n < 0 ? recv_failed(h, op) : n;
	op->addrlen = 0;
	if (got >= 0 && h->sock_type == SOCK_DGRAM_LINUX)
		addr_in(op, &a, len);
	return got;
}

s64 bee_sock_read(struct win_handle *h, void *buf, u64 len)
{
	struct abi_sock_op op = {.buf = buf, .len = len};

	return do_recv(h, &op);
}

s64 bee_sock_write(struct win_handle *h, const void *buf, u64 len)
{
	struct abi_sock_op op = {.buf = (void *)buf, .len = len};

	return do_send(h, &op);
}

s64 bee_sock_available(struct win_handle *h)
{
	u_long n = 0;

	return ioctlsocket(h->s, FIONREAD, &n) ? bee_win_sock_last() : (s64)n;
}

/* Names, and the rest
 * ---------------------------------------------------------- */

static s64 do_name(struct win_handle *h, struct abi_sock_op *op)
{
	struct sockaddr_storage a = {0};
	int len = sizeof(a), err;

	if (op->verb == ABI_SOCK_PEER)
		err = getpeername(h->s, (struct sockaddr *)&a, &len);
	else
		err = getsockname(h->s, (struct sockaddr *)&a, &len);
	if (err) {
		err = WSAGetLastError();
		/* Only Windows fails here if the socket is not bound. */
		if (op->verb == ABI_SOCK_PEER || err != WSAEINVAL)
			return bee_win_error((DWORD)err);
		a.ss_family =
			h->sock_domain == AF_INET6_LINUX ? AF_INET6 : AF_INET;
		len = a.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
	}
	addr_in(op, &a, len);
	return 0;
}

static s64 sock_do(struct win_handle *h, struct abi_sock_op *op)
{
	switch (op->verb) {
	case ABI_SOCK_BIND:
		return do_bind(h, op);
	case ABI_SOCK_CONNECT:
		return do_connect(h, op);
	case ABI_SOCK_LISTEN:
		return do_listen(h, op);
	case ABI_SOCK_ACCEPT:
		return do_accept(h, op);
	case ABI_SOCK_SEND:
		return do_send(h, op);
	case ABI_SOCK_RECV:
		return do_recv(h, op);
	case ABI_SOCK_NAME:
	case ABI_SOCK_PEER:
		return do_name(h, op);
	case ABI_SOCK_SETOPT:
		return bee_sock_setopt(h, op);
	case ABI_SOCK_GETOPT:
		return bee_sock_getopt(h, op);
	case ABI_SOCK_SHUTDOWN:
		return shutdown(h->s, op->value) ? bee_win_sock_last() : 0;
	}
	return -LINUX_EINVAL;
}

s64 bee_sock(s32 handle, struct abi_sock_op *op)
{
	struct win_handle *h = bee_handle_get(handle);
	int held;
	s64 n;

	if (!h)
		return -LINUX_EBADF;
	if (h->kind != WIN_SOCK && !h->pair)
		return -LINUX_ENOTSOCK;
	held = bee_view_hold(op->buf);
	n = h->pair ? bee_stream_sock(h, op) : sock_do(h, op);
	bee_view_unhold(held);
	return n;
}
