/* SPDX-License-Identifier: MIT */
/* SipHash (Aumasson and Bernstein, 2012) of little-endian words, and
 * multiply-shift hashing (Dietzfelbinger, 1996). */
#ifndef O2G_CORE_HASH_H
#define O2G_CORE_HASH_H

#include <skep/types.h>

struct o2g_hash_key {
	u64 word[2];
};

/* Resists floods of chosen keys: SipHash with 1 round per word and 3 at the
 * end, of two words of 8 bytes and one of 4. */
u64 o2g_hash_short(const struct o2g_hash_key *key, u64 first, u64 second,
		   u32 third);
/* SipHash with `inner` rounds per word and `outer` at the end. The published
 * test vectors have 2 and 4, and check the same code. */
u64 o2g_hash_words(const struct o2g_hash_key *key, const u64 *word, u32 count,
		   int inner, int outer);

#define O2G_LIGHT_WORDS 6

struct o2g_light_key {
	u64 word[O2G_LIGHT_WORDS]; /* random */
};

/* Takes a sixth of the instructions of o2g_hash_short(). Two chosen inputs
 * collide in 32 bits with a probability of 2^-32. It does not resist an
 * attacker who can measure which inputs collide. */
static inline u64 o2g_hash_light(const struct o2g_light_key *key, u64 first,
				 u64 second, u32 third)
{
	const u64 *word = key->word;

	return (word[0] + word[1] * (u32)first + word[2] * (first >> 32) +
		word[3] * (u32)second + word[4] * (second >> 32) +
		word[5] * third) >>
	       32;
}

#endif
