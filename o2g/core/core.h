/* SPDX-License-Identifier: MIT */
/*
 * The engine's core: postings, matching, credits and rendezvous of one
 * endpoint, without sockets, threads or system headers. Every engine compiles
 * it in, and moves the bytes that it asks for.
 *
 * The engine's lock guards a core and all of its connections. No function here
 * sleeps, takes a lock, or reads shared memory other than through ring.h. A
 * core gets all its memory from the host, within a limit. Without memory a
 * submission fails with -ENOMEM, or a connection is not read for the time
 * being; nothing is lost.
 *
 * Receiving: o2g_rx_want() says where the next bytes of a connection belong;
 * the engine puts some of them there and calls o2g_rx_done(). Sending:
 * o2g_tx_gather() lists pieces to write; o2g_tx_done() tells how many bytes
 * were sent. So an engine may use readv, skb_copy_bits, io_uring or a test's
 * array.
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
	O2G_PLACE_FORGET   /* nowhere: the bytes are read and dropped */
};

struct o2g_piece {
	enum o2g_place place;
	u8 *core;
	u64 address;
	u64 length;
};

/*
 * A copy that the core asks for: of a message to oneself, or of the part of a
 * body that arrived before its receive was posted. Both lengths are equal.
 * If `atomic` is set, it is an atomic access instead: to the elements at `to`,
 * which are aligned and in the program's memory. `atomic` is the context of its
 * frame; `from` has its operands and the values to compare with, if there are
 * any. If it fetches, the old elements are stored at `result`, which may be
 * `from`. At most one atomic access is in progress.
 */
struct o2g_copy {
	struct o2g_piece from, to, result;
	u32 atomic;
	void *engine; /* the engine's own, for its queue */
};
#define O2G_COPY_LATER 1

/* What a core needs from its engine. No callback may call the core. */
struct o2g_host {
	void *ctx;
	/* Zeroed memory for the core's state; 0 if there is none. */
	void *(*alloc)(void *ctx, u64 size);
	void (*free)(void *ctx, void *memory, u64 size);
	/* A connection has something to write: call o2g_tx_gather() soon.
	 * Called with the engine's lock held. */
	void (*want_tx)(void *ctx, struct o2g_conn *conn);
	/* Performs the copy: returns 0, or -errno, which fails the receive. If
	 * the engine cannot access the program's memory here, it returns
	 * O2G_COPY_LATER and calls o2g_copy_done() after the copy; until then
	 * the job stays valid. */
	int (*copy)(void *ctx, struct o2g_copy *job);
	/* Copies bytes to the program's memory at once: 0 or -errno. Null: the
	 * engine cannot, and o2g_rx_whole() receives nothing. */
	int (*store)(void *ctx, u64 address, const u8 *from, u64 length);
	/* A completion was written, or is waiting because the ring is full. */
	void (*completed)(void *ctx);
	/* The most bytes that may be buffered, given the memory that the
	 * computer can spare now; bounds limits.invited. Null: no bound. */
	u64 (*spare)(void *ctx);
};

struct o2g_limits {
	u32 postings; /* maximum of operations in flight */
	u32 peers;    /* maximum of peers */
	/* Maximum of bytes buffered for unexpected messages, including the
	 * core's record of each, about 800 bytes. */
	u64 unexpected;
	/* While less than this is buffered, a sender without credit gets the
	 * credit of its unexpected messages back early, because its next
	 * message may be the one that the program waits for. 0: never; then no
	 * peer can make the core buffer more than its credit. */
	u64 write_off;
	/* A message that exceeds the credit and that no receive matches is
	 * granted and buffered, as long as no more than this is buffered
	 * including it. 0: never. */
	u64 invited;
	/* 0: unexpected bodies are stored in memory of host->alloc, and
	 * receives are filled in place, partly by host->copy. Otherwise
	 * unexpected bodies are stored in the slab while it has contiguous
	 * space, receives up to this size are delivered in the slab, and a
	 * message that is completely there is completed with O2G_CQE_SLAB
	 * instead of being copied. */
	u32 slab_message;
	/* Maximum of submissions read at a time, so that a softirq is short.
	 * Then ended connections, completions that waited for space, and
	 * multi-receives of unmatched messages are also handled in parts, and
	 * no submissions are read for an arriving message while many messages
	 * are unmatched. o2g_core_more() reports whether something is left. 0:
	 * no limit. */
	u32 batch;
	/* Bytes that may be planned ahead of the socket, in addition to one
	 * frame: nothing submitted later overtakes them. 0: 256 KiB. */
	u32 ahead;
	/* Whether the program may access its peers' memory. Peers' requests are
	 * answered in any case; with an error if no region is registered. */
	int access;
	u8 hash_key[16]; /* random */
	/* Tags and other keys are hashed with the light hash (hash.h): for a
	 * process whose peers belong to its own user, not for a kernel that
	 * serves several users. */
	int light_hash;
};

struct o2g_counts { /* since the core was created; shown by skep o2g status */
	u64 sent, sent_bytes;
	u64 received, received_bytes;
	/* messages that arrived after their receive was posted */
	u64 expected;
	u64 unexpected; /* messages that arrived before */
	u64 requested;	/* sends beyond credit, which used a REQUEST */
	u64 waited;	/* sends that waited for credit */
	u64 self;	/* messages to oneself */
	u64 frames_in, frames_out;
	u64 kicks;
	u64 unmatched, unmatched_bytes; /* unexpected messages now */
	u64 posted;			/* unmatched receives now */
};

/* The engine allocates the area with its rings, outbox and slab:
 * o2g_area_size() gives the bytes for a layout, o2g_area_format() writes its
 * header into zeroed, 64-byte aligned memory. Rings have a power of two of
 * entries, from O2G_RING_MIN to O2G_RING_MAX; outbox and slab have at most
 * O2G_AREA_PART bytes each. Otherwise -EINVAL. */
#define O2G_AREA_PART (1ull << 32)
int o2g_area_size(u32 sq_entries, u32 cq_entries, u64 outbox, u64 slab,
		  u64 *size);
int o2g_area_format(struct o2g_area *area, u32 sq_entries, u32 cq_entries,
		    u64 outbox, u64 slab);

/* Creates a core that consumes the area's submissions; trusts the area's header
 * this one time. -ENOMEM, -EINVAL. Freeing the core frees its messages,
 * operations and connections; no copy may be in progress then. */
int o2g_core_make(struct o2g_core **out, const struct o2g_host *host,
		  const struct o2g_limits *limits, struct o2g_area *area);
void o2g_core_free(struct o2g_core *core);

/*
 * Consumes all submissions. Invalid entries are completed with -EINVAL
 * (-ENOENT: a handle or slab offset that is not in use; -EHOSTUNREACH: a peer
 * that was never named). Sets or clears O2G_NEED_KICK as o2g_ring.h requires.
 * Returns how many were consumed, or -EPROTO if the ring's indices are
 * impossible: then the program is faulty and is not served any more.
 */
int o2g_core_consume(struct o2g_core *core);

/* A counter that changes whenever submissions were read, a connection was
 * named, or memory of unexpected messages was freed. While it is unchanged, an
 * earlier answer of o2g_rx_blocked() holds, unless host->alloc() has more
 * memory than before. */
u64 o2g_core_changes(const struct o2g_core *core);

/* True if o2g_core_consume() has something to do: unread submissions, ended
 * connections that are not cleaned up, completions for which there is space
 * now, a multi-receive to continue, or credit to be returned early. */
int o2g_core_more(const struct o2g_core *core);

/* Allocates a free part of the slab, of at least `least` bytes, until it is
 * returned: its offset in the area, or 0. For an engine that allocates the
 * slab's pages on first use, and wants some of them back. */
u64 o2g_core_borrow(struct o2g_core *core, u64 least, u64 *length);
void o2g_core_return(struct o2g_core *core, u64 offset);

/* With `wait_memory`, a submission for which host->alloc() has no memory stays
 * in the ring until o2g_core_consume() is called again. Without it, which is
 * the default, the submission is completed with -ENOMEM. */
void o2g_core_wait_memory(struct o2g_core *core, int wait_memory);

/* True if completions were written since the last call and the program sleeps
 * until there is one (barrier and flag as in o2g_ring.h): wake it. Call this
 * after each piece of work. */
int o2g_core_wakes(struct o2g_core *core);

/*
 * Memory that peers may write to or read from under this key until the region
 * is removed. `first` is the address by which peers name its first byte.
 * -EEXIST: the key is in use; -EINVAL, -ENOMEM.
 * After the removal the engine is not given this memory any more. But pieces
 * that were given before, by o2g_rx_want() or o2g_tx_gather(), may still refer
 * to it: gather again, and wait for moves that run without the engine's lock.
 */
#define O2G_REGION_READ 1   /* peers may read */
#define O2G_REGION_WRITE 2  /* and write */
#define O2G_REGION_EVENTS 4 /* each successful access has a completion */
struct o2g_region_options {
	u64 key, address, length, first, cookie;
	u32 rights;
};
int o2g_region_add(struct o2g_core *core,
		   const struct o2g_region_options *options);
int o2g_region_remove(struct o2g_core *core, u64 key); /* -ENOENT */

/* A deferred copy is done: 0 or -errno. */
void o2g_copy_done(struct o2g_core *core, struct o2g_copy *job, int status);

/* Names a peer, so that postings may refer to it: 0, -EEXIST, -ENOSPC. If
 * `self` is set, it is the endpoint itself: its messages use no connection.
 * Sends to a peer without a connection wait for o2g_conn_attach(). */
int o2g_core_peer(struct o2g_core *core, u32 peer, int self);

/* Fails what was posted to or directed at this peer with this -errno. For a
 * peer that cannot be reached, or whose connection ended before o2g_conn_name()
 * named it. A peer that has a connection is not affected: its failure is
 * reported when the connection breaks. The peer stays lost. */
void o2g_core_lost(struct o2g_core *core, u32 peer, int error);

/*
 * Attaches a connection after its opening: credit_out was granted by the other
 * side, credit_in to it. `peer` O2G_NO_PEER: a process of the job that the
 * program has not named yet; o2g_conn_name() does that later, and until then
 * its messages match only receives from any source. `host` is the engine's own
 * pointer. -EEXIST: the peer has a connection; the -errno of a lost peer;
 * -EHOSTUNREACH: the peer was never named; -EINVAL: impossible credit.
 */
int o2g_conn_attach(struct o2g_core *core, u32 peer, u32 credit_out,
		    u32 credit_in, void *host, struct o2g_conn **out);
int o2g_conn_name(struct o2g_conn *conn, u32 peer);
void *o2g_conn_host(const struct o2g_conn *conn);

/*
 * Where the next bytes of the stream go, at least 1 byte. Returns 0; -EAGAIN if
 * there is no memory for more (the engine stops reading this socket only;
 * o2g_rx_blocked() tells when to go on); -EPIPE after BYE: only the end of the
 * stream may follow.
 */
int o2g_rx_want(struct o2g_conn *conn, struct o2g_piece *piece);
/* `length` bytes are in place; 0 cancels the offer. The offer is valid until
 * then: the core may be called for other things in between. Returns 0, or
 * -EPROTO: end the connection by o2g_conn_end(). Consumes submissions before it
 * matches a message. */
int o2g_rx_done(struct o2g_conn *conn, u64 length);
/* True between two frames, if the next one may be read: the caller may collect
 * its bytes without calling o2g_rx_want() first. */
int o2g_rx_fresh(const struct o2g_conn *conn);
/* Receives a complete message, header and body, that is at `byte`, if a posted
 * receive has room for it: returns its length. 0: nothing was consumed, and the
 * bytes must be received by o2g_rx_want(). Consumes submissions like
 * o2g_rx_done(). */
u64 o2g_rx_whole(struct o2g_conn *conn, const u8 *byte, u64 length);
/* True if the last o2g_rx_want() returned -EAGAIN, or the last header found no
 * memory for its message, and it still does. Call it when all bytes are read,
 * because such a message may have no more bytes, and after submissions were
 * consumed. */
int o2g_rx_blocked(struct o2g_conn *conn);

/* Lists up to `most` (at least 2) pieces to write now, in order; returns their
 * number. The pieces stay valid and first in order until o2g_tx_done(). After 0
 * the connection is idle until want_tx. Control frames go first, then complete
 * small messages, then further pieces of long ones in turn; a long one gets a
 * piece at the latest after 16 others. Never O2G_PLACE_FORGET. */
int o2g_tx_gather(struct o2g_conn *conn, struct o2g_piece *piece, int most);
/* `length` bytes of them were sent: 0, or -EPROTO for more than was
 * gathered. */
int o2g_tx_done(struct o2g_conn *conn, u64 length);

/* Whether all messages that are to be written are unsent, and the newest has at
 * most `most` bytes: then it pays to wait for a few more. */
int o2g_tx_small(const struct o2g_conn *conn, u64 most);

/* If a piece in the program's memory cannot be read or written, the engine
 * calls o2g_conn_end() with -EFAULT: the operation fails, and the connection
 * too, because its frames were announced. */

/* Sends BYE once everything submitted is sent; later sends fail with
 * -ESHUTDOWN. */
void o2g_conn_bye(struct o2g_conn *conn);
/* Whether BYE was sent; whether the peer's was received. */
int o2g_conn_bye_sent(const struct o2g_conn *conn);
int o2g_conn_bye_received(const struct o2g_conn *conn);

/*
 * The stream has ended: with `error` 0 by its end, else with this -errno. After
 * BYE, and outside of a message, that is a clean end, else a failure. Sends to
 * the peer and receives directed at it fail (-ECONNRESET after a failure,
 * -ESHUTDOWN after a clean end); so do those posted later, unless an arrived
 * message matches. An incomplete message fails its receive, or is dropped if it
 * has none. Receives from any source and complete messages remain. The
 * connection no longer belongs to the engine. With limits.batch
 * o2g_core_consume() cleans up the rest before it reads submissions.
 */
void o2g_conn_end(struct o2g_conn *conn, int error);

void o2g_core_counts(const struct o2g_core *core, struct o2g_counts *counts);

#endif
