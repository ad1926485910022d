/* SPDX-License-Identifier: MIT */
/*
 * Loads, stores and barriers for memory that is shared with the program. An
 * engine with its own primitives, such as the kernel's, defines O2G_OWN_ORDER
 * and these five names in a header that is included first.
 */
#ifndef O2G_CORE_ORDER_H
#define O2G_CORE_ORDER_H

#ifndef O2G_OWN_ORDER
#define o2g_load(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define o2g_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define o2g_store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define o2g_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
/* Orders an earlier store before a later load: a full barrier. */
#define o2g_full_barrier() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif

#endif
