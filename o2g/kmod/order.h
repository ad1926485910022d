/* SPDX-License-Identifier: GPL-2.0-only */
/* The primitives of o2g/core/order.h for a kernel. Included before each core
 * file. */
#ifndef O2G_KMOD_ORDER_H
#define O2G_KMOD_ORDER_H

#include <asm/barrier.h>
#include <asm/rwonce.h>

#define O2G_OWN_ORDER
#define o2g_load(p) READ_ONCE(*(p))
#define o2g_load_acquire(p) smp_load_acquire(p)
#define o2g_store(p, v) WRITE_ONCE(*(p), v)
#define o2g_store_release(p, v) smp_store_release(p, v)
#define o2g_full_barrier() smp_mb()

#endif
