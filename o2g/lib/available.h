/* SPDX-License-Identifier: MIT */
/* The memory that is available to programs. */
#ifndef O2G_LIB_AVAILABLE_H
#define O2G_LIB_AVAILABLE_H

#include <skep/types.h>

/* In bytes, as the kernel estimates it (MemAvailable); without /proc, the free
 * memory. */
u64 o2g_memory_available(void);

#endif
