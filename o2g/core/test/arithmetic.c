/* SPDX-License-Identifier: MIT */
/* The operations of atomic accesses, beside those of the compiler. */
#include <stdio.h>
#include <string.h>

#include <o2g/core/atomic.h>

#include "suite.h"

#define ELEMENTS 512u /* of 8 bytes: as many as there may be */
#define DO(operation, type) (O2G_ATOMIC_##operation | O2G_ATOMIC_##type << 8)
#define FETCH(operation, type) (DO(operation, type) | O2G_ATOMIC_FETCH)

static check_fn *check;

static u64 some_number(void)
{
	static u64 state = 88172645463325252ull;

	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* What is special is as likely as what is not: near, equal, tiny, endless. */
static void two_numbers(u32 n, u64 *a, u64 *b)
{
	*a = some_number();
	*b = some_number();
	if (n % 3 == 0)
		*b = (*a & ~0xffffffffffffull) | (*b & 0xffffffffffffull);
	if (n % 5 == 0)
		*a &= 0x800fffff807fffffull;
	if (n % 7 == 0)
		*b &= 0x801fffff80ffffffull;
	if (n % 11 == 0)
		*b = 0x7ff000007f800000ull | (*b & 1ull << 63);
	if (n % 13 == 0)
		*a &= 1ull << 63;
	if (n % 17 == 0)
		*b = *a;
}

/* The result of a computation, or a number that is none. */
#define SAME(type, number, value)                                              \
	({                                                                     \
		type got;                                                      \
                                                                               \
		memcpy(&got, &number, sizeof(got));                            \
		(value) == (value)                                             \
			? !memcmp(&got, &(type){value}, sizeof(got))           \
			: got != got;                                          \
	})

/* The operations that all types have, as C has them. */
#define WRONG(type, code)                                                      \
	static u32 wrong_##code(u32 n)                                         \
	{                                                                      \
		u64 a, b, next;                                                \
		type x, y;                                                     \
		u32 wrong = 0;                                                 \
                                                                               \
		two_numbers(n, &a, &b);                                        \
		memcpy(&x, &a, sizeof(x));                                     \
		memcpy(&y, &b, sizeof(y));                                     \
		a = b = 0;                                                     \
		memcpy(&a, &x, sizeof(x));                                     \
		memcpy(&b, &y, sizeof(y));                                     \
		next = o2g_atomic_next(DO(SUM, code), a, b, 0);                \
		wrong += !SAME(type, next, (type)(x + y));                     \
		next = o2g_atomic_next(DO(PROD, code), a, b, 0);               \
		wrong += !SAME(type, next, PRODUCT(type, x, y));               \
		next = o2g_atomic_next(DO(MIN, code), a, b, 0);                \
		wrong += next != (y < x ? b : a);                              \
		next = o2g_atomic_next(DO(MAX, code), a, b, 0);                \
		wrong += next != (y > x ? b : a);                              \
		next = o2g_atomic_next(DO(LOR, code), a, b, 0);                \
		wrong += !SAME(type, next, (type)(x || y));                    \
		next = o2g_atomic_next(DO(LAND, code), a, b, 0);               \
		wrong += !SAME(type, next, (type)(x && y));                    \
		next = o2g_atomic_next(DO(LXOR, code), a, b, 0);               \
		wrong += !SAME(type, next, (type)(!x != !y));                  \
		wrong += o2g_atomic_next(DO(WRITE, code), a, b, 0) != b;       \
		wrong += o2g_atomic_next(DO(READ, code), a, b, 0) != a;        \
		next = o2g_atomic_next(DO(CSWAP, code), a, 1, b);              \
		wrong += next != (y == x ? 1 : a);                             \
		next = o2g_atomic_next(DO(CSWAP_NE, code), a, 1, b);           \
		wrong += next != (y != x ? 1 : a);                             \
		next = o2g_atomic_next(DO(CSWAP_LE, code), a, 1, b);           \
		wrong += next != (y <= x ? 1 : a);                             \
		next = o2g_atomic_next(DO(CSWAP_LT, code), a, 1, b);           \
		wrong += next != (y < x ? 1 : a);                              \
		next = o2g_atomic_next(DO(CSWAP_GE, code), a, 1, b);           \
		wrong += next != (y >= x ? 1 : a);                             \
		next = o2g_atomic_next(DO(CSWAP_GT, code), a, 1, b);           \
		return wrong + (next != (y > x ? 1 : a));                      \
	}

#define PRODUCT(type, x, y) ((type)((u64)(x) * (u64)(y)))
WRONG(s8, S8)
WRONG(u8, U8)
WRONG(s16, S16)
WRONG(u16, U16)
WRONG(u32, U32)
WRONG(u64, U64)
#undef PRODUCT
#define PRODUCT(type, x, y) ((x) * (y))
WRONG(float, F32)
WRONG(double, F64)

/* Sums and products that overflow are those of unsigned numbers. */
#define WRAPS(type, unsigned_type, code)                                       \
	static u32 wrong_##code(u32 n)                                         \
	{                                                                      \
		u64 a, b, c, d;                                                \
		u32 wrong = 0;                                                 \
                                                                               \
		two_numbers(n, &c, &d);                                        \
		a = (unsigned_type)c;                                          \
		b = (unsigned_type)d;                                          \
		wrong += o2g_atomic_next(DO(SUM, code), a, b, 0) !=            \
			 (unsigned_type)(a + b);                               \
		wrong += o2g_atomic_next(DO(PROD, code), a, b, 0) !=           \
			 (unsigned_type)(a * b);                               \
		wrong += o2g_atomic_next(DO(MIN, code), a, b, 0) !=            \
			 ((type)b < (type)a ? b : a);                          \
		return wrong +                                                 \
		       (o2g_atomic_next(DO(CSWAP_GT, code), a, 1, b) !=        \
			((type)b > (type)a ? 1 : a));                          \
	}
WRAPS(s32, u32, S32)
WRAPS(s64, u64, S64)

static void test_arithmetic(void)
{
	static const struct {
		u32 (*wrong)(u32 n);
		const char *name;
	} type[] = {
		{wrong_S8, "S8"},   {wrong_U8, "U8"},	{wrong_S16, "S16"},
		{wrong_U16, "U16"}, {wrong_S32, "S32"}, {wrong_U32, "U32"},
		{wrong_S64, "S64"}, {wrong_U64, "U64"}, {wrong_F32, "F32"},
		{wrong_F64, "F64"},
	};
	char name[80];

	for (u32 t = 0; t < sizeof(type) / sizeof(type[0]); t++) {
		u32 wrong = 0;

		for (u32 n = 0; n < 200000; n++)
			wrong += type[t].wrong(n);
		snprintf(name, sizeof(name),
			 "operations on elements of %s are those of C",
			 type[t].name);
		check(!wrong, name);
	}
	check(o2g_atomic_next(DO(BOR, U16), 0x1234, 0x4321, 0) == 0x5335 &&
		      o2g_atomic_next(DO(BAND, U16), 0x1234, 0x4321, 0) ==
			      0x220 &&
		      o2g_atomic_next(DO(BXOR, U16), 0x1234, 0x4321, 0) ==
			      0x5115 &&
		      o2g_atomic_next(DO(MSWAP, U16), 0x1234, 0x4321, 0xff0) ==
			      0x1324,
	      "operations on bits are those of C");
}

static void test_valid(void)
{
	check(o2g_atomic_valid(DO(SUM, F64), 8 * ELEMENTS) &&
		      o2g_atomic_valid(FETCH(BXOR, U64), 8) &&
		      o2g_atomic_valid(DO(MSWAP, S8), 1) &&
		      o2g_atomic_valid(DO(CSWAP, F32), 4),
	      "what is offered is valid");
	check(!o2g_atomic_valid(DO(SUM, U64), 0) &&
		      !o2g_atomic_valid(DO(SUM, U64), 9) &&
		      !o2g_atomic_valid(DO(SUM, U64), 8 * ELEMENTS + 8),
	      "the bytes of elements are some, whole and not too many");
	check(!o2g_atomic_valid(DO(BOR, F32), 4) &&
		      !o2g_atomic_valid(DO(MSWAP, F64), 8),
	      "real numbers have no operations on bits");
	check(!o2g_atomic_valid(0x100, 1) &&
		      !o2g_atomic_valid(DO(OPERATIONS, U8), 1) &&
		      !o2g_atomic_valid(DO(SUM, TYPES), 8) &&
		      !o2g_atomic_valid(O2G_ATOMIC_SUM, 8) &&
		      !o2g_atomic_valid(DO(SUM, U8) | 0x20000, 1),
	      "an unknown operation, type or flag is invalid");
}

void arithmetic_run(check_fn *judge)
{
	check = judge;
	test_arithmetic();
	test_valid();
}
