/* SPDX-License-Identifier: MIT */
/*
 * Whether the answer is right: pure, so that tests can plant what must fail.
 * A small residual shows that a pair is one, never that none is missing; that
 * takes the count.
 */
#ifndef EIGEN_VERDICT_H
#define EIGEN_VERDICT_H

#include "examples/eigen/contour.h"

struct eigen_evidence {
	const struct eigen_contour *contour;
	const struct eigen_found *found;
	double tolerance;
	int inertia;		 /* eigenvalues inside, exactly */
	const double *reference; /* NULL: no comparison was wanted */
	int reference_count;
	const double *exact; /* of the discrete problem, or NULL */
	int exact_count;
};

struct eigen_verdict {
	double difference; /* largest relative one from the reference */
	double exact;	   /* and from the known values */
	double residual;   /* largest */
	int faults;
	char fault[8][240]; /* a sentence each, with what to do */
};

void eigen_verdict_make(const struct eigen_evidence *e,
			struct eigen_verdict *verdict);

#endif
