// SPDX-License-Identifier: MIT
/*
 * SHA-256 and HMAC. Pure functions on their arguments; no lock, no state.
 */
#include "digest.h"

#include <string.h>

/* The first 32 bits of the fractions of the cube roots of the first primes. */
static const u32 round_constant[64] = {
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
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static u32 rotate_right(u32 x, int bits)
{
	return x >> bits | x << (32 - bits);
}

static u32 load_be(const u8 *p)
{
	return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}

static void expand_block(u32 w[64], const u8 *block)
{
	for (int i = 0; i < 16; i++)
		w[i] = load_be(block + 4 * i);
	for (int i = 16; i < 64; i++) {
		u32 a = w[i - 15], b = w[i - 2];

		w[i] = w[i - 16] + w[i - 7] +
		       (rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) +
		       (rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
	}
}

static void compress_block(u32 state[8], const u8 *block)
{
	u32 w[64], s[8];

	expand_block(w, block);
	memcpy(s, state, sizeof(s));
	for (int i = 0; i < 64; i++) {
		u32 high = rotate_right(s[4], 6) ^ rotate_right(s[4], 11) ^
			   rotate_right(s[4], 25);
		u32 choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
		u32 one = s[7] + high + choice + round_constant[i] + w[i];
		u32 low = rotate_right(s[0], 2) ^ rotate_right(s[0], 13) ^
			  rotate_right(s[0], 22);
		u32 most = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);

		memmove(s + 1, s, 7 * sizeof(s[0]));
		s[4] += one;
		s[0] = one + low + most;
	}
	for (int i = 0; i < 8; i++)
		state[i] += s[i];
}

void o2g_digest_start(struct o2g_digest *digest)
{
	static const u32 first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
				     0xa54ff53a, 0x510e527f, 0x9b05688c,
				     0x1f83d9ab, 0x5be0cd19};

	memcpy(digest->state, first, sizeof(first));
	digest->length = 0;
}

void o2g_digest_add(struct o2g_digest *digest, const void *data, u64 length)
{
	const u8 *from = data;

	while (length > 0) {
		u64 at = digest->length % O2G_DIGEST_BLOCK;
		u64 n = O2G_DIGEST_BLOCK - at;

		if (n > length)
			n = length;
		memcpy(digest->block + at, from, n);
		digest->length += n;
		if (at + n == O2G_DIGEST_BLOCK)
			compress_block(digest->state, digest->block);
		from += n;
		length -= n;
	}
}

void o2g_digest_end(struct o2g_digest *digest, u8 out[O2G_DIGEST_SIZE])
{
	static const u8 padding[O2G_DIGEST_BLOCK] = {0x80};
	u64 bits = digest->length * 8;
	u64 at = digest->length % O2G_DIGEST_BLOCK;
	u8 size[8];

	o2g_digest_add(digest, padding, (at < 56 ? 56 : 120) - at);
	for (int i = 0; i < 8; i++)
		size[i] = (u8)(bits >> (56 - 8 * i));
	o2g_digest_add(digest, size, sizeof(size));
	for (int i = 0; i < O2G_DIGEST_SIZE; i++)
		out[i] = (u8)(digest->state[i / 4] >> (24 - i % 4 * 8));
}

void o2g_hmac_start(struct o2g_hmac *hmac, const void *key, u64 length)
{
	u8 block[O2G_DIGEST_BLOCK] = {0};

	if (length <= sizeof(block)) {
		memcpy(block, key, length);
	} else {
		o2g_digest_start(&hmac->inner);
		o2g_digest_add(&hmac->inner, key, length);
		o2g_digest_end(&hmac->inner, block);
	}
	for (int i = 0; i < O2G_DIGEST_BLOCK; i++) {
		hmac->outer[i] = block[i] ^ 0x5c;
		block[i] ^= 0x36;
	}
	o2g_digest_start(&hmac->inner);
	o2g_digest_add(&hmac->inner, block, sizeof(block));
}

void o2g_hmac_add(struct o2g_hmac *hmac, const void *data, u64 length)
{
	o2g_digest_add(&hmac->inner, data, length);
}

void o2g_hmac_end(struct o2g_hmac *hmac, u8 out[O2G_DIGEST_SIZE])
{
	u8 inner[O2G_DIGEST_SIZE];

	o2g_digest_end(&hmac->inner, inner);
	o2g_digest_start(&hmac->inner);
	o2g_digest_add(&hmac->inner, hmac->outer, sizeof(hmac->outer));
	o2g_digest_add(&hmac->inner, inner, sizeof(inner));
	o2g_digest_end(&hmac->inner, out);
}

int o2g_digest_equal(const u8 *a, const u8 *b, u64 length)
{
	u8 differ = 0;

	for (u64 i = 0; i < length; i++)
		differ |= a[i] ^ b[i];
	return differ == 0;
}
