// SPDX-License-Identifier: MIT
/*
 * The counter's control: an image that lets interrupts in is disturbed by what
 * Linux broadcasts, and the same image with interrupts off is not, by the same
 * storm. The image's marks (../image/slot.h) are for the lab to read. Runs as
 * root on a machine with CPUs 0 to 3, all Linux's.
 *
 * usage: lend_noise IMAGE
 */
#include <stdio.h>

#include "../../tap.h"
#include "broadcast.h"
#include "lend.h"

#define MIB 1048576ull

int main(int argc, char **argv)
{
	struct slot *s;
	struct lend l;
	int id;

	if (argc != 2)
		return 2;
	id = lend_create(BROADCAST_SPARES, 32 * MIB, "noise");
	if (!tap_ok(id > 0 && !lend_open(&l, id) && !lend_load(&l, argv[1]) &&
			    !lend_start(&l) && lend_alive(&l),
		    "noise: an image runs"))
		return tap_done();
	s = lend_slot(&l, 0);
	tap_ok(!broadcast_begin() && broadcast_goes_on(10),
	       "noise: a storm runs");
	s->command = SLOT_QUIET;
	tap_ok(lend_inside(s) && broadcast_goes_on(10),
	       "noise: a storm runs around a loop with interrupts off");
	s->leave = 1;
	tap_ok(lend_done(s) && !s->interrupts,
	       "noise: a loop with interrupts off takes no interrupt");
	tap_ok(lend_command(&l, 0, SLOT_NOISY) && s->interrupts,
	       "noise: a loop with interrupts on");
	broadcast_end();
	lend_close(&l);
	tap_ok(!lend_release(id), "noise: released");
	return tap_done();
}
