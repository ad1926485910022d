/* SPDX-License-Identifier: MIT */
/*
 * ChaCha20. No table and no branch depends on the key or the text, so its time
 * tells nothing about them. With vector registers four blocks are computed at a
 * time, or eight if the processor has wide ones; code that may use only general
 * registers computes one.
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

#if defined(__SSE2__) && !defined(O2G_CHACHA_NARROW)

/* Eight blocks in the registers of AVX2. Values of these types are not passed
 * between functions, because callers are compiled for other registers. */
#define WIDE_BLOCKS 8u
#define WIDE __attribute__((target("avx2")))

typedef u32 wide __attribute__((vector_size(32)));
typedef u64 wide_pairs __attribute__((vector_size(32)));
typedef u8 wide_bytes __attribute__((vector_size(32)));

#define SWAP_BYTES(v, a, b, c, d)                                              \
	((wide)__builtin_shufflevector(                                        \
		(wide_bytes)(v), (wide_bytes)(v), a, b, c, d, 4 + a, 4 + b,    \
		4 + c, 4 + d, 8 + a, 8 + b, 8 + c, 8 + d, 12 + a, 12 + b,      \
		12 + c, 12 + d, 16 + a, 16 + b, 16 + c, 16 + d, 20 + a,        \
		20 + b, 20 + c, 20 + d, 24 + a, 24 + b, 24 + c, 24 + d,        \
		28 + a, 28 + b, 28 + c, 28 + d))
#define WIDE_QUARTER(a, b, c, d)                                               \
	do {                                                                   \
		x[a] += x[b];                                                  \
		x[d] = SWAP_BYTES(x[d] ^ x[a], 2, 3, 0, 1);                    \
		x[c] += x[d];                                                  \
		x[b] ^= x[c];                                                  \
		x[b] = x[b] << 12 | x[b] >> 20;                                \
		x[a] += x[b];                                                  \
		x[d] = SWAP_BYTES(x[d] ^ x[a], 3, 0, 1, 2);                    \
		x[c] += x[d];                                                  \
		x[b] ^= x[c];                                                  \
		x[b] = x[b] << 7 | x[b] >> 25;                                 \
	} while (0)

/* As store_words(), for blocks 0 to 3 in the lower halves, 4 to 7 above. */
WIDE static void store_wide(u8 *out, const wide *w)
{
	const wide a =
		__builtin_shufflevector(w[0], w[1], 0, 8, 1, 9, 4, 12, 5, 13);
	const wide b =
		__builtin_shufflevector(w[2], w[3], 0, 8, 1, 9, 4, 12, 5, 13);
	const wide c =
		__builtin_shufflevector(w[0], w[1], 2, 10, 3, 11, 6, 14, 7, 15);
	const wide d =
		__builtin_shufflevector(w[2], w[3], 2, 10, 3, 11, 6, 14, 7, 15);
	const wide_pairs row[4] = {
		__builtin_shufflevector((wide_pairs)a, (wide_pairs)b, 0, 4, 2,
					6),
		__builtin_shufflevector((wide_pairs)a, (wide_pairs)b, 1, 5, 3,
					7),
		__builtin_shufflevector((wide_pairs)c, (wide_pairs)d, 0, 4, 2,
					6),
		__builtin_shufflevector((wide_pairs)c, (wide_pairs)d, 1, 5, 3,
					7),
	};

	for (u32 i = 0; i < 4; i++) {
		__builtin_memcpy(out + i * BLOCK, &row[i], 16);
		__builtin_memcpy(out + (i + 4) * BLOCK,
				 (const u8 *)&row[i] + 16, 16);
	}
}

WIDE static void make_wide(const u32 state[WORDS], u8 out[WIDE_BLOCKS * BLOCK])
{
	wide x[WORDS], start[WORDS];

	for (int i = 0; i < WORDS; i++)
		start[i] = (wide){0} + state[i];
	start[12] += (wide){0, 1, 2, 3, 4, 5, 6, 7};
	for (int i = 0; i < WORDS; i++)
		x[i] = start[i];
	for (int i = 0; i < 10; i++) {
		WIDE_QUARTER(0, 4, 8, 12);
		WIDE_QUARTER(1, 5, 9, 13);
		WIDE_QUARTER(2, 6, 10, 14);
		WIDE_QUARTER(3, 7, 11, 15);
		WIDE_QUARTER(0, 5, 10, 15);
		WIDE_QUARTER(1, 6, 11, 12);
		WIDE_QUARTER(2, 7, 8, 13);
		WIDE_QUARTER(3, 4, 9, 14);
	}
	for (int i = 0; i < WORDS; i++)
		x[i] += start[i];
	for (int i = 0; i < WORDS; i += 4)
		store_wide(out + 4 * i, x + i);
}

static int has_wide(void)
{
	return __builtin_cpu_supports("avx2");
}

#else

#define WIDE_BLOCKS BLOCKS
#define make_wide make_stream

static int has_wide(void)
{
	return 0;
}

#endif

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
	u8 stream[WIDE_BLOCKS * BLOCK];
	u32 blocks;

	__builtin_memcpy(state + 4, key, O2G_CHACHA_KEY);
	__builtin_memcpy(state + 13, nonce, O2G_CHACHA_NONCE);
	state[12] = counter;
	while (length > 0) {
		u64 n;

		if (length > BLOCKS * BLOCK && has_wide()) {
			blocks = WIDE_BLOCKS;
			make_wide(state, stream);
		} else {
			blocks = BLOCKS;
			make_stream(state, stream);
		}
		n = length < blocks * BLOCK ? length : blocks * BLOCK;
		xor_bytes(text, stream, n);
		state[12] += blocks;
		text += n;
		length -= n;
	}
}
