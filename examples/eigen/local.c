// SPDX-License-Identifier: MIT
/* Computes the calls in this process, one after the other. */
#include <stdio.h>
#include <time.h>

#include "examples/eigen/calls.h"

static double clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

static int run_local(const struct eigen_problem *p, struct eigen_call *call,
		     int count, void (*done)(void *, struct eigen_call *),
		     void *arg, char why[EIGEN_WHY])
{
	int i;

	if (eigen_initialize(p->a.n, p->a.nnz, p->b.nnz, p->block, p->a.start,
			     p->a.column, p->a.value, p->b.start, p->b.column,
			     p->b.value, p->v, p->order)) {
		snprintf(why, EIGEN_WHY, "%s", eigen_why());
		eigen_finish();
		return -1;
	}
	for (i = 0; i < count; i++, call++) {
		double begin = clock_ms();

		call->status = eigen_solve(p->a.n, p->block, creal(call->z),
					   cimag(call->z), (double *)call->y);
		if (call->status)
			snprintf(call->why, EIGEN_WHY, "%s", eigen_why());
		call->exec_ms = call->wall_ms = clock_ms() - begin;
		snprintf(call->node, sizeof(call->node), "this process");
		call->substrate = "local";
		call->attempt = 1;
		done(arg, call);
	}
	eigen_finish();
	return 0;
}

const struct eigen_engine eigen_engine_local = {"local", run_local};
