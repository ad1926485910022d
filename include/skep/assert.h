/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * What must hold in any case. Checked where a sanitizer watches, as in tests,
 * fuzzers and kernels with KASAN; elsewhere it costs nothing. What the other
 * side of an interface can cause is no assertion: that is refused.
 */
#ifndef SKEP_ASSERT_H
#define SKEP_ASSERT_H

#if defined(__SANITIZE_ADDRESS__)
#define SKEP_ASSERTS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SKEP_ASSERTS 1
#endif
#endif

#ifdef SKEP_ASSERTS
#define skep_assert(condition)                                                 \
	do {                                                                   \
		if (!(condition))                                              \
			__builtin_trap();                                      \
	} while (0)
#else
#define skep_assert(condition) ((void)sizeof(!(condition)))
#endif

#endif
