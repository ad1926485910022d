// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reading a link: moves bytes from the socket's queue to the places that the
 * core gives. The socket lock makes reading exclusive, whether a softirq, the
 * owner's backlog, or rx_work holds it.
 *
 * The softirq writes to the core's memory and to the area. It leaves the rest
 * to rx_work: the program's memory, whose pages may fault; allocations that
 * sleep; more than a softirq's budget; the stream's end. The engine's lock is
 * not held during long copies or accesses to the program's memory; the place
 * stays valid until o2g_rx_done().
 *
 * Context: o2g_rx_ready() is sk_data_ready: a softirq with the socket not owned
 * by a process, or the process that owns it (backlog, attaching). o2g_rx_work()
 * is a worker. o2g_rx_later() and resume() any, with the engine's lock.
 */
#include <linux/sched.h>
#include <net/tcp.h>

#include "internal.h"

#define SHORT_COPY 2048	       /* bytes; copied with the engine's lock held */
#define TAKEN_MAX 64	       /* pieces before the lock is released */
#define ASKED_MAX 16	       /* blocked links checked at a time */
#define MEMORY_DELAY (HZ / 10) /* until allocation is tried again */

enum stop {
	DRAINED, /* nothing is left to read */
	WORKER,	 /* rx_work has to continue now */
	MEMORY,	 /* rx_work has to continue when there is memory */
	BLOCKED, /* the core accepts nothing more for now */
	OVER
};

struct reader {
	struct o2g_link *link;
	u64 bytes; /* left of the budget */
	u32 steps;
	bool worker;
	int program; /* 1: its memory is accessible; < 0: torn down */
	enum stop stop;
};

static void reader_lock(struct reader *reader)
{
	o2g_engine_lock(reader->link->engine);
}

static void reader_unlock(struct reader *reader)
{
	o2g_engine_unlock(reader->link->engine, NULL);
}

/* Where the stream's next bytes are: in the socket's queue, or, if `skb` is
 * NULL, in a record that was decrypted. */
struct source {
	struct sk_buff *skb;
	u32 offset;
	const u8 *text;
};

/* ---- copies: return the bytes copied, or -errno ---- */

static int copy_bits(const struct source *source, u64 skip, void *to,
		     u64 length)
{
	if (source->skb)
		return skb_copy_bits(source->skb, source->offset + skip, to,
				     length);
	memcpy(to, source->text + skip, length);
	return 0;
}

static int copy_iter(const struct source *source, struct iov_iter *iter,
		     u64 length)
{
	if (source->skb)
		return skb_copy_datagram_iter(source->skb, source->offset, iter,
					      length);
	return copy_to_iter(source->text, length, iter) == length ? 0 : -EFAULT;
}

static s64 to_area(struct reader *reader, const struct o2g_piece *piece,
		   const struct source *source, u64 length)
{
	struct o2g_engine *engine = reader->link->engine;
	u64 done = 0;

	while (done < length) {
		u64 n = length - done, room;
		void *to = o2g_area_at(engine, piece->address + done, &room,
				       !reader->worker);

		if (!to) {
			reader->stop = reader->worker ? MEMORY : WORKER;
			break;
		}
		n = min(n, room);
		if (copy_bits(source, done, to, n))
			return -EFAULT;
		done += n;
	}
	return done;
}

static s64 to_program(struct reader *reader, const struct o2g_piece *piece,
		      const struct source *source, u64 length)
{
	struct iov_iter iter;
	struct iovec iovec;

	if (!reader->program)
		reader->program = o2g_program_enter(reader->link->engine) ?: 1;
	if (reader->program < 0 ||
	    o2g_compat_user(&iter, ITER_DEST, &iovec, piece->address, length) ||
	    copy_iter(source, &iter, length))
		return -EFAULT;
	return length;
}

static s64 copy_source(struct reader *reader, const struct o2g_piece *piece,
		       const struct source *source, u64 length)
{
	switch (piece->place) {
	case O2G_PLACE_CORE:
		return copy_bits(source, 0, piece->core, length) ?: (s64)length;
	case O2G_PLACE_AREA:
		return to_area(reader, piece, source, length);
	case O2G_PLACE_PROGRAM:
		if (reader->worker)
			return to_program(reader, piece, source, length);
		reader->stop = WORKER;
		return 0;
	case O2G_PLACE_FORGET:
		break;
	}
	return length;
}

/* The caller holds the engine's lock, which may be released in between. */
static s64 place_bytes(struct reader *reader, const struct o2g_piece *piece,
		       const struct source *source, u64 length)
{
	const bool sleeps =
		reader->worker && (piece->place == O2G_PLACE_AREA ||
				   piece->place == O2G_PLACE_PROGRAM);
	struct o2g_link *link = reader->link;
	s64 n;

	lockdep_assert_held(&link->engine->lock);
	if (!sleeps && length <= SHORT_COPY)
		return copy_source(reader, piece, source, length);
	o2g_link_use(link);
	reader_unlock(reader);
	n = copy_source(reader, piece, source, length);
	reader_lock(reader);
	o2g_link_unuse(link);
	return n;
}

/* ---- reading ---- */

/* A blocked link stays blocked while this value does not change. */
static u64 state_of(const struct o2g_engine *engine)
{
	lockdep_assert_held(&engine->lock);
	return o2g_core_changes(engine->core) + engine->fills;
}

static void block_link(struct o2g_link *link)
{
	struct o2g_engine *engine = link->engine;

	lockdep_assert_held(&engine->lock);
	if (!list_empty(&link->blocked_here))
		return;
	link->asked = state_of(engine);
	list_add_tail(&link->blocked_here, &engine->blocked);
	engine->counts.stopped_reading++;
}

static void count_bytes(struct reader *reader, const struct o2g_piece *piece,
			u64 n)
{
	struct o2g_device_counts *counts = &reader->link->engine->counts;

	if (reader->worker)
		counts->worker_bytes += n;
	else
		counts->softirq_bytes += n;
	if (piece->place == O2G_PLACE_PROGRAM)
		counts->direct_bytes += n;
	reader->bytes -= n;
	reader->steps -= piece->place == O2G_PLACE_CORE; /* a header */
}

/* Takes one piece, with the engine's lock held: returns its bytes, or 0 with
 * the reason in `stop`. */
static u64 take_piece(struct reader *reader, const struct source *source,
		      u64 length)
{
	struct o2g_link *link = reader->link;
	struct o2g_piece piece;
	s64 n = -EPROTO;
	int r;

	lockdep_assert_held(&link->engine->lock);
	if (link->over) {
		reader->stop = OVER;
		return 0;
	}
	if (!reader->bytes || !reader->steps) {
		reader->stop = WORKER;
		link->engine->counts.over_budget += !reader->worker;
		return 0;
	}
	r = o2g_rx_want(link->conn, &piece);
	if (r == -EAGAIN) {
		reader->stop = BLOCKED;
		block_link(link);
		return 0;
	}
	if (!r)
		n = place_bytes(reader, &piece, source,
				min3(piece.length, length, reader->bytes));
	if (!link->over && n < 0)
		o2g_link_end(link, (int)n);
	if (!link->over && o2g_rx_done(link->conn, (u64)n))
		o2g_link_end(link, -EPROTO);
	if (link->over) {
		reader->stop = OVER;
	} else {
		count_bytes(reader, &piece, (u64)n);
		/* The last header may have found no memory for its message.
		 */
		if (o2g_rx_blocked(link->conn)) {
			reader->stop = BLOCKED;
			block_link(link);
		}
	}
	return n > 0 ? (u64)n : 0;
}

/* Returns the bytes taken. */
static u64 take_pieces(struct reader *reader, struct source source, u64 length)
{
	u64 done = 0, n;

	while (done < length && reader->stop == DRAINED) {
		reader_lock(reader);
		for (int i = 0;
		     i < TAKEN_MAX && done < length && reader->stop == DRAINED;
		     i++) {
			n = take_piece(reader, &source, length - done);
			source.offset += (u32)n;
			source.text += n;
			done += n;
		}
		reader_unlock(reader);
	}
	return done;
}

static void take_text(struct reader *reader)
{
	struct o2g_sealed *sealed = reader->link->sealed;
	struct source source = {0};
	const u32 length = o2g_sealed_text(sealed, &source.text);

	o2g_sealed_read(sealed, take_pieces(reader, source, length));
}

/* A record that was opened: a peer may send records of a byte each. */
static void count_record(struct reader *reader)
{
	const u8 *text;

	if (o2g_sealed_text(reader->link->sealed, &text))
		reader->bytes -= min_t(u64, reader->bytes, O2G_RECORD_BYTES);
}

/* The same for the bytes of records, whose text is taken as it appears. */
static u64 take_records(struct reader *reader, struct sk_buff *skb, u32 offset,
			u64 length)
{
	struct o2g_link *link = reader->link;
	u64 done = 0;
	s64 n;

	while (done < length && reader->stop == DRAINED) {
		n = o2g_sealed_take(link, skb, offset + (u32)done,
				    length - done);
		if (n < 0) {
			reader->stop = OVER;
			reader_lock(reader);
			o2g_link_end(link, (int)n);
			reader_unlock(reader);
			break;
		}
		done += (u64)n;
		count_record(reader);
		take_text(reader);
	}
	return done;
}

static int recv_actor(read_descriptor_t *desc, struct sk_buff *skb,
		      unsigned int offset, size_t length)
{
	struct reader *reader = desc->arg.data;
	const struct source source = {.skb = skb, .offset = offset};
	const u64 done = reader->link->sealed
				 ? take_records(reader, skb, offset, length)
				 : take_pieces(reader, source, length);

	if (reader->stop != DRAINED)
		desc->count = 0;
	return (int)done;
}

static u64 bytes_allowed(const struct reader *reader)
{
	if (reader->worker)
		return O2G_WORKER_BYTES;
	return reader->link->sealed ? O2G_SOFTIRQ_SEALED : O2G_SOFTIRQ_BYTES;
}

/* Reads within a budget. The caller holds the socket lock. */
static enum stop read_some(struct reader *reader)
{
	read_descriptor_t desc = {.arg.data = reader, .count = 1};
	struct o2g_link *link = reader->link;

	sock_owned_by_me(link->sk);
	if (READ_ONCE(link->over))
		return OVER;
	if (!list_empty_careful(&link->blocked_here))
		return BLOCKED;
	reader->stop = DRAINED;
	reader->bytes = bytes_allowed(reader);
	reader->steps = reader->worker ? U32_MAX : O2G_SOFTIRQ_STEPS;
	if (link->sealed)
		take_text(reader); /* what the last turn has left */
	if (reader->stop == DRAINED)
		tcp_read_sock(link->sk, &desc, recv_actor);
	return reader->stop;
}

/* Call it when everything has been read. Whether the stream has ended: 0 for an
 * orderly end, -errno for an error, 1 if it has not ended. */
static int stream_ended(const struct o2g_link *link)
{
	const struct sock *sk = link->sk;

	if (READ_ONCE(tcp_sk(sk)->urg_data))
		return -EPROTO;	      /* tcp_read_sock() stops at urgent data */
	if (sock_flag(sk, SOCK_DONE)) /* a cut record is no orderly end */
		return link->sealed && o2g_sealed_amid(link->sealed) ? -EPROTO
								     : 0;
	if (link->error)
		return link->error; /* a write failed */
	if (sk->sk_state == TCP_CLOSE)
		return sk->sk_err ? -sk->sk_err : -ECONNRESET;
	return sk->sk_shutdown & RCV_SHUTDOWN ? -ECONNRESET : 1;
}

void o2g_rx_ready(struct sock *sk)
{
	struct reader reader = {0};

	rcu_read_lock();
	reader.link = o2g_ulp_link(sk);
	/* If a worker is queued, it reads these bytes too. */
	if (reader.link && !delayed_work_pending(&reader.link->rx_work)) {
		enum stop stop = read_some(&reader);

		if (stop == WORKER ||
		    (stop == DRAINED && stream_ended(reader.link) <= 0)) {
			spin_lock_bh(&reader.link->engine->lock);
			o2g_rx_later(reader.link, 0);
			spin_unlock_bh(&reader.link->engine->lock);
		}
	}
	rcu_read_unlock();
}

/* ---- rx_work ---- */

/* Reads once, with the socket lock. */
static enum stop read_turn(struct reader *reader)
{
	struct o2g_link *link = reader->link;
	enum stop stop;
	int error;

	lock_sock(link->sk);
	stop = read_some(reader);
	error = stop == DRAINED ? stream_ended(link) : 1;
	if (error <= 0) {
		reader_lock(reader);
		o2g_link_end(link, error);
		reader_unlock(reader);
	}
	release_sock(link->sk);
	if (reader->program > 0)
		o2g_program_leave(link->engine);
	reader->program = 0;
	return stop;
}

void o2g_rx_work(struct work_struct *work)
{
	struct o2g_link *link =
		container_of(work, struct o2g_link, rx_work.work);
	struct reader reader = {.link = link, .worker = true};
	enum stop stop;

	do {
		const int reads = srcu_read_lock(&link->engine->access);

		stop = read_turn(&reader);
		srcu_read_unlock(&link->engine->access, reads);
		cond_resched();
	} while (stop == WORKER);
	if (stop != MEMORY)
		return;
	spin_lock_bh(&link->engine->lock);
	link->engine->counts.refused_memory++;
	link->engine->counts.stopped_reading++;
	o2g_rx_later(link, MEMORY_DELAY);
	spin_unlock_bh(&link->engine->lock);
}

void o2g_rx_later(struct o2g_link *link, unsigned long delay)
{
	lockdep_assert_held(&link->engine->lock);
	if (!link->over)
		mod_delayed_work(link->engine->workers, &link->rx_work, delay);
}

/* Links that were checked are moved to the end of the list. */
static struct o2g_link *next_blocked(struct o2g_engine *engine, u64 state)
{
	struct o2g_link *link = list_first_entry_or_null(
		&engine->blocked, struct o2g_link, blocked_here);

	return link && link->asked != state ? link : NULL;
}

bool o2g_rx_resume(struct o2g_engine *engine)
{
	const u64 state = state_of(engine);
	struct o2g_link *link;

	lockdep_assert_held(&engine->lock);
	for (int i = 0; i < ASKED_MAX; i++) {
		link = next_blocked(engine, state);
		if (!link)
			return false;
		link->asked = state;
		list_move_tail(&link->blocked_here, &engine->blocked);
		if (o2g_rx_blocked(link->conn))
			continue;
		list_del_init(&link->blocked_here);
		o2g_rx_later(link, 0);
	}
	return next_blocked(engine, state);
}
