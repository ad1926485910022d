/* SPDX-License-Identifier: MIT */
/* How much memory the computer could give to programs. */
#ifndef O2G_LIB_AVAILABLE_H
#define O2G_LIB_AVAILABLE_H

#include <skep/types.h>

/* Bytes, as the kernel estimates them; without /proc, those that are free. */
u64 o2g_memory_available(void);

#endif
