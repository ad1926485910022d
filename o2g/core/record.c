/* SPDX-License-Identifier: MIT */
/*
 * Records. Their nonces are their numbers, which are not sent: a record that is
 * repeated, left out or moved has a wrong tag. So has one of the other
 * direction or of another connection, because these have other keys.
 */
#include "record.h"
#include "aead.h"
#include "base/errno.h"

/* The first word of a nonce: what its key stream is for. */
enum { FOR_RECORD, FOR_KEY };

static void set_nonce(u8 nonce[O2G_AEAD_NONCE], u32 what, u64 number)
{
	__builtin_memcpy(nonce, &what, sizeof(what));
	__builtin_memcpy(nonce + sizeof(what), &number, sizeof(number));
}

void o2g_seal_start(struct o2g_seal *seal, const u8 key[O2G_KEY_SIZE])
{
	__builtin_memcpy(seal->key, key, O2G_KEY_SIZE);
	seal->number = 0;
}

/* Replaces the key by one from which the earlier one cannot be computed. */
static void next_key(struct o2g_seal *seal)
{
	u8 nonce[O2G_AEAD_NONCE], next[O2G_KEY_SIZE] = {0};

	set_nonce(nonce, FOR_KEY, seal->number);
	o2g_chacha_xor(seal->key, nonce, 0, next, sizeof(next));
	__builtin_memcpy(seal->key, next, sizeof(next));
	for (u32 i = 0; i < sizeof(next); i++)
		((volatile u8 *)next)[i] = 0;
}

static void record_done(struct o2g_seal *seal)
{
	seal->number++;
	if (seal->number % O2G_RECORD_KEY == 0)
		next_key(seal);
}

static struct o2g_aead record_aead(const struct o2g_seal *seal,
				   const u8 *record)
{
	struct o2g_aead aead = {.key = seal->key,
				.head = record,
				.head_length = O2G_RECORD_HEAD};

	set_nonce(aead.nonce, FOR_RECORD, seal->number);
	return aead;
}

u32 o2g_record_seal(struct o2g_seal *seal, u8 *record, u32 length)
{
	struct o2g_aead aead;
	u8 *text = record + O2G_RECORD_HEAD;

	__builtin_memcpy(record, &length, O2G_RECORD_HEAD);
	aead = record_aead(seal, record);
	o2g_aead_seal(&aead, text, length, text + length);
	record_done(seal);
	return O2G_RECORD_HEAD + length + O2G_RECORD_TAG;
}

s32 o2g_record_size(const u8 *record, u32 have)
{
	u32 length;

	if (have < O2G_RECORD_HEAD)
		return 0;
	__builtin_memcpy(&length, record, O2G_RECORD_HEAD);
	if (!length || length > O2G_RECORD_TEXT)
		return -LINUX_EPROTO;
	return (s32)(O2G_RECORD_HEAD + length + O2G_RECORD_TAG);
}

s32 o2g_record_open(struct o2g_seal *seal, u8 *record, u32 size)
{
	struct o2g_aead aead = record_aead(seal, record);
	u8 *text = record + O2G_RECORD_HEAD;
	u32 length;
	int r;

	if (o2g_record_size(record, size) != (s32)size || !size)
		return -LINUX_EPROTO;
	length = size - O2G_RECORD_HEAD - O2G_RECORD_TAG;
	r = o2g_aead_open(&aead, text, length, text + length);
	if (r)
		return r;
	record_done(seal);
	return (s32)length;
}
