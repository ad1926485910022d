// SPDX-License-Identifier: MIT
/*
 * Does an idle partition execute instructions? An image begins an interval of
 * the lab's counter and halts, the partition is stopped, is idle for a while,
 * and is started again, where the image ends the interval. What that takes is
 * the same each time; what is more was executed while it was idle: interval 10
 * is idle for no time, 11 through a storm, 12 for no time with a few
 * instructions more, which the counter has to find. CPU 3, as root.
 *
 * usage: lend_idle IMAGE
 */
#include <stdio.h>

#include "../../tap.h"
#include "broadcast.h"
#include "lend.h"

#define MIB 1048576ull
#define STORM 30000 /* an emulator that wakes idle cores does so in a few */

/* All of it while the partition is idle. */
static int storm_passes(void)
{
	int passed = !broadcast_begin() && broadcast_goes_on(STORM);

	broadcast_end();
	return passed;
}

/* A run of the image whose first command is there before it starts. */
static int run_image(struct lend *l, int id, const char *image, u64 command)
{
	if (lend_open(l, id) || lend_load(l, image))
		return 0;
	lend_slot(l, 0)->command = command;
	return !lend_start(l) && lend_inside(lend_slot(l, 0));
}

static int run_pass(int id, const char *image, u32 number,
		    int (*meanwhile)(void))
{
	struct lend l;
	int ok = run_image(&l, id, image, SLOT_IDLE + number) && !lend_stop(&l);

	lend_close(&l);
	ok = ok && (!meanwhile || meanwhile());
	ok = ok && run_image(&l, id, image, SLOT_BACK + number) &&
	     lend_done(lend_slot(&l, 0));
	lend_close(&l);
	return ok;
}

int main(int argc, char **argv)
{
	int id;

	if (argc != 2)
		return 2;
	id = lend_create(BROADCAST_SPARES, 32 * MIB, "idle");
	tap_ok(id > 0, "idle: a partition is created");
	tap_ok(run_pass(id, argv[1], 0, NULL), "idle: no entries over no time");
	tap_ok(run_pass(id, argv[1], 1, storm_passes),
	       "idle: no entries during a storm");
	tap_ok(run_pass(id, argv[1], 2, NULL),
	       "idle: entries are counted when a core is used");
	tap_ok(!lend_release(id), "idle: released");
	return tap_done();
}
