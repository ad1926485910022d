/* SPDX-License-Identifier: MIT */
#ifndef O2G_CORE_MAC_H
#define O2G_CORE_MAC_H

#include <skep/types.h>

/* Constant time: it does not depend on where the first difference is. */
static inline int o2g_mac_equal(const u8 *a, const u8 *b, u64 length)
{
	u8 differ = 0;

	for (u64 i = 0; i < length; i++)
		differ |= a[i] ^ b[i];
	return differ == 0;
}

#endif
