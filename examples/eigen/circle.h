/* SPDX-License-Identifier: MIT */
/*
 * The circle, given or chosen, and how many eigenvalues it holds: exactly, by
 * inertia. The block and moments are chosen for what lies within twice the
 * radius, because the quadrature lets that much of the spectrum through.
 */
#ifndef EIGEN_CIRCLE_H
#define EIGEN_CIRCLE_H

#include "examples/eigen/contour.h"
#include "examples/eigen/factor.h"

/* Around some eigenvalues among `count` rising ones, its edge in wide gaps. */
void eigen_circle_choose(const double *value, int count,
			 struct eigen_contour *c);

/* Around the lowest eigenvalues of an unknown problem. 0 or negative. */
int eigen_circle_search(struct eigen_factor *f, double scale,
			struct eigen_contour *c);

/* Eigenvalues between center - times radius and center + times radius. */
int eigen_circle_count(struct eigen_factor *f, const struct eigen_contour *c,
		       double times);

/* Sets block and moments where they are 0; `wide` is the count within 2 r. */
void eigen_circle_size(struct eigen_contour *c, int n, int wide);

#endif
