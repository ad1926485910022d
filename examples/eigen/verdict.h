/* SPDX-License-Identifier: MIT */
/*
 * Decides whether the answer is right. Pure, so that tests can plant errors.
 * A small residual shows that a pair is an eigenpair, but not that none is
 * missing; the count shows that.
 */
#ifndef EIGEN_VERDICT_H
#define EIGEN_VERDICT_H

#include "examples/eigen/contour.h"

struct eigen_evidence {
	const struct eigen_contour *contour;
	const struct eigen_found *found;
	double tolerance;
	int inertia;		 /* exact number of eigenvalues inside */
	const double *reference; /* NULL: no comparison */
	int reference_count;
	const double *exact; /* of the discrete problem, or NULL */
	int exact_count;
};

struct eigen_verdict {
	double difference; /* largest relative one to the reference */
	double exact;	   /* and to the known values */
	double residual;   /* largest */
	int faults;
	char fault[8][240]; /* one sentence each, which says what to do */
};

void eigen_verdict_make(const struct eigen_evidence *e,
			struct eigen_verdict *verdict);

#endif
