/* SPDX-License-Identifier: MIT */
/* The operations of atomic accesses. */
#include "atomic.h"
#include "real.h"

static int type_real(u32 what)
{
	return o2g_atomic_type(what) >= O2G_ATOMIC_F32;
}

static int type_signed(u32 what)
{
	return o2g_atomic_type(what) & 1;
}

static int operation_of_bits(u32 operation)
{
	return operation == O2G_ATOMIC_BOR || operation == O2G_ATOMIC_BAND ||
	       operation == O2G_ATOMIC_BXOR || operation == O2G_ATOMIC_MSWAP;
}

int o2g_atomic_valid(u32 what, u64 length)
{
	const u32 operation = o2g_atomic_operation(what);
	const u32 type = o2g_atomic_type(what);

	if (what & ~(O2G_ATOMIC_FETCH | 0xffff) || !operation ||
	    operation >= O2G_ATOMIC_OPERATIONS || !type ||
	    type >= O2G_ATOMIC_TYPES)
		return 0;
	if (type_real(what) && operation_of_bits(operation))
		return 0;
	return length && length <= O2G_ATOMIC_BYTES &&
	       length % o2g_atomic_size(what) == 0;
}

static s64 extend_sign(u32 size, u64 a)
{
	const u32 shift = 64 - 8 * size;

	return (s64)(a << shift) >> shift;
}

static int element_less(u32 what, u64 a, u64 b)
{
	const u32 size = o2g_atomic_size(what);

	if (type_real(what))
		return o2g_real_less(size, a, b);
	if (type_signed(what))
		return extend_sign(size, a) < extend_sign(size, b);
	return a < b;
}

static int element_equal(u32 what, u64 a, u64 b)
{
	return type_real(what) ? o2g_real_equal(o2g_atomic_size(what), a, b)
			       : a == b;
}

static int element_true(u32 what, u64 a)
{
	return !element_equal(what, a, 0);
}

static u64 element_sum(u32 what, u64 a, u64 b)
{
	return type_real(what) ? o2g_real_add(o2g_atomic_size(what), a, b)
			       : a + b;
}

static u64 element_product(u32 what, u64 a, u64 b)
{
	return type_real(what) ? o2g_real_multiply(o2g_atomic_size(what), a, b)
			       : a * b;
}

static u64 truth_element(u32 what, int truth)
{
	if (!truth)
		return 0;
	return type_real(what) ? o2g_real_one(o2g_atomic_size(what)) : 1;
}

/* Whether a compare-and-swap writes: whether its comparison holds. */
static int swap_allowed(u32 what, u64 old, u64 compare)
{
	switch (o2g_atomic_operation(what)) {
	case O2G_ATOMIC_CSWAP:
		return element_equal(what, compare, old);
	case O2G_ATOMIC_CSWAP_NE:
		return !element_equal(what, compare, old);
	case O2G_ATOMIC_CSWAP_LE:
		return element_less(what, compare, old) ||
		       element_equal(what, compare, old);
	case O2G_ATOMIC_CSWAP_LT:
		return element_less(what, compare, old);
	case O2G_ATOMIC_CSWAP_GE:
		return element_less(what, old, compare) ||
		       element_equal(what, compare, old);
	case O2G_ATOMIC_CSWAP_GT:
		return element_less(what, old, compare);
	}
	return 0;
}

static u64 combine_elements(u32 what, u64 old, u64 operand)
{
	switch (o2g_atomic_operation(what)) {
	case O2G_ATOMIC_MIN:
		return element_less(what, operand, old) ? operand : old;
	case O2G_ATOMIC_MAX:
		return element_less(what, old, operand) ? operand : old;
	case O2G_ATOMIC_SUM:
		return element_sum(what, old, operand);
	case O2G_ATOMIC_PROD:
		return element_product(what, old, operand);
	case O2G_ATOMIC_LOR:
		return truth_element(what, element_true(what, old) ||
						   element_true(what, operand));
	case O2G_ATOMIC_LAND:
		return truth_element(what, element_true(what, old) &&
						   element_true(what, operand));
	case O2G_ATOMIC_LXOR:
		return truth_element(what, element_true(what, old) !=
						   element_true(what, operand));
	case O2G_ATOMIC_BOR:
		return old | operand;
	case O2G_ATOMIC_BAND:
		return old & operand;
	case O2G_ATOMIC_BXOR:
		return old ^ operand;
	case O2G_ATOMIC_WRITE:
		return operand;
	}
	return old; /* READ */
}

u64 o2g_atomic_next(u32 what, u64 old, u64 operand, u64 compare)
{
	const u64 mask = ~0ull >> (64 - 8 * o2g_atomic_size(what));
	u64 next;

	if (o2g_atomic_operation(what) == O2G_ATOMIC_MSWAP)
		next = (operand & compare) | (old & ~compare);
	else if (o2g_atomic_compares(what))
		next = swap_allowed(what, old, compare) ? operand : old;
	else
		next = combine_elements(what, old, operand);
	return next & mask;
}
