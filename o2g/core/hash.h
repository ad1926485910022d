/* SPDX-License-Identifier: MIT */
/* SipHash (Aumasson and Bernstein, 2012) of whole 8-byte words. */
#ifndef O2G_CORE_HASH_H
#define O2G_CORE_HASH_H

#include <skep/types.h>

struct o2g_hash_key {
	u64 word[2];
};

/* `inner` rounds per word and `outer` at the end: 1 and 3 against floods of
 * chosen keys, 2 and 4 in the published test vectors. */
u64 o2g_hash_words(const struct o2g_hash_key *key, const u64 *word, u32 count,
		   int inner, int outer);

#endif
