/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * O2G's rings: how a program tells an engine what to receive and send, and how
 * the engine tells what came of it, without a call per message. The engine is
 * a kernel module or a library in the same process; the program cannot see
 * which. Both sides share one area of memory:
 *
 *   struct o2g_area | submissions (struct o2g_sqe) | completions (struct
 *   o2g_cqe) | outbox: bodies of small sends, the program divides it
 *   | slab: bodies of small and unexpected messages, the engine divides it
 *
 * An engine trusts nothing in it: it keeps its own head of submissions and its
 * own tail of completions, copies an entry once before it looks at it, masks
 * every index, and checks every offset against sizes it knows itself.
 *
 * Indices run freely over 2^32; entry = index & (entries - 1).
 *
 * Submitting (one submitter at a time):       the engine, consuming:
 *   write the entry                             read sq.tail        (acquire)
 *   sq.tail = tail + 1          (release)       copy entries, act on them
 *   full barrier                                sq.head = head      (release)
 *   if (sq.flags & O2G_NEED_KICK) kick
 *
 * That is for receives (not of a claimed message) and RELEASE. Everything else
 * wants to be done now, so its submitter kicks always, once for a batch.
 *
 * The engine consumes when it is kicked, and before it matches anything that
 * arrived. It must be kicked while a receive could change what it holds:
 * whenever a message or a request is unmatched, a connection is not read for
 * want of memory, a peer is lost (a receive from it fails at once), or
 * completions did not fit. Before it leaves:
 *   sq.flags |= O2G_NEED_KICK
 *   full barrier
 *   read sq.tail again; consume and start over if it moved
 * After nothing but RELEASE only O2G_NEED_BODIES counts: a connection is not
 * read for want of memory.
 * With both barriers one of the two sees the other: an entry is never left
 * lying beside a message that it matches. (Without an unmatched message a
 * receive may lie in the ring unread: the next arrival reads it first.)
 *
 * Completing: the engine writes the entry,  the program, about to sleep:
 *   cq.tail = tail + 1          (release)       cq.flags |= O2G_NEED_WAKE
 *   full barrier                                full barrier
 *   if (cq.flags & O2G_NEED_WAKE) wake          read cq.tail; sleep if it is
 *                                               cq.head; clear the flag after
 * The engine never overwrites an entry that the program has not taken
 * (cq.head, read with acquire): what does not fit waits with its operation.
 *
 * Making room: the program has taken entries, the engine, out of room:
 *   cq.head = head              (release)       sq.flags |= O2G_NEED_ROOM
 *   full barrier                                full barrier
 *   if (sq.flags & O2G_NEED_ROOM) kick          read cq.head again; write what
 *                                               fits; clear it when all does
 */
#ifndef SKEP_O2G_RING_H
#define SKEP_O2G_RING_H

#include <skep/types.h>

#define O2G_RING_MAGIC 0x52473253 /* "S2GR" */
#define O2G_RING_REVISION 3	  /* 3: atomic access */
#define O2G_RING_MIN 16
#define O2G_RING_MAX 0x10000

#define O2G_ANY_PEER 0xffffffffu /* source of a receive: whoever */
/* Source of a completion: not known by name. */
#define O2G_NO_PEER 0xfffffffeu

struct o2g_index {
	u32 head; /* next entry to take; written by the consumer */
	u32 pad0[15];
	u32 tail; /* next entry to fill; written by the producer */
	u32 pad1[15];
	u32 flags;
	u32 pad2[15];
};
SKEP_ASSERT_SIZE(struct o2g_index, 192);

#define O2G_NEED_KICK 1	  /* in sq.flags, written by the engine */
#define O2G_NEED_ROOM 2	  /* in sq.flags: completions wait for room */
#define O2G_NEED_BODIES 4 /* in sq.flags: RELEASE is waited for */
#define O2G_NEED_WAKE 1	  /* in cq.flags, written by the program */

struct o2g_area {
	u32 magic;
	u32 revision;
	u64 size;	/* of the whole area, bytes */
	u32 sq_entries; /* powers of two */
	u32 cq_entries;
	u64 sqe; /* offsets in the area */
	u64 cqe;
	u64 slab;
	u64 slab_size;
	u64 outbox;
	u64 outbox_size;
	u64 pad[7];
	struct o2g_index sq;
	struct o2g_index cq;
};
SKEP_ASSERT_SIZE(struct o2g_area, 512);

/* CANCEL, DISCARD and RELEASE complete only when they are refused. */
enum o2g_op {
	O2G_OP_RECV = 1, /* peer context tag ignore; into addr, length */
	O2G_OP_SEND,	 /* peer context tag data; from addr, length */
	O2G_OP_CANCEL,	 /* the unmatched receive with this cookie; completes
			    that receive with -ECANCELED, or does nothing */
	O2G_OP_PEEK,	 /* is there an unmatched message like that? -ENOMSG,
			    or why its sender is lost */
	O2G_OP_DISCARD,	 /* data: handle of a claimed message */
	O2G_OP_RELEASE,	 /* data: `where` of a completion with O2G_CQE_SLAB */
	O2G_OP_WRITE,	 /* peer data; from addr, length; tag: key of its
			    memory, ignore: place there */
	O2G_OP_READ,	 /* the same, into addr */
	O2G_OP_ATOMIC,	 /* the same; context: as of the frame ATOMIC; addr: the
			    operands, and behind them what to compare with;
			    length: of the elements; data: where those that
			    were there before go, if they are fetched */
	O2G_OP_WRITTEN,	 /* in completions alone: a peer's WRITE is in our
			    memory; cookie: of the region, where: its address */
	O2G_OP_READ_OUT, /* the same: a peer's READ has all it asked for */
	O2G_OPS
};

/*
 * Flags of a submission.
 *   DATA     SEND, WRITE: data travels with the message
 *   AREA     SEND, WRITE, ATOMIC: addr is an offset in the area, inside the
 *            outbox
 *   MULTI    RECV: many messages into one buffer, until less than `data` (at
 *            least 1) bytes of it are left; the completion without
 *            O2G_CQE_MORE is the last
 *   CLAIM    PEEK: keep it for me, where = its handle
 *   CLAIMED  RECV: data = handle of a claimed message
 *   DISCARD  PEEK: and throw it away
 *   QUIET    SEND, WRITE, READ, ATOMIC: no completion unless it fails
 */
#define O2G_SQE_DATA 1
#define O2G_SQE_AREA 2
#define O2G_SQE_MULTI 4
#define O2G_SQE_CLAIM 8
#define O2G_SQE_CLAIMED 16
#define O2G_SQE_DISCARD 32
#define O2G_SQE_QUIET 64

struct o2g_sqe {
	u8 op;
	u8 flags;
	u16 zero;
	u32 peer; /* number given by o2g_peer(); O2G_ANY_PEER for receives */
	u64 tag;
	u64 ignore; /* bits of the tag that do not matter, for RECV and PEEK */
	u64 addr;   /* of the program, not moved or unmapped until completed */
	u64 length;
	u64 data;
	u64 cookie; /* comes back in the completion */
	u32 context;
	u32 zero2;
};
SKEP_ASSERT_SIZE(struct o2g_sqe, 64);

/*
 * Flags of a completion.
 *   SLAB  the body lies at offset `where` of the area, `length` bytes, and is
 *         whole: copy it to the address in `total`, then RELEASE
 *   DATA  data came with the message
 *   MORE  the multi-receive is not over
 */
#define O2G_CQE_SLAB 1
#define O2G_CQE_DATA 2
#define O2G_CQE_MORE 4

struct o2g_cqe {
	u64 cookie;
	s32 status; /* 0 or -errno; -EMSGSIZE: cut to the buffer's length */
	u8 op;	    /* of the submission */
	u8 flags;
	u16 zero;
	u32 peer; /* who sent it, or O2G_NO_PEER */
	u32 context;
	u64 tag;    /* of the message */
	u64 length; /* bytes delivered; PEEK: bytes of the message */
	u64 total;  /* bytes of the message */
	u64 data;
	u64 where; /* address of a received body, area offset, or handle */
};
SKEP_ASSERT_SIZE(struct o2g_cqe, 64);

#endif
