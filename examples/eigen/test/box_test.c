// SPDX-License-Identifier: MIT
/* The order in which a box's unknowns are eliminated, and its entries. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/eigen/box.h"
#include "tests/tap.h"

#define MOST 1000

/* A line of 8: halves of 4 and 3 with a plane of 1 between, which comes last;
 * the half of 4 again, the half of 3 no more. */
static void test_line(void)
{
	static const int want[8] = {1, 2, 4, 3, 8, 5, 6, 7};
	int axis, order[8];

	for (axis = 0; axis < 3; axis++) {
		struct eigen_box box = {{2, 2, 2}, {1, 1, 1}};

		box.elements[axis] = 9;
		eigen_box_order(&box, order);
		tap_ok(!memcmp(order, want, sizeof(want)),
		       "a line along axis %d is dissected", axis);
	}
}

/* The widest edge is halved, the first of equal ones. */
static void test_planes(void)
{
	static const struct {
		int elements[3], last[3];
	} cases[] = {
		{{6, 5, 5}, {3, 4, 4}}, {{5, 6, 5}, {4, 3, 4}},
		{{5, 5, 6}, {4, 4, 3}}, {{5, 5, 5}, {3, 4, 4}},
		{{5, 6, 6}, {4, 3, 5}},
	};
	int order[MOST];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct eigen_box box = {.edge = {1, 1, 1}};
		const int *e = cases[i].elements, *x = cases[i].last;

		memcpy(box.elements, e, sizeof(box.elements));
		eigen_box_order(&box, order);
		tap_ok(order[x[0] - 1 +
			     (e[0] - 1) *
				     (x[1] - 1 + (e[1] - 1) * (x[2] - 1))] ==
			       eigen_box_unknowns(&box),
		       "of %d x %d x %d the plane through %d, %d, %d is last",
		       e[0], e[1], e[2], x[0], x[1], x[2]);
	}
}

static void test_permutation(void)
{
	struct eigen_box box = {.edge = {1, 1, 1}};
	int bad = 0, boxes = 0, i, n, order[MOST];
	int *e = box.elements;

	for (e[0] = 2; e[0] <= 10; e[0]++)
		for (e[1] = 2; e[1] <= 10; e[1]++)
			for (e[2] = 2; e[2] <= 10; e[2]++, boxes++) {
				char seen[MOST + 1] = {0};

				n = eigen_box_unknowns(&box);
				eigen_box_order(&box, order);
				for (i = 0; i < n; i++)
					bad += order[i] < 1 || order[i] > n ||
					       seen[order[i]]++;
			}
	tap_ok(!bad && boxes == 729, "%d boxes: each unknown has one number",
	       boxes);
}

static void test_refused(void)
{
	static const struct {
		const char *what;
		struct eigen_box box;
		int unknowns;
	} cases[] = {
		{"one element", {{1, 2, 2}, {1, 1, 1}}, -EINVAL},
		{"one element along the last axis",
		 {{2, 2, 1}, {1, 1, 1}},
		 -EINVAL},
		{"an edge of 0", {{2, 2, 2}, {1, 0, 1}}, -EINVAL},
		{"a negative edge", {{2, 2, 2}, {1, 1, -1}}, -EINVAL},
		{"an infinite edge", {{2, 2, 2}, {INFINITY, 1, 1}}, -EINVAL},
		{"an edge that is no number",
		 {{2, 2, 2}, {NAN, 1, 1}},
		 -EINVAL},
		{"two of each", {{2, 2, 2}, {1, 1, 1}}, 1},
		{"a tiny edge", {{2, 3, 4}, {1e-300, 1, 1}}, 6},
		{"as many unknowns as there may be",
		 {{EIGEN_BOX_MAX + 1, 2, 2}, {1, 1, 1}},
		 EIGEN_BOX_MAX},
		{"one more", {{EIGEN_BOX_MAX + 2, 2, 2}, {1, 1, 1}}, -EINVAL},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		tap_ok(eigen_box_unknowns(&cases[i].box) == cases[i].unknowns,
		       "a box with %s has %d unknowns", cases[i].what,
		       cases[i].unknowns);
}

int main(void)
{
	test_line();
	test_planes();
	test_permutation();
	test_refused();
	return tap_done();
}
