/* SPDX-License-Identifier: MIT */
/*
 * The opening of a connection, as defined by <skep/o2g_wire.h>: bytes in, bytes
 * out, a verdict. It uses no socket and no clock; its caller owns both, and the
 * lock. It never consumes a byte beyond the opening, so frames stay unread.
 */
#ifndef O2G_LIB_OPENING_H
#define O2G_LIB_OPENING_H

#include <o2g/core/record.h>
#include <skep/o2g_wire.h>

struct o2g_identity { /* what an endpoint authenticates as */
	u8 secret[O2G_SECRET_SIZE];
	u8 job[16];
	struct o2g_id id;
	struct o2g_location location; /* where it listens */
	u32 options;		      /* O2G_OPTION_...; a peer has the same */
};

enum o2g_opening_step {
	O2G_OPENING_MORE,    /* more bytes are needed */
	O2G_OPENING_PROVEN,  /* acceptor: send the verdict */
	O2G_OPENING_WELCOME, /* connector: the connection is open */
	O2G_OPENING_CROSSED, /* connector: wait for the peer's dial */
	/* connector: refused: the peer has or had a connection */
	O2G_OPENING_KNOWN
};

struct o2g_opening {
	const struct o2g_identity *self;
	u8 state;
	u8 dialled;    /* this side is the connector */
	u8 out_length; /* bytes of `out` to send before anything else */
	u32 have;      /* bytes received of the expected message */
	u32 credit_in; /* granted to the other side */
	u32 credit_out;
	u32 revision; /* the peer's, after -EPROTONOSUPPORT */
	struct o2g_hello hello;
	struct o2g_challenge challenge;
	struct o2g_proof proof;
	struct o2g_welcome welcome;
	/* the challenge is the longest message */
	u8 out[sizeof(struct o2g_challenge)];
};

/* Derives the job's public name. `secret` is the text of SKEP_O2G_SECRET as
 * bytes. */
void o2g_identity_make(struct o2g_identity *self,
		       const u8 secret[O2G_SECRET_SIZE],
		       const struct o2g_id *id);

/* `nonce`: 16 random bytes, used once. If the id in `to` is zero, any endpoint
 * that listens there is accepted. */
void o2g_opening_dial(struct o2g_opening *opening,
		      const struct o2g_identity *self, const struct o2g_id *to,
		      u32 credit, const u8 nonce[16]);
void o2g_opening_accept(struct o2g_opening *opening,
			const struct o2g_identity *self, u32 credit,
			const u8 nonce[16]);

/* Where the next bytes go, and how many at most; 0 if no message is
 * expected. */
u32 o2g_opening_space(struct o2g_opening *opening, u8 **at);
/*
 * `length` bytes were received. Returns a step, or the error that ends the
 * opening: -EPROTO (another protocol), -EACCES (wrong job, name or proof),
 * -EPROTONOSUPPORT (`revision` is the peer's), -EOPNOTSUPP (an authenticated
 * peer has other options). In any case send `out` first.
 */
int o2g_opening_took(struct o2g_opening *opening, u32 length);
/* Puts the acceptor's verdict on an authenticated opening into `out`. */
void o2g_opening_decide(struct o2g_opening *opening, enum o2g_verdict verdict);

/* The keys of the connection, after PROVEN or WELCOME: 1, or 0 if it is not
 * encrypted. */
int o2g_opening_keys(const struct o2g_opening *opening, struct o2g_keys *keys);

/* The peer's id. It is valid only when the peer is authenticated, has welcomed
 * this side, or has answered its hello. */
const struct o2g_id *o2g_opening_other(const struct o2g_opening *opening);
/* The address that the peer announced. */
const struct o2g_location *
o2g_opening_location(const struct o2g_opening *opening);

#endif
