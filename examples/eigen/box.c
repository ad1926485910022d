// SPDX-License-Identifier: MIT
/*
 * Owns the generated problem. A brick's matrices are products of the matrices
 * of linear elements on an edge: mass h/6 [2 1; 1 2], stiffness 1/h [1 -1; -1
 * 1]. Therefore each eigenvalue of the box is a sum of three eigenvalues of
 * edges, mu_k = 6/h^2 (1 - c) / (2 + c) with c = cos(k pi h / length).
 */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "examples/eigen/box.h"

#define LEAF 4 /* a box with fewer unknowns along each edge is not halved */

struct triplets {
	int *row, *column;
	double *stiffness, *mass;
	int count;
};

int eigen_box_unknowns(const struct eigen_box *box)
{
	double product = 1;
	int d;

	for (d = 0; d < 3; d++) {
		if (box->elements[d] < 2 || !(box->edge[d] > 0) ||
		    !isfinite(box->edge[d]))
			return -EINVAL;
		product *= box->elements[d] - 1;
	}
	return product <= EIGEN_BOX_MAX ? (int)product : -EINVAL;
}

static double line_mass(double h, int p, int q)
{
	return h / 6 * (p == q ? 2 : 1);
}

static double line_stiffness(double h, int p, int q)
{
	return (p == q ? 1 : -1) / h;
}

/* The entries k, m of corners p and q of one brick. Bit d of a corner says on
 * which side it is along axis d. */
static void brick_entry(const double *h, int p, int q, double *k, double *m)
{
	double mass[3], stiffness[3];
	int d;

	for (d = 0; d < 3; d++) {
		mass[d] = line_mass(h[d], p >> d & 1, q >> d & 1);
		stiffness[d] = line_stiffness(h[d], p >> d & 1, q >> d & 1);
	}
	*k = stiffness[0] * mass[1] * mass[2] +
	     mass[0] * stiffness[1] * mass[2] +
	     mass[0] * mass[1] * stiffness[2];
	*m = mass[0] * mass[1] * mass[2];
}

/* The number of the unknown at a corner; -1 on the surface. */
static int corner_unknown(const struct eigen_box *box, const int *at,
			  int corner)
{
	int d, number = 0;

	for (d = 2; d >= 0; d--) {
		int x = at[d] + (corner >> d & 1);

		if (x == 0 || x == box->elements[d])
			return -1;
		number = number * (box->elements[d] - 1) + x - 1;
	}
	return number;
}

static void brick_add(const struct eigen_box *box, const double *h,
		      const int *at, struct triplets *t)
{
	int p, q, i, j;

	for (p = 0; p < 8; p++) {
		for (q = 0; q < 8; q++) {
			i = corner_unknown(box, at, p);
			j = corner_unknown(box, at, q);
			if (i < 0 || j < 0 || j > i)
				continue;
			t->row[t->count] = i;
			t->column[t->count] = j;
			brick_entry(h, p, q, &t->stiffness[t->count],
				    &t->mass[t->count]);
			t->count++;
		}
	}
}

static void bricks_add(const struct eigen_box *box, struct triplets *t)
{
	double h[3];
	int at[3], d;

	for (d = 0; d < 3; d++)
		h[d] = box->edge[d] / box->elements[d];
	for (at[2] = 0; at[2] < box->elements[2]; at[2]++) {
		for (at[1] = 0; at[1] < box->elements[1]; at[1]++) {
			for (at[0] = 0; at[0] < box->elements[0]; at[0]++)
				brick_add(box, h, at, t);
		}
	}
}

int eigen_box_build(const struct eigen_box *box, struct eigen_sparse *a,
		    struct eigen_sparse *b)
{
	int n = eigen_box_unknowns(box), error = -ENOMEM;
	struct triplets t = {0};
	size_t most = 36;

	memset(a, 0, sizeof(*a));
	memset(b, 0, sizeof(*b));
	if (n < 0)
		return n;
	most *= (size_t)box->elements[0] * box->elements[1] * box->elements[2];
	if (most > INT_MAX)
		return -EINVAL;
	t.row = malloc(most * sizeof(*t.row));
	t.column = malloc(most * sizeof(*t.column));
	t.stiffness = malloc(most * sizeof(*t.stiffness));
	t.mass = malloc(most * sizeof(*t.mass));
	if (t.row && t.column && t.stiffness && t.mass) {
		bricks_add(box, &t);
		error = eigen_sparse_build(a, n, t.count, t.row, t.column,
					   t.stiffness);
		if (!error)
			error = eigen_sparse_build(b, n, t.count, t.row,
						   t.column, t.mass);
	}
	free(t.row);
	free(t.column);
	free(t.stiffness);
	free(t.mass);
	return error;
}

/* Numbers the unknowns low[d] <= x[d] < high[d] one after the other. */
static int number_box(const struct eigen_box *box, const int *low,
		      const int *high, int next, int *order)
{
	int at[3];

	for (at[2] = low[2]; at[2] < high[2]; at[2]++) {
		for (at[1] = low[1]; at[1] < high[1]; at[1]++) {
			for (at[0] = low[0]; at[0] < high[0]; at[0]++)
				order[corner_unknown(box, at, 0)] = next++;
		}
	}
	return next;
}

/*
 * The same by nested dissection. Each level halves the longest edge, so the
 * depth is bounded by the sum of the three edges' logarithms to base 2.
 */
static int dissect_box(const struct eigen_box *box, const int *low,
		       const int *high, int next, int *order)
{
	int d, wide = 0, left[3], right[3], plane[3];

	for (d = 1; d < 3; d++) {
		if (high[d] - low[d] > high[wide] - low[wide])
			wide = d;
	}
	if (high[wide] - low[wide] < LEAF)
		return number_box(box, low, high, next, order);
	memcpy(left, high, sizeof(left));
	memcpy(right, low, sizeof(right));
	left[wide] = (low[wide] + high[wide]) / 2;
	right[wide] = left[wide] + 1;
	next = dissect_box(box, low, left, next, order);
	next = dissect_box(box, right, high, next, order);
	memcpy(plane, low, sizeof(plane));
	memcpy(right, high, sizeof(right));
	plane[wide] = left[wide];
	right[wide] = left[wide] + 1;
	return number_box(box, plane, right, next, order);
}

void eigen_box_order(const struct eigen_box *box, int *order)
{
	const int low[3] = {1, 1, 1};

	dissect_box(box, low, box->elements, 1, order);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double edge_value(const struct eigen_box *box, int d, int k)
{
	double h = box->edge[d] / box->elements[d];
	double c = cos(k * M_PI / box->elements[d]);

	return 6 / (h * h) * (1 - c) / (2 + c);
}

double *eigen_box_values(const struct eigen_box *box)
{
	int n = eigen_box_unknowns(box), i, j, k, at = 0;
	double *value = n > 0 ? malloc(n * sizeof(*value)) : NULL;

	if (!value)
		return NULL;
	for (i = 1; i < box->elements[0]; i++) {
		for (j = 1; j < box->elements[1]; j++) {
			for (k = 1; k < box->elements[2]; k++)
				value[at++] = edge_value(box, 0, i) +
					      edge_value(box, 1, j) +
					      edge_value(box, 2, k);
		}
	}
	qsort(value, n, sizeof(*value), compare_doubles);
	return value;
}
