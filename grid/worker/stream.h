/* SPDX-License-Identifier: MIT */
/*
 * The worker's end of its session: blocking reads and writes of one inherited
 * descriptor. One thread reads and sends; a second one only sends PING.
 */
#ifndef GRID_WORKER_STREAM_H
#define GRID_WORKER_STREAM_H

#include <skep/types.h>
#include <skep/session.h>

/* All of these: 0 or a negative errno, then why() says what happened. */
#define STREAM_ENDED (-1000) /* the agent is gone, or said BYE */

int stream_open(int fd);
const char *stream_why(void);

/* The next frame that is not an ACK or PING; its payload is not read. */
int stream_next(struct skep_frame *f);
/* The same, as far as what comes next says: waits for one frame at most, and
 * `*shown` is 0 if it was an ACK or PING and no other was read with it. */
int stream_try(struct skep_frame *f, int *shown);
/* n bytes of the payload of the frame that stream_next gave. */
int stream_read(void *to, u64 n);
/* Payload bytes that stream_read can still give. */
u32 stream_left(void);

/* Queue a frame's header, then its payload in pieces. */
int stream_frame(u16 type, u16 flags, u64 call, u32 len);
int stream_put(const void *bytes, u64 len, int own);
/* Write all that is queued; only now are bytes put with `own` done with. */
int stream_flush(void);

/* Send PING if nothing else is going on. For the second thread. */
void stream_ping(void);

#endif
