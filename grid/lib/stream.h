/* SPDX-License-Identifier: MIT */
/*
 * The client's end of a session on the hub's local socket: see
 * include/skep/session.h. Many threads send, one reads. A local socket breaks
 * only when its other end is gone, and with it all that the hub did not store.
 * So bytes are not kept for resuming: after grid_stream_reopen both sides count
 * from 0 again, and the client sends its open calls again.
 */
#ifndef GRID_LIB_STREAM_H
#define GRID_LIB_STREAM_H

#include <pthread.h>
#include <skep/session.h>
#include <sys/uio.h>

#define GRID_STREAM_IN 0x10000
#define GRID_STREAM_STAGE 0x2000
#define GRID_STREAM_PIECES 64

struct grid_stream {
	int fd;
	/* lock guards these four; changed says that one of them did. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	u64 sent, acked;
	int busy; /* a thread is inside a frame: it owns `out` */
	int dead; /* nothing can be sent any more, but after a reopen */

	u8 session[16];
	int keeps; /* the hub stores sessions: it is worth to come back */

	struct { /* pieces that are not written yet */
		struct iovec piece[GRID_STREAM_PIECES];
		u32 pieces, staged;
		u8 stage[GRID_STREAM_STAGE];
	} out;

	/* The reader's alone. */
	u64 received, ack_sent;
	u32 in_at, in_end;
	u8 in[GRID_STREAM_IN];
};

/*
 * Connects and says HELLO both ways. 0, or a negative errno: -EPROTO with
 * *theirs the hub's revision (0 if what came was no HELLO), else the system's.
 */
int grid_stream_open(struct grid_stream *s, const char *path, u32 *theirs);
/*
 * Connects again, for the same session, a stream that was cut. The reader's,
 * which waits until no sender uses the old one. Errors as above; the stream
 * stays cut.
 */
int grid_stream_reopen(struct grid_stream *s, const char *path, u32 *theirs);
/* Wakes the reader and all senders; they get -EPIPE. */
void grid_stream_cut(struct grid_stream *s);
/* It must not be used any more. */
void grid_stream_close(struct grid_stream *s);

/*
 * Sending. begin waits until the window has room for a frame with so many bytes
 * and no other thread is inside one, then stages its head; push adds to its
 * payload, `own` as for grid_mover; end writes what is left. Frames of one
 * thread may follow each other between begin and end through `next`, which does
 * not wait: begin asked for all their bytes together.
 */
int grid_stream_begin(struct grid_stream *s, u64 bytes);
int grid_stream_next(struct grid_stream *s, u16 type, u16 flags, u64 call,
		     u32 length);
int grid_stream_push(struct grid_stream *s, const void *bytes, u64 len,
		     int own);
int grid_stream_end(struct grid_stream *s);
/* A whole frame. */
int grid_stream_send(struct grid_stream *s, u16 type, u64 call,
		     const void *payload, u32 length);

/*
 * Reading: the next frame's head, checked. ACK frames are taken here. The
 * payload must be read, all of it, before the next head. -EPIPE at the end of
 * the stream, -EPROTO.
 */
int grid_stream_head(struct grid_stream *s, struct skep_frame *frame);
int grid_stream_read(struct grid_stream *s, void *to, u64 len);
int grid_stream_skip(struct grid_stream *s, u64 len);
/*
 * Acknowledges all that was read, without waiting for SKEP_ACK_EVERY. The
 * reader's. An error shows at the next read.
 */
void grid_stream_ack(struct grid_stream *s);

#endif
