/* SPDX-License-Identifier: MIT */
/*
 * Authenticated encryption. The tag is of the encrypted text, so it is verified
 * before a byte is decrypted. Block 0 of the key stream is the tag's key, the
 * text's stream begins with block 1. Four blocks are made at a time, so most
 * short texts need only one step for both.
 */
#include "aead.h"
#include "mac.h"
#include "base/errno.h"

#define BLOCK 64u
#define BEGIN (3 * BLOCK) /* bytes of text in the first step */

/* The first blocks of the stream, as many as this text needs. */
static void make_first(const struct o2g_aead *aead, u64 length,
		       u8 stream[BLOCK + BEGIN])
{
	__builtin_memset(stream, 0, BLOCK + BEGIN);
	o2g_chacha_xor(aead->key, aead->nonce, 0, stream,
		       BLOCK + (length < BEGIN ? length : BEGIN));
}

static void xor_text(const struct o2g_aead *aead, const u8 *first, u8 *text,
		     u64 length)
{
	const u64 begin = length < BEGIN ? length : BEGIN;

	for (u64 i = 0; i < begin; i++)
		text[i] ^= first[BLOCK + i];
	if (length > BEGIN)
		o2g_chacha_xor(aead->key, aead->nonce, 1 + BEGIN / BLOCK,
			       text + BEGIN, length - BEGIN);
}

static void make_tag(const struct o2g_aead *aead, const u8 *first,
		     const u8 *text, u64 length, u8 tag[O2G_AEAD_TAG])
{
	const u64 lengths[2] = {aead->head_length, length};
	struct o2g_poly poly;

	o2g_poly_start(&poly, first);
	o2g_poly_padded(&poly, aead->head, aead->head_length);
	o2g_poly_padded(&poly, text, length);
	o2g_poly_padded(&poly, (const u8 *)lengths, sizeof(lengths));
	o2g_poly_finish(&poly, tag);
}

void o2g_aead_seal(const struct o2g_aead *aead, u8 *text, u64 length,
		   u8 tag[O2G_AEAD_TAG])
{
	u8 first[BLOCK + BEGIN];

	make_first(aead, length, first);
	xor_text(aead, first, text, length);
	make_tag(aead, first, text, length, tag);
}

int o2g_aead_open(const struct o2g_aead *aead, u8 *text, u64 length,
		  const u8 tag[O2G_AEAD_TAG])
{
	u8 first[BLOCK + BEGIN], right[O2G_AEAD_TAG];

	make_first(aead, length, first);
	make_tag(aead, first, text, length, right);
	if (!o2g_mac_equal(right, tag, sizeof(right)))
		return -LINUX_EBADMSG;
	xor_text(aead, first, text, length);
	return 0;
}
