// SPDX-License-Identifier: MIT
/*
 * A session against a peer that says anything: the input is a stream of
 * frames, between which this side sends and is cut as their bytes say.
 */
#include <string.h>

#include "grid/core/session.h"

int LLVMFuzzerTestOneInput(const u8 *data, unsigned long size);

static struct grid_session s;
static u8 bulk[0x20000];

/* What must not happen for any input. */
static void check_session(void)
{
	if (s.acked > s.written || s.written > s.sent || s.sent > s.queued ||
	    s.queued - s.acked > SKEP_SESSION_WINDOW ||
	    s.copies_in - s.copies_out > GRID_COPIES ||
	    (!s.forget && s.edge < s.acked) || s.boundary < s.written ||
	    s.parts > GRID_PARTS)
		__builtin_trap();
}

static void send_some(u32 how)
{
	struct grid_piece piece[3];
	u32 len = how & 1 ? sizeof(bulk) : how % 100, n, i;
	u64 all = 0;

	if (s.queued == s.framed)
		grid_session_frame(&s, SKEP_DATA, 0, 1, len);
	/* The rest of the last one, if there was no room for it. */
	grid_session_put(&s, bulk, s.framed - s.queued, 1);
	n = grid_session_out(&s, piece, 3);
	for (i = 0; i < n; i++)
		all += piece[i].len;
	grid_session_wrote(&s, how & 2 ? all : all / 2);
}

static int attach_session(const u8 *data, u64 size)
{
	struct grid_greeting g;
	struct skep_hello h = {
		SKEP_SESSION_MAGIC, SKEP_SESSION_REVISION, {0}, 0};
	struct skep_frame f = {sizeof(h), SKEP_HELLO, 0, 0};

	grid_session_greet(&s, &g);
	if (size)
		memcpy(&h.received, data, size < 3 ? size : 3);
	return grid_session_attach(&s, &f, &h, sizeof(h));
}

int LLVMFuzzerTestOneInput(const u8 *data, unsigned long size)
{
	struct skep_frame f;
	u64 n;

	grid_session_init(&s, NULL);
	s.forget = size && data[0] & 1;
	if (attach_session(NULL, 0))
		__builtin_trap();
	while (size >= sizeof(f)) {
		memcpy(&f, data, sizeof(f));
		data += sizeof(f);
		size -= sizeof(f);
		send_some(f.call & 0xffff);
		if (f.call >> 16 & 1 && attach_session(data, size))
			return 0;
		if (grid_session_head(&s, &f))
			return 0;
		n = f.length < size ? f.length : size;
		if (f.type == SKEP_ACK && n == 8) {
			if (grid_session_acked(&s, data))
				return 0;
		} else {
			grid_session_took(&s, n);
		}
		data += n;
		size -= n;
		check_session();
	}
	return 0;
}
