/* SPDX-License-Identifier: MIT */
/* SHA-256 (FIPS 180-4) over bytes that come in parts. No I/O, no lock. */
#ifndef GRID_CORE_SHA256_H
#define GRID_CORE_SHA256_H

#include <skep/types.h>

struct grid_sha256 {
	u32 state[8];
	u64 bytes; /* added so far */
	u8 block[64];
};

void grid_sha256_init(struct grid_sha256 *s);
void grid_sha256_add(struct grid_sha256 *s, const void *bytes, u64 len);
void grid_sha256_end(struct grid_sha256 *s, u8 out[32]);

#endif
