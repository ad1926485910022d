// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writing a link. The context that set tx_busy does it: a kick in the program's
 * own context, or tx_work. If there is more work meanwhile, others set
 * tx_again. If the socket is full, tx_full is set until its write_space
 * callback.
 *
 * A failed write does not end the link: data that the peer sent before is
 * valid, so rx_work reads to the end of the stream and ends the link.
 *
 * Context: writing is process context, a kick or a worker. o2g_tx_space() is
 * sk_write_space, mostly a softirq with the socket not owned; it only queues
 * work.
 */
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/wait_bit.h>
#include <net/tcp.h>

#include "internal.h"

#define TURN_BYTES 0x100000 /* bytes of one link; a worker continues */

struct writer {
	struct o2g_link *link;
	bool own;    /* current is the program */
	int program; /* as in rx.c */
	u64 written;
};

/* ---- bytes to the socket ---- */

/* The caller holds the socket lock. Returns the bytes sent, or -errno. */
static s64 send_iter(struct o2g_link *link, struct iov_iter *iter, bool more)
{
	struct msghdr message = {
		.msg_flags =
			MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0),
		.msg_iter = *iter,
	};

	sock_owned_by_me(link->sk);
	return link->ops->sendmsg_locked(link->sk, &message,
					 iov_iter_count(iter));
}

/* Lists contiguous parts of the pieces from `first`, without its first `skip`
 * bytes, up to a piece in the program's memory. Returns their number; `taken`
 * is their length. */
static u32 gather_stretches(struct o2g_link *link, u32 first, u32 pieces,
			    u64 skip, u64 *taken)
{
	u32 n = 0;

	*taken = 0;
	for (u32 i = first; i < pieces; i++, skip = 0) {
		const struct o2g_piece *piece = &link->piece[i];

		if (piece->place == O2G_PLACE_PROGRAM)
			break;
		while (skip < piece->length) {
			u64 room = piece->length - skip;
			void *at = piece->core + skip;

			if (n == O2G_VECTOR)
				return n;
			if (piece->place == O2G_PLACE_AREA)
				at = o2g_area_at(link->engine,
						 piece->address + skip, &room,
						 false);
			if (!at)
				return n;
			room = min(room, piece->length - skip);
			link->vector[n++] = (struct kvec){at, room};
			*taken += room;
			skip += room;
		}
	}
	return n;
}

/* Whether the program's memory may be accessed here. */
static bool program_reachable(struct writer *writer)
{
	if (!writer->own && !writer->program)
		writer->program = o2g_program_enter(writer->link->engine) ?: 1;
	return writer->own || writer->program > 0;
}

static int program_iter(struct writer *writer, struct iov_iter *iter,
			struct iovec *iovec, const struct o2g_piece *piece,
			u64 skip)
{
	if (!program_reachable(writer))
		return -EFAULT;
	return o2g_compat_user(iter, ITER_SOURCE, iovec, piece->address + skip,
			       piece->length - skip);
}

/* Copies short bodies, so that one call sends them with their headers. A body
 * that cannot be copied stays where it is; sending it will fail at the right
 * place in the stream. */
static void fetch_bodies(struct writer *writer, u32 pieces)
{
	struct o2g_link *link = writer->link;
	u64 used = 0;

	for (u32 i = 0; i < pieces; i++) {
		struct o2g_piece *piece = &link->piece[i];
		void __user *from =
			(void __user *)(unsigned long)piece->address;

		if (piece->place != O2G_PLACE_PROGRAM ||
		    piece->length > O2G_FETCH - used)
			continue;
		if (!program_reachable(writer) ||
		    copy_from_user(link->fetched + used, from, piece->length))
			return;
		piece->place = O2G_PLACE_CORE;
		piece->core = link->fetched + used;
		used += piece->length;
	}
}

/* Sends the gathered pieces: returns the bytes sent, or -errno if none were. */
static s64 send_pieces(struct writer *writer, u32 pieces, u64 total)
{
	struct o2g_link *link = writer->link;
	u64 skip = 0, taken, sent = 0;
	struct iov_iter iter;
	struct iovec iovec;
	u32 i = 0;
	s64 r = 0;

	while (i < pieces) {
		const struct o2g_piece *piece = &link->piece[i];

		if (piece->place == O2G_PLACE_PROGRAM) {
			r = program_iter(writer, &iter, &iovec, piece, skip);
			if (r)
				break;
			taken = piece->length - skip;
		} else {
			u32 n = gather_stretches(link, i, pieces, skip, &taken);

			r = -ENOMEM;
			if (!n)
				break;
			iov_iter_kvec(&iter, ITER_SOURCE, link->vector, n,
				      taken);
		}
		r = send_iter(link, &iter, sent + taken < total);
		if (r < 0)
			break;
		sent += (u64)r;
		if ((u64)r < taken)
			break;
		for (skip += taken; i < pieces && skip >= link->piece[i].length;
		     i++)
			skip -= link->piece[i].length;
	}
	return sent ? (s64)sent : r;
}

/* ---- one link ---- */

static void link_failed(struct o2g_link *link, int error)
{
	lockdep_assert_held(&link->engine->lock);
	if (error == -EFAULT) {
		o2g_link_end(link, error); /* its frames were announced */
		return;
	}
	link->error = error;
	o2g_rx_later(link, 0);
}

/* Nothing was sent, by an error or for lack of space. */
static void write_failed(struct o2g_link *link, s64 error)
{
	lockdep_assert_held(&link->engine->lock);
	if (error != -EAGAIN && error != -ENOMEM)
		link_failed(link, (int)error);
	/* Space may have become free since. After a lack of memory no callback
	 * reports that. */
	else if (link->tx_again || error == -ENOMEM)
		mod_delayed_work(link->engine->workers, &link->tx_work, 1);
	else
		link->tx_full = true;
}

static void count_written(struct writer *writer, s64 sent)
{
	writer->written += (u64)sent;
	o2g_link_watch(writer->link);
}

/* Gives up the engine's lock, and gets it again. */
static void writer_unlock(struct writer *writer)
{
	o2g_link_use(writer->link);
	o2g_engine_unlock(writer->link->engine, NULL);
}

static void writer_lock(struct writer *writer)
{
	o2g_engine_lock(writer->link->engine);
	o2g_link_unuse(writer->link);
}

/* Both return true if there may be more to write. */
static bool write_plain(struct writer *writer)
{
	struct o2g_link *link = writer->link;
	u64 total = 0;
	s64 sent;
	int n;

	n = o2g_tx_gather(link->conn, link->piece, O2G_GATHER);
	if (n <= 0)
		return false;
	for (int i = 0; i < n; i++)
		total += link->piece[i].length;
	writer_unlock(writer);
	fetch_bodies(writer, (u32)n);
	lock_sock(link->sk);
	sent = send_pieces(writer, (u32)n, total);
	release_sock(link->sk);
	writer_lock(writer);
	if (link->over)
		return false;
	if (o2g_tx_done(link->conn, sent > 0 ? (u64)sent : 0))
		o2g_link_end(link, -EPROTO);
	if (sent > 0)
		count_written(writer, sent);
	else
		write_failed(link, sent);
	return sent > 0;
}

/* Has the next record sealed: returns the bytes of the stream in it, 0 if there
 * are none, or -errno. */
static s64 seal_record(struct writer *writer)
{
	struct o2g_link *link = writer->link;
	bool reachable = true;
	s64 n = o2g_tx_gather(link->conn, link->piece, O2G_GATHER);
	const u32 pieces = (u32)n;

	if (n <= 0)
		return 0;
	writer_unlock(writer);
	for (u32 i = 0; i < pieces; i++)
		if (link->piece[i].place == O2G_PLACE_PROGRAM)
			reachable = program_reachable(writer);
	n = o2g_sealed_fill(link, pieces, reachable);
	writer_lock(writer);
	if (!link->over && o2g_tx_done(link->conn, n > 0 ? (u64)n : 0))
		o2g_link_end(link, -EPROTO);
	return n;
}

static s64 send_rest(struct o2g_link *link)
{
	struct kvec vector;
	struct iov_iter iter;
	u8 *rest;
	s64 sent;

	vector.iov_len = o2g_sealed_rest(link->sealed, &rest);
	vector.iov_base = rest;
	iov_iter_kvec(&iter, ITER_SOURCE, &vector, 1, vector.iov_len);
	lock_sock(link->sk);
	sent = send_iter(link, &iter, false);
	release_sock(link->sk);
	return sent;
}

static bool write_sealed(struct writer *writer)
{
	struct o2g_link *link = writer->link;
	s64 sent = 1;
	u8 *rest;

	if (!o2g_sealed_rest(link->sealed, &rest))
		sent = seal_record(writer);
	if (!sent || link->over)
		return false;
	if (sent > 0) {
		writer_unlock(writer);
		sent = send_rest(link);
		if (sent > 0)
			o2g_sealed_sent(link->sealed, (u64)sent);
		writer_lock(writer);
	}
	if (link->over)
		return false;
	if (sent > 0)
		count_written(writer, sent);
	else
		write_failed(link, sent);
	return sent > 0;
}

/* The caller holds the engine's lock; it is released during the write. Returns
 * true if there may be more to write. */
static bool write_some(struct writer *writer)
{
	struct o2g_link *link = writer->link;

	lockdep_assert_held(&link->engine->lock);
	link->tx_again = false;
	link->tx_full = false;
	if (link->over || link->error)
		return false;
	return link->sealed ? write_sealed(writer) : write_plain(writer);
}

/* Nothing is sent after BYE. */
static bool link_shuts(struct o2g_link *link)
{
	u8 *rest;

	lockdep_assert_held(&link->engine->lock);
	if (link->over || link->shut || !o2g_conn_bye_sent(link->conn))
		return false;
	if (link->sealed && o2g_sealed_rest(link->sealed, &rest))
		return false;
	link->shut = true;
	return true;
}

/* Nothing more is sent for a program that is being killed. */
static bool writer_ended(const struct writer *writer)
{
	return writer->own ? fatal_signal_pending(current)
			   : o2g_program_gone(writer->link->engine);
}

/* Writes a link whose tx_busy this context has set, until there is nothing
 * left, the socket is full, or TURN_BYTES are sent. */
static void write_link(struct o2g_link *link, bool own)
{
	struct writer writer = {.link = link, .own = own};
	const int reads = srcu_read_lock(&link->engine->access);
	bool shut;

	o2g_engine_lock(link->engine);
	while (write_some(&writer)) {
		if (writer.written >= TURN_BYTES || writer_ended(&writer)) {
			link->tx_again = true;
			break;
		}
	}
	shut = link_shuts(link);
	o2g_engine_unlock(link->engine, NULL);
	if (writer.program > 0)
		o2g_program_leave(link->engine);
	srcu_read_unlock(&link->engine->access, reads);
	if (shut)
		link->ops->shutdown(link->socket, SHUT_WR);
	spin_lock_bh(&link->engine->lock);
	link->tx_busy = false;
	if (link->tx_again && !link->over)
		queue_delayed_work(link->engine->workers, &link->tx_work, 0);
	spin_unlock_bh(&link->engine->lock);
	/* pairs with a waiter's barrier: it is seen here, or sees tx_busy */
	smp_mb();
	wake_up_var(&link->tx_busy);
}

void o2g_tx_write(struct list_head *mine)
{
	while (!list_empty(mine)) {
		struct o2g_link *link =
			list_first_entry(mine, struct o2g_link, tx_here);

		list_del_init(&link->tx_here);
		write_link(link, true);
		o2g_link_put(link);
	}
}

void o2g_tx_work(struct work_struct *work)
{
	struct o2g_link *link =
		container_of(work, struct o2g_link, tx_work.work);
	bool busy;

	spin_lock_bh(&link->engine->lock);
	busy = link->tx_busy;
	link->tx_again |= busy;
	link->tx_busy = true;
	if (!busy)
		/* otherwise it is in its writer's list */
		list_del_init(&link->tx_here);
	spin_unlock_bh(&link->engine->lock);
	if (!busy)
		write_link(link, false);
}

/* ---- who writes ---- */

static bool claim_writer(struct o2g_link *link)
{
	lockdep_assert_held(&link->engine->lock);
	if (link->over || link->tx_full)
		return false;
	if (link->tx_busy) {
		link->tx_again = true;
		return false;
	}
	return true;
}

void o2g_tx_share(struct o2g_engine *engine, struct list_head *mine)
{
	struct o2g_link *link, *next;

	lockdep_assert_held(&engine->lock);
	list_for_each_entry_safe(link, next, &engine->tx, tx_here) {
		list_del_init(&link->tx_here);
		if (!claim_writer(link))
			continue;
		if (!mine) {
			queue_delayed_work(engine->workers, &link->tx_work, 0);
			continue;
		}
		link->tx_busy = true;
		kref_get(&link->ref);
		list_add_tail(&link->tx_here, mine);
	}
}

void o2g_tx_space(struct sock *sk)
{
	struct o2g_link *link;

	rcu_read_lock();
	link = o2g_ulp_link(sk);
	if (link)
		link->write_space(sk);
	if (link && sk_stream_is_writeable(sk)) {
		spin_lock_bh(&link->engine->lock);
		link->tx_full = false;
		if (claim_writer(link))
			queue_delayed_work(link->engine->workers,
					   &link->tx_work, 0);
		spin_unlock_bh(&link->engine->lock);
	}
	rcu_read_unlock();
}
