/* SPDX-License-Identifier: MIT */
/* Frequency and power registers, which Linux lowers when a CPU goes offline. */
#ifndef SHIMOS_POWER_H
#define SHIMOS_POWER_H

#include <skep/types.h>

#define SHIMOS_MSR_PERF_CTL 0x199
#define SHIMOS_MSR_EPB 0x1b0
#define SHIMOS_MSR_HWP_CAPABILITIES 0x771
#define SHIMOS_MSR_HWP_REQUEST 0x774

/* HWP_REQUEST that asks for the highest frequency at all times, by what
 * HWP_CAPABILITIES says; 0: it names none.
 */
static inline u64 shimos_power_hwp(u64 capabilities)
{
	u64 highest = capabilities & 0xff;

	return highest | highest << 8; /* least, most; preference 0: speed */
}

#endif
