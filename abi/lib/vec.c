// SPDX-License-Identifier: MIT
/* The layout of XSAVE areas, by Intel's manual, volume 1, chapter 13. */
#include "base/errno.h"
#include "abi/include/mem.h"
#include "abi/include/vec.h"

#define LEAF_XSAVE 0xdu
#define COMPONENTS 63u
#define LEGACY 512u /* then the header: XSTATE_BV, XCOMP_BV, zeros */
#define HEADER 64u
#define AT_MXCSR 24
#define MXCSR_MASK 0xffffu

u64 abi_vec_size(u64 mask)
{
	u64 size = LEGACY + HEADER;
	u32 i, a, b, c, d;

	for (i = 2; i < COMPONENTS; i++) {
		if (!(mask >> i & 1))
			continue;
		__asm__ volatile("cpuid"
				 : "=a"(a), "=b"(b), "=c"(c), "=d"(d)
				 : "a"(LEAF_XSAVE), "c"(i));
		if ((u64)a + b > size)
			size = (u64)a + b;
	}
	return size;
}

s64 abi_vec_take(void *area, const void *buf, u64 len, u64 mask)
{
	const u64 *header = (const u64 *)((u8 *)area + LEGACY);
	u32 i;

	if (len < LEGACY + HEADER)
		return -LINUX_EINVAL;
	abi_memcpy(area, buf, len < ABI_VEC_AREA ? len : ABI_VEC_AREA);
	if (*(const u32 *)((u8 *)area + AT_MXCSR) & ~MXCSR_MASK)
		return -LINUX_EINVAL;
	if (!mask)
		return 0;
	for (i = 1; i < HEADER / 8; i++)
		if (header[i])
			return -LINUX_EINVAL;
	if (header[0] & ~mask || abi_vec_size(header[0]) > len)
		return -LINUX_EINVAL;
	return 0;
}
