/* SPDX-License-Identifier: MIT */
/*
 * What must hold in any case. Checked where a sanitizer watches, as in the
 * tests and fuzzers; elsewhere it costs nothing.
 */
#ifndef O2G_CORE_ASSERT_H
#define O2G_CORE_ASSERT_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define O2G_ASSERTS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define O2G_ASSERTS 1
#endif
#endif

#ifdef O2G_ASSERTS
#define o2g_assert(true_here)                                                  \
	do {                                                                   \
		if (!(true_here))                                              \
			__builtin_trap();                                      \
	} while (0)
#else
#define o2g_assert(true_here) ((void)sizeof(!(true_here)))
#endif

#endif
