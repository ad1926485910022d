/* SPDX-License-Identifier: MIT */
/* The parts of the suite o2g-core. */
#ifndef O2G_CORE_TEST_SUITE_H
#define O2G_CORE_TEST_SUITE_H

#include <skep/types.h>

struct random_counts {
	u32 delivered;
	u64 full, requested, waited; /* rings found full; see o2g_counts */
	u64 whole;		     /* messages that lay whole */
};

typedef int check_fn(int ok, const char *name);

void hostile_run(check_fn *check);
void cost_run(check_fn *check);
void bounds_run(check_fn *check);
void life_run(check_fn *check);
void rma_run(check_fn *check);
void arithmetic_run(check_fn *check);
void atomic_run(check_fn *check);
void invite_run(check_fn *check);
void state_run(check_fn *check);
void edge_run(check_fn *check);
void whole_run(check_fn *check);
void frames_run(check_fn *check);
void store_run(check_fn *check);
void record_run(check_fn *check);

/* Each seed is a world of its own; returns how many went wrong. */
u32 random_run(u32 seeds, u32 steps, struct random_counts *counts);

#endif
