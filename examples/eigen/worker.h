/* SPDX-License-Identifier: MIT */
/*
 * The worker's side of the solver, in plain C. eigen.idl makes remote functions
 * of these functions; with --local the master calls them itself.
 */
#ifndef EIGEN_WORKER_H
#define EIGEN_WORKER_H

#define EIGEN_WHY 256 /* room for a sentence about an error */

/*
 * Takes A (ia, ja, a) and B as <examples/eigen/sparse.h> stores them, and the
 * n x l block V by columns; unknown i is eliminated as number order[i], counted
 * from 1. The caller owns the arrays and must not change them while solve is
 * called. Returns 0 or a negative error. Each later solve returns this error
 * too, because Initialize has no result.
 */
int eigen_initialize(int n, int nnza, int nnzb, int l, int *ia, int *ja,
		     double *a, int *ib, int *jb, double *b, double *v,
		     int *order);

/*
 * One point of the contour: y = (z B - A)^-1 B V, n x l complex by columns,
 * each number as its real and imaginary part. 0 or a negative error, which
 * eigen_why explains.
 */
int eigen_solve(int n, int l, double zre, double zim, double *y);

const char *eigen_why(void);

/* Frees what eigen_initialize allocated. */
void eigen_finish(void);

#endif
