/* SPDX-License-Identifier: MIT */
/* Two endpoints, 0 and 1, joined; for tests of one thing. */
#ifndef O2G_CORE_TEST_PAIR_H
#define O2G_CORE_TEST_PAIR_H

#include "bed.h"

struct pair {
	struct bed bed[2];
	struct bed_end end[2];
	struct o2g_cqe cqe; /* the last taken */
};

extern const struct bed_options pair_plain; /* without slab */
extern const struct bed_options pair_slab;

void pair_open(struct pair *pair, const struct bed_options *options,
	       u32 credit);
/* The same, plain, but 1 has accepted and does not know yet that it is 0. */
void pair_open_unnamed(struct pair *pair);
/* True when both gave all memory back. */
int pair_close(struct pair *pair);
/* The next completion of `who` has this cookie and status. */
int pair_took(struct pair *pair, int who, u64 cookie, int status);
int pair_none(struct pair *pair, int who);
int pair_run(struct pair *pair);

#endif
