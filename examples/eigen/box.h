/* SPDX-License-Identifier: MIT */
/*
 * A problem to solve: small vibrations of a box whose surface is fixed, by
 * finite elements (trilinear bricks). A is the stiffness matrix, B the
 * consistent mass matrix. The eigenvalues of the discrete problem are known.
 */
#ifndef EIGEN_BOX_H
#define EIGEN_BOX_H

#include "examples/eigen/sparse.h"

struct eigen_box {
	int elements[3]; /* along each edge, at least 2 */
	double edge[3];	 /* lengths */
};

/* The largest number of unknowns: products with block sizes fit an int. */
#define EIGEN_BOX_MAX 2000000

/* Number of unknowns, or -EINVAL if there are none or too many. */
int eigen_box_unknowns(const struct eigen_box *box);
int eigen_box_build(const struct eigen_box *box, struct eigen_sparse *a,
		    struct eigen_sparse *b);

/*
 * Nested dissection: unknown i is eliminated as number order[i], counted
 * from 1. The plane in the middle is eliminated after the halves on its two
 * sides.
 */
void eigen_box_order(const struct eigen_box *box, int *order);

/*
 * All eigenvalues of the discrete problem, in ascending order; the caller frees
 * them. NULL: not enough memory.
 */
double *eigen_box_values(const struct eigen_box *box);

#endif
