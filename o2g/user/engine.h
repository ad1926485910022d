/* SPDX-License-Identifier: MIT */
/*
 * The user engine: a core, its sockets and a thread in the program's process.
 * `lock` guards the core, the links and every field below it; what threads
 * read without it is atomic and says so.
 */
#ifndef O2G_USER_ENGINE_H
#define O2G_USER_ENGINE_H

#include <skep/assert.h>
#include <o2g/lib/engine.h>

#include <pthread.h>
#include <time.h>

/* Size of the stage, the buffer for reading. It holds many small messages, but
 * only the start of a long one, whose rest is read directly to its
 * destination. */
#define O2G_STAGE_SIZE 0x4000
#define O2G_DIRECT_MIN 0x1000	 /* larger bodies skip the stage */
#define O2G_TURN_BYTES 0x100000	 /* moved for a link before the next one */
#define O2G_LOOK_NS 5000000000ll /* between two checks for silent links */
#define O2G_SILENT_MAX 6	 /* checks without an answer */
#define O2G_TAKEOVER_NS                                                        \
	1000000ll /* without a call: the thread makes progress */

/* A connection. It is freed when it ends. Events name it by slot and number, so
 * that one that was reported before the end finds no link afterwards. */
struct o2g_link {
	int socket;
	u32 slot;
	u32 number;
	struct o2g_conn *conn;
	struct o2g_link *next_tx; /* in the engine's list, if `listed` */
	u8 listed;
	u8 events;  /* LINK_IN, LINK_OUT: what epoll watches */
	u8 blocked; /* the core does not accept data now */
	u8 broken; /* writing failed: only data that has arrived is processed */
	u8 ended;  /* our BYE and FIN were sent */
	u8 silent; /* consecutive checks without an acknowledgement */
	u32 burst; /* the value of the engine's `burst` at the last send */
	u32 sends; /* number of sends in that burst */
	u8 *left;  /* bytes that were read when the core stopped accepting */
	u32 left_length;
	struct o2g_sealed *sealed; /* null: it is not encrypted */
};

struct o2g_engine {
	pthread_mutex_t lock;
	struct o2g_core *core;
	struct o2g_area *area;
	u64 area_size;
	int epoll; /* the sockets */
	int wake;  /* eventfd: written for completions and by o2g_wake() */
	int nudge; /* eventfd: notifies the thread */
	struct o2g_link **links;
	u32 link_count, link_room; /* used slots, all slots */
	u32 number;		   /* of the last link */
	struct o2g_link *tx;	   /* links that want to write */
	struct o2g_link *hot;	   /* the last link with data to read */
	u32 stalled;		   /* number of links with a full socket */
	u32 blocked;		   /* number of blocked links */
	u64 resent; /* retransmitted segments of links that have ended */
	u32 cold;   /* drives since the last epoll_wait() */
	u32 burst;  /* increased by each drive and each tick */
	int ring;   /* there are completions: unlock wakes sleepers */
	u8 *stage;

	pthread_t thread;
	u64 drives;   /* atomic: calls of drive() */
	u64 naps;     /* atomic: calls of sleep() */
	u64 kicks;    /* atomic: calls of kick(); written with the lock */
	u32 returns;  /* drives since the thread took over */
	int driven;   /* atomic: drive() is running; written with the lock */
	int deferred; /* atomic: a write is deferred; written with the lock */
	int sleepers; /* atomic: number of callers in sleep() */
	int state;    /* atomic: the thread's state, see thread.c */
	int ticks;    /* atomic: the thread checks each millisecond */
	int rung;     /* atomic: `wake` is readable */
	int stop;     /* atomic */
	u64 spare;    /* memory for messages beyond credit, as of spare_at */
	struct timespec spare_at;
	void (*tick)(void *ctx);
	void *ctx;
};

/* The following functions are called with the lock held, which sanitizer builds
 * assert. */
static inline void o2g_engine_assert_locked(struct o2g_engine *engine)
{
	skep_assert(pthread_mutex_trylock(&engine->lock));
	(void)engine;
}

/* link.c: these functions need the lock. */
int o2g_link_attach(struct o2g_engine *engine, int socket, u32 peer,
		    u32 credit_out, u32 credit_in, const struct o2g_keys *keys,
		    u32 *number);
struct o2g_link *o2g_link_find(struct o2g_engine *engine, u32 slot, u32 number);
void o2g_link_end(struct o2g_engine *engine, struct o2g_link *link, int error);
/* Reads what has arrived; returns the number of bytes. The link may be freed
 * afterwards. */
u64 o2g_link_read(struct o2g_engine *engine, struct o2g_link *link);
/* Writes as much as the socket accepts; the link may be freed afterwards. */
void o2g_link_write(struct o2g_engine *engine, struct o2g_link *link);
/* Called after all work on the core: resumes links, decides whether to wake
 * sleepers, and writes unless `defer` and all pending data may wait. */
void o2g_link_settle(struct o2g_engine *engine, int defer);
/* Whether pending data may wait: the program sends many small messages in a
 * row, and the first ones were sent at once. The others are sent together, as
 * soon as there are several, when the program polls, or at the thread's next
 * tick. */
int o2g_link_defer(struct o2g_engine *engine);
/* Ends links whose host has not answered for half a minute although data to it
 * is unacknowledged. */
void o2g_link_look(struct o2g_engine *engine);
void o2g_link_count(struct o2g_engine *engine, struct o2g_link_counts *counts);
void o2g_link_want(void *ctx, struct o2g_conn *conn);

/* Passes bytes that were read to the core: 0 or -errno. If the core stops
 * accepting, the link is blocked and the rest is kept. */
int o2g_link_feed(struct o2g_engine *engine, struct o2g_link *link,
		  const u8 *from, u64 length);
/* The memory of a piece; 0 if its bytes are to be forgotten. */
u8 *o2g_link_memory(struct o2g_engine *engine, const struct o2g_piece *piece);

/* sealed.c: the records of an encrypted link. */
struct o2g_sealed *o2g_sealed_make(const struct o2g_keys *keys);
void o2g_sealed_free(struct o2g_sealed *sealed);
/* Like read_some() and write_some() of link.c. */
s64 o2g_sealed_read(struct o2g_engine *engine, struct o2g_link *link,
		    int *drained);
s64 o2g_sealed_write(struct o2g_engine *engine, struct o2g_link *link,
		     u64 *asked);
/* Passes on what has been read of a link that is not blocked any more. */
int o2g_sealed_resume(struct o2g_engine *engine, struct o2g_link *link);

/* thread.c */
void *o2g_thread_run(void *engine);
/* The caller makes progress, so the thread stops doing so: at once if `now`,
 * else when the program has called repeatedly. */
void o2g_thread_yield(struct o2g_engine *engine, int now);
void o2g_thread_resume(struct o2g_engine *engine);
/* Called after data was moved, because the program may now compute and not
 * call for long. */
void o2g_thread_stir(struct o2g_engine *engine);
void o2g_thread_stop(struct o2g_engine *engine);

/* engine.c: calls o2g_link_settle(), unlocks, and wakes sleepers. */
void o2g_engine_unlock(struct o2g_engine *engine);
/* Handles what the sockets report now, with the lock held. Returns the number
 * of events. */
int o2g_engine_collect(struct o2g_engine *engine);

#endif
