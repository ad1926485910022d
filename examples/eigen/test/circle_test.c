// SPDX-License-Identifier: MIT
/* The circle that is chosen for an unknown problem. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "examples/eigen/circle.h"
#include "tests/tap.h"

/* The chosen circle of diag(1, 2, ..., n) has 8 to 20 eigenvalues, or all, and
 * is at most four times as wide as they are.
 */
static void test_search(void)
{
	static const int sizes_of[] = {1, 3, 7, 8, 9, 20, 21, 100};
	static int index[100];
	static double rising[100], one[100];
	struct eigen_contour c;
	struct eigen_sparse a, b;
	struct eigen_factor *f;
	size_t i;
	int n, inside;

	for (n = 0; n < 100; n++) {
		index[n] = n;
		rising[n] = n + 1;
		one[n] = 1;
	}
	for (i = 0; i < sizeof(sizes_of) / sizeof(*sizes_of); i++) {
		n = sizes_of[i];
		TAP(!eigen_sparse_build(&a, n, n, index, index, rising) &&
		    !eigen_sparse_build(&b, n, n, index, index, one));
		f = eigen_factor_new(&a, &b, NULL);
		TAP(f && !eigen_circle_search(f, n, n, &c));
		inside = eigen_circle_count(f, &c, 1);
		tap_ok(inside >= (n < 8 ? n : 8) && inside <= 20 &&
			       c.radius <= 4 * n && c.center >= c.radius,
		       "of %d eigenvalues %d are in the circle at %g, %g", n,
		       inside, c.center, c.radius);
		eigen_factor_free(f);
		eigen_sparse_free(&a);
		eigen_sparse_free(&b);
	}
}

/* (3 - sqrt(5)) / 2 and (3 + sqrt(5)) / 2, each 30 times, so that no circle has
 * 8 to 20: blocks of 1 1, 1 2.
 */
static void test_crowd(void)
{
	enum { N = 60 };
	int row[N + N / 2], column[N + N / 2], index[N], i;
	double value[N + N / 2], one[N];
	struct eigen_contour c;
	struct eigen_sparse a, b;
	struct eigen_factor *f;

	for (i = 0; i < N; i++) {
		row[i] = column[i] = index[i] = i;
		value[i] = 1 + i % 2;
		one[i] = 1;
	}
	for (i = 0; i < N / 2; i++) {
		row[N + i] = 2 * i + 1;
		column[N + i] = 2 * i;
		value[N + i] = 1;
	}
	TAP(!eigen_sparse_build(&a, N, N + N / 2, row, column, value) &&
	    !eigen_sparse_build(&b, N, N, index, index, one));
	f = eigen_factor_new(&a, &b, NULL);
	i = eigen_circle_search(f, N, 1, &c);
	tap_ok(i == -EDOM,
	       "an eigenvalue that is there 30 times has no circle: %d", i);
	eigen_factor_free(f);
	eigen_sparse_free(&a);
	eigen_sparse_free(&b);
}

/* Without a size of the problem there is no first step. */
static void test_scale(void)
{
	static const double scale[] = {0, -1, NAN, INFINITY};
	static const int at[] = {0, 1};
	static const double value[] = {1, 2}, one[] = {1, 1};
	struct eigen_contour c;
	struct eigen_sparse a, b;
	struct eigen_factor *f;
	size_t i;

	TAP(!eigen_sparse_build(&a, 2, 2, at, at, value) &&
	    !eigen_sparse_build(&b, 2, 2, at, at, one));
	f = eigen_factor_new(&a, &b, NULL);
	for (i = 0; i < sizeof(scale) / sizeof(*scale); i++)
		tap_ok(eigen_circle_search(f, 2, scale[i], &c) == -ERANGE,
		       "no circle of a problem with the size %g", scale[i]);
	TAP(eigen_circle_search(f, 2, 1e-3, &c) == 0);
	eigen_factor_free(f);
	eigen_sparse_free(&a);
	eigen_sparse_free(&b);
}

/* The eigenvalue 1 of a problem whose size is given as almost nothing: the last
 * of 30 steps is 4^29 times the first, which is a millionth of the size. */
static void test_far(void)
{
	static const int zero[] = {0};
	static const double one[] = {1};
	const double last = 1e-6 * ldexp(1, 58);
	struct eigen_contour c;
	struct eigen_sparse a, b;
	struct eigen_factor *f;

	TAP(!eigen_sparse_build(&a, 1, 1, zero, zero, one) &&
	    !eigen_sparse_build(&b, 1, 1, zero, zero, one));
	f = eigen_factor_new(&a, &b, NULL);
	tap_ok(eigen_circle_search(f, 1, 1.01 / last, &c) == 0 &&
		       fabs(c.center - 1) < c.radius,
	       "an eigenvalue within the last step has a circle");
	tap_ok(eigen_circle_search(f, 1, 0.99 / last, &c) == -ERANGE,
	       "an eigenvalue beyond the last step has none");
	eigen_factor_free(f);
	eigen_sparse_free(&a);
	eigen_sparse_free(&b);
}

/* 30 eigenvalues that are nearly 0: the bisection ends after 60 steps, with a
 * circle that has them all.
 */
static void test_near_zero(void)
{
	enum { N = 30 };
	int index[N], i;
	double value[N], one[N];
	struct eigen_contour c;
	struct eigen_sparse a, b;
	struct eigen_factor *f;

	for (i = 0; i < N; i++) {
		index[i] = i;
		value[i] = 1e-200;
		one[i] = 1;
	}
	TAP(!eigen_sparse_build(&a, N, N, index, index, value) &&
	    !eigen_sparse_build(&b, N, N, index, index, one));
	f = eigen_factor_new(&a, &b, NULL);
	i = eigen_circle_search(f, N, 1, &c);
	tap_ok(!i && c.radius == ldexp(1e-6, -61) && c.center == c.radius,
	       "values near 0 are in a circle: %d, %g, %g", i, c.center,
	       c.radius);
	eigen_factor_free(f);
	eigen_sparse_free(&a);
	eigen_sparse_free(&b);
}

int main(void)
{
	test_search();
	test_scale();
	test_far();
	test_crowd();
	test_near_zero();
	return tap_done();
}
