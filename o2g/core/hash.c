/* SPDX-License-Identifier: MIT */
/*
 * SipHash from its description: four words of state, mixed by additions,
 * rotations and exclusive ors. Pure, no state.
 */
#include "hash.h"

static u64 rotate(u64 x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

static void mix(u64 v[4], int rounds)
{
	while (rounds-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

static void absorb(u64 v[4], u64 word, int rounds)
{
	v[3] ^= word;
	mix(v, rounds);
	v[0] ^= word;
}

u64 o2g_hash_words(const struct o2g_hash_key *key, const u64 *word, u32 count,
		   int inner, int outer)
{
	/* "somepseudorandomlygeneratedbytes" */
	u64 v[4] = {key->word[0] ^ 0x736f6d6570736575ull,
		    key->word[1] ^ 0x646f72616e646f6dull,
		    key->word[0] ^ 0x6c7967656e657261ull,
		    key->word[1] ^ 0x7465646279746573ull};

	for (u32 i = 0; i < count; i++)
		absorb(v, word[i], inner);
	absorb(v, (u64)count * 8 << 56, inner);
	v[2] ^= 0xff;
	mix(v, outer);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}
