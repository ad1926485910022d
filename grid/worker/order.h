/* SPDX-License-Identifier: MIT */
/*
 * What all workers do alike with the session: open it, read what an order
 * announces, send DATA, and refuse. What the bytes mean is the caller's.
 * Every int is 0 or a negative errno as in stream.h: the session is over then.
 */
#ifndef GRID_WORKER_ORDER_H
#define GRID_WORKER_ORDER_H

#include <skep/session.h>

#define ORDER_PATH_MAX 0x1000 /* of an INIT, with its NUL */

/* The descriptor that SKEP_STREAM names, or -1: nobody started a worker. */
int order_stream(void);
/* Opens the session, and starts the thread that says PING while busy. */
int order_open(int fd);
/* Whether user code runs now. */
void order_set_busy(int busy);

/* READY: the session can be given orders for so many functions. */
int order_ready(u32 functions, const struct skep_proof *proof);
int order_refuse(u64 call, u32 code, const char *text);

/* The payload of INIT; `path` has ORDER_PATH_MAX bytes. */
int order_read_init(const struct skep_frame *f, struct skep_init *init,
		    char *path);
/* An open descriptor of the data: inherited, or of a file. It becomes the
 * caller's. A negative errno is about the file, not about the session. */
int order_open_data(const char *path);
/* Fills len bytes from offset `at`, as pread(2) does; -EIO if the data end
 * before. About the file as well. */
int order_read_data(int fd, u8 *to, u64 len, u64 at);

/* The DATA of one call. */
struct order_source {
	u64 call;
	u64 left; /* of what CALL announced */
	int last; /* the final frame was begun */
};

/* The payload of CALL; `s` becomes the source of its arguments. */
int order_read_call(const struct skep_frame *f, struct skep_call *call,
		    struct order_source *s);
/* `to` may be NULL: the bytes are dropped. */
int order_take(struct order_source *s, u8 *to, u64 len);
/* Drops the rest, so that the session goes on with the next order. */
int order_drop_rest(struct order_source *s);

/* The DATA of one result. */
struct order_sink {
	u64 call;
	u64 left;   /* of the result, not yet put */
	u32 inside; /* of the current frame, not yet put */
};

/* RESULT, with how many bytes come, how long the function ran and the proof.
 * `s` becomes the sink of these bytes; of none, the DATA is sent as well. */
int order_put_result(struct order_sink *s, u64 call, u64 length, u64 exec_ns,
		     const struct skep_proof *proof);
/* `own`: the bytes stay as they are until stream_flush, as for stream_put. */
int order_put(struct order_sink *s, const u8 *bytes, u64 len, int own);

#endif
