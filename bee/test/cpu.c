/* SPDX-License-Identifier: MIT */
/*
 * What guests see of a CPU that has every feature, and how their vector state
 * is copied. The assembly of gate.S is replaced by functions that note calls.
 * Leaf and bit numbers: Intel SDM volume 2, CPUID.
 */
#include <string.h>

#include "abi/include/vec.h"
#include "bee/core/core.h"
#include "tests/tap.h"

#define ALL 0xffffffffu

static u8 area[BEE_VEC_SIZE] __attribute__((aligned(64)));
static struct bee_thread self = {.vec = area};
static char called[16];
static u32 called_mask;
static int was_clear;

struct bee_thread *bee_self(void)
{
	return &self;
}

static int area_is(u64 from, u64 to, u8 value)
{
	while (from < to && area[from] == value)
		from++;
	return from == to;
}

void bee_vec_xsave(void *buf, u32 mask)
{
	strcpy(called, buf == area ? "xsave" : "");
	called_mask = mask;
	was_clear = area_is(0, bee_xsave_size(), 0);
	memset(buf, 's', bee_xsave_size());
}

void bee_vec_xrstor(const void *buf, u32 mask)
{
	strcpy(called, buf == area ? "xrstor" : "");
	called_mask = mask;
}

void bee_vec_fxsave(void *buf)
{
	strcpy(called, buf == area ? "fxsave" : "");
}

void bee_vec_fxrstor(const void *buf)
{
	strcpy(called, buf == area ? "fxrstor" : "");
}

/* Where every bit is set in the CPU's answer, the guest sees these. */
static int leaf_is(u32 leaf, u32 sub, u32 a, u32 b, u32 c, u32 d)
{
	u32 out[4] = {ALL, ALL, ALL, ALL};

	bee_cpuid_hide(leaf, sub, out);
	return out[0] == a && out[1] == b && out[2] == c && out[3] == d;
}

static void test_features(void)
{
	tap_ok(leaf_is(0, 0, ALL, ALL, ALL, ALL) &&
		       leaf_is(6, 0, ALL, ALL, ALL, ALL) &&
		       leaf_is(0x80000001, 0, ALL, ALL, ALL, ALL),
	       "other leaves are the CPU's");
	tap_ok(leaf_is(1, 0, ALL, ALL, ~(1u << 3), ALL), "MONITOR is hidden");
	tap_ok(leaf_is(7, 0, ALL, ~(1u | 1u << 4 | 1u << 11 | 1u << 14),
		       ~(3u << 3 | 1u << 5 | 1u << 7),
		       ~(1u << 5 | 1u << 11 | 1u << 13 | 1u << 20 | 1u << 22 |
			 1u << 24 | 1u << 25)),
	       "FSGSBASE, TSX, MPX, PKU, WAITPKG, CET, UINTR, AMX are hidden");
	tap_ok(leaf_is(7, 1, ALL, 0, ALL, ~(1u << 8 | 1u << 18)) &&
		       leaf_is(7, 2, ALL, 0, ALL, ALL),
	       "what belongs to them in the other parts of leaf 7 as well");
	tap_ok(leaf_is(0x19, 0, 0, 0, 0, 0) && leaf_is(0x1d, 0, 0, 0, 0, 0) &&
		       leaf_is(0x1d, 1, 0, 0, 0, 0) &&
		       leaf_is(0x1e, 0, 0, 0, 0, 0),
	       "so are the leaves of key locker and of AMX");
}

static void test_xsave(void)
{
	u32 sub, seen = 0, size = (u32)bee_xsave_size(), mask = bee_vec_mask;

	tap_ok(leaf_is(0xd, 0, mask, size, size, 0),
	       "leaf 0xd, 0: what is saved");
	tap_ok(leaf_is(0xd, 1, ~(1u << 3 | 1u << 4), 0, 0, 0),
	       "leaf 0xd, 1: without XSAVES and XFD");
	bee_vec_mask = 0x7;
	for (sub = 2; sub < 66; sub++)
		seen += sub == 2 ? leaf_is(0xd, sub, ALL, ALL, ALL, ALL)
				 : leaf_is(0xd, sub, 0, 0, 0, 0);
	bee_vec_mask = 0x80000007;
	seen += leaf_is(0xd, 31, ALL, ALL, ALL, ALL);
	tap_ok(seen == 65, "leaf 0xd, others: of saved components only");
	bee_vec_mask = 0;
	tap_ok(leaf_is(1, 0, ALL, ALL, ~(1u << 3 | 1u << 26 | 1u << 27), ALL),
	       "without OSXSAVE there is no XSAVE");
	tap_ok(bee_xsave_mask() == 3 && bee_xgetbv(0) == 0,
	       "and x87 and SSE remain");
	bee_vec_mask = mask;
	tap_ok(bee_xsave_mask() == (mask ? mask : 3) && bee_xgetbv(0) == mask &&
		       bee_xgetbv(2) == 0 && !(mask & ~0xe7u),
	       "xgetbv says what is saved, and no more");
	if (bee_vec_mode == BEE_VEC_XSAVEC) {
		u64 used = bee_xgetbv(1);

		bee_vec_mask = 1;
		tap_ok((used & 2) && !(used & ~(u64)mask) &&
			       !(bee_xgetbv(1) & ~1ull),
		       "and at index 1 what of it is in use");
		bee_vec_mask = mask;
	}
	bee_vec_mode = BEE_VEC_XSAVE;
	tap_ok(bee_xgetbv(1) == 0, "without XSAVEC it has no index 1");
}

static void test_save(void)
{
	static u8 copy[BEE_VEC_SIZE];
	u64 size = bee_xsave_size();

	memset(area, 'a', sizeof(area));
	tap_ok(bee_vec_save(copy, size - 1) == -22 && area_is(0, size, 'a'),
	       "a short copy is refused");
	bee_vec_mask = 0x7;
	tap_ok(!bee_vec_save(copy, size) && !strcmp(called, "xsave") &&
		       called_mask == 0x7 && was_clear && copy[0] == 's' &&
		       copy[size - 1] == 's' && !copy[size] &&
		       area_is(size, sizeof(area), 'a'),
	       "vector state is saved through the thread's cleared area");
	bee_vec_mask = 0;
	tap_ok(!bee_vec_save(copy, size) && !strcmp(called, "fxsave"),
	       "by FXSAVE where there is nothing else");
}

static void test_load(void)
{
	static u8 from[BEE_VEC_SIZE];
	u64 size = bee_xsave_size();

	memset(from, 0, sizeof(from));
	bee_vec_mask = 0x7;
	tap_ok(!bee_vec_load(from, size) && !strcmp(called, "xrstor") &&
		       called_mask == 0x7,
	       "vector state is loaded");
	strcpy(called, "");
	from[519] = 1; /* a component that does not exist */
	tap_ok(bee_vec_load(from, size) == -22 && !*called,
	       "not if the CPU would not accept it");
	from[519] = 0;
	bee_vec_mask = 0;
	tap_ok(!bee_vec_load(from, size) && !strcmp(called, "fxrstor"),
	       "by FXRSTOR where there is nothing else");
}

static void read_cpuid(u32 leaf, u32 sub, u32 out[4])
{
	__asm__("cpuid"
		: "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3])
		: "a"(leaf), "c"(sub));
}

static void test_own(void)
{
	u32 leaf1[4], own[4], mode = BEE_VEC_FXSAVE;

	read_cpuid(0xd, 1, own);
	if (bee_vec_mask)
		mode = (own[0] & 6) == 6 ? BEE_VEC_XSAVEC : BEE_VEC_XSAVE;
	tap_ok(bee_vec_mode == mode, "vector state is saved as the CPU can");
	bee_cpuid(7, 0, own);
	tap_ok(!(own[1] & 1), "its own answer is changed");
	read_cpuid(1, 0, leaf1);
	bee_cpuid(1, 0, own);
	tap_ok(own[0] == leaf1[0] && own[3] == leaf1[3] &&
		       own[2] == (leaf1[2] & ~(1u << 3)) &&
		       bee_cpu_hwcap() == leaf1[3],
	       "the rest is the CPU's own answer");
}

int main(void)
{
	u64 before = bee_xsave_size();

	bee_cpu_init();
	tap_ok(before == 576 && (!bee_vec_mask || (bee_vec_mask & 3) == 3) &&
		       bee_xsave_size() == (bee_vec_mask
						    ? abi_vec_size(bee_vec_mask)
						    : before),
	       "the area has room for what is saved");
	test_own();
	test_features();
	test_xsave();
	test_save();
	test_load();
	return tap_done();
}
