/* SPDX-License-Identifier: MIT */
/*
 * SHA-256 (FIPS 180-4) over bytes that come in parts. No I/O, no lock, no state
 * but the caller's.
 *
 * Our own, since it runs where no library may: in bee, which has no libc; in
 * libskepworker.a and libo2g, which live inside other people's programs, where
 * a crypto library would clash with the program's own version of it. It hashes
 * some hundred bytes per connection, or files behind a faster `blocks`.
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <skep/types.h>

#define SKEP_SHA256_SIZE 32
#define SKEP_SHA256_BLOCK 64

/* Compresses `count` blocks of 64 bytes into the state. */
typedef void skep_sha256_blocks_fn(u32 state[8], const u8 *from, u64 count);

struct skep_sha256 {
	u32 state[8];
	u64 length; /* bytes added so far */
	skep_sha256_blocks_fn *blocks;
	u8 block[SKEP_SHA256_BLOCK];
};

/* Begins with skep_sha256_blocks; the caller may set a faster one then. */
void skep_sha256_init(struct skep_sha256 *s);
void skep_sha256_update(struct skep_sha256 *s, const void *from, u64 length);
/* Ends it: after this only skep_sha256_init is allowed. */
void skep_sha256_final(struct skep_sha256 *s, u8 out[SKEP_SHA256_SIZE]);

skep_sha256_blocks_fn skep_sha256_blocks; /* for any CPU */
extern const u32 skep_sha256_round[64];	  /* the constants of the rounds */

#endif
