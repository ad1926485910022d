/* SPDX-License-Identifier: MIT */
/*
 * The block Sakurai-Sugiura method with Rayleigh-Ritz projection (Sakurai and
 * Tadano, Hokkaido Math. J. 36, 2007): moments of the solutions at points on a
 * circle span the eigenvectors of the eigenvalues inside it.
 *
 * Points are z_j = g + r e^(i theta_j), theta_j = 2 pi (j + 1/2) / N. They come
 * in conjugate pairs, and for real A, B and V so do the solutions. Still both
 * of a pair are computed, with one call for each point.
 */
#ifndef EIGEN_CONTOUR_H
#define EIGEN_CONTOUR_H

#include "examples/eigen/sparse.h"

struct eigen_contour {
	double center, radius;
	int points;  /* N */
	int block;   /* L: columns of V */
	int moments; /* M: the subspace has at most L M columns */
	/* Singular values below `drop` times the largest are noise. */
	double drop;
};

struct eigen_pair {
	double value, residual;
};

struct eigen_found {
	int rank;		 /* of S */
	int full;		 /* the rank is L M: all that is possible */
	int count;		 /* Ritz values inside the circle */
	struct eigen_pair *pair; /* these, ascending; the caller frees */
	/* The number of eigenvalues inside, estimated by a trace, and the
	 * standard deviation of this estimate. */
	double estimate, error;
};

double complex eigen_contour_point(const struct eigen_contour *c, int j);

/* V: n x L entries of 1 and -1 from a fixed seed. */
void eigen_contour_block(int n, int block, double *v);

/*
 * Adds the solution at point j to the moments S (n x L M; real, because the
 * imaginary parts of conjugate points cancel). Call it in the order of j, so
 * that the result does not depend on the order in which the calls ended.
 */
void eigen_contour_add(const struct eigen_contour *c, int n, int j,
		       const double complex *y, double *s);

/* Computes the answer from S and overwrites S. Returns 0 or a negative error.
 */
int eigen_contour_extract(const struct eigen_contour *c,
			  const struct eigen_sparse *a,
			  const struct eigen_sparse *b, const double *v,
			  double *s, struct eigen_found *found);

/*
 * The error of y as the solution of (z B - A) y = B v: the largest relative
 * residual of a column, and the limit for rounding errors.
 */
struct eigen_check {
	double residual, limit;
};
int eigen_contour_check(double complex z, int block,
			const struct eigen_sparse *a,
			const struct eigen_sparse *b, const double *v,
			const double complex *y, struct eigen_check *check);

#endif
