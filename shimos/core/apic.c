// SPDX-License-Identifier: MIT
#include "apic.h"
#include "base/errno.h"

#define MODE(n) ((n) << 8)
#define ASSERT 0x4000
#define BROADCAST 0xff /* reads of an absent APIC return it too */

u32 shimos_apic_low(enum shimos_signal signal, u32 page)
{
	switch (signal) {
	case SHIMOS_INIT:
		return MODE(5) | ASSERT;
	case SHIMOS_SIPI:
		return MODE(6) | ASSERT | (page & 0xff);
	case SHIMOS_NMI:
		break;
	}
	return MODE(4) | ASSERT;
}

int shimos_apic_high(u32 id, u32 *high)
{
	if (id >= BROADCAST)
		return -LINUX_EINVAL;
	*high = id << 24;
	return 0;
}

u64 shimos_apic_x2(enum shimos_signal signal, u32 page, u32 id)
{
	return (u64)id << 32 | shimos_apic_low(signal, page);
}
