/* SPDX-License-Identifier: MIT */
/*
 * Real symmetric factorisations of A - sigma B in the master. By Sylvester's
 * law of inertia the number of negative pivots is the number of eigenvalues
 * below sigma, so the master notices a missing eigenvalue. reference.c solves
 * with these factorisations too.
 */
#ifndef EIGEN_FACTOR_H
#define EIGEN_FACTOR_H

#include "examples/eigen/sparse.h"

struct eigen_factor;

/*
 * NULL: not enough memory. The caller keeps A and B while the factorisation
 * exists. `order` is the order of elimination, counted from 1; NULL: MUMPS
 * chooses one with minimum fill.
 */
struct eigen_factor *eigen_factor_new(const struct eigen_sparse *a,
				      const struct eigen_sparse *b, int *order);
/* The order of elimination, n numbers; the factorisation owns them. */
const int *eigen_factor_order(const struct eigen_factor *f);
void eigen_factor_free(struct eigen_factor *f);

/* Factors A - sigma B. Returns the number of eigenvalues below sigma, or a
 * negative error. */
int eigen_factor_at(struct eigen_factor *f, double sigma);
/* x = (A - sigma B)^-1 x, for the sigma of the last factorisation. */
int eigen_factor_solve(struct eigen_factor *f, double *x);

/* 1 if B is positive definite, else 0; or a negative error. */
int eigen_factor_definite(const struct eigen_sparse *b);

#endif
