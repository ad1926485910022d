/* SPDX-License-Identifier: MIT */
/* Shared memory that changes before each read, as a second thread would. */
#ifndef O2G_CORE_TEST_FUZZ_UNSTEADY_H
#define O2G_CORE_TEST_FUZZ_UNSTEADY_H

void change_area(void);

#define O2G_OWN_ORDER
#define o2g_load(p) (change_area(), *(const volatile __typeof__(*(p)) *)(p))
#define o2g_load_acquire(p) o2g_load(p)
#define o2g_store(p, v) (*(volatile __typeof__(*(p)) *)(p) = (v))
#define o2g_store_release(p, v) o2g_store(p, v)
#define o2g_full_barrier() change_area()

#endif
