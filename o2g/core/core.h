/* SPDX-License-Identifier: MIT */
/*
 * The engine's core: postings, matching, credits and rendezvous of one
 * endpoint, without a socket, a thread or a system header. Every engine
 * compiles it in and moves the bytes that it asks for.
 *
 * One lock of the engine guards a core and all of its connections; no function
 * here sleeps, takes a lock, or reads shared memory other than through ring.h.
 * A core gets all its memory through the host, within a limit; without memory a
 * submission fails with -ENOMEM or a connection stays unread; nothing is lost.
 *
 * Receiving: o2g_rx_want() says where the next bytes of a connection belong,
 * the engine puts some there and calls o2g_rx_done(). Sending: o2g_tx_gather()
 * lists pieces to write, o2g_tx_done() says how many bytes went out. So an
 * engine may use readv, skb_copy_bits, io_uring or a test's array.
 */
#ifndef O2G_CORE_CORE_H
#define O2G_CORE_CORE_H

#include <skep/o2g_ring.h>
#include <skep/o2g_wire.h>

struct o2g_core;
struct o2g_conn; /* one attached connection; owned by its core */

enum o2g_place {
	O2G_PLACE_CORE,	   /* at `core`, memory of the core */
	O2G_PLACE_PROGRAM, /* at address `address` of the program */
	O2G_PLACE_AREA,	   /* at offset `address` of the area: slab, outbox */
	O2G_PLACE_FORGET   /* nowhere: read and drop */
};

struct o2g_piece {
	enum o2g_place place;
	u8 *core;
	u64 address;
	u64 length;
};

/* A copy that the core wants: a message to oneself, or the part of a body that
 * arrived before its receive. Both lengths are the same.
 * Or, if `atomic` is set, an atomic access to the elements at `to`, in the
 * program's memory and aligned: the context of its frame. `from` are its
 * operands and what to compare with, if it has them. If it fetches, the earlier
 * elements go to `result`, which may be `from`. There is one at a time. */
struct o2g_copy {
	struct o2g_piece from, to, result;
	u32 atomic;
	void *engine; /* the engine's own, to queue it */
};
#define O2G_COPY_LATER 1

/* What a core needs from its engine. No callback may call the core. */
struct o2g_host {
	void *ctx;
	/* Zeroed memory for the core's own state; 0 without memory. */
	void *(*alloc)(void *ctx, u64 size);
	void (*free)(void *ctx, void *memory, u64 size);
	/* A connection has something to write (again): call o2g_tx_gather()
	 * soon. Called with the engine's lock held. */
	void (*want_tx)(void *ctx, struct o2g_conn *conn);
	/* Performs this copy: 0, -errno (fails the receive), or O2G_COPY_LATER
	 * by an engine that can't touch the program's memory here: it calls
	 * o2g_copy_done() when it has. The job stays where it is until then. */
	int (*copy)(void *ctx, struct o2g_copy *job);
	/* Copies bytes to the program's memory at once: 0, or -errno. Null: the
	 * engine can't, and o2g_rx_whole() takes nothing. */
	int (*store)(void *ctx, u64 address, const u8 *from, u64 length);
	/* A completion was written, or waits because the ring is full. */
	void (*completed)(void *ctx);
	/* Bytes that may be buffered at most, by what memory the computer has
	 * to spare now: for limits.invited. Null: any number. */
	u64 (*spare)(void *ctx);
};

struct o2g_limits {
	u32 postings; /* most operations in flight */
	u32 peers;    /* most peers */
	/* Most bytes buffered for unexpected messages, with the core's record
	 * of each, some 800 bytes. */
	u64 unexpected;
	/* While less than this is buffered, the credit of unexpected messages
	 * is returned early to a sender that has none left: its next message
	 * may be the one that the program waits for. 0: never, and no peer
	 * makes us buffer more than its credit. */
	u64 write_off;
	/* A message beyond credit that no receive matches is granted all the
	 * same, and buffered, while no more than this is buffered with it. 0:
	 * never. */
	u64 invited;
	/* 0: unexpected bodies lie in memory of host->alloc and receives get
	 * theirs in place, partly by host->copy. Else unexpected bodies are
	 * stored in the slab while it has contiguous space, receives up to this
	 * size go through it, and a message that is completely there is
	 * completed with O2G_CQE_SLAB instead of being copied. */
	u32 slab_message;
	/* Most submissions read at a time, so that a softirq ends, and a sign
	 * that ends of connections, completions that waited for room, and
	 * multi-receives of what is unmatched are to be done in parts as well;
	 * what comes in while many messages are unmatched has none read.
	 * o2g_core_more() reports what is left. 0: no such limit. */
	u32 batch;
	/* Bytes planned ahead of the socket, and a frame: nothing that is
	 * submitted later overtakes them. 0: 256 KiB. */
	u32 ahead;
	/* The program may access its peers' memory. What peers ask for is
	 * answered in any case, by refusals where nothing is registered. */
	int access;
	u8 hash_key[16]; /* random */
	/* Tags and the like are hashed lightly (hash.h): for a process whose
	 * peers are its own user's, not for a kernel that others share. */
	int light_hash;
};

struct o2g_counts { /* since the core was created; shown by skep o2g status */
	u64 sent, sent_bytes;
	u64 received, received_bytes;
	u64 expected;	/* arrived after their receive was posted */
	u64 unexpected; /* before */
	u64 requested;	/* sends beyond credit, that went by REQUEST */
	u64 waited;	/* sends that had no credit left */
	u64 self;	/* messages to oneself */
	u64 frames_in, frames_out;
	u64 kicks;
	u64 unmatched, unmatched_bytes; /* unexpected messages now */
	u64 posted;			/* unmatched receives now */
};

/* The engine allocates the area with its rings, outbox and slab:
 * o2g_area_size() gives the bytes for a layout, o2g_area_format() writes its
 * header into zeroed, 64-byte aligned memory. Powers of two within O2G_RING_MIN
 * and O2G_RING_MAX, outbox and slab at most O2G_AREA_PART each, else -EINVAL.
 */
#define O2G_AREA_PART (1ull << 32)
int o2g_area_size(u32 sq_entries, u32 cq_entries, u64 outbox, u64 slab,
		  u64 *size);
int o2g_area_format(struct o2g_area *area, u32 sq_entries, u32 cq_entries,
		    u64 outbox, u64 slab);

/* Creates a core that consumes the area's submissions; trusts the area's header
 * this once. -ENOMEM, -EINVAL. Freeing it frees its messages, operations and
 * connections; no copy may be in progress. */
int o2g_core_make(struct o2g_core **out, const struct o2g_host *host,
		  const struct o2g_limits *limits, struct o2g_area *area);
void o2g_core_free(struct o2g_core *core);

/*
 * Consumes all submissions. Invalid entries are completed with -EINVAL
 * (-ENOENT: a handle or slab offset that is not in use; -EHOSTUNREACH: a peer
 * that was never named). Leaves O2G_NEED_KICK as the protocol of o2g_ring.h
 * wants it. Returns how many were consumed, or -EPROTO when the ring's indices
 * are impossible: the program is then faulty and is not served any more.
 */
int o2g_core_consume(struct o2g_core *core);

/* Changes whenever submissions were read, a connection got its name, or what
 * unexpected messages took was freed. As long as it does not, what
 * o2g_rx_blocked() said holds, unless host->alloc() has more than before. */
u64 o2g_core_changes(const struct o2g_core *core);

/* True when o2g_core_consume() has something to do: unread submissions, the
 * rest of ended connections, completions that now fit, a multi-receive that
 * continues, or credit to be written off. */
int o2g_core_more(const struct o2g_core *core);

/* Takes a free part of the slab of at least so many bytes until it is returned:
 * its offset in the area, or 0. For an engine that gets the slab's memory when
 * it is used, and wants some of it back. */
u64 o2g_core_borrow(struct o2g_core *core, u64 least, u64 *length);
void o2g_core_return(struct o2g_core *core, u64 offset);

/* With `wait_memory`, a submission for which host->alloc() has no memory stays
 * in the ring until o2g_core_consume() is called again; without (at first), it
 * is completed with -ENOMEM. */
void o2g_core_wait_memory(struct o2g_core *core, int wait_memory);

/* True when completions were written since the last call and the program waits
 * for one (the barrier and flag of o2g_ring.h): wake it. Call it after each
 * piece of work. */
int o2g_core_wakes(struct o2g_core *core);

/*
 * Memory that peers may write to or read from, under this key, until it is
 * removed. `first` is the place by which peers name its first byte. -EEXIST: a
 * key in use; -EINVAL, -ENOMEM.
 * After the removal nothing of it is offered to the engine any more. What was
 * offered and not answered, and what was gathered and did not go out, still is:
 * gather again, and an engine that moves bytes without its lock waits for them.
 */
#define O2G_REGION_READ 1   /* peers may read */
#define O2G_REGION_WRITE 2  /* and write */
#define O2G_REGION_EVENTS 4 /* each access that ended well has a completion */
struct o2g_region_options {
	u64 key, address, length, first, cookie;
	u32 rights;
};
int o2g_region_add(struct o2g_core *core,
		   const struct o2g_region_options *options);
int o2g_region_remove(struct o2g_core *core, u64 key); /* -ENOENT */

/* A deferred copy is done: 0 or -errno. */
void o2g_copy_done(struct o2g_core *core, struct o2g_copy *job, int status);

/* Names a peer, so that postings may refer to it: 0, -EEXIST, -ENOSPC. Peer
 * `self` is the endpoint itself: its messages stay inside. Sends to a peer
 * without a connection wait for o2g_conn_attach(). */
int o2g_core_peer(struct o2g_core *core, u32 peer, int self);

/* Fails what was posted to or directed at this peer, with this -errno. For a
 * peer that can't be reached, or whose connection ended before o2g_conn_name()
 * said whose it was; else a connection that breaks does it by itself, and a
 * peer that has one is not touched. The peer stays lost. */
void o2g_core_lost(struct o2g_core *core, u32 peer, int error);

/*
 * Attaches a connection whose opening is done: credit_out was granted by the
 * other side, credit_in to it. `peer` O2G_NO_PEER: a process of the job that
 * the program has not named yet; o2g_conn_name() does it later, its messages
 * match receives from anybody meanwhile. `host` is the engine's own pointer.
 * -EEXIST when the peer has a connection, the -errno of a lost peer,
 * -EHOSTUNREACH for one never named, -EINVAL for impossible credit.
 */
int o2g_conn_attach(struct o2g_core *core, u32 peer, u32 credit_out,
		    u32 credit_in, void *host, struct o2g_conn **out);
int o2g_conn_name(struct o2g_conn *conn, u32 peer);
void *o2g_conn_host(const struct o2g_conn *conn);

/*
 * Where the next bytes of the stream go, at least 1. Returns 0; -EAGAIN if
 * there is no memory for more (the engine stops reading this socket alone;
 * want_rx is what o2g_rx_blocked() says); -EPIPE after BYE: only the end of the
 * stream is right now.
 */
int o2g_rx_want(struct o2g_conn *conn, struct o2g_piece *piece);
/* `length` bytes (0: none, the offer is taken back) are in place. The offer
 * holds until then: the core may be called for other things meanwhile. 0, or
 * -EPROTO: the connection is to be ended by
 * o2g_conn_end(). Consumes submissions before it matches a message. */
int o2g_rx_done(struct o2g_conn *conn, u64 length);
/* True between two frames, if the next one may be read: its bytes may be
 * collected elsewhere, without asking o2g_rx_want() first. */
int o2g_rx_fresh(const struct o2g_conn *conn);
/* Receives a message that lies here with its header and all of its body, if a
 * posted receive has room for it: the number of its bytes. 0: they, or what
 * else lies here, go the way of o2g_rx_want(); nothing was taken. Consumes
 * submissions, as o2g_rx_done() does. */
u64 o2g_rx_whole(struct o2g_conn *conn, const u8 *byte, u64 length);
/* True while the last o2g_rx_want() returned -EAGAIN, or the last header found
 * no memory for its message, and it still would. Call it when all bytes are
 * read, since such a message may have no more bytes, and after submissions were
 * consumed. */
int o2g_rx_blocked(struct o2g_conn *conn);

/* Up to `most` (at least 2) pieces to write now, in order; their number. What
 * was listed stays in place and first until o2g_tx_done(). After 0 the
 * connection is idle until want_tx. Control goes first, then complete small
 * messages, then further pieces of long ones in turn; a long one that waited
 * for 16 others gets a piece in between. Never O2G_PLACE_FORGET. */
int o2g_tx_gather(struct o2g_conn *conn, struct o2g_piece *piece, int most);
/* `length` bytes of them went out: 0 or -EPROTO for more than was gathered. */
int o2g_tx_done(struct o2g_conn *conn, u64 length);

/* Whether all messages to write are unsent, and the newest has at most `most`
 * bytes: then a few more may be sent with them. */
int o2g_tx_small(const struct o2g_conn *conn, u64 most);

/* A piece in the program's memory could not be read or written: its operation
 * fails, and the connection with it, since frames were promised: the engine
 * calls o2g_conn_end() with -EFAULT. */

/* Sends BYE once everything submitted is sent; later sends fail with
 * -ESHUTDOWN. */
void o2g_conn_bye(struct o2g_conn *conn);
/* Whether BYE was sent; whether the peer's was received. */
int o2g_conn_bye_sent(const struct o2g_conn *conn);
int o2g_conn_bye_received(const struct o2g_conn *conn);

/*
 * The stream is over; error 0: by its end, else -errno. After BYE outside a
 * message that is a clean end, else a death. Sends to the peer and receives
 * directed at it fail (-ECONNRESET for a death, -ESHUTDOWN for an end), also
 * those posted later unless an arrived message matches; an incomplete message
 * fails its receive, or is dropped if it had none. Receives from any source and
 * complete messages stay. The connection does not belong to the engine any
 * more; with limits.batch o2g_core_consume() does what is left, before it reads
 * on.
 */
void o2g_conn_end(struct o2g_conn *conn, int error);

void o2g_core_counts(const struct o2g_core *core, struct o2g_counts *counts);

#endif
