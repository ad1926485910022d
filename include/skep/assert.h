/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * What must hold in any case, for all C rooms. A build with a sanitizer checks
 * it and traps: tests, fuzzers, and kernels with KASAN or KCSAN. In all other
 * builds it is not evaluated, also in modules: a warning in the kernel of a
 * user who has panic_on_warn would stop the machine. Code that could damage
 * memory when it does not hold returns as well. What the other side of an
 * interface can cause is no assertion: that is refused.
 */
#ifndef SKEP_ASSERT_H
#define SKEP_ASSERT_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SKEP_ASSERTS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
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
