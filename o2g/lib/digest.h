/* SPDX-License-Identifier: MIT */
/*
 * SHA-256 (FIPS 180-4) and HMAC (RFC 2104) for the opening of connections.
 *
 * Our own, since this code lives inside other people's MPI programs: a crypto
 * library beside the program's own version of it would clash over symbols,
 * fork handlers and global state. The code is small, has the standards' test
 * vectors, and handles some hundred bytes per connection.
 */
#ifndef O2G_LIB_DIGEST_H
#define O2G_LIB_DIGEST_H

#include <skep/types.h>

#define O2G_DIGEST_SIZE 32
#define O2G_DIGEST_BLOCK 64

struct o2g_digest {
	u32 state[8];
	u64 length; /* bytes taken so far */
	u8 block[O2G_DIGEST_BLOCK];
};

void o2g_digest_start(struct o2g_digest *digest);
void o2g_digest_add(struct o2g_digest *digest, const void *data, u64 length);
void o2g_digest_end(struct o2g_digest *digest, u8 out[O2G_DIGEST_SIZE]);

struct o2g_hmac {
	struct o2g_digest inner;
	u8 outer[O2G_DIGEST_BLOCK]; /* the key, padded, for the second pass */
};

void o2g_hmac_start(struct o2g_hmac *hmac, const void *key, u64 length);
void o2g_hmac_add(struct o2g_hmac *hmac, const void *data, u64 length);
void o2g_hmac_end(struct o2g_hmac *hmac, u8 out[O2G_DIGEST_SIZE]);

/* Takes the same time wherever the first difference is. */
int o2g_digest_equal(const u8 *a, const u8 *b, u64 length);

#endif
