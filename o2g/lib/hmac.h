/* SPDX-License-Identifier: MIT */
/* HMAC-SHA-256 (RFC 2104) for the opening of connections and for reports. */
#ifndef O2G_LIB_HMAC_H
#define O2G_LIB_HMAC_H

#include "base/sha256.h"
#include <o2g/core/mac.h>

struct o2g_hmac {
	struct skep_sha256 inner;
	u8 outer[SKEP_SHA256_BLOCK]; /* outer padded key, for the second pass */
};

void o2g_hmac_init(struct o2g_hmac *hmac, const void *key, u64 length);
void o2g_hmac_update(struct o2g_hmac *hmac, const void *data, u64 length);
void o2g_hmac_final(struct o2g_hmac *hmac, u8 out[SKEP_SHA256_SIZE]);

#endif
