// SPDX-License-Identifier: MIT
/*
 * Socket options: Linux's level and name to Winsock's, with the few whose
 * value means something else. What Windows cannot do is refused by name
 * (ENOPROTOOPT), unless the option's effect is the default. No state.
 */
#include "sock.h"

#define SOL_SOCKET_LINUX 1
#define SOL_IP_LINUX 0
#define SOL_TCP_LINUX 6
#define SOL_IPV6_LINUX 41

#define SO_REUSEADDR_LINUX 2
#define SO_TYPE_LINUX 3
#define SO_ERROR_LINUX 4
#define SO_DONTROUTE_LINUX 5
#define SO_BROADCAST_LINUX 6
#define SO_SNDBUF_LINUX 7
#define SO_RCVBUF_LINUX 8
#define SO_KEEPALIVE_LINUX 9
#define SO_OOBINLINE_LINUX 10
#define SO_LINGER_LINUX 13
#define SO_REUSEPORT_LINUX 15
#define SO_ACCEPTCONN_LINUX 30
#define SO_PROTOCOL_LINUX 38
#define SO_DOMAIN_LINUX 39

#define TCP_KEEPIDLE_WIN 3 /* since Windows 10 1709 */
#define TCP_KEEPCNT_WIN 16
#define TCP_KEEPINTVL_WIN 17

static const struct {
	s16 level, name, win_name;
	int win_level;
} table[] = {
	{SOL_SOCKET_LINUX, SO_DONTROUTE_LINUX, SO_DONTROUTE, SOL_SOCKET},
	{SOL_SOCKET_LINUX, SO_BROADCAST_LINUX, SO_BROADCAST, SOL_SOCKET},
	{SOL_SOCKET_LINUX, SO_SNDBUF_LINUX, SO_SNDBUF, SOL_SOCKET},
	{SOL_SOCKET_LINUX, SO_RCVBUF_LINUX, SO_RCVBUF, SOL_SOCKET},
	{SOL_SOCKET_LINUX, SO_KEEPALIVE_LINUX, SO_KEEPALIVE, SOL_SOCKET},
	{SOL_SOCKET_LINUX, SO_OOBINLINE_LINUX, SO_OOBINLINE, SOL_SOCKET},
	{SOL_SOCKET_LINUX, SO_ACCEPTCONN_LINUX, SO_ACCEPTCONN, SOL_SOCKET},
	{SOL_IP_LINUX, 1, IP_TOS, IPPROTO_IP},
	{SOL_IP_LINUX, 2, IP_TTL, IPPROTO_IP},
	{SOL_IP_LINUX, 32, IP_MULTICAST_IF, IPPROTO_IP},
	{SOL_IP_LINUX, 33, IP_MULTICAST_TTL, IPPROTO_IP},
	{SOL_IP_LINUX, 34, IP_MULTICAST_LOOP, IPPROTO_IP},
	{SOL_IP_LINUX, 35, IP_ADD_MEMBERSHIP, IPPROTO_IP},
	{SOL_IP_LINUX, 36, IP_DROP_MEMBERSHIP, IPPROTO_IP},
	{SOL_TCP_LINUX, 1, TCP_NODELAY, IPPROTO_TCP},
	{SOL_TCP_LINUX, 4, TCP_KEEPIDLE_WIN, IPPROTO_TCP},
	{SOL_TCP_LINUX, 5, TCP_KEEPINTVL_WIN, IPPROTO_TCP},
	{SOL_TCP_LINUX, 6, TCP_KEEPCNT_WIN, IPPROTO_TCP},
	{SOL_IPV6_LINUX, 16, IPV6_UNICAST_HOPS, IPPROTO_IPV6},
	{SOL_IPV6_LINUX, 17, IPV6_MULTICAST_IF, IPPROTO_IPV6},
	{SOL_IPV6_LINUX, 18, IPV6_MULTICAST_HOPS, IPPROTO_IPV6},
	{SOL_IPV6_LINUX, 19, IPV6_MULTICAST_LOOP, IPPROTO_IPV6},
	{SOL_IPV6_LINUX, 20, IPV6_ADD_MEMBERSHIP, IPPROTO_IPV6},
	{SOL_IPV6_LINUX, 21, IPV6_DROP_MEMBERSHIP, IPPROTO_IPV6},
	{SOL_IPV6_LINUX, 26, IPV6_V6ONLY, IPPROTO_IPV6},
};

static int find_option(const struct abi_sock_op *op)
{
	unsigned int i;

	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (table[i].level == op->level && table[i].name == op->name)
			return (int)i;
	return -1;
}

static s64 value_set(struct abi_sock_op *op, s32 value)
{
	if (op->len < sizeof(value))
		return -LINUX_EINVAL;
	memcpy(op->buf, &value, sizeof(value));
	op->len = sizeof(value);
	return 0;
}

/* struct linger has two ints on Linux and two shorts on Windows. */
static s64 set_linger(struct win_handle *h, const struct abi_sock_op *op)
{
	struct linger l;
	s32 v[2];

	if (op->len < sizeof(v))
		return -LINUX_EINVAL;
	memcpy(v, op->buf, sizeof(v));
	l.l_onoff = !!v[0];
	l.l_linger = (u16)(v[1] > 0xffff ? 0xffff : v[1] < 0 ? 0 : v[1]);
	return setsockopt(h->s, SOL_SOCKET, SO_LINGER, (char *)&l, sizeof(l))
		       ? bee_win_sock_last()
		       : 0;
}

static s64 get_linger(struct win_handle *h, struct abi_sock_op *op)
{
	struct linger l;
	int len = sizeof(l);
	s32 v[2];

	if (op->len < sizeof(v))
		return -LINUX_EINVAL;
	if (getsockopt(h->s, SOL_SOCKET, SO_LINGER, (char *)&l, &len))
		return bee_win_sock_last();
	v[0] = l.l_onoff;
	v[1] = l.l_linger;
	memcpy(op->buf, v, sizeof(v));
	op->len = sizeof(v);
	return 0;
}

/*
 * On Windows SO_REUSEADDR lets two programs share a port in use. What it does
 * on Linux (bind while old connections are in TIME_WAIT) is the default of
 * Windows.
 */
static int accepted_without_effect(const struct abi_sock_op *op)
{
	return op->level == SOL_SOCKET_LINUX && op->name == SO_REUSEADDR_LINUX;
}

s64 bee_sock_setopt(struct win_handle *h, struct abi_sock_op *op)
{
	int i;

	if (accepted_without_effect(op))
		return 0;
	if (op->level == SOL_SOCKET_LINUX && op->name == SO_LINGER_LINUX)
		return set_linger(h, op);
	i = find_option(op);
	if (i < 0)
		return -LINUX_ENOPROTOOPT;
	if (setsockopt(h->s, table[i].win_level, table[i].win_name, op->buf,
		       (int)op->len))
		return bee_win_sock_last();
	return 0;
}

static s64 get_error(struct win_handle *h, struct abi_sock_op *op)
{
	int error = 0, len = sizeof(error);

	if (getsockopt(h->s, SOL_SOCKET, SO_ERROR, (char *)&error, &len))
		return bee_win_sock_last();
	h->sock_connecting = 0;
	return value_set(op, error ? (s32)-bee_win_error((DWORD)error) : 0);
}

static s64 get_plain(struct win_handle *h, struct abi_sock_op *op)
{
	int i = find_option(op), len;
	s32 value = 0;

	if (i < 0)
		return -LINUX_ENOPROTOOPT;
	/* On Windows some of these options have one byte. */
	len = sizeof(value);
	if (getsockopt(h->s, table[i].win_level, table[i].win_name,
		       (char *)&value, &len))
		return bee_win_sock_last();
	return value_set(op, value);
}

s64 bee_sock_getopt(struct win_handle *h, struct abi_sock_op *op)
{
	if (op->level != SOL_SOCKET_LINUX)
		return get_plain(h, op);
	switch (op->name) {
	case SO_ERROR_LINUX:
		return get_error(h, op);
	case SO_TYPE_LINUX:
		return value_set(op, (s32)h->sock_type);
	case SO_DOMAIN_LINUX:
		return value_set(op, (s32)h->sock_domain);
	case SO_PROTOCOL_LINUX:
		return value_set(op, h->sock_type == 1 ? 6 : 17);
	case SO_REUSEADDR_LINUX:
		return value_set(op, 1);
	case SO_REUSEPORT_LINUX:
		return value_set(op, 0);
	case SO_LINGER_LINUX:
		return get_linger(h, op);
	}
	return get_plain(h, op);
}
