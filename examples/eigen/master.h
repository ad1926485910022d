/* SPDX-License-Identifier: MIT */
/* One run of the master. An engine computes the calls. */
#ifndef EIGEN_MASTER_H
#define EIGEN_MASTER_H

#include "examples/eigen/calls.h"
#include "examples/eigen/options.h"
#include "examples/eigen/reference.h"
#include "examples/eigen/verdict.h"

enum { EIGEN_RIGHT = 0, EIGEN_WRONG = 1, EIGEN_USAGE = 2, EIGEN_REFUSED = 4 };

struct eigen_run {
	struct eigen_options options;
	const struct eigen_engine *engine;
	struct eigen_contour contour;
	struct eigen_problem problem;
	struct eigen_factor *factor;
	int inertia;
	double *s;
	struct eigen_call *call;
	int next, ended;	   /* calls added to S, and calls that ended */
	int failed, last_reported; /* a call failed; `ended` at the last line */
	double wall_s;
	struct eigen_found found;
	struct eigen_reference reference;
	double *exact_all;
	const double *exact;
	int exact_count;
	struct eigen_verdict verdict;
};

/* Returns the exit code. */
int eigen_master_run(const struct eigen_options *options,
		     const struct eigen_engine *engine);

#endif
