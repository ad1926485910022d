// SPDX-License-Identifier: MIT
/* HMAC-SHA-256. Pure functions on their arguments; no lock, no state. */
#include "hmac.h"

#include <string.h>

void o2g_hmac_init(struct o2g_hmac *hmac, const void *key, u64 length)
{
	u8 block[SKEP_SHA256_BLOCK] = {0};

	if (length <= sizeof(block)) {
		memcpy(block, key, length);
	} else {
		skep_sha256_init(&hmac->inner);
		skep_sha256_update(&hmac->inner, key, length);
		skep_sha256_final(&hmac->inner, block);
	}
	for (int i = 0; i < SKEP_SHA256_BLOCK; i++) {
		hmac->outer[i] = block[i] ^ 0x5c;
		block[i] ^= 0x36;
	}
	skep_sha256_init(&hmac->inner);
	skep_sha256_update(&hmac->inner, block, sizeof(block));
}

void o2g_hmac_update(struct o2g_hmac *hmac, const void *data, u64 length)
{
	skep_sha256_update(&hmac->inner, data, length);
}

void o2g_hmac_final(struct o2g_hmac *hmac, u8 out[SKEP_SHA256_SIZE])
{
	u8 inner[SKEP_SHA256_SIZE];

	skep_sha256_final(&hmac->inner, inner);
	skep_sha256_init(&hmac->inner);
	skep_sha256_update(&hmac->inner, hmac->outer, sizeof(hmac->outer));
	skep_sha256_update(&hmac->inner, inner, sizeof(inner));
	skep_sha256_final(&hmac->inner, out);
}
