/* SPDX-License-Identifier: MIT */
/*
 * SHA-256 (FIPS 180-4) of data that arrives in parts. No I/O, no locks, no
 * global state.
 *
 * It is our own implementation, because it also runs where no library may be
 * linked: in bee, which has no libc, and in libskepworker.a and libo2g, which
 * are linked into users' programs, where a crypto library could clash with the
 * program's own version of it. It hashes a few hundred bytes per connection;
 * for whole files the caller may install a faster `blocks` function.
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

/* Selects skep_sha256_blocks; afterwards the caller may install a faster
 * function. */
void skep_sha256_init(struct skep_sha256 *s);
void skep_sha256_update(struct skep_sha256 *s, const void *from, u64 length);
/* Writes the digest. After this only skep_sha256_init() is allowed. */
void skep_sha256_final(struct skep_sha256 *s, u8 out[SKEP_SHA256_SIZE]);

skep_sha256_blocks_fn skep_sha256_blocks; /* for any CPU */
extern const u32 skep_sha256_round[64];	  /* the round constants */

#endif
