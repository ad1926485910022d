/* SPDX-License-Identifier: MIT */
/*
 * One side of a session (include/skep/session.h) as a state machine: what was
 * received, what is to be sent, what the peer has acknowledged. No I/O, no
 * memory of its own, no lock: the caller reads and writes the stream and guards
 * the struct.
 *
 * Going in, the caller reads 16 bytes and gives them to grid_session_head. It
 * then reads the payload wherever it likes, in parts of any size, and counts
 * them with grid_session_took; a payload that a cut interrupts goes on where
 * it stopped. ACK is read to grid_session_acked.
 *
 * Going out, frames are queued with grid_session_frame and their payload with
 * grid_session_put, and grid_session_out says what to write next; ACKs that
 * are due come from there too, between two frames.
 */
#ifndef GRID_CORE_SESSION_H
#define GRID_CORE_SESSION_H

#include <skep/session.h>

/*
 * Short pieces are copied, longer ones are kept by reference. The peer must
 * acknowledge every SKEP_ACK_EVERY bytes, so neither table can fill up with
 * nothing due to leave it.
 */
#define GRID_COPY_BELOW 0x4000
#define GRID_COPIES (2 * SKEP_ACK_EVERY)
#define GRID_PARTS 1024

/* Consecutive bytes of the session, in the caller's memory or in copies. */
struct grid_part {
	u64 at; /* place of the first byte in the session */
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
	u8 forget; /* never resumes: what is written need not be kept */

	/* in */
	struct skep_frame frame; /* the current one */
	u32 left;		 /* bytes of its payload that are to come */
	u64 received, ack_sent;

	/* out; all places count from the session's first byte */
	u64 queued;   /* end of what was put */
	u64 framed;   /* where the frame ends that is being put */
	u64 written;  /* on this stream */
	u64 sent;     /* on any stream */
	u64 acked;    /* the peer has it */
	u64 edge;     /* first end of a frame at or after `acked` */
	u64 boundary; /* first end of a frame at or after `written` */
	u32 first, parts;
	u64 copies_in, copies_out; /* counted without end, masked for use */
	struct grid_ack ack;
	u32 ack_left; /* bytes of it still to write */
	struct grid_part part[GRID_PARTS];
	u8 copy[GRID_COPIES];
};

/* id: 16 bytes, or NULL: zeros until the peer names one. */
void grid_session_init(struct grid_session *s, const u8 *id);

/* What to send first on every new stream. What came before is cut. */
void grid_session_greet(struct grid_session *s, struct grid_greeting *g);

/*
 * The peer's HELLO, which opens its direction; len is all of its payload that
 * was read, at least 8. Writing goes on from where the peer is. -EPROTO,
 * -EPROTONOSUPPORT (unequal revisions: `theirs`).
 */
int grid_session_attach(struct grid_session *s, const struct skep_frame *f,
			const void *payload, u64 len);

/* The stream broke. Unacknowledged bytes are kept, unless `forget`. */
void grid_session_cut(struct grid_session *s);

/* A header came: `frame` and `left` are set. -EPROTO. */
int grid_session_head(struct grid_session *s, const struct skep_frame *f);
/* n bytes of the current payload were taken. */
void grid_session_took(struct grid_session *s, u64 n);
/* The 8 bytes of an ACK. -EPROTO. */
int grid_session_acked(struct grid_session *s, const void *payload);

/* Whether `n` more bytes, headers included, fit the window and the tables. */
int grid_session_room(const struct grid_session *s, u64 n);
/*
 * Begin a frame with `len` bytes of payload, which grid_session_put brings in
 * one or more pieces; other users of the session must wait until the frame is
 * complete. -EAGAIN: the window is full: read until an ACK arrives and try
 * again.
 */
int grid_session_frame(struct grid_session *s, u16 type, u16 flags, u64 call,
		       u32 len);
/* `own`: bytes stay as they are until the peer has them, so may be kept. */
int grid_session_put(struct grid_session *s, const void *bytes, u64 len,
		     int own);

/*
 * What to write next, at most max pieces; 0 when there is nothing. Pieces are
 * good until the next call of any function but grid_session_wrote.
 */
u32 grid_session_out(struct grid_session *s, struct grid_piece *piece, u32 max);
void grid_session_wrote(struct grid_session *s, u64 n);

/*
 * The peer is known to have everything before `place` (a value that `queued`
 * had), because it answered it: memory behind it need not stay.
 */
void grid_session_has(struct grid_session *s, u64 place);

#endif
