/* SPDX-License-Identifier: MIT */
/* The bed; see bed.h. One thread. */
#include "bed.h"

#include <o2g/core/atomic.h>

static void *bed_alloc(void *ctx, u64 size)
{
	struct bed *bed = ctx;

	if (bed->fail_after && !--bed->fail_after) {
		bed->fail_after = 1;
		return 0;
	}
	bed->allocated += size;
	if (bed->allocated > bed->peak)
		bed->peak = bed->allocated;
	return calloc(1, size);
}

static void bed_free(void *ctx, void *memory, u64 size)
{
	struct bed *bed = ctx;

	bed->allocated -= size;
	free(memory);
}

static void bed_want(void *ctx, struct o2g_conn *conn)
{
	struct bed *bed = ctx;
	struct bed_end *end = o2g_conn_host(conn);

	bed->wanted++;
	end->wants = 1;
}

static u8 *piece_pointer(struct bed *bed, const struct o2g_piece *piece)
{
	switch (piece->place) {
	case O2G_PLACE_CORE:
		return piece->core;
	case O2G_PLACE_PROGRAM:
		return (u8 *)piece->address;
	case O2G_PLACE_AREA:
		if (piece->address + piece->length > bed->area->size)
			abort();
		return (u8 *)bed->area + piece->address;
	default:
		return 0;
	}
}

/* One element after the other; nothing else runs. */
static void do_atomic(struct bed *bed, const struct o2g_copy *job)
{
	const u32 size = o2g_atomic_size(job->atomic);
	const u64 length = job->to.length;
	u8 *to = piece_pointer(bed, &job->to);

	for (u64 at = 0; at < length; at += size) {
		u64 old = 0, operand = 0, compare = 0, next;

		memcpy(&old, to + at, size);
		if (o2g_atomic_writes(job->atomic))
			memcpy(&operand, piece_pointer(bed, &job->from) + at,
			       size);
		if (o2g_atomic_compares(job->atomic))
			memcpy(&compare,
			       piece_pointer(bed, &job->from) + length + at,
			       size);
		next = o2g_atomic_next(job->atomic, old, operand, compare);
		memcpy(to + at, &next, size);
		if (o2g_atomic_fetches(job->atomic))
			memcpy(piece_pointer(bed, &job->result) + at, &old,
			       size);
	}
}

static void do_job(struct bed *bed, const struct o2g_copy *job)
{
	if (job->atomic)
		do_atomic(bed, job);
	else
		memcpy(piece_pointer(bed, &job->to),
		       piece_pointer(bed, &job->from), job->to.length);
}

static int bed_copy(void *ctx, struct o2g_copy *job)
{
	struct bed *bed = ctx;

	if (!job->atomic && job->from.length != job->to.length)
		abort();
	if (job->atomic &&
	    (bed->atomics || job->to.address % o2g_atomic_size(job->atomic)))
		bed->unfit++;
	if (bed->put_off && bed->laters < BED_LATER) {
		bed->atomics += !!job->atomic;
		bed->later[bed->laters++] = job;
		return O2G_COPY_LATER;
	}
	do_job(bed, job);
	return 0;
}

static int bed_store(void *ctx, u64 address, const u8 *from, u64 length)
{
	(void)ctx;
	memcpy((void *)(size_t)address, from, length);
	return 0;
}

void bed_copies(struct bed *bed)
{
	for (int i = 0; i < bed->laters; i++) {
		struct o2g_copy *job = bed->later[i];

		do_job(bed, job);
		bed->atomics -= !!job->atomic;
		bed->later[i] = 0;
		o2g_copy_done(bed->core, job, 0);
	}
	bed->laters = 0;
}

static void bed_completed(void *ctx)
{
	struct bed *bed = ctx;

	bed->completions++;
}

void bed_open(struct bed *bed, const struct bed_options *options)
{
	memset(bed, 0, sizeof(*bed));
	bed->host = (struct o2g_host){
		.ctx = bed,
		.alloc = bed_alloc,
		.free = bed_free,
		.want_tx = bed_want,
		.copy = bed_copy,
		.completed = bed_completed,
		.store = options->whole ? bed_store : 0,
	};
	bed->limits.postings = options->postings;
	bed->limits.peers = options->peers;
	bed->limits.unexpected = options->unexpected;
	bed->limits.write_off = options->write_off;
	bed->limits.slab_message = options->slab_message;
	bed->limits.batch = options->batch;
	bed->limits.access = 1;
	bed->limits.light_hash = options->light_hash;
	for (int i = 0; i < 16; i++)
		bed->limits.hash_key[i] = (u8)(i * 37 + 1);
	if (o2g_area_size(options->sq, options->cq, options->outbox,
			  options->slab, &bed->size))
		abort();
	bed->area = aligned_alloc(4096, bed->size);
	memset(bed->area, 0, bed->size);
	if (o2g_area_format(bed->area, options->sq, options->cq,
			    options->outbox, options->slab) ||
	    o2g_core_make(&bed->core, &bed->host, &bed->limits, bed->area))
		abort();
}

u64 bed_close(struct bed *bed)
{
	o2g_core_free(bed->core);
	free(bed->area);
	return bed->allocated;
}

static struct bed_pipe *pipe_make(void)
{
	struct bed_pipe *pipe = calloc(1, sizeof(*pipe));

	pipe->byte = malloc(BED_PIPE);
	return pipe;
}

static void pipe_free(struct bed_pipe *pipe)
{
	free(pipe->byte);
	free(pipe);
}

void bed_join(struct bed *a, u32 peer_of_a, u32 credit_a, struct bed *b,
	      u32 peer_of_b, u32 credit_b, struct bed_end end[2])
{
	struct bed_pipe *there = pipe_make(), *back = pipe_make();

	end[0] = (struct bed_end){.bed = a, .in = back, .out = there};
	end[1] = (struct bed_end){.bed = b, .in = there, .out = back};
	if (o2g_conn_attach(a->core, peer_of_a, credit_b, credit_a, &end[0],
			    &end[0].conn) ||
	    o2g_conn_attach(b->core, peer_of_b, credit_a, credit_b, &end[1],
			    &end[1].conn))
		abort();
}

void bed_end(struct bed_end *end, int error)
{
	if (end->conn)
		o2g_conn_end(end->conn, error);
	end->conn = 0;
}

void bed_part(struct bed_end end[2])
{
	bed_end(&end[0], -104);
	bed_end(&end[1], -104);
	pipe_free(end[0].in);
	pipe_free(end[1].in);
}

/* Bytes that can be moved at once: no wrap, no overflow. */
static u64 bytes_in_row(u32 from, u64 most)
{
	const u64 to_end = BED_PIPE - from % BED_PIPE;

	return most < to_end ? most : to_end;
}

static u64 pipe_write(struct bed_pipe *pipe, const u8 *byte, u64 length)
{
	const u64 room = BED_PIPE - (pipe->tail - pipe->head);
	u64 done = 0, n;

	if (length > room)
		length = room;
	for (; done < length; done += n, pipe->tail += (u32)n) {
		n = bytes_in_row(pipe->tail, length - done);
		memcpy(pipe->byte + pipe->tail % BED_PIPE, byte + done, n);
	}
	return done;
}

static void pipe_read(struct bed_pipe *pipe, u8 *byte, u64 length)
{
	u64 done = 0, n;

	for (; done < length; done += n, pipe->head += (u32)n) {
		n = bytes_in_row(pipe->head, length - done);
		if (byte)
			memcpy(byte + done, pipe->byte + pipe->head % BED_PIPE,
			       n);
	}
}

/* Tells the test when a message was matched. */
static int bed_receive_done(struct bed_end *end, u64 length)
{
	struct o2g_conn *conn = end->conn;
	const int opens = conn->rx == O2G_RX_HEADER &&
			  conn->rx_have + length == O2G_FRAME_SIZE &&
			  (conn->rx_frame.type == O2G_MESSAGE ||
			   conn->rx_frame.type == O2G_REQUEST);
	int rc;

	end->frame = conn->rx_frame;
	rc = o2g_rx_done(conn, length);
	if (!rc && opens && conn->rx != O2G_RX_START && end->arrived)
		end->arrived(end);
	return rc;
}

int bed_write(struct bed_end *end, u64 most)
{
	struct o2g_piece piece[8];
	u64 done = 0;
	int n;

	if (!end->conn)
		return 0;
	n = o2g_tx_gather(end->conn, piece, 8);
	if (!n)
		end->wants = 0;
	for (int i = 0; i < n && done < most; i++) {
		u64 length = piece[i].length;
		u64 went;

		if (length > most - done)
			length = most - done;
		went = pipe_write(end->out, piece_pointer(end->bed, &piece[i]),
				  length);
		done += went;
		if (went < piece[i].length)
			break;
	}
	if (done && o2g_tx_done(end->conn, done))
		abort();
	return (int)done;
}

static int offer_piece(struct bed_end *end, struct o2g_piece *piece)
{
	const int waited = end->conn->rx == O2G_RX_START;
	int rc;

	if (end->offered) {
		end->offered = 0;
		*piece = end->offer;
		return 0;
	}
	rc = o2g_rx_want(end->conn, piece);
	if (waited && end->conn->rx != O2G_RX_START && end->arrived)
		end->arrived(end);
	return rc;
}

void bed_offer(struct bed_end *end)
{
	if (end->conn && !end->offered)
		end->offered = !offer_piece(end, &end->offer);
}

/* Bytes of a message that lies whole in the pipe, and is received so; else
 * 0. */
static u64 read_whole(struct bed_end *end, u64 most)
{
	struct bed_pipe *pipe = end->in;
	u64 length = bytes_in_row(pipe->head, pipe->tail - pipe->head);

	if (end->offered)
		return 0;
	if (length > most)
		length = most;
	length = o2g_rx_whole(end->conn, pipe->byte + pipe->head % BED_PIPE,
			      length);
	pipe->head += (u32)length;
	if (!length)
		return 0;
	end->bed->whole++;
	end->frame = end->conn->rx_frame;
	if (end->arrived)
		end->arrived(end);
	return length;
}

int bed_read(struct bed_end *end, u64 most)
{
	struct bed_pipe *pipe = end->in;
	struct o2g_piece piece;
	u64 done = 0;

	if (end->conn && end->conn->blocked)
		bed_offer(end); /* nothing more need come */
	while (end->conn && done < most && pipe->head != pipe->tail) {
		u64 length = read_whole(end, most - done);
		int rc;

		done += length;
		if (length)
			continue;
		length = pipe->tail - pipe->head;
		rc = offer_piece(end, &piece);
		if (rc == -11)
			break;
		if (rc)
			return rc;
		if (length > piece.length)
			length = piece.length;
		if (length > most - done)
			length = most - done;
		pipe_read(pipe, piece_pointer(end->bed, &piece), length);
		rc = bed_receive_done(end, length);
		if (rc)
			return rc;
		done += length;
	}
	return (int)done;
}

int bed_run(struct bed_end end[2])
{
	int moved;

	do {
		moved = 0;
		for (int i = 0; i < 2; i++) {
			int wrote = bed_write(&end[i], 1u << 20);
			int got = bed_read(&end[!i], 1u << 20);

			if (got < 0)
				return got;
			moved |= wrote || got;
			bed_copies(end[i].bed);
		}
	} while (moved);
	return 0;
}

void bed_submit(struct bed *bed, const struct o2g_sqe *sqe)
{
	if (!o2g_ring_submit(bed->area, sqe))
		abort();
	o2g_ring_kicks(bed->area);
	if (o2g_core_consume(bed->core) < 0)
		abort();
}

void bed_send(struct bed *bed, u32 peer, u64 tag, const void *body, u64 length,
	      u64 cookie)
{
	const struct o2g_sqe sqe = {
		.op = O2G_OP_SEND,
		.peer = peer,
		.tag = tag,
		.addr = (u64)body,
		.length = length,
		.cookie = cookie,
		.context = 1,
	};

	bed_submit(bed, &sqe);
}

void bed_recv(struct bed *bed, u32 peer, u64 tag, u64 ignore, void *body,
	      u64 length, u64 cookie)
{
	const struct o2g_sqe sqe = {
		.op = O2G_OP_RECV,
		.peer = peer,
		.tag = tag,
		.ignore = ignore,
		.addr = (u64)body,
		.length = length,
		.cookie = cookie,
		.context = 1,
	};

	bed_submit(bed, &sqe);
}

int bed_take(struct bed *bed, struct o2g_cqe *cqe)
{
	int got = o2g_ring_take(bed->area, cqe);

	if (got && o2g_ring_roomy(bed->area))
		o2g_core_consume(bed->core);
	return got;
}
