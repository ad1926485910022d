/* SPDX-License-Identifier: MIT */
/* The fuzzers' stand; see stand.h. One thread. */
#include <stdlib.h>
#include <string.h>

#include "stand.h"

struct stand stand;

u8 stand_byte(void)
{
	if (!stand.left)
		return 0;
	stand.left--;
	return *stand.input++;
}

u32 stand_word(void)
{
	u32 word = stand_byte();

	word |= (u32)stand_byte() << 8;
	word |= (u32)stand_byte() << 16;
	return word | (u32)stand_byte() << 24;
}

u64 stand_long(void)
{
	const u64 low = stand_word();

	return low | (u64)stand_word() << 32;
}

static void *stand_alloc(void *ctx, u64 size)
{
	void *memory;

	(void)ctx;
	if (stand.core && stand.fail && !(stand_byte() % stand.fail))
		return 0;
	memory = calloc(1, size);
	stand.allocated += size;
	return memory;
}

static void stand_free(void *ctx, void *memory, u64 size)
{
	(void)ctx;
	stand.allocated -= size;
	free(memory);
}

static void stand_want(void *ctx, struct o2g_conn *conn)
{
	(void)ctx;
	(void)conn;
}

static void stand_completed(void *ctx)
{
	(void)ctx;
}

static void check_piece(const struct o2g_piece *piece, int writes)
{
	const struct o2g_ring *ring = &stand.core->ring;
	const u64 end = piece->address + piece->length;
	const u64 from = writes ? ring->slab : ring->outbox;
	const u64 size = writes ? ring->slab_size : ring->outbox_size;

	if (!piece->length && !writes)
		return;
	switch (piece->place) {
	case O2G_PLACE_CORE:
		break;
	case O2G_PLACE_PROGRAM:
		if (end < piece->address)
			abort();
		if (stand.program_end &&
		    (piece->address < stand.program || end > stand.program_end))
			abort();
		break;
	case O2G_PLACE_AREA:
		if (end < piece->address || piece->address < from ||
		    end > from + size)
			abort();
		break;
	case O2G_PLACE_FORGET:
		if (!writes)
			abort();
	}
}

/* Reads operands, writes to the place where the result goes. */
static void check_atomic(struct o2g_copy *job)
{
	if (!o2g_atomic_valid(job->atomic, job->to.length) ||
	    job->to.place != O2G_PLACE_PROGRAM ||
	    job->to.address % o2g_atomic_size(job->atomic) ||
	    job->from.length != o2g_atomic_body(job->atomic, job->to.length) ||
	    job->result.length != job->to.length || stand.atomic)
		abort();
	check_piece(&job->to, 1);
	if (job->from.place == O2G_PLACE_CORE && job->from.length)
		stand.sum += job->from.core[0] +
			     job->from.core[job->from.length - 1];
	else
		check_piece(&job->from, 0);
	if (!o2g_atomic_fetches(job->atomic))
		return;
	if (job->result.place == O2G_PLACE_CORE)
		memset(job->result.core, 1, job->result.length);
	else
		check_piece(&job->result, 1);
}

/* Both ends of a copy may be the slab: a held body is its source. */
static int stand_copy(void *ctx, struct o2g_copy *job)
{
	(void)ctx;
	if (job->atomic) {
		check_atomic(job);
		if (stand.put_off && stand.laters < STAND_LATER) {
			stand.atomic = job;
			stand.later[stand.laters++] = job;
			return O2G_COPY_LATER;
		}
		return stand_byte() ? 0 : -14;
	}
	if (job->from.length != job->to.length || !job->to.length)
		abort();
	if (job->to.place == O2G_PLACE_FORGET ||
	    job->from.place == O2G_PLACE_FORGET)
		abort();
	if (job->to.place == O2G_PLACE_CORE)
		memset(job->to.core, 1, job->to.length);
	else
		check_piece(&job->to, 1);
	if (stand.put_off && stand.laters < STAND_LATER) {
		stand.later[stand.laters++] = job;
		return O2G_COPY_LATER;
	}
	return stand_byte() ? 0 : -14;
}

void stand_copies(void)
{
	for (u32 i = 0; i < stand.laters; i++) {
		struct o2g_copy *job = stand.later[i];

		if (job == stand.atomic) {
			stand.atomic = 0;
			check_atomic(job);
		}
		o2g_copy_done(stand.core, job, stand_byte() == 1 ? -14 : 0);
	}
	stand.laters = 0;
}

void stand_attach(u32 conn)
{
	const u32 peer = stand_byte() % 2 ? O2G_NO_PEER : conn + 1;
	int rc;

	if (stand.conn[conn])
		return;
	rc = o2g_conn_attach(stand.core, peer, O2G_CREDIT_MIN + stand_byte(),
			     O2G_CREDIT_MIN << (stand_byte() & 3), &stand,
			     &stand.conn[conn]);
	if (rc)
		stand.conn[conn] = 0;
}

void stand_open(const u8 *input, u64 length)
{
	u64 size;

	memset(&stand, 0, sizeof(stand));
	stand.input = input;
	stand.left = length;
	stand.host = (struct o2g_host){
		.alloc = stand_alloc,
		.free = stand_free,
		.want_tx = stand_want,
		.copy = stand_copy,
		.completed = stand_completed,
	};
	stand.limits.postings = 64;
	stand.limits.peers = 4;
	stand.limits.unexpected = 20000u << (stand_byte() & 3);
	stand.limits.write_off = stand_byte() & 1 ? 20000 : 0;
	stand.limits.invited = stand_byte() & 1 ? 12000 : 0;
	stand.limits.slab_message = stand_byte() & 1 ? 300 : 0;
	stand.limits.access = 1;
	stand.put_off = stand_byte() & 1;
	o2g_area_size(16, 16, 4096, 0x8000, &size);
	stand.area = calloc(1, size);
	o2g_area_format(stand.area, 16, 16, 4096, 0x8000);
	if (o2g_core_make(&stand.core, &stand.host, &stand.limits, stand.area))
		abort();
	for (u32 peer = 0; peer < 3; peer++)
		o2g_core_peer(stand.core, peer, !peer);
	for (u32 conn = 0; conn < STAND_CONNS; conn++)
		stand_attach(conn);
	stand.fail = stand_byte() & 31;
}

void stand_end(u32 conn, int error)
{
	if (stand.conn[conn])
		o2g_conn_end(stand.conn[conn], error);
	stand.conn[conn] = 0;
}

void stand_close(void)
{
	stand.fail = 0;
	stand_copies();
	for (u32 conn = 0; conn < STAND_CONNS; conn++)
		stand_end(conn, 0);
	stand_copies();
	stand_check();
	o2g_core_free(stand.core);
	free(stand.area);
	if (stand.allocated)
		abort();
}

/* Puts bytes of the input, or zeros, where the core wants them. */
static int feed_bytes(u32 conn, const u8 *bytes, u32 length)
{
	struct o2g_piece piece;

	while (length && stand.conn[conn]) {
		int rc = o2g_rx_want(stand.conn[conn], &piece);

		if (rc == -LINUX_EAGAIN)
			return 0;
		if (!rc && !piece.length)
			abort();
		if (!rc && piece.length > length)
			piece.length = length;
		if (!rc && piece.place == O2G_PLACE_CORE)
			memcpy(piece.core, bytes, piece.length);
		else if (!rc)
			check_piece(&piece, 1);
		if (!rc)
			rc = o2g_rx_done(stand.conn[conn], piece.length);
		if (rc) {
			stand_end(conn, rc == -LINUX_EPIPE ? 0 : rc);
			return 0;
		}
		bytes += piece.length;
		length -= (u32)piece.length;
		stand_check();
	}
	return 1;
}

void stand_feed(u32 conn, u32 length)
{
	const u8 *bytes = stand.input;

	if (length > stand.left)
		length = (u32)stand.left;
	stand.input += length;
	stand.left -= length;
	feed_bytes(conn, bytes, length);
}

static u64 some_length(void)
{
	const u8 kind = stand_byte();

	if (kind < 200)
		return kind;
	return kind < 240 ? (u64)kind * 97 : 1ull << (kind & 63);
}

void stand_frame(u32 conn)
{
	static const u8 zeros[8192];
	struct o2g_frame frame = {
		.type = stand_byte() % (O2G_FRAME_TYPES + 1),
		.id = stand_byte() & 3,
		.credit = (u32)stand_byte() * 16,
	};

	if (frame.type == O2G_MESSAGE || frame.type == O2G_REQUEST) {
		frame.context = stand_byte() & 1;
		frame.tag = stand_byte() & 3;
	}
	if (frame.type == O2G_WRITE || frame.type == O2G_READ) {
		frame.tag = stand_byte() & 1;
		frame.data = stand_byte();
	}
	if (frame.type == O2G_ATOMIC) {
		frame.tag = stand_byte() & 1;
		frame.data = stand_byte() & 0xf8;
		frame.context = stand_byte() % (O2G_ATOMIC_OPERATIONS + 1) |
				(stand_byte() % (O2G_ATOMIC_TYPES + 1)) << 8 |
				(stand_byte() & 1) << 16;
		frame.length = 8u * (stand_byte() & 63);
		frame.body = stand_byte() < 250
				     ? (u32)o2g_atomic_body(frame.context,
							    frame.length)
				     : stand_byte();
	}
	if (frame.type == O2G_DONE)
		frame.context = stand_byte();
	if (frame.type != O2G_PIECE && frame.type != O2G_REPLY &&
	    frame.type != O2G_DONE && frame.type != O2G_ATOMIC)
		frame.length = some_length();
	if (frame.type == O2G_MESSAGE || frame.type == O2G_PIECE ||
	    frame.type == O2G_WRITE || frame.type == O2G_REPLY)
		frame.body = (u32)(some_length() & 8191);
	if ((frame.type == O2G_MESSAGE || frame.type == O2G_WRITE) &&
	    stand_byte() & 1)
		frame.length = frame.body;
	if (stand_byte() < 250)
		frame.credit = 0;
	if (feed_bytes(conn, (u8 *)&frame, sizeof(frame)))
		feed_bytes(conn, zeros, frame.body < 8192 ? frame.body : 8192);
}

void stand_drain(u32 conn)
{
	struct o2g_piece piece[6];
	u64 length = 0;
	int n;

	if (!stand.conn[conn])
		return;
	n = o2g_tx_gather(stand.conn[conn], piece, 2 + stand_byte() % 5);
	for (int i = 0; i < n; i++) {
		check_piece(&piece[i], 0);
		length += piece[i].length;
	}
	if (stand_byte() & 1)
		length = length ? stand_word() % length : 0;
	if (o2g_tx_done(stand.conn[conn], length))
		abort();
}

void stand_take(u32 most)
{
	struct o2g_cqe cqe;

	while (most-- && o2g_ring_take(stand.area, &cqe))
		;
	if (o2g_ring_roomy(stand.area))
		o2g_core_consume(stand.core);
}

void stand_check(void)
{
	const struct o2g_core *core = stand.core;

	if (core->charged > stand.limits.unexpected ||
	    core->ops.used > stand.limits.postings)
		abort();
	for (u32 i = 0; i < STAND_CONNS; i++)
		if (stand.conn[i] &&
		    stand.conn[i]->spent_in > stand.conn[i]->credit_in)
			abort();
}
