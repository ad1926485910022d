/* SPDX-License-Identifier: MIT */
/*
 * SipHash, implemented from its description: four words of state, mixed by
 * additions, rotations and exclusive ors. No state, no side effects. The
 * functions that are called for each message have their rounds inlined, so that
 * the state stays in registers.
 */
#include "hash.h"

#define IN_LINE static inline __attribute__((always_inline))

struct state {
	u64 a, b, c, d;
};

IN_LINE u64 rotate_left(u64 x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

IN_LINE void mix_rounds(struct state *s, int rounds)
{
	while (rounds-- > 0) {
		s->a += s->b;
		s->c += s->d;
		s->b = rotate_left(s->b, 13) ^ s->a;
		s->d = rotate_left(s->d, 16) ^ s->c;
		s->a = rotate_left(s->a, 32);
		s->c += s->b;
		s->a += s->d;
		s->b = rotate_left(s->b, 17) ^ s->c;
		s->d = rotate_left(s->d, 21) ^ s->a;
		s->c = rotate_left(s->c, 32);
	}
}

IN_LINE void absorb_word(struct state *s, u64 word, int rounds)
{
	s->d ^= word;
	mix_rounds(s, rounds);
	s->a ^= word;
}

IN_LINE struct state start_state(const struct o2g_hash_key *key)
{
	/* "somepseudorandomlygeneratedbytes" */
	return (struct state){key->word[0] ^ 0x736f6d6570736575ull,
			      key->word[1] ^ 0x646f72616e646f6dull,
			      key->word[0] ^ 0x6c7967656e657261ull,
			      key->word[1] ^ 0x7465646279746573ull};
}

/* `last`: the bytes after the last full word, and the length in the top
 * byte. */
IN_LINE u64 finish_state(struct state *s, u64 last, int inner, int outer)
{
	absorb_word(s, last, inner);
	s->c ^= 0xff;
	mix_rounds(s, outer);
	return s->a ^ s->b ^ s->c ^ s->d;
}

u64 o2g_hash_words(const struct o2g_hash_key *key, const u64 *word, u32 count,
		   int inner, int outer)
{
	struct state s = start_state(key);

	for (u32 i = 0; i < count; i++)
		absorb_word(&s, word[i], inner);
	return finish_state(&s, (u64)count * 8 << 56, inner, outer);
}

u64 o2g_hash_short(const struct o2g_hash_key *key, u64 first, u64 second,
		   u32 third)
{
	struct state s = start_state(key);

	absorb_word(&s, first, 1);
	absorb_word(&s, second, 1);
	return finish_state(&s, 20ull << 56 | third, 1, 3);
}
