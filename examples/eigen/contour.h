/* SPDX-License-Identifier: MIT */
/*
 * The block Sakurai-Sugiura method with Rayleigh-Ritz projection (Sakurai and
 * Tadano, Hokkaido Math. J. 36, 2007): solutions at points on a circle span the
 * eigenvectors of the eigenvalues inside it.
 *
 * Points are z_j = g + r e^(i theta_j), theta_j = 2 pi (j + 1/2) / N. They come
 * in conjugate pairs, and for real A, B and V so do the solutions; the pairs
 * are computed separately all the same, one call for each point.
 */
#ifndef EIGEN_CONTOUR_H
#define EIGEN_CONTOUR_H

#include "examples/eigen/sparse.h"

struct eigen_contour {
	double center, radius;
	int points;  /* N */
	int block;   /* L: columns of V */
	int moments; /* M: the subspace has L M columns at most */
	double drop; /* singular values below drop times the largest are noise
		      */
};

struct eigen_pair {
	double value, residual;
};

struct eigen_found {
	int rank;		 /* of S */
	int full;		 /* the rank is all that L M columns allow */
	int count;		 /* Ritz values inside the circle */
	struct eigen_pair *pair; /* these, rising; the caller frees */
	double estimate, error;	 /* trace: eigenvalues inside, and its sigma */
};

double complex eigen_contour_point(const struct eigen_contour *c, int j);

/* V: n x L entries of 1 and -1 from a fixed seed. */
void eigen_contour_block(int n, int block, double *v);

/*
 * Adds what point j solved to the moments S (n x L M, real since pairs of
 * conjugate points cancel the rest). Call it in the order of j: then the sums,
 * and so the answer, do not depend on which call ended first.
 */
void eigen_contour_add(const struct eigen_contour *c, int n, int j,
		       const double complex *y, double *s);

/* The answer from S, which is overwritten. 0 or a negative error. */
int eigen_contour_extract(const struct eigen_contour *c,
			  const struct eigen_sparse *a,
			  const struct eigen_sparse *b, const double *v,
			  double *s, struct eigen_found *found);

/*
 * How wrong y is as the solution of (z B - A) y = B v: the largest relative
 * residual of a column, and the limit above which it is no rounding error.
 */
struct eigen_check {
	double residual, limit;
};
int eigen_contour_check(double complex z, int block,
			const struct eigen_sparse *a,
			const struct eigen_sparse *b, const double *v,
			const double complex *y, struct eigen_check *check);

#endif
