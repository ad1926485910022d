/* SPDX-License-Identifier: MIT */
/*
 * Real symmetric factorisations of A - sigma B in the master. By Sylvester's
 * law of inertia the negative pivots count the eigenvalues below sigma exactly:
 * that is what tells a missing eigenvalue. They also serve the reference.
 */
#ifndef EIGEN_FACTOR_H
#define EIGEN_FACTOR_H

#include "examples/eigen/sparse.h"

struct eigen_factor;

/*
 * NULL: not enough memory. A and B stay the caller's and must outlive it. The
 * order of elimination is the given one (counted from 1), or for NULL one of
 * minimum fill.
 */
struct eigen_factor *eigen_factor_new(const struct eigen_sparse *a,
				      const struct eigen_sparse *b, int *order);
/* The order that is used, n numbers; stays the factorisation's. */
const int *eigen_factor_order(const struct eigen_factor *f);
void eigen_factor_free(struct eigen_factor *f);

/* Factors A - sigma B; the eigenvalues below sigma, or a negative error. */
int eigen_factor_at(struct eigen_factor *f, double sigma);
/* x = (A - sigma B)^-1 x, for the sigma of the last factorisation. */
int eigen_factor_solve(struct eigen_factor *f, double *x);

/* B is positive definite: 1 or 0, or a negative error. */
int eigen_factor_definite(const struct eigen_sparse *b);

#endif
