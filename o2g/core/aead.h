/* SPDX-License-Identifier: MIT */
/* Authenticated encryption: AEAD_CHACHA20_POLY1305 (RFC 8439, section 2.8). */
#ifndef O2G_CORE_AEAD_H
#define O2G_CORE_AEAD_H

#include "chacha.h"
#include "poly.h"

#define O2G_AEAD_KEY O2G_CHACHA_KEY
#define O2G_AEAD_NONCE O2G_CHACHA_NONCE
#define O2G_AEAD_TAG O2G_POLY_TAG

struct o2g_aead {
	const u8 *key;
	u8 nonce[O2G_AEAD_NONCE]; /* never twice with one key */
	const u8 *head;		  /* authenticated, not encrypted */
	u64 head_length;
};

/* Encrypts the text in place and computes its tag. */
void o2g_aead_seal(const struct o2g_aead *aead, u8 *text, u64 length,
		   u8 tag[O2G_AEAD_TAG]);
/* Decrypts in place: 0, or -EBADMSG if the tag is wrong; then the text was not
 * touched. */
int o2g_aead_open(const struct o2g_aead *aead, u8 *text, u64 length,
		  const u8 tag[O2G_AEAD_TAG]);

#endif
