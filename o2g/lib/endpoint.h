/* SPDX-License-Identifier: MIT */
/*
 * The internals of an endpoint. Locks, in the order in which they are locked:
 *   all      (fork.c) the list of endpoints; held while one is opened or
 *            its descriptors are closed
 *   take     the completion ring's consumer side
 *   submit   the submission ring's producer side, and copied sends
 *   lock     peers and openings; the opener's thread works under it
 *   and last the engine's own
 * `dead` and fields marked atomic are read without a lock.
 */
#ifndef O2G_LIB_ENDPOINT_H
#define O2G_LIB_ENDPOINT_H

#include "address.h"
#include "engine.h"
#include "o2g.h"
#include "opening.h"
#include "settings.h"

#include <pthread.h>
#include <skep/assert.h>

#define O2G_PEERS_MAX 65536 /* numbers that an endpoint can assign */
#define O2G_PEER_TABLE 4096 /* chains of the hash table of ids */

enum o2g_peer_state {
	O2G_PEER_IDLE, /* no connection, nothing sent yet */
	/* a receive waits; dialled later unless it connects */
	O2G_PEER_EXPECTED,
	O2G_PEER_DIALED, /* the opener is dialling it */
	O2G_PEER_OPEN,	 /* a connection is or was attached */
	O2G_PEER_LOST,	 /* cannot be reached */
	O2G_PEER_SELF
};

/* An entry of the table of locations. */
struct o2g_seat {
	struct o2g_location location;
	struct o2g_peer *peer; /* 0: not in the table */
	struct o2g_seat *next;
};

/* A process of the job, named by the program or by its own proof. */
struct o2g_peer {
	/* without an id until the peer has answered a dial */
	struct o2g_name name;
	struct o2g_peer *next;	    /* in o2g->everybody */
	struct o2g_peer *chain;	    /* in o2g->by_id, if it has an id */
	struct o2g_seat named_seat; /* the location that is dialled */
	/* another location that the peer announced */
	struct o2g_seat own_seat;
	struct o2g_peer *wanted; /* next one in opener.wanted */
	u32 number;		 /* O2G_NO_PEER if it has none yet */
	/* the engine's number of the connection, when open */
	u32 link;
	u8 state;  /* atomic, written under `lock` */
	u8 named;  /* atomic: the program knows its number */
	u8 listed; /* in the opener's list `wanted` */
	/* is to be dialled, and counted in opener.dials */
	u8 counted;
	struct o2g_try *dial; /* in progress, or in a pause between two */
};

struct o2g_try; /* opener.c: one opening, or the pause before the next one */

struct o2g_opener {
	pthread_t thread;
	int epoll;
	int event; /* eventfd: check `wanted` or `stop` */
	int listener;
	int resting;	/* not listening, for lack of descriptors */
	int complained; /* that lack was reported */
	u32 unproven;	/* accepted but unauthenticated */
	u64 refused;	/* unauthenticated peers that were disconnected */
	struct o2g_try *tries; /* all tries, the oldest first */
	struct o2g_try **last;
	struct o2g_try *dead; /* tries that have ended, to be freed */
	struct o2g_peer *wanted;
	int stop;
	s64 show_at, show_ns; /* for an engine that calls no tick() */
	u64 granted;	      /* bytes of credit offered to peers */
	pthread_cond_t calm;  /* signalled when no dial is in progress */
	u32 dials;
};

struct o2g_bounce; /* bounce.c: buffers of copied sends */

struct o2g_bodies { /* body.c: copied from the slab, to be released */
	u64 *offset;
	u32 count, room;
};

struct o2g_page;  /* page.c */
struct o2g_trace; /* trace.c */

struct o2g {
	const struct o2g_engine_ops *ops;
	struct o2g_engine *engine;
	struct o2g_area *area;
	struct o2g_settings settings;
	struct o2g_identity identity;
	struct o2g_name name;
	int dead;		 /* atomic: a child of fork() */
	struct o2g_trace *trace; /* 0 without SKEP_O2G_TRACE */
	struct o2g *next;

	pthread_mutex_t submit;
	u32 flying; /* atomic: operations whose event was not taken */
	struct o2g_bounce *bounce;

	pthread_mutex_t take;
	struct o2g_bodies bodies;
	int waiters;	 /* atomic: threads that want to be woken */
	int waits;	 /* atomic: those of them in o2g_wait() */
	int described;	 /* atomic: the program has the descriptor */
	int woken;	 /* atomic: o2g_wake() was called */
	u32 empty;	 /* atomic: polls since the last completion */
	u32 late;	 /* atomic: consecutive polls that were late */
	s64 last_poll;	 /* atomic: ns */
	s64 empty_since; /* atomic: ns, when the first empty poll was */

	pthread_mutex_t lock;
	struct o2g_peer **by_number; /* O2G_PEERS_MAX places */
	u32 peers;		     /* atomic: numbers assigned */
	struct o2g_peer *by_id[O2G_PEER_TABLE];
	struct o2g_seat *by_location[O2G_PEER_TABLE];
	struct o2g_peer *everybody;
	u32 named;	/* peers that the program has named */
	u32 open;	/* peers attached so far */
	u32 peers_lost; /* peers that could not be reached */
	u32 unsent;	/* those of them for which sends waited */
	struct o2g_opener opener;
	struct o2g_page *page; /* atomic */
};

/* Whether the pointer may be used; otherwise sets o2g_error(): -EBADF. */
int o2g_endpoint_alive(const struct o2g *o2g);

/* Asserts that some thread holds the lock, in sanitizer builds. */
static inline void o2g_assert_locked(pthread_mutex_t *mutex)
{
	skep_assert(pthread_mutex_trylock(mutex));
	(void)mutex;
}

/* fork.c: the list of endpoints, which fork() goes through. */
int o2g_fork_prepare(void); /* before the first of the following calls */
/* Between the two no thread forks. */
void o2g_fork_hold(void);
void o2g_fork_release(void);
void o2g_fork_watch(struct o2g *o2g); /* both while forks are held */
void o2g_fork_forget(struct o2g *o2g);
int o2g_fork_any(void);
/* No endpoint of the list is freed during the calls. */
void o2g_fork_each(void (*visit)(struct o2g *o2g));

/* peer.c; `lock` is held. */
struct o2g_peer *o2g_peer_find(struct o2g *o2g, const struct o2g_id *id);
/* Records a peer that has proven this id and announced this address; 0 without
 * memory. */
struct o2g_peer *o2g_peer_proven(struct o2g *o2g, const struct o2g_id *id,
				 const struct o2g_location *location);
/* A peer, maybe known only by its location, has proven this id and announced
 * where it listens. -EEXIST: another peer has the id; -EACCES: this peer has
 * another one. */
int o2g_peer_settle(struct o2g *o2g, struct o2g_peer *peer,
		    const struct o2g_id *id,
		    const struct o2g_location *location);
/* Assigns a number if the peer has none. */
int o2g_peer_number(struct o2g *o2g, struct o2g_peer *peer);
void o2g_peer_set(struct o2g_peer *peer, enum o2g_peer_state state);
void o2g_peer_lose(struct o2g *o2g, struct o2g_peer *peer, int error);
void o2g_peer_free_all(struct o2g *o2g);
/* The caller does not hold `lock`. need() dials the peer unless it is being
 * dialled; expect() dials only if the peer does not connect by itself. */
void o2g_peer_need(struct o2g *o2g, u32 number);
void o2g_peer_expect(struct o2g *o2g, u32 number);
/* The number as the program knows it: O2G_ANY for a peer that it has not
 * named. */
u32 o2g_peer_known(struct o2g *o2g, u32 number);

/* opener.c */
int o2g_opener_start(struct o2g *o2g);
/* The caller holds `lock`. */
void o2g_opener_dial(struct o2g *o2g, struct o2g_peer *peer);
void o2g_opener_expect(struct o2g *o2g, struct o2g_peer *peer);
int o2g_opener_adopt(struct o2g *o2g, int socket, struct o2g_peer *peer,
		     int dialled);
/* Waits until no dial is in progress. -ETIMEDOUT: some still are, or peers that
 * sends waited for were lost. */
int o2g_opener_settle(struct o2g *o2g, int ms);
void o2g_opener_stop(struct o2g *o2g);
void o2g_opener_close_files(struct o2g *o2g);

/* bounce.c; the caller holds `submit`. */
int o2g_bounce_make(struct o2g *o2g);
void o2g_bounce_free_all(struct o2g *o2g);
/* Returns a copy of the buffer, or without O2G_COPY only a token; 0 if all
 * places are in use. */
void *o2g_bounce_take(struct o2g *o2g, const void *buffer, size_t length,
		      void *cookie, unsigned options);
/* Releases a copy whose send was not submitted. */
void o2g_bounce_return(struct o2g *o2g, void *copy);
/* The caller does not hold `submit`. Returns whether a completion's cookie
 * belongs to a copy. If so, frees the copy and sets `cookie` to the program's;
 * 2: the program requested no event. */
int o2g_bounce_done(struct o2g *o2g, u64 *cookie);

/* body.c, for bodies that the engine left in the slab; the caller holds
 * `take`. */
int o2g_body_room(struct o2g *o2g);
void o2g_body_copy(struct o2g *o2g, const struct o2g_cqe *cqe);
/* Releases the bodies that were copied. True: kick. */
int o2g_body_release(struct o2g *o2g);

/* page.c: the page that `skep o2g status` reads. show() is the engine's
 * tick(). */
void o2g_page_open(struct o2g *o2g);
void o2g_page_show(void *o2g);
/* The same; returns whether the counters changed since they were last shown. */
int o2g_page_look(struct o2g *o2g);
void o2g_page_close(struct o2g *o2g);
/* For a process that exits while other threads may still write to the page. */
void o2g_page_remove(struct o2g *o2g);
void o2g_page_fork(struct o2g *o2g);

/* report.c: sends the report to the launcher when the endpoint is closed. */
void o2g_report_send(struct o2g *o2g, const struct o2g_counts *counts);

s64 o2g_now_ns(void);

#endif
