/* SPDX-License-Identifier: MIT */
/*
 * The same eigenvalues by other methods: LAPACK (dsygv) for small problems,
 * else ARPACK's Lanczos iteration with shift and invert at the circle's center.
 */
#ifndef EIGEN_REFERENCE_H
#define EIGEN_REFERENCE_H

#include "examples/eigen/factor.h"
#include "examples/eigen/sparse.h"

#define EIGEN_REFERENCE_DENSE 400 /* the most unknowns for LAPACK */

struct eigen_reference {
	const char *method;
	int count;     /* eigenvalues inside the circle */
	double *value; /* these, ascending; the caller frees */
};

/* `expect`: how many there are, by inertia. Returns 0 or a negative error. */
int eigen_reference_find(const struct eigen_sparse *a,
			 const struct eigen_sparse *b, struct eigen_factor *f,
			 double center, double radius, int expect,
			 struct eigen_reference *reference);

#endif
