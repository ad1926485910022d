/* SPDX-License-Identifier: MIT */
/*
 * ChaCha20. No table and no branch depends on the key or the text, so its time
 * tells nothing about them. With vector registers four blocks are computed at a
 * time; code that may use only general registers computes one.
 */
#include "chacha.h"

#define BLOCK 64u
#define WORDS 16

#ifdef __SSE2__
#define BLOCKS 4u
typedef u32 word __attribute__((vector_size(16)));
typedef u64 pair __attribute__((vector_size(16)));
#else
#define BLOCKS 1u
typedef u32 word;
#endif

#define INLINE static inline __attribute__((always_inline))

INLINE word rotate_left(word a, int by)
{
	return a << by | a >> (32 - by);
}

INLINE void quarter_round(word x[WORDS], int a, int b, int c, int d)
{
	x[a] += x[b];
	x[d] = rotate_left(x[d] ^ x[a], 16);
	x[c] += x[d];
	x[b] = rotate_left(x[b] ^ x[c], 12);
	x[a] += x[b];
	x[d] = rotate_left(x[d] ^ x[a], 8);
	x[c] += x[d];
	x[b] = rotate_left(x[b] ^ x[c], 7);
}

INLINE void run_rounds(word x[WORDS])
{
	for (int i = 0; i < 10; i++) {
		quarter_round(x, 0, 4, 8, 12);
		quarter_round(x, 1, 5, 9, 13);
		quarter_round(x, 2, 6, 10, 14);
		quarter_round(x, 3, 7, 11, 15);
		quarter_round(x, 0, 5, 10, 15);
		quarter_round(x, 1, 6, 11, 12);
		quarter_round(x, 2, 7, 8, 13);
		quarter_round(x, 3, 4, 9, 14);
	}
}

#ifdef __SSE2__

INLINE word spread_word(u32 a)
{
	return (word){a, a, a, a};
}

INLINE word count_blocks(u32 counter)
{
	return spread_word(counter) + (word){0, 1, 2, 3};
}

/* x[first .. first + 3] have these words of four blocks; these words are put
 * behind one another in the stream of each block. */
INLINE void store_words(u8 *out, const word *x, int first)
{
	const word *w = x + first;
	const word a = __builtin_shufflevector(w[0], w[1], 0, 4, 1, 5);
	const word b = __builtin_shufflevector(w[2], w[3], 0, 4, 1, 5);
	const word c = __builtin_shufflevector(w[0], w[1], 2, 6, 3, 7);
	const word d = __builtin_shufflevector(w[2], w[3], 2, 6, 3, 7);
	const pair row[4] = {
		__builtin_shufflevector((pair)a, (pair)b, 0, 2),
		__builtin_shufflevector((pair)a, (pair)b, 1, 3),
		__builtin_shufflevector((pair)c, (pair)d, 0, 2),
		__builtin_shufflevector((pair)c, (pair)d, 1, 3),
	};

	for (u32 i = 0; i < BLOCKS; i++)
		__builtin_memcpy(out + i * BLOCK + 4 * first, &row[i], 16);
}

#else

INLINE word spread_word(u32 a)
{
	return a;
}

INLINE word count_blocks(u32 counter)
{
	return counter;
}

INLINE void store_words(u8 *out, const word *x, int first)
{
	__builtin_memcpy(out + 4 * first, x + first, 16);
}

#endif

static void make_stream(const u32 state[WORDS], u8 out[BLOCKS * BLOCK])
{
	word x[WORDS], start[WORDS];

	for (int i = 0; i < WORDS; i++)
		start[i] = spread_word(state[i]);
	start[12] = count_blocks(state[12]);
	for (int i = 0; i < WORDS; i++)
		x[i] = start[i];
	run_rounds(x);
	for (int i = 0; i < WORDS; i++)
		x[i] += start[i];
	for (int i = 0; i < WORDS; i += 4)
		store_words(out, x, i);
}

static void xor_bytes(u8 *text, const u8 *stream, u64 length)
{
	u64 at = 0;

	for (; at + 8 <= length; at += 8) {
		u64 a, b;

		__builtin_memcpy(&a, text + at, 8);
		__builtin_memcpy(&b, stream + at, 8);
		a ^= b;
		__builtin_memcpy(text + at, &a, 8);
	}
	for (; at < length; at++)
		text[at] ^= stream[at];
}

void o2g_chacha_xor(const u8 key[O2G_CHACHA_KEY],
		    const u8 nonce[O2G_CHACHA_NONCE], u32 counter, u8 *text,
		    u64 length)
{
	/* "expand 32-byte k" */
	u32 state[WORDS] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
	u8 stream[BLOCKS * BLOCK];

	__builtin_memcpy(state + 4, key, O2G_CHACHA_KEY);
	__builtin_memcpy(state + 13, nonce, O2G_CHACHA_NONCE);
	state[12] = counter;
	while (length > 0) {
		const u64 n = length < sizeof(stream) ? length : sizeof(stream);

		make_stream(state, stream);
		xor_bytes(text, stream, n);
		state[12] += BLOCKS;
		text += n;
		length -= n;
	}
}
