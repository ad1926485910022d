/* SPDX-License-Identifier: MIT */
/* Preconditions of the core's functions. Sanitizer builds (the core's own tests
 * and its fuzzer) trap where one does not hold; all others do not check. */
#ifndef DYNAMOS_ASSERT_H
#define DYNAMOS_ASSERT_H

#ifndef __has_feature
#define __has_feature(x) 0
#endif

#if !defined(__KERNEL__) &&                                                    \
	(defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer))
#define DYNAMOS_ASSERT(truth)                                                  \
	do {                                                                   \
		if (!(truth))                                                  \
			__builtin_trap();                                      \
	} while (0)
#else
#define DYNAMOS_ASSERT(truth) ((void)sizeof(!(truth)))
#endif

#endif
