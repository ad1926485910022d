/* SPDX-License-Identifier: MIT */
/*
 * IEEE 754 arithmetic for engines that may use only general registers. A number
 * is split into sign, exponent and fraction. The fraction has three more bits
 * for rounding; the lowest is the sticky bit, which is set if any bit below it
 * was. Subnormal numbers have the exponent 1 and no leading bit.
 */
#include "real.h"

struct format {
	u32 fraction; /* bits of it */
	u32 most;     /* exponent of infinities and NaNs */
};

struct parts {
	u64 fraction;
	u32 sign;
	int exponent;
};

static struct format format_of(u32 size)
{
	return size == 4 ? (struct format){23, 0xff}
			 : (struct format){52, 0x7ff};
}

static u32 sign_of(u32 size, u64 a)
{
	return a >> (8 * size - 1) & 1;
}

static u64 magnitude_of(u32 size, u64 a)
{
	return a & ~(1ull << (8 * size - 1));
}

static u64 infinity_of(u32 size)
{
	const struct format f = format_of(size);

	return (u64)f.most << f.fraction;
}

static int not_number(u32 size, u64 a)
{
	return magnitude_of(size, a) > infinity_of(size);
}

static u64 quiet_bit(u32 size)
{
	return 1ull << (format_of(size).fraction - 1);
}

/* The NaN of an invalid operation, such as infinity less infinity. */
static u64 no_result(u32 size)
{
	return 1ull << (8 * size - 1) | infinity_of(size) | quiet_bit(size);
}

static u64 with_sign(u32 size, u64 magnitude, u32 sign)
{
	return magnitude | (u64)sign << (8 * size - 1);
}

static struct parts take_apart(u32 size, u64 a)
{
	const struct format f = format_of(size);
	struct parts p = {
		.fraction = a & ((1ull << f.fraction) - 1),
		.sign = sign_of(size, a),
		.exponent = (int)(a >> f.fraction & f.most),
	};

	if (p.exponent)
		p.fraction |= 1ull << f.fraction;
	else
		p.exponent = 1;
	return p;
}

/* Shifts right; the lowest bit becomes sticky. */
static u64 shift_right(u64 a, u32 by)
{
	if (by > 63)
		return a != 0;
	return a >> by | (a & ((1ull << by) - 1) ? 1 : 0);
}

/* Rounds a fraction with three more bits, of which the leading one may be one
 * place too high, or missing. */
static u64 put_together(u32 size, struct parts p)
{
	const struct format f = format_of(size);
	u64 rest;

	if (p.fraction >> (f.fraction + 4)) {
		p.fraction = shift_right(p.fraction, 1);
		p.exponent++;
	}
	if (p.exponent < 1) {
		p.fraction = shift_right(p.fraction, (u32)(1 - p.exponent));
		p.exponent = 1;
	}
	rest = p.fraction & 7;
	p.fraction >>= 3;
	p.fraction += rest > 4 || (rest == 4 && p.fraction & 1);
	if (p.fraction >> (f.fraction + 1)) {
		p.fraction >>= 1;
		p.exponent++;
	}
	if (p.exponent >= (int)f.most)
		return with_sign(size, infinity_of(size), p.sign);
	if (p.fraction >> f.fraction)
		p.fraction += (u64)(p.exponent - 1) << f.fraction;
	return with_sign(size, p.fraction, p.sign);
}

static struct parts add_parts(u32 size, struct parts a, struct parts b)
{
	const u32 leading = format_of(size).fraction + 3;

	a.fraction <<= 3;
	b.fraction =
		shift_right(b.fraction << 3, (u32)(a.exponent - b.exponent));
	if (a.sign == b.sign) {
		a.fraction += b.fraction;
		return a;
	}
	a.fraction -= b.fraction;
	if (!a.fraction)
		a.sign = 0;
	while (!(a.fraction >> leading) && a.exponent > 1) {
		a.fraction <<= 1;
		a.exponent--;
	}
	return a;
}

u64 o2g_real_add(u32 size, u64 a, u64 b)
{
	const u64 infinity = infinity_of(size);

	if (not_number(size, a) || not_number(size, b))
		return (not_number(size, a) ? a : b) | quiet_bit(size);
	if (magnitude_of(size, a) < magnitude_of(size, b)) {
		const u64 swap = a;

		a = b;
		b = swap;
	}
	if (magnitude_of(size, b) == infinity && a != b)
		return no_result(size);
	if (magnitude_of(size, a) == infinity)
		return a;
	return put_together(size, add_parts(size, take_apart(size, a),
					    take_apart(size, b)));
}

static struct parts normal_parts(u32 size, u64 a)
{
	const u32 leading = format_of(size).fraction;
	struct parts p = take_apart(size, a);

	while (!(p.fraction >> leading)) {
		p.fraction <<= 1;
		p.exponent--;
	}
	return p;
}

u64 o2g_real_multiply(u32 size, u64 a, u64 b)
{
	const struct format f = format_of(size);
	const u64 infinity = infinity_of(size);
	const u32 sign = sign_of(size, a) ^ sign_of(size, b);
	const u64 x = magnitude_of(size, a), y = magnitude_of(size, b);
	struct parts p, q;
	unsigned __int128 product;

	if (x > infinity || y > infinity)
		return (x > infinity ? a : b) | quiet_bit(size);
	if (x == infinity || y == infinity)
		return x && y ? with_sign(size, infinity, sign)
			      : no_result(size);
	if (!x || !y)
		return with_sign(size, 0, sign);
	p = normal_parts(size, a);
	q = normal_parts(size, b);
	product = (unsigned __int128)p.fraction * q.fraction;
	p.fraction = (u64)(product >> (f.fraction - 3)) |
		     (product & ((1ull << (f.fraction - 3)) - 1) ? 1 : 0);
	p.exponent += q.exponent - (int)(f.most >> 1);
	p.sign = sign;
	return put_together(size, p);
}

int o2g_real_equal(u32 size, u64 a, u64 b)
{
	if (not_number(size, a) || not_number(size, b))
		return 0;
	return a == b || !(magnitude_of(size, a) | magnitude_of(size, b));
}

int o2g_real_less(u32 size, u64 a, u64 b)
{
	if (not_number(size, a) || not_number(size, b) ||
	    o2g_real_equal(size, a, b))
		return 0;
	if (sign_of(size, a) != sign_of(size, b))
		return (int)sign_of(size, a);
	return sign_of(size, a) ? a > b : a < b;
}

u64 o2g_real_one(u32 size)
{
	const struct format f = format_of(size);

	return (u64)(f.most >> 1) << f.fraction;
}
