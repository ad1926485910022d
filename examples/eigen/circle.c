// SPDX-License-Identifier: MIT
/* Chooses the circle and the size of the subspace. */
#include <errno.h>
#include <math.h>

#include "examples/eigen/circle.h"

#define BLOCK 16  /* columns that one solve handles efficiently */
#define FEW 8	  /* eigenvalues in a chosen circle: at least */
#define MANY 20	  /* and at most */
#define SKIP 12	  /* the most low ones that lie outside it */
#define HALVES 60 /* steps of a bisection */

/* The i from first to last with the widest gap below value[i]. */
static int widest_gap(const double *value, int first, int last)
{
	int i, best = first;

	for (i = first; i <= last; i++) {
		if (value[i] - value[i - 1] > value[best] - value[best - 1])
			best = i;
	}
	return best;
}

void eigen_circle_choose(const double *value, int count,
			 struct eigen_contour *c)
{
	double low, high;
	int first, past;

	if (count < SKIP + MANY + 2) { /* all of them */
		low = 0;
		high = value[count - 1] * 1.1;
	} else {
		first = widest_gap(value, 1, SKIP);
		past = widest_gap(value, first + FEW, first + MANY);
		low = (value[first] + value[first - 1]) / 2;
		high = (value[past] + value[past - 1]) / 2;
	}
	c->center = (low + high) / 2;
	c->radius = (high - low) / 2;
}

/* Finds a sigma below all eigenvalues; starts at 0 and goes down. */
static int search_low(struct eigen_factor *f, double scale, double *low)
{
	double step = scale * 1e-6;
	int below, i;

	*low = 0;
	for (i = 0; i < 100; i++, step *= 4) {
		below = eigen_factor_at(f, *low);
		if (below == 0)
			return 0;
		if (below < 0 && below != -EDOM)
			return below;
		*low = -step;
	}
	return -ERANGE;
}

int eigen_circle_search(struct eigen_factor *f, int n, double scale,
			struct eigen_contour *c)
{
	double low, step = scale * 1e-6, over, under, middle;
	int i, below, error;
	int few = n < FEW ? n : FEW;

	if (!(scale > 0) || !isfinite(scale))
		return -ERANGE;
	error = search_low(f, scale, &low);
	for (i = 0, below = 0; !error && below < few && i < 30; i++, step *= 4)
		below = eigen_factor_at(f, low + step);
	if (error || below < 0)
		return error ? error : below;
	if (below < few)
		return -ERANGE;
	over = low + step / 4;
	under = low;
	for (i = 0; i < HALVES && (below > MANY || below < few); i++) {
		middle = (over + under) / 2;
		below = eigen_factor_at(f, middle);
		if (below < 0)
			return below;
		if (below >= few)
			over = middle;
		else
			under = middle;
	}
	c->center = (low + over) / 2;
	c->radius = (over - low) / 2;
	return 0;
}

int eigen_circle_count(struct eigen_factor *f, const struct eigen_contour *c,
		       double times)
{
	int high = eigen_factor_at(f, c->center + times * c->radius), low;

	if (high < 0)
		return high;
	low = eigen_factor_at(f, c->center - times * c->radius);
	return low < 0 ? low : high - low;
}

void eigen_circle_size(struct eigen_contour *c, int n, int wide)
{
	int most = c->points / 4, need = wide + wide / 4 + 8;

	if (most < 1)
		most = 1;
	if (!c->block) {
		c->block = BLOCK;
		if (c->moments)
			c->block = (need + c->moments - 1) / c->moments;
		else if (c->block * most < need)
			c->block = (need + most - 1) / most;
	}
	if (c->block > n)
		c->block = n;
	if (!c->moments)
		c->moments = (need + c->block - 1) / c->block;
	if (c->moments > most)
		c->moments = most;
}
