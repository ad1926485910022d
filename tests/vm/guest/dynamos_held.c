// SPDX-License-Identifier: MIT
/*
 * dynamos_held HAND.ko   an update by hand that others may have pointers to:
 * it is unloaded before it was in force, and never afterwards.
 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dynamos_use.h"
#include "tests/tap.h"

#define HAND "dynamos_hand"

static const struct dynamos_policy all = {.otherwise = 1};

static int apply_update(void)
{
	struct dynamos_apply a = {.policy = all};

	return use_apply(&a);
}

static void is_held(u32 held, const char *name)
{
	struct dynamos_info info;

	tap_ok(!use_info(&info) && info.held == held &&
		       strstr(info.why_held, "a queue has its address"),
	       "held: %s", name);
}

/* In force, out again, and asked to go. */
static void test_held(long mine)
{
	tap_ok(!apply_update(), "held: in force");
	tap_ok(syscall(SYS_getpgid, 0) == 4242,
	       "held: the new version is taken");
	is_held(DYNAMOS_HELD, "an update that was applied is held");
	tap_ok(!use_revert() && !use_until(DYNAMOS_LOADED), "held: reverted");
	tap_ok(syscall(SYS_getpgid, 0) == mine,
	       "held: the old version answers");
	tap_ok(use_unload() == -EWOULDBLOCK,
	       "held: a held update does not unload");
}

int main(int argc, char **argv)
{
	long mine = syscall(SYS_getpgid, 0);

	if (argc != 2)
		return 2;
	use_begin(argv[1]);
	use_turn(HAND, argv[1]);
	tap_ok(!use_load("held"), "held: loads");
	is_held(DYNAMOS_HELD_ONCE,
		"an update is not held before it is applied");
	tap_ok(!use_unload(), "held: an update that was never applied unloads");
	tap_ok(!use_load("held"), "held: loads again");
	test_held(mine);
	test_held(mine);
	return tap_done();
}
