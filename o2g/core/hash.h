/* SPDX-License-Identifier: MIT */
/* SipHash (Aumasson and Bernstein, 2012), of little-endian words, and
 * multiply-shift (Dietzfelbinger, 1996). */
#ifndef O2G_CORE_HASH_H
#define O2G_CORE_HASH_H

#include <skep/types.h>

struct o2g_hash_key {
	u64 word[2];
};

/* Against floods of chosen keys: 1 round per word and 3 at the end, of two
 * words of 8 bytes and one of 4. */
u64 o2g_hash_short(const struct o2g_hash_key *key, u64 first, u64 second,
		   u32 third);
/* `inner` rounds per word and `outer` at the end: 2 and 4 in the published test
 * vectors, which the same code has to give. */
u64 o2g_hash_words(const struct o2g_hash_key *key, const u64 *word, u32 count,
		   int inner, int outer);

#define O2G_LIGHT_WORDS 6

struct o2g_light_key {
	u64 word[O2G_LIGHT_WORDS]; /* random */
};

/* A sixth of the instructions of o2g_hash_short(). Two chosen inputs have the
 * same 32 bits with a probability of 2^-32; it is no defence against whoever
 * can tell by time which inputs collide. */
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
