/* SPDX-License-Identifier: MIT */
/*
 * One side of a session (include/skep/session.h) as a state machine: what was
 * received, what is to be sent, what the peer has acknowledged. It does no I/O,
 * allocates no memory and takes no lock: the caller reads and writes the stream
 * and guards the struct.
 *
 * Receiving: the caller reads 16 bytes and passes them to grid_session_head. It
 * then reads the payload to any place, in parts of any size, and counts them
 * with grid_session_took; if the stream breaks within a payload, the rest is
 * received on the next stream. The payload of an ACK is passed to
 * grid_session_acked.
 *
 * Sending: frames are queued with grid_session_frame and their payload with
 * grid_session_put, and grid_session_out returns what to write next; this
 * includes ACKs that are due, between two frames.
 */
#ifndef GRID_CORE_SESSION_H
#define GRID_CORE_SESSION_H

#include <skep/session.h>

/*
 * Short pieces are copied, longer ones are kept by reference. The peer must
 * acknowledge every SKEP_ACK_EVERY bytes, so a full table always empties again.
 */
#define GRID_COPY_BELOW 0x4000
#define GRID_COPIES (2 * SKEP_ACK_EVERY)
#define GRID_PARTS 1024

/* Consecutive bytes of the session, in the caller's memory or copied. */
struct grid_part {
	u64 at; /* position of the first byte in the session */
	const u8 *bytes;
	u32 len;
	u32 copied;
};

struct grid_piece {
	const void *bytes;
	u64 len;
};

struct grid_greeting {
	struct skep_frame frame;
	struct skep_hello hello;
};

struct grid_ack {
	struct skep_frame frame;
	u64 received;
};

struct grid_session {
	u8 id[16];
	const char *why; /* after an error: one sentence */
	u32 theirs;	 /* the peer's revision, after its HELLO */
	u8 attached;
	/* the session is never resumed: bytes written are not kept */
	u8 forget;

	/* received: */
	struct skep_frame frame; /* the current frame */
	u32 left;		 /* bytes of its payload that are missing */
	u64 received, ack_sent;

	/* sent; all positions count from the session's first byte: */
	u64 queued;   /* end of the queued bytes */
	u64 framed;   /* end of the frame that is being queued */
	u64 written;  /* end of what was written on this stream */
	u64 sent;     /* end of what was written on any stream */
	u64 acked;    /* end of what the peer has */
	u64 edge;     /* first end of a frame at or after `acked` */
	u64 boundary; /* first end of a frame at or after `written` */
	u32 first, parts;
	u64 copies_in, copies_out; /* they only grow; masked when used */
	struct grid_ack ack;
	u32 ack_left; /* bytes of an ACK that are still to be written */
	struct grid_part part[GRID_PARTS];
	u8 copy[GRID_COPIES];
};

/* id: 16 bytes; NULL means zeros, until the peer names one. */
void grid_session_init(struct grid_session *s, const u8 *id);

/* What to send first on every new stream. The stream before is considered
 * broken. */
void grid_session_greet(struct grid_session *s, struct grid_greeting *g);

/*
 * Handles the peer's HELLO, its first frame; len: all of its payload that was
 * read, at least 8. Writing resumes where the peer is. -EPROTO,
 * -EPROTONOSUPPORT (different revisions: `theirs`).
 */
int grid_session_attach(struct grid_session *s, const struct skep_frame *f,
			const void *payload, u64 len);

/* The stream broke. Unacknowledged bytes are kept, unless `forget` is set. */
void grid_session_cut(struct grid_session *s);

/* A header was received: sets `frame` and `left`. -EPROTO. */
int grid_session_head(struct grid_session *s, const struct skep_frame *f);
/* n bytes of the current payload were received. */
void grid_session_took(struct grid_session *s, u64 n);
/* Handles the 8 bytes of an ACK. -EPROTO. */
int grid_session_acked(struct grid_session *s, const void *payload);

/* Whether there is room for `n` more bytes, headers included, in the window and
 * the tables. */
int grid_session_room(const struct grid_session *s, u64 n);
/*
 * Begins a frame with `len` bytes of payload, which grid_session_put then
 * queues in one or more pieces; other users of the session must wait until the
 * frame is complete. -EAGAIN: the window is full; read until an ACK arrives and
 * try again.
 */
int grid_session_frame(struct grid_session *s, u16 type, u16 flags, u64 call,
		       u32 len);
/* `own`: the bytes do not change until the peer has them, so they need not be
 * copied. */
int grid_session_put(struct grid_session *s, const void *bytes, u64 len,
		     int own);

/*
 * What to write next, at most max pieces; 0 if there is nothing. Pieces are
 * valid until the next call of any function but grid_session_wrote.
 */
u32 grid_session_out(struct grid_session *s, struct grid_piece *piece, u32 max);
void grid_session_wrote(struct grid_session *s, u64 n);

/*
 * The peer is known to have everything before `place` (an earlier value of
 * `queued`), because it has answered it: the memory of those bytes may be
 * reused.
 */
void grid_session_has(struct grid_session *s, u64 place);

#endif
