/* SPDX-License-Identifier: MIT */
/*
 * The CPU as guests see it, and how vector state is saved on this CPU.
 *
 * Hidden are FSGSBASE (a guest that wrote FS itself would bypass its slots),
 * TSX (aborts make runs differ), PKU, and every XSAVE component but x87, SSE,
 * AVX and AVX-512: AMX state has 8 KiB and needs a permission from Linux. Leaf
 * and bit numbers: Intel SDM volume 2, CPUID. All is computed once, at the
 * start.
 */
#include "abi/include/vec.h"
#include "bee/core/core.h"

#define XCR0_SEEN 0xe7ull /* x87, SSE, AVX, opmask, ZMM_Hi256, Hi16_ZMM */

#define L1C_XSAVE (1u << 26)
#define L1C_OSXSAVE (1u << 27)
#define L1C_MONITOR (1u << 3)
#define L7B_FSGSBASE (1u << 0)
#define L7B_HLE (1u << 4)
#define L7B_RTM (1u << 11)
#define L7B_MPX (1u << 14)
#define L7C_PKU (3u << 3) /* and OSPKE */
#define L7C_WAITPKG (1u << 5)
#define L7C_SHSTK (1u << 7)
#define L7D_RTM_ABORT (1u << 11 | 1u << 13)
#define L7D_AMX (1u << 22 | 1u << 24 | 1u << 25)
#define L7D_IBT (1u << 20)
#define L7D_UINTR (1u << 5)
#define LD1_XSAVEC (1u << 1)
#define LD1_XGETBV1 (1u << 2)
#define LD1_XSAVES (1u << 3)
#define LD1_XFD (1u << 4)

u32 bee_vec_mode, bee_vec_mask;
static u64 xsave_size = 576;

static void read_cpuid(u32 leaf, u32 sub, u32 out[4])
{
	__asm__ volatile("cpuid"
			 : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]),
			   "=d"(out[3])
			 : "a"(leaf), "c"(sub));
}

static u64 read_xcr(u32 index)
{
	u32 low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(index));
	return low | (u64)high << 32;
}

void bee_cpu_init(void)
{
	u32 r[4];

	read_cpuid(1, 0, r);
	if (!(r[2] & L1C_OSXSAVE))
		return;
	bee_vec_mask = (u32)(read_xcr(0) & XCR0_SEEN);
	xsave_size = abi_vec_size(bee_vec_mask);
	read_cpuid(0xd, 1, r);
	bee_vec_mode = (r[0] & LD1_XSAVEC) && (r[0] & LD1_XGETBV1)
			       ? BEE_VEC_XSAVEC
			       : BEE_VEC_XSAVE;
}

static void leaf_xsave(u32 sub, u32 out[4])
{
	if (sub == 0) {
		out[0] = bee_vec_mask;
		out[1] = out[2] = (u32)xsave_size;
		out[3] = 0;
	} else if (sub == 1) {
		out[0] &= ~(LD1_XSAVES | LD1_XFD);
		out[1] = out[2] = out[3] = 0;
	} else if (sub >= 32 || !(bee_vec_mask >> sub & 1)) {
		out[0] = out[1] = out[2] = out[3] = 0;
	}
}

static void leaf_features(u32 sub, u32 out[4])
{
	if (sub > 0) {
		out[1] = 0;
		if (sub == 1)
			out[3] &= ~(1u << 8 | 1u << 18); /* AMX, CET-SSS */
		return;
	}
	out[1] &= ~(L7B_FSGSBASE | L7B_HLE | L7B_RTM | L7B_MPX);
	out[2] &= ~(L7C_PKU | L7C_WAITPKG | L7C_SHSTK);
	out[3] &= ~(L7D_RTM_ABORT | L7D_AMX | L7D_IBT | L7D_UINTR);
}

void bee_cpuid_hide(u32 leaf, u32 sub, u32 out[4])
{
	switch (leaf) {
	case 1:
		out[2] &= ~L1C_MONITOR;
		if (!bee_vec_mask)
			out[2] &= ~(L1C_XSAVE | L1C_OSXSAVE);
		break;
	case 7:
		leaf_features(sub, out);
		break;
	case 0xd:
		leaf_xsave(sub, out);
		break;
	case 0x19: /* key locker */
	case 0x1d: /* AMX tiles */
	case 0x1e:
		out[0] = out[1] = out[2] = out[3] = 0;
		break;
	}
}

void bee_cpuid(u32 leaf, u32 sub, u32 out[4])
{
	read_cpuid(leaf, sub, out);
	bee_cpuid_hide(leaf, sub, out);
}

/* XCR0 is index 0; index 1 returns XINUSE. Other indices fault on a CPU; here
 * they return 0. */
u64 bee_xgetbv(u32 index)
{
	if (index == 1 && bee_vec_mode == BEE_VEC_XSAVEC)
		return read_xcr(1) & bee_vec_mask;
	return index == 0 ? bee_vec_mask : 0;
}

/* AT_HWCAP on x86 is CPUID.1:EDX. */
u64 bee_cpu_hwcap(void)
{
	u32 r[4];

	bee_cpuid(1, 0, r);
	return r[3];
}

u64 bee_xsave_mask(void)
{
	return bee_vec_mask ? bee_vec_mask : 3;
}

u64 bee_xsave_size(void)
{
	return xsave_size;
}

/* Uses the thread's own area, which is aligned for XSAVE. */
s64 bee_vec_save(void *buf, u64 len)
{
	u8 *area = bee_self()->vec;

	if (len < xsave_size)
		return -22; /* EINVAL */
	abi_memset(area, 0, xsave_size);
	if (bee_vec_mask)
		bee_vec_xsave(area, bee_vec_mask);
	else
		bee_vec_fxsave(area);
	abi_memcpy(buf, area, xsave_size);
	return 0;
}

_Static_assert(BEE_VEC_SIZE == ABI_VEC_AREA, "the thread's own area");

/* Uses the same area. */
s64 bee_vec_load(const void *buf, u64 len)
{
	u8 *area = bee_self()->vec;
	s64 err = abi_vec_take(area, buf, len, bee_vec_mask);

	if (err)
		return err;
	if (bee_vec_mask)
		bee_vec_xrstor(area, bee_vec_mask);
	else
		bee_vec_fxrstor(area);
	return 0;
}
