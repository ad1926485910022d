/* SPDX-License-Identifier: MIT */
/* What tests of the update engine expect of one call. Lines of TAP begin with
 * `engine: `. */
#ifndef TESTS_VM_GUEST_DYNAMOS_WANT_H
#define TESTS_VM_GUEST_DYNAMOS_WANT_H

#include <stdio.h>
#include <string.h>

#include "dynamos_use.h"
#include "tests/tap.h"

static inline int apply_to(const struct dynamos_policy *policy, u32 flags)
{
	struct dynamos_apply a = {.policy = *policy, .flags = flags};

	return use_apply(&a);
}

static inline int want_ok(int err, const char *name)
{
	if (tap_ok(!err, "engine: %s", name))
		return 1;
	printf("# %d (%s) %s\n", err, strerror(-err), use_why);
	return 0;
}

static inline void want_is(int got, int want, const char *name)
{
	if (!tap_ok(got == want, "engine: %s", name))
		printf("# %d instead of %d: %s\n", got, want, use_why);
}

static inline void end_update(const char *name)
{
	char text[128];

	snprintf(text, sizeof(text), "%s: revert", name);
	want_ok(use_revert(), text);
	snprintf(text, sizeof(text), "%s: no call is left", name);
	want_ok(use_until(DYNAMOS_LOADED), text);
	snprintf(text, sizeof(text), "%s: unloads", name);
	want_ok(use_unload(), text);
}

#endif
