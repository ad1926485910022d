// SPDX-License-Identifier: MIT
/*
 * Any bytes at either end of an opening, in pieces of any size, and any 40
 * bytes as a name. Without the secret nobody gets in; the machine never asks
 * for more than the message it awaits. With the first byte's second bit the
 * other side is honest up to the last message, so that all states are reached;
 * with its third one the connector dials whoever listens.
 */
#include <o2g/lib/address.h>
#include <o2g/lib/opening.h>

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct o2g_identity make_identity(u8 id)
{
	static const u8 secret[O2G_SECRET_SIZE] = {1, 2, 3};
	struct o2g_identity self;
	struct o2g_id me;

	memset(&me, id, sizeof(me));
	o2g_identity_make(&self, secret, &me);
	self.location = (struct o2g_location){.family = 4, .port = 9};
	return self;
}

/* Gives bytes in pieces that the input sizes; the last step. */
static int feed_opening(struct o2g_opening *o, const uint8_t *data, size_t size)
{
	int step = O2G_OPENING_MORE;

	while (step == O2G_OPENING_MORE && size > 0) {
		u8 *at;
		u32 space = o2g_opening_space(o, &at);
		u32 n = data[0] % 97 + 1;

		if (space == 0 || space > sizeof(struct o2g_challenge))
			abort();
		if (n > space)
			n = space;
		if (n > size)
			n = (u32)size;
		memcpy(at, data, n);
		step = o2g_opening_took(o, n);
		if (o->out_length > sizeof(o->out))
			abort();
		data += n;
		size -= n;
	}
	return step;
}

/* Moves what one says to the other. */
static int move_honest(struct o2g_opening *from, struct o2g_opening *to)
{
	u8 *at;

	if (o2g_opening_space(to, &at) != from->out_length)
		abort();
	memcpy(at, from->out, from->out_length);
	return o2g_opening_took(to, from->out_length);
}

static void check_names(const uint8_t *data, size_t size)
{
	struct o2g_address address;
	struct o2g_name name, again;
	char text[O2G_ADDRESS_TEXT];

	if (size < sizeof(name))
		return;
	memcpy(&name, data, sizeof(name));
	if (o2g_address_of_name(&address, &name))
		return;
	if (strlen(o2g_address_text(text, &address)) >= sizeof(text) ||
	    o2g_address_to_name(&again, &address, &name.id) ||
	    again.location.port != name.location.port ||
	    again.location.family != name.location.family)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const u8 nonce[16] = {9};
	static const struct o2g_id whoever;
	struct o2g_identity one = make_identity(1), two = make_identity(2);
	struct o2g_opening dials, accepts;
	int step;

	if (size == 0)
		return 0;
	check_names(data + 1, size - 1);
	o2g_opening_dial(&dials, &one, data[0] & 4 ? &whoever : &two.id,
			 O2G_CREDIT_MIN, nonce);
	o2g_opening_accept(&accepts, &two, O2G_CREDIT_MIN, nonce);
	if (data[0] & 2 && move_honest(&dials, &accepts))
		abort();
	if (data[0] & 2 && !(data[0] & 1) && move_honest(&accepts, &dials))
		abort();
	step = feed_opening(data[0] & 1 ? &accepts : &dials, data + 1,
			    size - 1);
	/* A welcome carries no MAC: what stands before it has proven itself. */
	if (step == O2G_OPENING_PROVEN ||
	    (step > O2G_OPENING_PROVEN && !(data[0] & 2)))
		abort();
	return 0;
}
