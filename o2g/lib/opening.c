// SPDX-License-Identifier: MIT
/*
 * The two state machines of the opening. All input is considered hostile until
 * its MAC is verified: a message is received completely, at its fixed size,
 * before any field is used.
 */
#include "opening.h"
#include "hmac.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

enum { AWAIT_HELLO, AWAIT_PROOF, AWAIT_CHALLENGE, AWAIT_WELCOME, AWAIT_NONE };

static const char acceptor_label[] = "o2g acceptor";
static const char connector_label[] = "o2g connector";
static const char acceptor_key[] = "o2g key of the acceptor";
static const char connector_key[] = "o2g key of the connector";

void o2g_identity_make(struct o2g_identity *self,
		       const u8 secret[O2G_SECRET_SIZE],
		       const struct o2g_id *id)
{
	struct skep_sha256 digest;
	u8 out[SKEP_SHA256_SIZE];

	memcpy(self->secret, secret, O2G_SECRET_SIZE);
	self->id = *id;
	skep_sha256_init(&digest);
	skep_sha256_update(&digest, "o2g job", 7);
	skep_sha256_update(&digest, secret, O2G_SECRET_SIZE);
	skep_sha256_final(&digest, out);
	memcpy(self->job, out, sizeof(self->job));
	memset(&self->location, 0, sizeof(self->location));
	self->options = 0;
}

_Static_assert(sizeof(struct o2g_challenge) >= sizeof(struct o2g_hello),
	       "the challenge is the longest message");
_Static_assert(O2G_MAC_SIZE == O2G_KEY_SIZE, "keys are computed as MACs are");

static void queue_message(struct o2g_opening *o, const void *message,
			  u32 length)
{
	memcpy(o->out, message, length);
	o->out_length = (u8)length;
}

static void await_state(struct o2g_opening *o, int state)
{
	o->state = (u8)state;
	o->have = 0;
}

/* Computes the MAC over a label, the hello, `length` bytes of the challenge,
 * and the part of the proof before its MAC. */
static void sign_opening(const struct o2g_opening *o, const char *label,
			 u32 length, u32 proof, u8 mac[O2G_MAC_SIZE])
{
	struct o2g_hmac hmac;

	o2g_hmac_init(&hmac, o->self->secret, O2G_SECRET_SIZE);
	o2g_hmac_update(&hmac, label, strlen(label));
	o2g_hmac_update(&hmac, &o->hello, sizeof(o->hello));
	o2g_hmac_update(&hmac, &o->challenge, length);
	o2g_hmac_update(&hmac, &o->proof, proof);
	o2g_hmac_final(&hmac, mac);
}

static void sign_challenge(const struct o2g_opening *o, u8 mac[O2G_MAC_SIZE])
{
	sign_opening(o, acceptor_label, offsetof(struct o2g_challenge, mac), 0,
		     mac);
}

static void sign_proof(const struct o2g_opening *o, u8 mac[O2G_MAC_SIZE])
{
	sign_opening(o, connector_label, sizeof(o->challenge),
		     offsetof(struct o2g_proof, mac), mac);
}

static int credit_sane(u32 credit)
{
	return credit >= O2G_CREDIT_MIN && credit <= O2G_CREDIT_MAX;
}

void o2g_opening_dial(struct o2g_opening *o, const struct o2g_identity *self,
		      const struct o2g_id *to, u32 credit, const u8 nonce[16])
{
	memset(o, 0, sizeof(*o));
	o->self = self;
	o->dialled = 1;
	o->credit_in = credit;
	o->hello.magic = O2G_WIRE_MAGIC;
	o->hello.revision = O2G_WIRE_REVISION;
	memcpy(o->hello.job, self->job, sizeof(o->hello.job));
	o->hello.from = self->id;
	o->hello.to = *to;
	memcpy(o->hello.nonce, nonce, sizeof(o->hello.nonce));
	o->hello.location = self->location;
	queue_message(o, &o->hello, sizeof(o->hello));
	await_state(o, AWAIT_CHALLENGE);
}

void o2g_opening_accept(struct o2g_opening *o, const struct o2g_identity *self,
			u32 credit, const u8 nonce[16])
{
	memset(o, 0, sizeof(*o));
	o->self = self;
	o->credit_in = credit;
	o->challenge.magic = O2G_WIRE_MAGIC;
	o->challenge.revision = O2G_WIRE_REVISION;
	memcpy(o->challenge.nonce, nonce, sizeof(o->challenge.nonce));
	await_state(o, AWAIT_HELLO);
}

static u32 awaited_bytes(struct o2g_opening *o, u8 **at)
{
	switch (o->state) {
	case AWAIT_HELLO:
		*at = (u8 *)&o->hello;
		return sizeof(o->hello);
	case AWAIT_PROOF:
		*at = (u8 *)&o->proof;
		return sizeof(o->proof);
	case AWAIT_CHALLENGE:
		*at = (u8 *)&o->challenge;
		return sizeof(o->challenge);
	case AWAIT_WELCOME:
		*at = (u8 *)&o->welcome;
		return sizeof(o->welcome);
	}
	*at = 0;
	return 0;
}

u32 o2g_opening_space(struct o2g_opening *o, u8 **at)
{
	u32 size = awaited_bytes(o, at);

	*at += o->have;
	return size - o->have;
}

static int other_revision(struct o2g_opening *o, u32 revision)
{
	o->revision = revision;
	return -EPROTONOSUPPORT;
}

static const struct o2g_id whoever;

static int same_id(const struct o2g_id *a, const struct o2g_id *b)
{
	return !memcmp(a, b, sizeof(*a));
}

static int for_whoever(const struct o2g_hello *hello)
{
	return same_id(&hello->to, &whoever);
}

static int location_sane(const struct o2g_location *location)
{
	return (location->family == 4 || location->family == 6) &&
	       location->port && !location->zero;
}

static int take_hello(struct o2g_opening *o)
{
	const struct o2g_identity *self = o->self;

	if (o->hello.magic != O2G_WIRE_MAGIC)
		return -EPROTO;
	if (o->hello.revision != O2G_WIRE_REVISION) {
		struct o2g_challenge no = {.magic = O2G_WIRE_MAGIC,
					   .revision = O2G_WIRE_REVISION};

		queue_message(o, &no, sizeof(no));
		return other_revision(o, o->hello.revision);
	}
	if (memcmp(o->hello.job, self->job, sizeof(self->job)) ||
	    (!same_id(&o->hello.to, &self->id) && !for_whoever(&o->hello)) ||
	    same_id(&o->hello.from, &self->id) ||
	    same_id(&o->hello.from, &whoever))
		return -EACCES;
	if (!location_sane(&o->hello.location))
		return -EPROTO;
	o->challenge.from = self->id;
	o->challenge.credit = o->credit_in;
	o->challenge.options = self->options;
	o->challenge.location = self->location;
	sign_challenge(o, o->challenge.mac);
	queue_message(o, &o->challenge, sizeof(o->challenge));
	await_state(o, AWAIT_PROOF);
	return O2G_OPENING_MORE;
}

static int take_challenge(struct o2g_opening *o)
{
	u8 mac[O2G_MAC_SIZE];

	if (o->challenge.magic != O2G_WIRE_MAGIC)
		return -EPROTO;
	if (o->challenge.revision != O2G_WIRE_REVISION)
		return other_revision(o, o->challenge.revision);
	sign_challenge(o, mac);
	if (!o2g_mac_equal(mac, o->challenge.mac, sizeof(mac)) ||
	    same_id(&o->challenge.from, &whoever) ||
	    (!same_id(&o->challenge.from, &o->hello.to) &&
	     !for_whoever(&o->hello)))
		return -EACCES;
	if (!credit_sane(o->challenge.credit) ||
	    !location_sane(&o->challenge.location))
		return -EPROTO;
	if (o->challenge.options != o->self->options)
		return -EOPNOTSUPP;
	o->credit_out = o->challenge.credit;
	o->proof.credit = o->credit_in;
	o->proof.options = o->self->options;
	sign_proof(o, o->proof.mac);
	queue_message(o, &o->proof, sizeof(o->proof));
	await_state(o, AWAIT_WELCOME);
	return O2G_OPENING_MORE;
}

static int take_proof(struct o2g_opening *o)
{
	u8 mac[O2G_MAC_SIZE];

	sign_proof(o, mac);
	if (!o2g_mac_equal(mac, o->proof.mac, sizeof(mac)))
		return -EACCES;
	if (!credit_sane(o->proof.credit))
		return -EPROTO;
	if (o->proof.options != o->self->options)
		return -EOPNOTSUPP;
	o->credit_out = o->proof.credit;
	await_state(o, AWAIT_NONE);
	return O2G_OPENING_PROVEN;
}

static int take_welcome(struct o2g_opening *o)
{
	await_state(o, AWAIT_NONE);
	if (o->welcome.magic != O2G_WIRE_MAGIC)
		return -EPROTO;
	switch (o->welcome.verdict) {
	case O2G_WELCOME:
		return O2G_OPENING_WELCOME;
	case O2G_CROSSED:
		return O2G_OPENING_CROSSED;
	case O2G_KNOWN:
		return O2G_OPENING_KNOWN;
	}
	return -EPROTO;
}

int o2g_opening_took(struct o2g_opening *o, u32 length)
{
	u8 *at;
	u32 space = o2g_opening_space(o, &at);

	o->out_length = 0;
	if (length > space)
		return -EPROTO;
	o->have += length;
	if (length < space)
		return O2G_OPENING_MORE;
	switch (o->state) {
	case AWAIT_HELLO:
		return take_hello(o);
	case AWAIT_CHALLENGE:
		return take_challenge(o);
	case AWAIT_PROOF:
		return take_proof(o);
	case AWAIT_WELCOME:
		return take_welcome(o);
	}
	return -EPROTO;
}

void o2g_opening_decide(struct o2g_opening *o, enum o2g_verdict verdict)
{
	struct o2g_welcome welcome = {.magic = O2G_WIRE_MAGIC,
				      .verdict = (u32)verdict};

	queue_message(o, &welcome, sizeof(welcome));
}

/* Both nonces are in what is signed, so no two connections have equal keys. */
int o2g_opening_keys(const struct o2g_opening *o, struct o2g_keys *keys)
{
	u8 *acceptor = o->dialled ? keys->in : keys->out;
	u8 *connector = o->dialled ? keys->out : keys->in;

	if (!(o->self->options & O2G_OPTION_RECORDS))
		return 0;
	sign_opening(o, acceptor_key, sizeof(o->challenge), sizeof(o->proof),
		     acceptor);
	sign_opening(o, connector_key, sizeof(o->challenge), sizeof(o->proof),
		     connector);
	return 1;
}

const struct o2g_id *o2g_opening_other(const struct o2g_opening *o)
{
	if (!o->dialled)
		return &o->hello.from;
	return for_whoever(&o->hello) ? &o->challenge.from : &o->hello.to;
}

const struct o2g_location *o2g_opening_location(const struct o2g_opening *o)
{
	return o->dialled ? &o->challenge.location : &o->hello.location;
}
