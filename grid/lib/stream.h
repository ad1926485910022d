/* SPDX-License-Identifier: MIT */
/*
 * The client's end of a session on the hub's local socket: see
 * include/skep/session.h. Many threads send, one reads. A local socket breaks
 * only when the other end is gone, and with it everything that the hub did not
 * store. So bytes are not kept for resuming: after grid_stream_reopen both
 * sides count from 0 again, and the client sends its open calls again.
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
	/* Guards the next four; changes are signalled by `changed`. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	u64 sent, acked;
	int busy; /* a thread is sending a frame, and owns `out` */
	int dead; /* nothing can be sent until a reopen */

	u8 session[16];
	int keeps; /* the hub stores sessions, so reconnecting makes sense */

	struct { /* pieces that were not written yet */
		struct iovec piece[GRID_STREAM_PIECES];
		u32 pieces, staged;
		const void *unreadable; /* zeros were sent in its place */
		u8 stage[GRID_STREAM_STAGE];
	} out;

	/* Used only by the reader. */
	u64 until; /* of grid_clock: reading ends then; 0: never */
	u64 received, ack_sent;
	u32 in_at, in_end;
	u8 in[GRID_STREAM_IN];
};

/* Nanoseconds of CLOCK_MONOTONIC; clock_gettime(2). */
u64 grid_clock(void);

/* How long a program that was not stopped still looks for a hub. Each try
 * counts for GRID_TRY at most: else one that was stopped for longer than it
 * looks, with Ctrl-Z or because its machine slept, would give up at once. */
#define GRID_TRY 10000000000ull /* ns */

struct grid_patience {
	u64 left; /* ns */
};

/* Until when (of grid_clock) the next try may wait. */
u64 grid_patience_until(const struct grid_patience *p);

/* Counts a try that took so long. Returns 0 if that was the last one. */
int grid_patience_spend(struct grid_patience *p, u64 span);
/*
 * Connects and exchanges HELLO. 0, or a negative errno: -EPROTO with the hub's
 * revision in *theirs (0 if it sent no HELLO), -ETIMEDOUT if it did not answer
 * until then (of grid_clock), or the system's.
 */
int grid_stream_open(struct grid_stream *s, const char *path, u64 until,
		     u32 *theirs);
/*
 * Connects again for the same session, after a cut. Called by the reader; waits
 * until no sender uses the old stream. Errors as above; then the stream remains
 * cut.
 */
int grid_stream_reopen(struct grid_stream *s, const char *path, u64 until,
		       u32 *theirs);
/* Breaks the stream: wakes the reader and all senders, which get -EPIPE. */
void grid_stream_cut(struct grid_stream *s);
/* Afterwards the stream must not be used any more. */
void grid_stream_close(struct grid_stream *s);

/*
 * Sending. begin waits until the window has room for a frame of `bytes` and no
 * other thread is sending one. `next` stages the head of a frame; push adds to
 * its payload, `own` as for grid_mover; end writes the rest. A thread may send
 * several frames between begin and end; `next` does not wait, because begin was
 * called with the total of their bytes.
 */
int grid_stream_begin(struct grid_stream *s, u64 bytes);
int grid_stream_next(struct grid_stream *s, u16 type, u16 flags, u64 call,
		     u32 length);
int grid_stream_push(struct grid_stream *s, const void *bytes, u64 len,
		     int own);
int grid_stream_end(struct grid_stream *s);
/*
 * Writes what was pushed. *unreadable: NULL, or the first piece since the last
 * flush that is not the program's memory. Zeros were sent in its place, so the
 * frame is complete, and whoever gets it must be told to drop it.
 */
int grid_stream_flush(struct grid_stream *s, const void **unreadable);
/* Sends a complete frame. */
int grid_stream_send(struct grid_stream *s, u16 type, u64 call,
		     const void *payload, u32 length);

/*
 * Reading: returns the next frame's head, checked. ACK frames are handled here.
 * All of the payload must be read before the next head. -EPIPE at the end of
 * the stream, -EPROTO. After -EFAULT, because `to` is not the program's memory,
 * the bytes are gone, as if they had been read.
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
