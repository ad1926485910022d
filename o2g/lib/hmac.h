/* SPDX-License-Identifier: MIT */
/* HMAC-SHA-256 (RFC 2104) for the opening of connections and for reports. */
#ifndef O2G_LIB_HMAC_H
#define O2G_LIB_HMAC_H

#include "base/sha256.h"

struct o2g_hmac {
	struct skep_sha256 inner;
	u8 outer[SKEP_SHA256_BLOCK]; /* outer padded key, for the second pass */
};

void o2g_hmac_init(struct o2g_hmac *hmac, const void *key, u64 length);
void o2g_hmac_update(struct o2g_hmac *hmac, const void *data, u64 length);
void o2g_hmac_final(struct o2g_hmac *hmac, u8 out[SKEP_SHA256_SIZE]);

/* Constant time: it does not depend on where the first difference is. */
int o2g_mac_equal(const u8 *a, const u8 *b, u64 length);

#endif
