/* SPDX-License-Identifier: MIT */
/* Authenticated encryption. The tag is of the encrypted text, so it is verified
 * before a byte is decrypted. */
#include "aead.h"
#include "base/errno.h"

static void make_tag(const struct o2g_aead *aead, const u8 *text, u64 length,
		     u8 tag[O2G_AEAD_TAG])
{
	const u64 lengths[2] = {aead->head_length, length};
	u8 key[O2G_POLY_KEY] = {0};
	struct o2g_poly poly;

	/* Block 0 of the key stream is the tag's key; the text's is block 1. */
	o2g_chacha_xor(aead->key, aead->nonce, 0, key, sizeof(key));
	o2g_poly_start(&poly, key);
	o2g_poly_padded(&poly, aead->head, aead->head_length);
	o2g_poly_padded(&poly, text, length);
	o2g_poly_padded(&poly, (const u8 *)lengths, sizeof(lengths));
	o2g_poly_finish(&poly, tag);
}

void o2g_aead_seal(const struct o2g_aead *aead, u8 *text, u64 length,
		   u8 tag[O2G_AEAD_TAG])
{
	o2g_chacha_xor(aead->key, aead->nonce, 1, text, length);
	make_tag(aead, text, length, tag);
}

/* Takes the same time wherever the tags differ. */
static int same_tag(const u8 *a, const u8 *b)
{
	u8 differ = 0;

	for (int i = 0; i < O2G_AEAD_TAG; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

int o2g_aead_open(const struct o2g_aead *aead, u8 *text, u64 length,
		  const u8 tag[O2G_AEAD_TAG])
{
	u8 right[O2G_AEAD_TAG];

	make_tag(aead, text, length, right);
	if (!same_tag(right, tag))
		return -LINUX_EBADMSG;
	o2g_chacha_xor(aead->key, aead->nonce, 1, text, length);
	return 0;
}
