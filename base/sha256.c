/* SPDX-License-Identifier: MIT */
/* SHA-256 as FIPS 180-4 defines it, for any CPU. */
#include "base/sha256.h"

/*
 * The first 32 bits of the fractional parts of the cube roots of the first 64
 * primes (FIPS 180-4, 4.2.2). Aligned so that SIMD code can load four at once.
 */
const u32 skep_sha256_round[64] __attribute__((aligned(16))) = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static u32 rotate_right(u32 x, u32 bits)
{
	return x >> bits | x << (32 - bits);
}

static u32 load_be32(const u8 *p)
{
	return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}

static void expand_block(u32 w[64], const u8 *block)
{
	u32 i, a, b;

	for (i = 0; i < 16; i++)
		w[i] = load_be32(block + 4 * i);
	for (; i < 64; i++) {
		a = w[i - 15];
		b = w[i - 2];
		w[i] = w[i - 16] + w[i - 7] +
		       (rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) +
		       (rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
	}
}

static void compress_block(u32 state[8], const u8 *block)
{
	u32 w[64], v[8], i, t1, t2;

	expand_block(w, block);
	for (i = 0; i < 8; i++)
		v[i] = state[i];
	for (i = 0; i < 64; i++) {
		t1 = rotate_right(v[4], 6) ^ rotate_right(v[4], 11) ^
		     rotate_right(v[4], 25);
		t1 += v[7] + ((v[4] & v[5]) ^ (~v[4] & v[6])) +
		      skep_sha256_round[i] + w[i];
		t2 = rotate_right(v[0], 2) ^ rotate_right(v[0], 13) ^
		     rotate_right(v[0], 22);
		t2 += (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
		v[7] = v[6];
		v[6] = v[5];
		v[5] = v[4];
		v[4] = v[3] + t1;
		v[3] = v[2];
		v[2] = v[1];
		v[1] = v[0];
		v[0] = t1 + t2;
	}
	for (i = 0; i < 8; i++)
		state[i] += v[i];
}

void skep_sha256_blocks(u32 state[8], const u8 *from, u64 count)
{
	for (; count; count--, from += SKEP_SHA256_BLOCK)
		compress_block(state, from);
}

void skep_sha256_init(struct skep_sha256 *s)
{
	static const u32 start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
				     0xa54ff53a, 0x510e527f, 0x9b05688c,
				     0x1f83d9ab, 0x5be0cd19};

	__builtin_memcpy(s->state, start, sizeof(start));
	s->length = 0;
	s->blocks = skep_sha256_blocks;
}

/* Complete blocks are hashed in place; a partial block is kept in s->block. */
void skep_sha256_update(struct skep_sha256 *s, const void *from, u64 length)
{
	u64 have = s->length % SKEP_SHA256_BLOCK, n;
	const u8 *p = from;

	s->length += length;
	for (; length; p += n, length -= n) {
		if (!have && length >= SKEP_SHA256_BLOCK) {
			n = length - length % SKEP_SHA256_BLOCK;
			s->blocks(s->state, p, n / SKEP_SHA256_BLOCK);
			continue;
		}
		n = SKEP_SHA256_BLOCK - have;
		if (n > length)
			n = length;
		__builtin_memcpy(s->block + have, p, n);
		have = (have + n) % SKEP_SHA256_BLOCK;
		if (!have)
			s->blocks(s->state, s->block, 1);
	}
}

void skep_sha256_final(struct skep_sha256 *s, u8 out[SKEP_SHA256_SIZE])
{
	static const u8 padding[SKEP_SHA256_BLOCK] = {0x80};
	u64 bits = s->length * 8, have = s->length % SKEP_SHA256_BLOCK;
	u8 length[8];
	u32 i;

	skep_sha256_update(s, padding, (have < 56 ? 56 : 120) - have);
	for (i = 0; i < 8; i++)
		length[i] = (u8)(bits >> (56 - 8 * i));
	skep_sha256_update(s, length, 8);
	for (i = 0; i < SKEP_SHA256_SIZE; i++)
		out[i] = (u8)(s->state[i / 4] >> (24 - i % 4 * 8));
}
