/* SPDX-License-Identifier: MIT */
/*
 * The circle, given or chosen, and the exact number of eigenvalues inside it,
 * by inertia. The block and moments are chosen for the eigenvalues within twice
 * the radius, because the quadrature does not remove these.
 */
#ifndef EIGEN_CIRCLE_H
#define EIGEN_CIRCLE_H

#include "examples/eigen/contour.h"
#include "examples/eigen/factor.h"

/* Chooses a circle around some of `count` ascending eigenvalues, such that its
 * edge lies in wide gaps. */
void eigen_circle_choose(const double *value, int count,
			 struct eigen_contour *c);

/* Chooses a circle around the lowest eigenvalues of an unknown problem with n
 * unknowns: 8 to 20 of them, or all if there are fewer. Returns
 * 0 or a negative error. */
int eigen_circle_search(struct eigen_factor *f, int n, double scale,
			struct eigen_contour *c);

/* Counts the eigenvalues between center - times * radius and
 * center + times * radius. */
int eigen_circle_count(struct eigen_factor *f, const struct eigen_contour *c,
		       double times);

/* Sets block and moments if they are 0. `wide` eigenvalues lie within twice the
 * radius. */
void eigen_circle_size(struct eigen_contour *c, int n, int wide);

#endif
