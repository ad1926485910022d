/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * O2G on the wire: what two endpoints of one job say over one TCP connection.
 * Every engine speaks it, so a host whose kernel matches messages and one whose
 * library does run one job. Little endian, no padding, every length bounded.
 *
 * Opening. Before the first frame each side proves that it knows the job's
 * secret S (32 bytes), and both agree on who the other is:
 *
 *   connector                                   acceptor
 *     o2g_hello    {job, from, to, ...}    ->
 *                <-  o2g_challenge {from, nonce, credit, mac}
 *     o2g_proof    {credit, mac}           ->
 *                <-  o2g_welcome {verdict}
 *     frames ...                           <->  frames ...
 *
 *   challenge.mac = HMAC-SHA-256(S, "o2g acceptor"  | hello | challenge less
 * mac) proof.mac     = HMAC-SHA-256(S, "o2g connector" | hello | challenge |
 *                                proof less mac)
 *
 * A connector that knows an address alone leaves `to` zero: it means whoever
 * listens there, and the challenge says who that is. `location` is where each
 * side listens by its own account, so that the other one, if it knows that
 * address alone, knows whose messages these are.
 *
 * The acceptor reads no frame before the proof holds; the connector sends none
 * before it is welcome. A wrong magic, job, `to`, mac or a side that has
 * not finished after O2G_OPENING_SECONDS is closed without a word; a wrong
 * revision is answered by a challenge whose revision is the acceptor's and
 * whose other fields are zero, so that both can name the two numbers.
 *
 * Encryption. Both sides say in `options` whether what follows the opening is
 * in records; it goes on only where they say the same. Otherwise nothing after
 * the opening is encrypted or signed: then the network between the hosts of a
 * job is trusted not to alter TCP streams, as by every MPI. A record is
 *
 *   u32 length (1 to O2G_RECORD_TEXT) | length bytes, encrypted | tag
 *
 * by AEAD_CHACHA20_POLY1305 (RFC 8439). The decrypted texts of all records, one
 * after another, are the stream of frames below, cut anywhere. The additional
 * data is the length, the nonce four zero bytes and the record's number from 0
 * on, 8 bytes. Each direction has its key,
 *
 *   HMAC-SHA-256(S, "o2g key of the acceptor"  | hello | challenge | proof)
 *   HMAC-SHA-256(S, "o2g key of the connector" | hello | challenge | proof)
 *
 * and a new one after each O2G_RECORD_KEY records: the first 32 bytes of
 * ChaCha20's stream for the old key, block 0, nonce 1 (4 bytes) and the number
 * of the next record. A record that does not verify ends the connection, and no
 * byte of it is used. Who learns S later can decrypt what was recorded.
 *
 * Simultaneous connects. Two endpoints keep one connection, and the acceptor
 * decides which, by its verdict on a proof that holds: never on a hello alone,
 * which anybody can repeat.
 *   O2G_CROSSED  the acceptor has the smaller id and a dial of its own to this
 *                peer whose hello went out, and which goes on; the connector
 *                waits for it, and dials again if it does not come
 *   O2G_KNOWN    the two have, or had, a connection
 *   O2G_WELCOME  in any other case; the acceptor drops its own dial. It uses
 *                the connection from here on, the connector from the verdict.
 * A connector that has sent its proof gives up only when the stream ends or
 * with the peer. What was submitted meanwhile waits in the peer's queue and
 * loses nothing.
 *
 * Who sent a message is known from its connection, never from a frame.
 *
 * Frames. A header of O2G_FRAME_SIZE bytes, then `body` bytes. Messages match
 * in the order of their MESSAGE and REQUEST frames. Bodies are cut in pieces,
 * so that frames of other messages go between them; pieces of one message are
 * in order, and `id` (of the sender, never 0, unused by a message in flight)
 * says which message a piece belongs to.
 *
 * Credit. The receiver grants bytes (`credit` in the opening). A MESSAGE costs
 * O2G_MESSAGE_COST and its whole length, a REQUEST O2G_MESSAGE_COST. Cost
 * comes back in the `credit` field of any frame once the receiver has matched
 * the message and taken its body, or discarded it; earlier, when the receiver
 * has it whole and memory to spare. A message that fits is sent
 * whole at once, whatever its size, one that does not is requested, and a
 * sender without O2G_MESSAGE_COST waits. PIECEs after a GRANT are free: they
 * have a place. CREDIT, GRANT and BYE cost nothing. Spending more than was
 * granted, or returning more than was spent, ends the connection.
 *
 * Remote memory access. A WRITE brings bytes for memory that the other side has
 * registered under a key, a READ asks for some; both name the key and a place,
 * and cost O2G_MESSAGE_COST like a REQUEST, since their bytes have a place. The
 * pieces of a long WRITE follow like those of a MESSAGE. What a READ asks for
 * comes in REPLY frames, in order. Each WRITE and READ is answered by one DONE,
 * with an error number or 0: of a WRITE when all of its bytes are in that
 * memory, of a READ after its last REPLY. Bytes that may not be written are
 * read and forgotten. After BYE nothing is answered: what waits for a DONE
 * fails.
 *
 * Atomic access. An ATOMIC combines elements of the other side's memory with
 * operands, each element at once, and those of one connection in their order.
 * Its body is whole: the operands, and behind them as many values to compare
 * with; none to read. If what it does says so, the earlier elements come in a
 * REPLY. It is answered by a DONE too. It costs O2G_MESSAGE_COST and what the
 * other side stores of it: the longer of its body and its result. Credit below
 * O2G_CREDIT_LOW counts as none where it is returned early.
 *
 * Ending. BYE says that no MESSAGE, REQUEST or PIECE follows; the stream ends
 * (FIN) after it. A stream that ends without BYE, or inside a frame, is a
 * death.
 */
#ifndef SKEP_O2G_WIRE_H
#define SKEP_O2G_WIRE_H

#include <skep/types.h>

#define O2G_WIRE_MAGIC 0x31473253 /* "S2G1" */
/* 2: remote memory access; 3: places; 4: atomic access; 5: options */
#define O2G_WIRE_REVISION 5
#define O2G_OPENING_SECONDS 10
#define O2G_MAC_SIZE 32
#define O2G_SECRET_SIZE 32

struct o2g_id { /* random; an endpoint's name within its job */
	u8 byte[16];
};

struct o2g_location { /* where an endpoint listens */
	u16 family;   /* 4 or 6 */
	u16 port;     /* never 0 */
	u32 zero;
	u8 address[16]; /* IPv4: in the first 4 bytes */
};
SKEP_ASSERT_SIZE(struct o2g_location, 24);

#define O2G_OPTION_RECORDS 1 /* option: records follow the opening */

struct o2g_hello {
	u32 magic;
	u32 revision;
	u8 job[16]; /* public name of the job, from the secret's digest */
	struct o2g_id from;
	struct o2g_id to; /* zero: whoever listens there */
	u8 nonce[16];
	struct o2g_location location;
};
SKEP_ASSERT_SIZE(struct o2g_hello, 96);

struct o2g_challenge {
	u32 magic;
	u32 revision;
	struct o2g_id from;
	u8 nonce[16];
	u32 credit; /* granted to the connector, bytes */
	u32 options;
	struct o2g_location location;
	u8 mac[O2G_MAC_SIZE];
};
SKEP_ASSERT_SIZE(struct o2g_challenge, 104);

struct o2g_proof {
	u32 credit; /* granted to the acceptor, bytes */
	u32 options;
	u8 mac[O2G_MAC_SIZE];
};
SKEP_ASSERT_SIZE(struct o2g_proof, 40);

enum o2g_verdict { O2G_WELCOME = 1, O2G_CROSSED, O2G_KNOWN };

struct o2g_welcome {
	u32 magic;
	u32 verdict;
};
SKEP_ASSERT_SIZE(struct o2g_welcome, 8);

#define O2G_KEY_SIZE 32
#define O2G_RECORD_HEAD 4
#define O2G_RECORD_TAG 16
#define O2G_RECORD_TEXT 0x4000 /* most bytes of text */
#define O2G_RECORD_MAX (O2G_RECORD_HEAD + O2G_RECORD_TEXT + O2G_RECORD_TAG)
#define O2G_RECORD_KEY 0x10000 /* records of one key */

#define O2G_FRAME_SIZE 48
#define O2G_BODY_MAX 0x20000	    /* most body bytes of one frame */
#define O2G_MESSAGE_COST 256	    /* credit of a message without a body */
#define O2G_ATOMIC_BYTES 0x1000	    /* most bytes of elements of an ATOMIC */
#define O2G_CREDIT_LOW 0x2100	    /* what the longest ATOMIC costs */
#define O2G_CREDIT_MIN 0x4000	    /* least grant */
#define O2G_CREDIT_MAX 0x40000000   /* most */
#define O2G_LENGTH_MAX (1ull << 40) /* most bytes of one message */

enum o2g_frame_type {
	O2G_MESSAGE = 1, /* context tag data length, first piece as body */
	O2G_PIECE,	 /* id: the next piece of that message, as body */
	O2G_REQUEST,	 /* like MESSAGE without a body: may I send? */
	O2G_GRANT,	 /* id (of the requester); length: send so many bytes of
			    it and forget the rest; 0: it was discarded */
	O2G_CREDIT,	 /* nothing but credit */
	O2G_BYE,	 /* the last one */
	O2G_WRITE,	 /* id; tag: key; data: place; length, first piece as
			    body; with the flag, data in context and high */
	O2G_READ,	 /* id; tag: key; data: place; length */
	O2G_REPLY,	 /* id (of the READ): its next bytes, as body */
	O2G_DONE,	 /* id (of the access); context: 0 or errno */
	O2G_ATOMIC, /* id; tag: key; data: place; length: bytes of elements;
		       context: what to do; operands as body */
	O2G_FRAME_TYPES
};

#define O2G_FRAME_DATA 1  /* flag of MESSAGE, REQUEST, WRITE: data is meant */
#define O2G_DONE_MAX 4095 /* error numbers of a DONE */

/* What an ATOMIC does to an element: its context is operation | type << 8, and
 * O2G_ATOMIC_FETCH if the earlier element is to come back. An operation from
 * CSWAP on has a value to compare with, compares it with the element, and
 * writes the operand if that holds; MSWAP takes it as a mask. These and READ
 * always fetch. */
enum o2g_atomic_operation {
	O2G_ATOMIC_MIN = 1,
	O2G_ATOMIC_MAX,
	O2G_ATOMIC_SUM,
	O2G_ATOMIC_PROD,
	O2G_ATOMIC_LOR,
	O2G_ATOMIC_LAND,
	O2G_ATOMIC_BOR,
	O2G_ATOMIC_BAND,
	O2G_ATOMIC_LXOR,
	O2G_ATOMIC_BXOR,
	O2G_ATOMIC_READ,
	O2G_ATOMIC_WRITE,
	O2G_ATOMIC_CSWAP,
	O2G_ATOMIC_CSWAP_NE,
	O2G_ATOMIC_CSWAP_LE, /* value <= element */
	O2G_ATOMIC_CSWAP_LT,
	O2G_ATOMIC_CSWAP_GE,
	O2G_ATOMIC_CSWAP_GT,
	O2G_ATOMIC_MSWAP,
	O2G_ATOMIC_OPERATIONS
};

enum o2g_atomic_type { /* little endian; the last two: IEEE 754 */
		       O2G_ATOMIC_S8 = 1,
		       O2G_ATOMIC_U8,
		       O2G_ATOMIC_S16,
		       O2G_ATOMIC_U16,
		       O2G_ATOMIC_S32,
		       O2G_ATOMIC_U32,
		       O2G_ATOMIC_S64,
		       O2G_ATOMIC_U64,
		       O2G_ATOMIC_F32,
		       O2G_ATOMIC_F64,
		       O2G_ATOMIC_TYPES
};

#define O2G_ATOMIC_FETCH 0x10000

struct o2g_frame {
	u8 type;
	u8 flags;
	u16 zero;
	u32 body; /* bytes that follow, <= O2G_BODY_MAX */
	u32 id;
	u32 context; /* MESSAGE, REQUEST: the matching space */
	u64 tag;     /* MESSAGE, REQUEST */
	u64 data;    /* MESSAGE, REQUEST: immediate data for the completion */
	u64 length;  /* MESSAGE, REQUEST: all of it; GRANT: accepted */
	u32 credit;  /* any frame: bytes given back */
	u32 high;    /* WRITE: upper half of its data; else 0 */
};
SKEP_ASSERT_SIZE(struct o2g_frame, O2G_FRAME_SIZE);

#endif
