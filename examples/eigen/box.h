/* SPDX-License-Identifier: MIT */
/*
 * A problem to solve: small vibrations of a box whose surface is held still,
 * by finite elements (trilinear bricks). A is the stiffness, B the consistent
 * mass. On this grid the discrete eigenvalues are known as well.
 */
#ifndef EIGEN_BOX_H
#define EIGEN_BOX_H

#include "examples/eigen/sparse.h"

struct eigen_box {
	int elements[3]; /* along each edge, 2 at least */
	double edge[3];	 /* lengths */
};

/* Most unknowns: products with the block sizes stay inside an int. */
#define EIGEN_BOX_MAX 2000000

/* Unknowns of the problem, or -EINVAL when there are none or too many. */
int eigen_box_unknowns(const struct eigen_box *box);
int eigen_box_build(const struct eigen_box *box, struct eigen_sparse *a,
		    struct eigen_sparse *b);

/*
 * Nested dissection: order[i] is the place, from 1, at which unknown i is
 * eliminated. A plane in the middle comes after the halves beside it.
 */
void eigen_box_order(const struct eigen_box *box, int *order);

/*
 * All eigenvalues of the discrete problem, rising, in memory that the caller
 * frees. NULL without memory.
 */
double *eigen_box_values(const struct eigen_box *box);

#endif
