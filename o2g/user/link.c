// SPDX-License-Identifier: MIT
/*
 * Links move bytes between sockets and the core. Data is read into one stage
 * that all links share, and passed on to the core. The rest of a long body is
 * read directly to its destination, and the same call reads the frames after it
 * into the stage. All functions need the engine's lock.
 */
#include "engine.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define LINK_IN 1
#define LINK_OUT 2
#define GATHER 32
/* Bytes read after a long body: more would be copied. */
#define BEHIND 0x1000
#define BURST_ALONE                                                            \
	4 /* the first messages of a burst, which are sent one by one */
#define BURST_TOGETHER 8
#define BURST_BYTES 0x400 /* larger messages are not deferred */

u8 *o2g_link_memory(struct o2g_engine *e, const struct o2g_piece *piece)
{
	switch (piece->place) {
	case O2G_PLACE_CORE:
		return piece->core;
	case O2G_PLACE_PROGRAM:
		return (u8 *)(size_t)piece->address;
	case O2G_PLACE_AREA:
		return (u8 *)e->area + piece->address;
	case O2G_PLACE_FORGET:
		break;
	}
	return 0;
}

static int watch_socket(struct o2g_engine *e, struct o2g_link *link, u8 events)
{
	struct epoll_event event = {
		.events = (events & LINK_IN ? (u32)EPOLLIN : 0) |
			  (events & LINK_OUT ? (u32)EPOLLOUT : 0),
		.data.u64 = (u64)link->number << 32 | link->slot};
	int op = link->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (link->events == events)
		return 0;
	if (!events)
		op = EPOLL_CTL_DEL;
	if (epoll_ctl(e->epoll, op, link->socket, &event))
		return -errno;
	e->stalled += !!(events & LINK_OUT) - !!(link->events & LINK_OUT);
	link->events = events;
	return 0;
}

/* ---- creation and destruction ---- */

static int make_room(struct o2g_engine *e)
{
	u32 room = e->link_room ? 2 * e->link_room : 16;
	struct o2g_link **links;

	if (e->link_count < e->link_room)
		return 0;
	links = realloc(e->links, room * sizeof(struct o2g_link *));
	if (!links)
		return -ENOMEM;
	memset(links + e->link_room, 0,
	       (room - e->link_room) * sizeof(struct o2g_link *));
	e->links = links;
	e->link_room = room;
	return 0;
}

static u32 free_slot(const struct o2g_engine *e)
{
	u32 slot = e->link_count; /* free, unless links have ended */

	while (e->links[slot])
		slot = (slot + 1) % e->link_room;
	return slot;
}

int o2g_link_attach(struct o2g_engine *e, int socket, u32 peer, u32 credit_out,
		    u32 credit_in, const struct o2g_keys *keys, u32 *number)
{
	struct o2g_link *link = calloc(1, sizeof(*link));
	int r = link ? make_room(e) : -ENOMEM;

	o2g_engine_assert_locked(e);
	if (r == 0 && keys) {
		link->sealed = o2g_sealed_make(keys);
		r = link->sealed ? 0 : -ENOMEM;
	}
	if (r)
		goto out;
	link->socket = socket;
	link->number = ++e->number;
	link->slot = free_slot(e);
	r = watch_socket(e, link, LINK_IN);
	if (r)
		goto out;
	r = o2g_conn_attach(e->core, peer, credit_out, credit_in, link,
			    &link->conn);
	if (r)
		goto out;
	e->links[link->slot] = link;
	e->link_count++;
	e->hot = e->hot ? e->hot : link;
	*number = link->number;
	o2g_link_want(e, link->conn);
	return 0;
out:
	close(socket);
	if (link)
		o2g_sealed_free(link->sealed);
	free(link);
	return r;
}

struct o2g_link *o2g_link_find(struct o2g_engine *e, u32 slot, u32 number)
{
	struct o2g_link *link = slot < e->link_room ? e->links[slot] : 0;

	o2g_engine_assert_locked(e);
	return link && link->number == number ? link : 0;
}

static void leave_list(struct o2g_engine *e, struct o2g_link *link)
{
	struct o2g_link **at = &e->tx;

	if (!link->listed)
		return;
	while (*at != link)
		at = &(*at)->next_tx;
	*at = link->next_tx;
	link->listed = 0;
}

static u64 count_resent(const struct o2g_link *link)
{
	struct tcp_info info = {0};
	socklen_t size = sizeof(info);

	if (getsockopt(link->socket, IPPROTO_TCP, TCP_INFO, &info, &size))
		return 0; /* not TCP, from o2g_register_socket() */
	return info.tcpi_total_retrans;
}

void o2g_link_count(struct o2g_engine *e, struct o2g_link_counts *counts)
{
	o2g_engine_assert_locked(e);
	counts->open = e->link_count;
	counts->resent = e->resent;
	for (u32 i = 0; i < e->link_room; i++)
		if (e->links[i])
			counts->resent += count_resent(e->links[i]);
}

void o2g_link_end(struct o2g_engine *e, struct o2g_link *link, int error)
{
	o2g_engine_assert_locked(e);
	e->resent += count_resent(link);
	if (o2g_conn_bye_received(link->conn) && error != -EPROTO)
		error = 0; /* after BYE it does not matter how it ends */
	o2g_conn_end(link->conn, error);
	leave_list(e, link);
	watch_socket(e, link, 0);
	close(link->socket);
	if (e->hot == link)
		e->hot = 0;
	e->blocked -= link->blocked;
	e->links[link->slot] = 0;
	e->link_count--;
	free(link->left);
	o2g_sealed_free(link->sealed);
	free(link);
}

/* ---- reading ---- */

/* Keeps bytes that were read although the core does not accept them now. */
static int keep_bytes(struct o2g_engine *e, struct o2g_link *link,
		      const u8 *from, u64 length)
{
	u8 *left = 0;

	if (length > 0) {
		left = malloc(length);
		if (!left)
			return -ENOMEM;
		memcpy(left, from, length);
	}
	free(link->left);
	link->left = left;
	link->left_length = (u32)length;
	e->blocked += !link->blocked;
	link->blocked = 1;
	return watch_socket(e, link, link->events & LINK_OUT);
}

/* Passes bytes that were read to the core. */
int o2g_link_feed(struct o2g_engine *e, struct o2g_link *link, const u8 *from,
		  u64 length)
{
	while (length > 0) {
		struct o2g_piece piece;
		u64 n = o2g_rx_whole(link->conn, from, length);
		int r;
		u8 *to;

		if (n > 0) {
			from += n;
			length -= n;
			continue;
		}
		n = length;
		r = o2g_rx_want(link->conn, &piece);
		if (r == -EAGAIN)
			return keep_bytes(e, link, from, length);
		if (r)
			return -EPROTO; /* data after BYE */
		if (n > piece.length)
			n = piece.length;
		to = o2g_link_memory(e, &piece);
		if (to)
			memcpy(to, from, n);
		r = o2g_rx_done(link->conn, n);
		if (r)
			return r;
		from += n;
		length -= n;
	}
	/* There may be no memory for a message whose header was in the last
	 * bytes. */
	return o2g_rx_blocked(link->conn) ? keep_bytes(e, link, 0, 0) : 0;
}

/* Between two frames everything is read into the stage. */
static s64 read_frames(struct o2g_engine *e, struct o2g_link *link,
		       int *drained)
{
	const s64 n =
		recv(link->socket, e->stage, O2G_STAGE_SIZE, MSG_DONTWAIT);
	int r;

	*drained = n < O2G_STAGE_SIZE;
	if (n < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	r = o2g_link_feed(e, link, e->stage, (u64)n);
	return r ? r : n;
}

/* Reads once. Returns the number of bytes, 0 at the end of the stream, or
 * -errno. Sets `drained` if the socket had fewer bytes than there was room
 * for. */
static s64 read_some(struct o2g_engine *e, struct o2g_link *link, int *drained)
{
	struct o2g_piece piece = {.place = O2G_PLACE_FORGET};
	struct iovec iov[2] = {{0}, {e->stage, BEHIND}};
	u64 most = O2G_STAGE_SIZE, first;
	int r, direct;
	s64 n;

	*drained = 1;
	if (link->sealed)
		return o2g_sealed_read(e, link, drained);
	if (o2g_rx_fresh(link->conn))
		return read_frames(e, link, drained);
	r = o2g_rx_want(link->conn, &piece);
	if (r == -EAGAIN) {
		r = keep_bytes(e, link, 0, 0);
		return r ? r : -EAGAIN;
	}
	iov[0].iov_base = o2g_link_memory(e, &piece);
	direct = r == 0 && iov[0].iov_base && piece.length >= O2G_DIRECT_MIN;
	if (direct) {
		iov[0].iov_len = piece.length;
		most = piece.length + BEHIND;
		n = readv(link->socket, iov, 2);
	} else {
		n = recv(link->socket, e->stage, most, MSG_DONTWAIT);
	}
	if (n < 0)
		n = errno == EINTR ? -EAGAIN : -errno;
	first = direct && n > 0 ? (u64)n : 0;
	if (first > piece.length)
		first = piece.length;
	if (r == 0)
		r = o2g_rx_done(link->conn, first);
	else
		r = 0;
	if (r == 0 && n > 0)
		r = o2g_link_feed(e, link, e->stage, (u64)n - first);
	*drained = n < (s64)most;
	return r ? r : n;
}

u64 o2g_link_read(struct o2g_engine *e, struct o2g_link *link)
{
	u64 total = 0;
	int drained = 0;

	o2g_engine_assert_locked(e);
	while (!link->blocked && !drained && total < O2G_TURN_BYTES) {
		s64 n = read_some(e, link, &drained);

		if (n == -EAGAIN)
			break;
		if (n <= 0) {
			o2g_link_end(e, link, (int)n);
			return total + 1; /* an end counts as progress */
		}
		total += (u64)n;
	}
	if (total > 0)
		e->hot = link;
	return total;
}

/* Passes on the kept bytes, since the core may accept data again. */
static void resume_link(struct o2g_engine *e, struct o2g_link *link)
{
	u8 *left = link->left;
	int r;

	link->blocked = 0;
	e->blocked--;
	link->left = 0;
	r = o2g_link_feed(e, link, left, link->left_length);
	free(left);
	if (r == 0 && !link->blocked && link->sealed)
		r = o2g_sealed_resume(e, link);
	if (r == 0 && !link->blocked)
		r = watch_socket(e, link, link->events | LINK_IN);
	if (r)
		o2g_link_end(e, link, r);
}

/* ---- writing ---- */

void o2g_link_want(void *ctx, struct o2g_conn *conn)
{
	struct o2g_engine *e = ctx;
	struct o2g_link *link = o2g_conn_host(conn);

	o2g_engine_assert_locked(e);
	if (link->listed || link->broken)
		return;
	link->listed = 1;
	link->next_tx = e->tx;
	e->tx = link;
}

/* Writing failed. Data that the peer sent before is still valid: it is read to
 * the end of the stream, which ends the link. */
static void break_link(struct o2g_engine *e, struct o2g_link *link, int error)
{
	u32 slot = link->slot, number = link->number;

	link->broken = 1;
	if (error != -EFAULT)
		while (o2g_link_read(e, link) > 0)
			if (!(link = o2g_link_find(e, slot, number)))
				return;
	if (!link->blocked)
		o2g_link_end(e, link, error);
	else if (watch_socket(e, link, 0))
		o2g_link_end(e, link, -EIO);
}

static s64 write_some(struct o2g_engine *e, struct o2g_link *link, u64 *asked)
{
	struct o2g_piece piece[GATHER];
	struct iovec iov[GATHER];
	struct msghdr message = {.msg_iov = iov};
	s64 sent;
	int r, n;

	if (link->sealed)
		return o2g_sealed_write(e, link, asked);
	n = o2g_tx_gather(link->conn, piece, GATHER);
	*asked = 0;
	if (n <= 0)
		return 0;
	for (int i = 0; i < n; i++) {
		iov[i].iov_base = o2g_link_memory(e, &piece[i]);
		iov[i].iov_len = piece[i].length;
		*asked += piece[i].length;
	}
	message.msg_iovlen = (size_t)n;
	sent = sendmsg(link->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN && errno != EINTR)
		return -errno;
	r = o2g_tx_done(link->conn, sent < 0 ? 0 : (u64)sent);
	return r ? r : sent < 0 ? 0 : sent;
}

void o2g_link_write(struct o2g_engine *e, struct o2g_link *link)
{
	u64 total = 0, asked;
	int stalled = 0;
	s64 n;

	o2g_engine_assert_locked(e);
	do {
		n = write_some(e, link, &asked);
		if (n < 0) {
			break_link(e, link, (int)n);
			return;
		}
		total += (u64)n;
		stalled = (u64)n < asked;
	} while (asked && !stalled && total < O2G_TURN_BYTES);
	/* A used-up turn is treated like a full socket: epoll reports at once
	 * that it is writable. */
	stalled |= asked > 0;
	if (watch_socket(
		    e, link,
		    (u8)((link->events & LINK_IN) | (stalled ? LINK_OUT : 0))))
		o2g_link_end(e, link, -EIO);
	else if (!stalled && !link->ended && o2g_conn_bye_sent(link->conn)) {
		shutdown(link->socket, SHUT_WR);
		link->ended = 1;
	}
}

/* No acknowledgement since the last check. TCP_USER_TIMEOUT would treat a
 * program that is stopped, for example by a debugger, as dead, because its
 * window stays closed; but its kernel still answers. */
static int peer_silent(const struct o2g_link *link)
{
	struct tcp_info info = {0};
	socklen_t size = sizeof(info);

	if (getsockopt(link->socket, IPPROTO_TCP, TCP_INFO, &info, &size))
		return 0; /* not TCP, from o2g_register_socket() */
	return (info.tcpi_unacked > 0 || info.tcpi_probes > 0) &&
	       info.tcpi_last_ack_recv >= O2G_LOOK_NS / 1000000;
}

void o2g_link_look(struct o2g_engine *e)
{
	o2g_engine_assert_locked(e);
	for (u32 i = 0; i < e->link_room; i++) {
		struct o2g_link *link = e->links[i];

		if (!link)
			continue;
		link->silent = peer_silent(link) ? link->silent + 1 : 0;
		if (link->silent >= O2G_SILENT_MAX)
			o2g_link_end(e, link, -ETIMEDOUT);
	}
}

int o2g_link_defer(struct o2g_engine *e)
{
	struct o2g_link *link = e->tx;

	o2g_engine_assert_locked(e);
	if (!link || link->next_tx)
		return 0;
	if (link->burst != e->burst) {
		link->burst = e->burst;
		link->sends = 0;
	}
	return ++link->sends > BURST_ALONE && link->sends % BURST_TOGETHER &&
	       o2g_tx_small(link->conn, BURST_BYTES);
}

void o2g_link_settle(struct o2g_engine *e, int defer)
{
	struct o2g_link *link;

	o2g_engine_assert_locked(e);
	for (u32 i = 0; e->blocked && i < e->link_room; i++) {
		link = e->links[i];
		if (link && link->blocked && !o2g_rx_blocked(link->conn))
			resume_link(e, link);
	}
	__atomic_store_n(&e->deferred, defer, __ATOMIC_RELAXED);
	while (!defer && (link = e->tx)) {
		e->tx = link->next_tx;
		link->listed = 0;
		if (!(link->events & LINK_OUT) && !link->broken)
			o2g_link_write(e, link);
	}
	if (o2g_core_wakes(e->core))
		e->ring = 1;
}
