// SPDX-License-Identifier: GPL-2.0-only
/*
 * The records of an encrypted link (o2g/core/record.h), between socket and
 * core. What the core wants to write is copied into a record, which is sealed
 * once and sent, if need be in parts. What arrives is collected until the
 * record is complete; only then is it decrypted and given to rx.c, so neither
 * the core nor the program gets a byte that was not verified.
 *
 * The socket lock guards what is read; what is written belongs to the context
 * that set tx_busy.
 *
 * Context: o2g_sealed_take() and o2g_sealed_text() as rx.c; o2g_sealed_fill()
 * and o2g_sealed_rest() as tx.c's writing, without a lock; the others sleep.
 */
#include <linux/mm.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "o2g/core/record.h"

#include "internal.h"

struct half { /* one direction */
	struct o2g_seal seal;
	u32 at, have; /* out: sent, of the record; in: read, of its text */
	u8 record[O2G_RECORD_MAX];
};

struct o2g_sealed {
	struct half out, in;
	u32 arrived; /* bytes of a record that is not complete */
};

struct o2g_sealed *o2g_sealed_make(const u8 out[O2G_KEY_SIZE],
				   const u8 in[O2G_KEY_SIZE])
{
	struct o2g_sealed *sealed =
		kvzalloc(sizeof(*sealed), GFP_KERNEL_ACCOUNT);

	if (!sealed)
		return NULL;
	o2g_seal_start(&sealed->out.seal, out);
	o2g_seal_start(&sealed->in.seal, in);
	return sealed;
}

/* With all that was decrypted, and its keys. */
void o2g_sealed_free(struct o2g_sealed *sealed)
{
	if (sealed)
		memzero_explicit(sealed, sizeof(*sealed));
	kvfree(sealed);
}

u64 o2g_sealed_size(void)
{
	return sizeof(struct o2g_sealed);
}

/* ---- reading ---- */

/* Bytes that the record, of which `arrived` are there, lacks; 0: it is
 * complete; -EPROTO. */
static int record_lacks(const struct o2g_sealed *sealed)
{
	const int size = o2g_record_size(sealed->in.record, sealed->arrived);

	if (size)
		return size < 0 ? size : size - (int)sealed->arrived;
	return O2G_RECORD_HEAD - (int)sealed->arrived;
}

static int open_record(struct o2g_sealed *sealed)
{
	const int n = o2g_record_open(&sealed->in.seal, sealed->in.record,
				      sealed->arrived);

	if (n < 0)
		return n;
	sealed->arrived = 0;
	sealed->in.at = 0;
	sealed->in.have = (u32)n;
	return 0;
}

static int record_refused(const struct o2g_link *link, int error)
{
	pr_notice_ratelimited(
		"o2g: an encrypted connection of process %d brought %s: it was "
		"changed on its way, and the connection ends\n",
		pid_nr(link->engine->owner),
		error == -EBADMSG ? "a record that does not verify"
				  : "something that is no record");
	return error;
}

s64 o2g_sealed_take(struct o2g_link *link, struct sk_buff *skb, u32 offset,
		    u64 length)
{
	struct o2g_sealed *sealed = link->sealed;
	u64 taken = 0;
	int lacks = record_lacks(sealed), r = 0;

	while (lacks > 0 && taken < length) {
		const u32 n = min_t(u64, (u64)lacks, length - taken);

		if (skb_copy_bits(skb, offset + taken,
				  sealed->in.record + sealed->arrived, n))
			return -EFAULT;
		taken += n;
		sealed->arrived += n;
		lacks = record_lacks(sealed);
	}
	if (lacks <= 0)
		r = lacks ?: open_record(sealed);
	return r ? record_refused(link, r) : (s64)taken;
}

u32 o2g_sealed_text(const struct o2g_sealed *sealed, const u8 **text)
{
	*text = sealed->in.record + O2G_RECORD_HEAD + sealed->in.at;
	return sealed->in.have - sealed->in.at;
}

void o2g_sealed_read(struct o2g_sealed *sealed, u64 n)
{
	sealed->in.at += (u32)n;
}

bool o2g_sealed_amid(const struct o2g_sealed *sealed)
{
	return sealed->arrived > 0;
}

/* ---- writing ---- */

static int from_area(struct o2g_engine *engine, u8 *to, u64 offset, u64 length)
{
	while (length) {
		u64 room;
		const void *from = o2g_area_at(engine, offset, &room, false);

		if (!from)
			return -ENOMEM;
		room = min(room, length);
		memcpy(to, from, room);
		to += room;
		offset += room;
		length -= room;
	}
	return 0;
}

static int copy_piece(struct o2g_engine *engine, const struct o2g_piece *piece,
		      bool reachable, u8 *to, u64 length)
{
	const void __user *from =
		(const void __user *)(unsigned long)piece->address;

	switch (piece->place) {
	case O2G_PLACE_CORE:
		memcpy(to, piece->core, length);
		return 0;
	case O2G_PLACE_AREA:
		return from_area(engine, to, piece->address, length);
	case O2G_PLACE_PROGRAM:
		return reachable && !copy_from_user(to, from, length) ? 0
								      : -EFAULT;
	case O2G_PLACE_FORGET:
		break;
	}
	return -EPROTO; /* the core writes nothing from there */
}

s64 o2g_sealed_fill(struct o2g_link *link, u32 pieces, bool reachable)
{
	struct half *out = &link->sealed->out;
	u8 *text = out->record + O2G_RECORD_HEAD;
	u32 length = 0;
	int r = 0;

	might_sleep();
	for (u32 i = 0; i < pieces && length < O2G_RECORD_TEXT; i++) {
		const struct o2g_piece *piece = &link->piece[i];
		const u64 part =
			min_t(u64, piece->length, O2G_RECORD_TEXT - length);

		r = copy_piece(link->engine, piece, reachable, text + length,
			       part);
		if (r)
			break;
		length += (u32)part;
	}
	if (!length)
		return r;
	out->at = 0;
	out->have = o2g_record_seal(&out->seal, out->record, length);
	return length;
}

u32 o2g_sealed_rest(const struct o2g_sealed *sealed, u8 **rest)
{
	*rest = (u8 *)sealed->out.record + sealed->out.at;
	return sealed->out.have - sealed->out.at;
}

void o2g_sealed_sent(struct o2g_sealed *sealed, u64 n)
{
	sealed->out.at += (u32)n;
}
