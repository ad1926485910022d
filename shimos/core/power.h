/* SPDX-License-Identifier: MIT */
/* Frequency and power registers, which Linux lowers when a CPU goes offline. */
#ifndef SHIMOS_POWER_H
#define SHIMOS_POWER_H

#include <skep/types.h>

#define SHIMOS_MSR_PERF_CTL 0x199
#define SHIMOS_MSR_EPB 0x1b0
#define SHIMOS_MSR_HWP_CAPABILITIES 0x771
#define SHIMOS_MSR_HWP_REQUEST 0x774

/* The HWP_REQUEST for the highest frequency at all times, from
 * HWP_CAPABILITIES; 0 if these name none. */
static inline u64 shimos_power_hwp(u64 capabilities)
{
	u64 highest = capabilities & 0xff;

	/* minimum, maximum; energy preference 0: performance */
	return highest | highest << 8;
}

#endif
