// SPDX-License-Identifier: MIT
/*
 * The opening's checks, each by itself: two machines talk in memory, and one
 * bit of what one of them says, or of what one of them knows, is another.
 */
#include <o2g/lib/hmac.h>
#include <o2g/lib/opening.h>
#include <tests/tap.h>

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define CREDIT_ONE 0x5000
#define CREDIT_TWO 0x6000

static struct o2g_identity make_identity(u8 id)
{
	struct o2g_identity self;
	u8 secret[O2G_SECRET_SIZE];
	struct o2g_id me;

	memset(&self, 0, sizeof(self));
	for (int i = 0; i < O2G_SECRET_SIZE; i++)
		secret[i] = (u8)(3 * i + 1);
	memset(&me, id, sizeof(me));
	o2g_identity_make(&self, secret, &me);
	self.location = (struct o2g_location){.family = 4, .port = 9};
	return self;
}

/* Both ends of one opening, and who they are. */
struct both {
	struct o2g_identity one, two;
	struct o2g_opening dials, accepts;
};

static void begin_opening(struct both *b, u32 credit_one, u32 credit_two)
{
	static const u8 nonce[2][16] = {{1, 2, 3}, {4, 5, 6}};

	o2g_opening_dial(&b->dials, &b->one, &b->two.id, credit_one, nonce[0]);
	o2g_opening_accept(&b->accepts, &b->two, credit_two, nonce[1]);
}

static void reset_opening(struct both *b)
{
	b->one = make_identity(1);
	b->two = make_identity(2);
	begin_opening(b, CREDIT_ONE, CREDIT_TWO);
}

/* What one says reaches the other with this bit turned over; -1: none. */
static int pass_message(struct o2g_opening *from, struct o2g_opening *to,
			int bit)
{
	u32 length = from->out_length;
	u8 *at;

	if (length == 0 || o2g_opening_space(to, &at) != length)
		return -EBADMSG;
	memcpy(at, from->out, length);
	if (bit >= 0)
		at[bit / 8] ^= (u8)(1 << bit % 8);
	return o2g_opening_took(to, length);
}

/* The opening up to its message `stage`, which comes with a bit turned over:
 * what the side that hears it says, or the first that refuses. */
static int run_damaged(struct both *b, int stage, int bit)
{
	int r = pass_message(&b->dials, &b->accepts, stage == 0 ? bit : -1);

	if (r || (stage == 0 && bit < 0))
		return r;
	r = pass_message(&b->accepts, &b->dials, stage == 1 ? bit : -1);
	if (r || stage <= 1)
		return r;
	r = pass_message(&b->dials, &b->accepts, stage == 2 ? bit : -1);
	if (r != O2G_OPENING_PROVEN || stage == 2)
		return r;
	o2g_opening_decide(&b->accepts, O2G_WELCOME);
	return pass_message(&b->accepts, &b->dials, stage == 3 ? bit : -1);
}

static void test_honest(void)
{
	struct both b;

	reset_opening(&b);
	tap_ok(run_damaged(&b, 3, -1) == O2G_OPENING_WELCOME,
	       "two endpoints with the secret open a connection");
	TAP(b.dials.credit_out == CREDIT_TWO);
	TAP(b.accepts.credit_out == CREDIT_ONE);
	TAP(!memcmp(o2g_opening_other(&b.dials), &b.two.id, 16));
	TAP(!memcmp(o2g_opening_other(&b.accepts), &b.one.id, 16));
	for (int v = O2G_WELCOME; v <= O2G_KNOWN; v++) {
		reset_opening(&b);
		TAP(run_damaged(&b, 2, -1) == O2G_OPENING_PROVEN);
		o2g_opening_decide(&b.accepts, (enum o2g_verdict)v);
		tap_ok(pass_message(&b.accepts, &b.dials, -1) ==
			       O2G_OPENING_WELCOME + v - O2G_WELCOME,
		       "verdict %d arrives", v);
	}
}

/* A second dial of a peer lies where the first one did. */
static void test_again(void)
{
	struct both fresh, used;

	reset_opening(&fresh);
	reset_opening(&used);
	memset(&used.dials, 0xff, sizeof(used.dials));
	memset(&used.accepts, 0xff, sizeof(used.accepts));
	begin_opening(&used, CREDIT_ONE, CREDIT_TWO);
	tap_ok(!memcmp(&used.dials.hello, &fresh.dials.hello,
		       sizeof(fresh.dials.hello)) &&
		       used.dials.proof.credit == 0 &&
		       used.dials.credit_out == 0 &&
		       used.accepts.credit_out == 0 &&
		       used.accepts.out_length == 0,
	       "an opening does not depend on an earlier one");
	TAP(run_damaged(&used, 3, -1) == O2G_OPENING_WELCOME);
}

/* Every bit of these bytes of message `stage`, turned over alone. A hello for
 * somebody else hears nothing that is signed. */
static void test_damaged(const char *what, int stage, size_t from, size_t size,
			 int want, int unheard)
{
	int wrong = 0, said = want;
	struct both b;

	for (size_t bit = 8 * from; bit < 8 * (from + size); bit++) {
		int r;

		reset_opening(&b);
		r = run_damaged(&b, stage, (int)bit);
		if (r != want || (unheard && b.accepts.out_length)) {
			said = r;
			wrong++;
		}
	}
	if (wrong)
		printf("# %d were not: %d\n", wrong, said);
	tap_ok(wrong == 0, "%s: each of %zu bits, flipped, is refused", what,
	       8 * size);
}

#define TURNED(stage, message, field, want)                                    \
	test_damaged(#message "'s " #field, stage,                             \
		     offsetof(struct o2g_##message, field),                    \
		     sizeof(((struct o2g_##message *)0)->field), want, 0)
#define UNHEARD(message, field, want)                                          \
	test_damaged(#message "'s " #field, 0,                                 \
		     offsetof(struct o2g_##message, field),                    \
		     sizeof(((struct o2g_##message *)0)->field), want, 1)

static void each_bit(void)
{
	UNHEARD(hello, magic, -EPROTO);
	TURNED(0, hello, revision, -EPROTONOSUPPORT);
	UNHEARD(hello, job, -EACCES);
	TURNED(0, hello, from, -EACCES);
	UNHEARD(hello, to, -EACCES);
	TURNED(0, hello, nonce, -EACCES);
	TURNED(0, hello, location.address, -EACCES);
	UNHEARD(hello, location.zero, -EPROTO);
	TURNED(1, challenge, magic, -EPROTO);
	TURNED(1, challenge, revision, -EPROTONOSUPPORT);
	TURNED(1, challenge, from, -EACCES);
	TURNED(1, challenge, nonce, -EACCES);
	TURNED(1, challenge, credit, -EACCES);
	TURNED(1, challenge, options, -EACCES);
	TURNED(1, challenge, location, -EACCES);
	TURNED(1, challenge, mac, -EACCES);
	TURNED(2, proof, credit, -EACCES);
	TURNED(2, proof, options, -EACCES);
	TURNED(2, proof, mac, -EACCES);
	TURNED(3, welcome, magic, -EPROTO);
}

/* Signs as the wire's description says, by other code. */
static void sign_message(const struct both *b, const char *label, size_t length,
			 const void *proof, size_t proof_length,
			 u8 mac[O2G_MAC_SIZE])
{
	struct o2g_hmac h;

	o2g_hmac_init(&h, b->one.secret, O2G_SECRET_SIZE);
	o2g_hmac_update(&h, label, strlen(label));
	o2g_hmac_update(&h, &b->dials.hello, sizeof(b->dials.hello));
	o2g_hmac_update(&h, &b->accepts.challenge, length);
	o2g_hmac_update(&h, proof, proof_length);
	o2g_hmac_final(&h, mac);
}

/* The challenge that lies in `accepts.out`, changed and signed anew. */
static int challenge_forged(struct both *b, struct o2g_challenge c)
{
	b->accepts.challenge = c;
	sign_message(b, "o2g acceptor", offsetof(struct o2g_challenge, mac), 0,
		     0, b->accepts.challenge.mac);
	memcpy(b->accepts.out, &b->accepts.challenge, sizeof(c));
	return pass_message(&b->accepts, &b->dials, -1);
}

/* Who knows the secret and still says what it must not. */
static void test_insiders(void)
{
	struct o2g_challenge c;
	struct both b;
	int wrong = 0;

	for (int i = 0; i < 16; i++) {
		reset_opening(&b);
		run_damaged(&b, 0, -1);
		c = b.accepts.challenge;
		c.from.byte[i] ^= 1;
		wrong += challenge_forged(&b, c) != -EACCES;
	}
	tap_ok(wrong == 0, "an answer of another member of the job is refused");
	reset_opening(&b);
	run_damaged(&b, 0, -1);
	tap_ok(challenge_forged(&b, b.accepts.challenge) == O2G_OPENING_MORE,
	       "the same answer of the peer that was dialled is accepted");
	reset_opening(&b);
	begin_opening(&b, CREDIT_ONE, O2G_CREDIT_MIN - 1);
	tap_ok(run_damaged(&b, 1, -1) == -EPROTO,
	       "the connector refuses a grant that is too small");
	begin_opening(&b, CREDIT_ONE, O2G_CREDIT_MAX + 1u);
	tap_ok(run_damaged(&b, 1, -1) == -EPROTO,
	       "the connector refuses a grant that is too large");
	begin_opening(&b, O2G_CREDIT_MIN - 1, CREDIT_TWO);
	tap_ok(run_damaged(&b, 2, -1) == -EPROTO,
	       "the acceptor refuses a grant that is too small");
	begin_opening(&b, O2G_CREDIT_MAX + 1u, CREDIT_TWO);
	tap_ok(run_damaged(&b, 2, -1) == -EPROTO,
	       "the acceptor refuses a grant that is too large");
	begin_opening(&b, O2G_CREDIT_MIN, O2G_CREDIT_MAX);
	tap_ok(run_damaged(&b, 3, -1) == O2G_OPENING_WELCOME,
	       "the smallest and the largest grant are accepted");
	b.one = b.two;
	begin_opening(&b, CREDIT_ONE, CREDIT_TWO);
	tap_ok(run_damaged(&b, 0, -1) == -EACCES,
	       "an endpoint refuses a connection to itself");
}

/* A connector that knows an address alone. */
static void test_whoever(void)
{
	const struct o2g_id nobody = {0};
	const u8 nonce[16] = {7};
	struct o2g_challenge c;
	struct both b;

	reset_opening(&b);
	o2g_opening_dial(&b.dials, &b.one, &nobody, CREDIT_ONE, nonce);
	tap_ok(run_damaged(&b, 3, -1) == O2G_OPENING_WELCOME &&
		       !memcmp(o2g_opening_other(&b.dials), &b.two.id, 16),
	       "who dials whoever listens hears who that is");
	tap_ok(!memcmp(o2g_opening_location(&b.accepts), &b.one.location,
		       sizeof(b.one.location)),
	       "and says where it listens itself");
	tap_ok(!memcmp(o2g_opening_location(&b.dials), &b.two.location,
		       sizeof(b.two.location)),
	       "and hears where the other one says that it listens");
	reset_opening(&b);
	o2g_opening_dial(&b.dials, &b.one, &nobody, CREDIT_ONE, nonce);
	run_damaged(&b, 0, -1);
	c = b.accepts.challenge;
	memset(&c.from, 0, sizeof(c.from));
	tap_ok(challenge_forged(&b, c) == -EACCES, "nobody is no answer");
	reset_opening(&b);
	memset(&b.one.id, 0, sizeof(b.one.id));
	begin_opening(&b, CREDIT_ONE, CREDIT_TWO);
	tap_ok(run_damaged(&b, 0, -1) == -EACCES, "nor does nobody dial");
	reset_opening(&b);
	b.two.secret[3] ^= 1;
	o2g_opening_dial(&b.dials, &b.one, &nobody, CREDIT_ONE, nonce);
	tap_ok(run_damaged(&b, 1, -1) == -EACCES,
	       "nor is who lacks the secret");
}

/* Where a connector says that it listens. */
static void test_locations(void)
{
	static const struct o2g_location bad[] = {
		{.family = 0, .port = 1},
		{.family = 5, .port = 1},
		{.family = 4, .port = 0},
		{.family = 6, .port = 1, .zero = 1},
	};
	struct both b;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		reset_opening(&b);
		b.one.location = bad[i];
		begin_opening(&b, CREDIT_ONE, CREDIT_TWO);
		tap_ok(run_damaged(&b, 0, -1) == -EPROTO &&
			       !b.accepts.out_length,
		       "location %u, which is none, is refused", i);
		reset_opening(&b);
		b.two.location = bad[i];
		tap_ok(run_damaged(&b, 1, -1) == -EPROTO,
		       "location %u of an acceptor, too", i);
	}
}

/* Secrets that differ in one byte, under one public name. */
static void test_secrets(void)
{
	int in = 0, named = 0, proven = 0;
	struct o2g_identity other;
	struct both b;

	for (int i = 0; i < O2G_SECRET_SIZE; i++) {
		u8 secret[O2G_SECRET_SIZE];

		reset_opening(&b);
		b.two.secret[i] ^= 0x10;
		in += run_damaged(&b, 1, -1) != -EACCES;
		memcpy(secret, b.two.secret, sizeof(secret));
		o2g_identity_make(&other, secret, &b.two.id);
		named += !memcmp(other.job, b.one.job, sizeof(other.job));
		proven += memcmp(other.secret, secret, sizeof(secret)) != 0;
		reset_opening(&b);
		run_damaged(&b, 1, -1);
		b.two.secret[i] ^= 0x10; /* after it has spoken */
		in += pass_message(&b.dials, &b.accepts, -1) != -EACCES;
	}
	memset(&other, 0xff, sizeof(other)); /* what was there before */
	o2g_identity_make(&other, b.one.secret, &b.one.id);
	memset(&b.one.location, 0, sizeof(b.one.location));
	tap_ok(!memcmp(&other, &b.one, sizeof(other)),
	       "an identity is its secret and its id, and nothing else");
	tap_ok(in == 0, "a secret that differs in one byte is refused");
	tap_ok(named == 0, "every byte of a secret makes another job");
	tap_ok(proven == 0, "every byte of a secret enters the proof");
}

/* MACs of the one kind are none of the other. */
static void test_reflected(void)
{
	struct o2g_proof proof = {.credit = CREDIT_ONE};
	struct both b;

	reset_opening(&b);
	run_damaged(&b, 0, -1);
	sign_message(&b, "o2g acceptor", sizeof(struct o2g_challenge), &proof,
		     offsetof(struct o2g_proof, mac), proof.mac);
	memcpy(b.dials.out, &proof, sizeof(proof));
	b.dials.out_length = sizeof(proof);
	tap_ok(pass_message(&b.dials, &b.accepts, -1) == -EACCES,
	       "a connector's proof under the acceptor's label is refused");
	reset_opening(&b);
	run_damaged(&b, 0, -1);
	sign_message(&b, "o2g connector", sizeof(struct o2g_challenge), &proof,
		     offsetof(struct o2g_proof, mac), proof.mac);
	memcpy(b.dials.out, &proof, sizeof(proof));
	b.dials.out_length = sizeof(proof);
	tap_ok(pass_message(&b.dials, &b.accepts, -1) == O2G_OPENING_PROVEN,
	       "a connector's proof under its own label is accepted");
}

static void other_revision(void)
{
	struct o2g_challenge zero = {.magic = O2G_WIRE_MAGIC,
				     .revision = O2G_WIRE_REVISION};
	struct both b;

	reset_opening(&b);
	b.dials.out[offsetof(struct o2g_hello, revision)]++;
	TAP(pass_message(&b.dials, &b.accepts, -1) == -EPROTONOSUPPORT);
	TAP(b.accepts.revision == O2G_WIRE_REVISION + 1);
	tap_ok(b.accepts.out_length == sizeof(zero) &&
		       !memcmp(b.accepts.out, &zero, sizeof(zero)),
	       "another revision gets our revision and nothing signed");
	b.accepts.out[offsetof(struct o2g_challenge, revision)] += 2;
	TAP(pass_message(&b.accepts, &b.dials, -1) == -EPROTONOSUPPORT);
	TAP(b.dials.revision == O2G_WIRE_REVISION + 2);
}

/* Peers of different options, whichever of them encrypts. Both know the
 * secret. */
static void test_options(void)
{
	static const u8 before[sizeof(struct o2g_keys)] = {0};
	struct o2g_keys keys = {{0}, {0}};
	struct both b;

	for (u32 i = 0; i < 2; i++) {
		reset_opening(&b);
		*(i ? &b.one.options : &b.two.options) = O2G_OPTION_RECORDS;
		tap_ok(run_damaged(&b, 1, -1) == -EOPNOTSUPP &&
			       !b.dials.out_length,
		       "%s connector refuses another acceptor",
		       i ? "an encrypting" : "a plain");
		reset_opening(&b);
		TAP(run_damaged(&b, 1, -1) == O2G_OPENING_MORE);
		/* A connector that did not look. */
		b.two.options = i ? 0 : O2G_OPTION_RECORDS;
		b.one.options = i ? O2G_OPTION_RECORDS : 0;
		b.dials.proof.options = b.one.options;
		sign_message(&b, "o2g connector", sizeof(struct o2g_challenge),
			     &b.dials.proof, offsetof(struct o2g_proof, mac),
			     b.dials.proof.mac);
		memcpy(b.dials.out, &b.dials.proof, sizeof(b.dials.proof));
		tap_ok(pass_message(&b.dials, &b.accepts, -1) == -EOPNOTSUPP,
		       "%s acceptor refuses another connector",
		       i ? "a plain" : "an encrypting");
	}
	reset_opening(&b);
	TAP(run_damaged(&b, 3, -1) == O2G_OPENING_WELCOME);
	tap_ok(!o2g_opening_keys(&b.dials, &keys) &&
		       !memcmp(&keys, before, sizeof(keys)),
	       "plain connections have no keys");
}

static void make_keys(struct both *b, struct o2g_keys *one,
		      struct o2g_keys *two)
{
	b->one.options = b->two.options = O2G_OPTION_RECORDS;
	TAP(run_damaged(b, 3, -1) == O2G_OPENING_WELCOME);
	TAP(o2g_opening_keys(&b->dials, one) == 1);
	TAP(o2g_opening_keys(&b->accepts, two) == 1);
}

/* The keys depend on everything that was said and on the secret. */
static void test_keys(void)
{
	struct o2g_keys one, two, other, unused;
	u8 mac[O2G_MAC_SIZE];
	struct both b;

	reset_opening(&b);
	make_keys(&b, &one, &two);
	tap_ok(!memcmp(one.out, two.in, O2G_KEY_SIZE) &&
		       !memcmp(one.in, two.out, O2G_KEY_SIZE),
	       "both sides have the keys of both directions");
	tap_ok(memcmp(one.out, one.in, O2G_KEY_SIZE),
	       "the directions have different keys");
	sign_message(&b, "o2g key of the connector",
		     sizeof(struct o2g_challenge), &b.dials.proof,
		     sizeof(struct o2g_proof), mac);
	tap_ok(!memcmp(one.out, mac, sizeof(mac)),
	       "a key is what o2g_wire.h says");
	for (u32 i = 0; i < 3; i++) {
		static const u8 nonce[16] = {7};

		reset_opening(&b);
		if (i == 0)
			o2g_opening_dial(&b.dials, &b.one, &b.two.id,
					 CREDIT_ONE, nonce);
		else if (i == 1)
			o2g_opening_accept(&b.accepts, &b.two, CREDIT_TWO,
					   nonce);
		else
			b.one.secret[31] ^= 1, b.two.secret[31] ^= 1;
		make_keys(&b, &other, &unused);
		tap_ok(memcmp(one.out, other.out, O2G_KEY_SIZE) &&
			       memcmp(one.in, other.in, O2G_KEY_SIZE),
		       "another %s makes other keys",
		       i == 0	? "nonce of the connector"
		       : i == 1 ? "nonce of the acceptor"
				: "secret");
	}
}

/* Bytes that nobody waits for, and steps that nobody is at. */
static void out_of_turn(void)
{
	struct both b;
	u8 *at;

	reset_opening(&b);
	TAP(o2g_opening_took(&b.accepts, sizeof(struct o2g_hello) + 1) ==
	    -EPROTO);
	reset_opening(&b);
	TAP(run_damaged(&b, 3, -1) == O2G_OPENING_WELCOME);
	TAP(o2g_opening_space(&b.dials, &at) == 0);
	TAP(o2g_opening_space(&b.accepts, &at) == 0);
	tap_ok(o2g_opening_took(&b.dials, 1) == -EPROTO &&
		       o2g_opening_took(&b.accepts, 1) == -EPROTO &&
		       o2g_opening_took(&b.accepts, 0) == -EPROTO,
	       "an opening that ended stays ended");
	reset_opening(&b);
	TAP(run_damaged(&b, 2, -1) == O2G_OPENING_PROVEN);
	o2g_opening_decide(&b.accepts, (enum o2g_verdict)4);
	tap_ok(pass_message(&b.accepts, &b.dials, -1) == -EPROTO,
	       "an invalid verdict is refused");
}

int main(void)
{
	test_honest();
	test_again();
	each_bit();
	test_insiders();
	test_whoever();
	test_locations();
	test_secrets();
	test_reflected();
	other_revision();
	test_options();
	test_keys();
	out_of_turn();
	return tap_done();
}
